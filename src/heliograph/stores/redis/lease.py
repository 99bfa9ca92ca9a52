"""Locks between processes: a key with the token of its holder, which lapses unless the holder renews it.

A holder that dies lets go when its lease ends. One that was held up for longer than that may have lost the lock without
knowing, so a commit under a lock watches who took it last. That is a key of its own, which a renewal leaves alone: a
commit that takes longer than the time between two renewals would never be made.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from heliograph.errors import StoreError, StoreUnavailable
from heliograph.stores.redis.session import Command, Session

__all__ = ["Lease", "LeaseLock"]

_LOGGER = logging.getLogger(__name__)
_LEASE_SECONDS = 10.0
_RENEWAL_SECONDS = 2.5
_POLL_SECONDS = 0.1
# KEYS: the lock, who took it last; ARGV: token, milliseconds. Takes it if it is free, as it is once it has lapsed, and
# holds it if it is taken by this token; answers who holds it.
_TAKE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return holder end
if not holder then redis.call('SET', KEYS[2], ARGV[1]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class Lease:
    """A lock that is held.

    Attributes:
        key: Where it stands.
        taken_key: Where it stands who took it last.
        token: Says that it is this holder's.
    """

    def __init__(self, key: str, token: str) -> None:
        self.key = key
        self.taken_key = f"{key}:taken"
        self.token = token

    def take_command(self) -> Command:
        """Return what takes it if it is free, holds it for a whole lease if it is held, and answers who holds it."""
        return "EVAL", _TAKE, 2, self.key, self.taken_key, self.token, int(_LEASE_SECONDS * 1000)

    def check(self, holder: str | None) -> None:
        """Look whether it is still held, given what stands under its key; one that lapsed may be taken again.

        Raises:
            StoreUnavailable: Somebody else holds it.
        """
        if holder not in (None, self.token):
            raise StoreUnavailable(
                f"the lock {self.key!r} was lost to {_name(holder)} since its holder did not renew it for "
                f"{_LEASE_SECONDS:g} s; nothing was committed, do it again"
            )


class LeaseLock:
    """A lock for one purpose on one workspace.

    Args:
        session: Reads and writes the key.
        purpose: Names the key.

    Attributes:
        lease: What this process holds; None while it holds nothing.
    """

    def __init__(self, session: Session, purpose: str) -> None:
        self._session = session
        self._key = session.keys.of("lock", purpose)
        self.lease: Lease | None = None

    @asynccontextmanager
    async def hold(self, timeout_seconds: float) -> AsyncGenerator[None]:
        """Hold it, waiting for it.

        Raises:
            StoreUnavailable: Somebody else still holds it after `timeout_seconds`, or Redis is out of reach.
        """
        deadline = time.monotonic() + timeout_seconds
        lease = self._new()
        while (holder := await self._take(lease)) is not None:
            if time.monotonic() >= deadline:
                raise StoreUnavailable(
                    f"{_name(holder)} has been writing to the workspace (lock {self._key!r}) for more than "
                    f"{timeout_seconds:g} s; wait for it to finish, or raise store.write_timeout_seconds"
                )
            await asyncio.sleep(_POLL_SECONDS)
        async with self._kept(lease):
            yield

    @asynccontextmanager
    async def try_hold(self) -> AsyncGenerator[bool]:
        """Hold it if it is free now; yields whether it is held."""
        lease = self._new()
        if await self._take(lease) is not None:
            yield False
            return
        async with self._kept(lease):
            yield True

    def _new(self) -> Lease:
        return Lease(self._key, f"process {os.getpid()} on {socket.gethostname()}\0{secrets.token_hex(8)}")

    async def _take(self, lease: Lease) -> str | None:
        """Take it if it is free; return who holds it otherwise."""
        holder = await self._session.read_one(*lease.take_command())
        return None if holder == lease.token else str(holder)

    @asynccontextmanager
    async def _kept(self, lease: Lease) -> AsyncGenerator[None]:
        self.lease = lease
        renewing = asyncio.create_task(self._renew(lease))
        try:
            yield
        finally:
            self.lease = None
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing
            # One that cannot be reached lets go by itself.
            with contextlib.suppress(StoreUnavailable):
                await self._session.write([("EVAL", _RELEASE, 1, lease.key, lease.token)])

    async def _renew(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            try:
                holder = await self._take(lease)
            except StoreError as error:
                _LOGGER.warning("the lock %r cannot be renewed: %s", lease.key, error)
                continue
            if holder is not None:
                _LOGGER.warning("the lock %r was lost to %s", lease.key, _name(holder))


def _name(holder: str | None) -> str:
    return (holder or "another process").partition("\0")[0]
