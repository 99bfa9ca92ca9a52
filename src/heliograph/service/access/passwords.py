"""Hashes of passwords: argon2id for new ones, bcrypt read as well.

Hashing takes about 50 ms of a processor, so it runs in threads, few at a time. A name that nobody has costs the same as
one that somebody has: its password is compared with a hash that no password fits.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import cache

from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher
from pwdlib.hashers.bcrypt import BcryptHasher

from heliograph.errors import InvalidRequestError

__all__ = ["MAX_PASSWORD_BYTES", "PasswordChecker", "hash_password", "is_known_hash", "strip_scheme"]

MAX_PASSWORD_BYTES = 1024
_AT_ONCE = 2
_LIGHTRAG_SCHEME = "{bcrypt}"


def hash_password(password: str) -> str:
    """Return an argon2id hash with a salt of its own.

    Raises:
        InvalidRequestError: The password is empty or longer than 1024 bytes.
    """
    if not 0 < len(password.encode("utf-8", "surrogatepass")) <= MAX_PASSWORD_BYTES:
        raise InvalidRequestError(f"a password has 1 to {MAX_PASSWORD_BYTES} bytes; choose another")
    return _hashers().hash(password)


def strip_scheme(password_hash: str) -> str:
    """Return a hash without the `{bcrypt}` that LightRAG puts before it."""
    return password_hash.strip().removeprefix(_LIGHTRAG_SCHEME)


def is_known_hash(password_hash: str) -> bool:
    """Whether it is a hash that passwords can be compared with."""
    return any(hasher.identify(password_hash) for hasher in (Argon2Hasher, BcryptHasher))


class PasswordChecker:
    """Compares passwords with hashes, for use within one event loop."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def matches(self, password: str, password_hash: str | None) -> bool:
        """Whether a password fits a hash; with None it never does, and takes as long to say so."""
        if password_hash is None:
            known, password_hash = False, _unknown_hash()
        else:
            known = True
        async with self._turns:
            fits = await asyncio.to_thread(_verify, password, password_hash)
        return fits and known


def _verify(password: str, password_hash: str) -> bool:
    encoded = password.encode("utf-8", "surrogatepass")
    if len(encoded) > MAX_PASSWORD_BYTES:
        return False
    try:
        return _hashers().verify(encoded, password_hash)
    except ValueError:
        # bcrypt reads 72 bytes and refuses longer ones.
        return False


@cache
def _hashers() -> PasswordHash:
    return PasswordHash((Argon2Hasher(), BcryptHasher()))


@cache
def _unknown_hash() -> str:
    return _hashers().hash(secrets.token_urlsafe())
