"""Hashes of passwords: argon2id for new ones, bcrypt read as well.

Hashing takes about 50 ms of a processor, so it runs in threads, few at a time. Every name costs the same, whether
somebody has it and however his password is hashed: a password is compared with one hash of each cost that any account
has, and only what the account's own says counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import cache

from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher
from pwdlib.hashers.bcrypt import BcryptHasher

from heliograph.errors import InvalidRequestError

MAX_PASSWORD_BYTES = 1024
_AT_ONCE = 2
_LIGHTRAG_SCHEME = "{bcrypt}"
_BCRYPT = "$2"


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
    """Compares passwords with hashes, for use within one event loop.

    Args:
        hashes: Those of all accounts.
    """

    def __init__(self, hashes: Iterable[str]) -> None:
        self._one_of_each_cost = {_cost(password_hash): password_hash for password_hash in hashes}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def matches(self, password: str, password_hash: str | None) -> bool:
        """Whether a password fits a hash; with None, for a name that nobody has, it never does."""
        own = {} if password_hash is None else {_cost(password_hash): password_hash}
        async with self._turns:
            fits = await asyncio.to_thread(_fitting, password, self._one_of_each_cost | own)
        return password_hash is not None and password_hash in fits


def _cost(password_hash: str) -> str:
    """Return the beginning of a hash that says how long comparing takes: everything before the salt."""
    return password_hash.rpartition("$")[0] if password_hash.startswith(_BCRYPT) else password_hash.rsplit("$", 2)[0]


def _fitting(password: str, hashes: dict[str, str]) -> set[str]:
    """Return the hashes that a password fits; each is compared, in an order that does not tell which one matters."""
    return {hashes[cost] for cost in sorted(hashes) if _verify(password, hashes[cost])}


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
