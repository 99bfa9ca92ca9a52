"""Commits: read, and write as one transaction that fails if anything else was committed meanwhile.

Whoever commits watches the data version, reads what it needs in a few round trips, and sends all writes as one
transaction, which Redis refuses if the version was raised meanwhile; then it is done again. Each commit leaves a token,
so that one whose answer was lost on the way is not done twice.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from heliograph.errors import SchemaMismatch, StoreError, StoreUnavailable
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.lease import Lease, LeaseLock
from heliograph.stores.redis.session import Command, CommitSession, Session, watching

__all__ = ["Committer", "Draft", "Head"]

_PAUSE_SECONDS = 0.05
_KEPT_TOKENS = 10_000
# A commit whose answer was lost is among the last, or was not made.
_RECENT_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class Head:
    """How a workspace stands when a commit begins.

    Attributes:
        version: The last data version.
        has_readers: Whether anybody reads the outbox.
    """

    version: int
    has_readers: bool


# What a commit writes, given how the workspace stands; raises to leave all as it is.
Draft = Callable[[CommitSession, Head], Awaitable[Sequence[Command]]]


class Committer:
    """Makes commits to one workspace, those of this process one after the other.

    Args:
        connection: Where it is.
        embedding: Name and dimension of what fills it, as it was opened.
        timeout_seconds: How long to try again while others commit.
        lock: The lock that must still be held, if this process holds it.
    """

    def __init__(
        self, connection: RedisConnection, embedding: tuple[str, int], timeout_seconds: float, lock: LeaseLock
    ) -> None:
        self.connection = connection
        self._embedding = embedding
        self._timeout_seconds = timeout_seconds
        self._lock = lock
        # Otherwise they would get in one another's way.
        self._turn = asyncio.Lock()

    async def run(self, draft: Draft, watched: Sequence[str] = ()) -> int:
        """Commit what `draft` gives; return the new data version.

        Args:
            draft: Is called again where something else was committed meanwhile.
            watched: Further keys that nobody may change meanwhile.

        Raises:
            SchemaMismatch: The workspace is of another embedding than it was opened with.
            StoreUnavailable: Redis cannot be written, others kept committing, or the lock was lost.
        """
        token, deadline = secrets.token_hex(8), time.monotonic() + self._timeout_seconds
        async with self._turn:
            while (version := await self._try(draft, watched, token)) is None:
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"others kept committing to the store at {self.connection.where!r} for "
                        f"{self._timeout_seconds:g} s; try again, or raise store.write_timeout_seconds"
                    )
                # Not at the same time as those it lost against.
                await asyncio.sleep(_PAUSE_SECONDS * secrets.randbelow(100) / 100)
        return version

    async def _try(self, draft: Draft, watched: Sequence[str], token: str) -> int | None:
        """Return the new version; None if something else was committed meanwhile."""
        keys, lease = Keys(self.connection.prefix), self._lock.lease
        held = [lease.taken_key] if lease else []
        async with watching(self.connection, keys.version, keys.outbox_readers, keys.home, *held, *watched) as session:
            head = await self._read_head(session, lease)
            commands = [*_version_commands(keys, head.version + 1, token), *await draft(session, head)]
            if lease:
                commands.append(lease.take_command())
            try:
                done = await session.commit(commands)
            except StoreError:
                # It may have been made all the same, as when the answer was late.
                if (version := await self._find(token)) is not None:
                    return version
                raise
        # A connection that broke passes for a lost race, but what was sent on it may have been done.
        return await self._find(token) if done is None else head.version + 1

    async def _read_head(self, session: CommitSession, lease: Lease | None) -> Head:
        keys = session.keys
        stored, version, readers, *holder = await session.read(
            [
                ("HMGET", keys.home, "embedding_name", "embedding_dimension"),
                ("GET", keys.version),
                ("SCARD", keys.outbox_readers),
                *([("GET", lease.key)] if lease else []),
            ]
        )
        self._check_embedding(stored)
        if lease:
            lease.check(holder[0])
        return Head(int(version or 0), readers > 0)

    def _check_embedding(self, stored: Sequence[Any]) -> None:
        name, dimension = stored
        if name is None:
            raise StoreUnavailable(
                f"the workspace at {self.connection.where!r} was removed since it was opened; open it again"
            )
        if (name, int(dimension)) != self._embedding:
            raise SchemaMismatch(
                f"the store was embedded anew with {(name, int(dimension))!r} since it was opened with "
                f"{self._embedding!r}; configure that embedding and open the store again"
            )

    async def _find(self, token: str) -> int | None:
        """Return the version of a commit that was made under this token."""
        session = Session(self.connection)
        version, tokens = await session.read_at_once(
            [("GET", session.keys.version), ("LRANGE", session.keys.commits, 0, _RECENT_TOKENS)]
        )
        return int(version) - tokens.index(token) if token in tokens else None


def _version_commands(keys: Keys, version: int, token: str) -> list[Command]:
    """Return what raises the data version: whoever watches it has to begin again."""
    return [
        ("SET", keys.version, version),
        ("LPUSH", keys.commits, token),
        ("LTRIM", keys.commits, 0, _KEPT_TOKENS - 1),
    ]
