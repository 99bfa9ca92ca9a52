"""Addresses and keys of model services, checked before anything is sent, and addresses as messages may show them."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import SecretStr

from heliograph.errors import SettingsError


def checked_address(url: str) -> str:
    """Return an address that can be called.

    Raises:
        SettingsError: It is none; the message does not repeat it, since it may hold a password.
    """
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not url.isprintable() or " " in url:
        raise SettingsError("`base_url` is not an address; write it like 'http://localhost:8080/v1'")
    return url


def shown_address(url: str) -> str:
    """Return an address without the user name, password and query that may be in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def checked_key(api_key: SecretStr) -> str:
    """Return a key as it is sent; empty if there is none.

    Raises:
        SettingsError: It cannot be a key; the message does not repeat it.
    """
    key = api_key.get_secret_value().strip()
    if not (key.isascii() and key.isprintable()):
        raise SettingsError("`api_key` holds characters that no key has; copy it again")
    return key
