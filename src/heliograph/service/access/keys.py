"""The keys of the service: which principal each stands for.

Only digests are kept. A key is compared with every digest, in constant time, so that how long a refusal takes says
nothing about how near it came.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from heliograph.errors import SettingsError
from heliograph.service.principal import Principal, Role
from heliograph.settings import KeySettings, ServerSettings

ADMIN_KEY_NAME = "api-key"


class KeyRing:
    """All keys of some settings.

    Raises:
        SettingsError: A key has neither or both of `key` and `key_sha256`, or two share a name or a key.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._keys: list[tuple[bytes, Principal]] = []
        if admin := settings.api_key.get_secret_value():
            self._keys.append((_digest(admin.encode()), Principal(ADMIN_KEY_NAME, Role.ADMIN)))
        self._keys += [(_read_digest(key), _principal(key)) for key in settings.keys]
        _check_unique([principal.name for _, principal in self._keys], "name")
        _check_unique([digest.hex() for digest, _ in self._keys], "key")

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: str) -> Principal | None:
        """Return whose key this is, as it came in a header (its bytes read as Latin-1), or None."""
        presented = _digest(key.encode("latin-1", "replace"))
        found = None
        for digest, principal in self._keys:
            if hmac.compare_digest(digest, presented):
                found = principal
        return found


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _read_digest(key: KeySettings) -> bytes:
    plain = key.key.get_secret_value()
    if bool(plain) == bool(key.key_sha256):
        raise SettingsError(
            f"the key {key.name!r} (server.keys) needs either key or key_sha256; `make-key` prints both"
        )
    return _digest(plain.encode()) if plain else bytes.fromhex(key.key_sha256)


def _principal(key: KeySettings) -> Principal:
    return Principal(key.name, Role(key.role), frozenset(key.workspaces) or None)


def _check_unique(values: Sequence[str], kind: str) -> None:
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        shown = f": {twice[0]!r}" if kind == "name" else ""
        raise SettingsError(f"two keys of the service (server.api_key, server.keys) have the same {kind}{shown}")
