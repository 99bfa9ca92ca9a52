"""Brings one projection up to date with the store that holds the truth: the write order and its repair.

The truth is committed first, with the ids of what changed in its outbox. Then, under a lock that one process holds at a
time, the projector reads entries after the projection's cursor, looks up what is there now, hands it on, and moves the
cursor. Whatever fails in between is done again from the cursor. A projection that is new, lost its data, or fell behind
what the outbox still knows is made anew, page by page. Until it is whole, and while it cannot be reached, `trouble`
says why nobody should ask it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from heliograph.errors import StoreUnavailable
from heliograph.stores.base import Follower, FollowerDifference, Store
from heliograph.stores.composed.comparison import compare
from heliograph.stores.composed.lookup import Lookup
from heliograph.stores.outbox import Outbox, OutboxEntry, OutboxKind
from heliograph.stores.projection import CacheProjection, GraphProjection, Projection, TextProjection

_LOGGER = logging.getLogger(__name__)
_PAGE = 500
_MAX_TRIES = 5
_REACH_SECONDS = 10.0
_POLL_SECONDS = 0.2


class Projector(Follower):
    """Keeps one projection in step.

    Args:
        home: Holds the truth.
        outbox: Of that store.
        projection: What follows.
    """

    def __init__(self, home: Store, outbox: Outbox, projection: Projection) -> None:
        self.name = projection.name
        self.role = _role(projection)
        self.projection = projection
        self._home = home
        self._outbox = outbox
        self._lookup = Lookup(home, projection)
        self._turn = asyncio.Lock()
        self._is_prepared = False
        self._failure = "it was not reached yet"
        self._unfinished = ""

    @property
    def trouble(self) -> str:
        return self._failure or self._unfinished

    @property
    def is_away(self) -> bool:
        """Whether it failed when it was last used, so that it follows no more until it is tried again."""
        return bool(self._failure)

    def note_failure(self, error: Exception) -> None:
        """Take it to be away, as something else found out."""
        self._failure = str(error) or type(error).__name__
        # What is back may have lost what was made there, such as collections and indexes.
        self._is_prepared = False

    async def measure_lag(self) -> int:
        readers = await self._outbox.get_readers()
        return await self._home.get_data_version() - max(0, readers.get(self.name, 0))

    async def prepare(self) -> None:
        """Reach the engine, unless it was reached and has not failed since.

        Raises:
            StoreUnavailable: It is out of reach, or too slow.
            StoreError: It cannot serve.
        """
        if self._is_prepared:
            return
        try:
            async with asyncio.timeout(_REACH_SECONDS):
                await self.projection.prepare()
        except TimeoutError:
            error = StoreUnavailable(f"{self.name!r} does not answer within {_REACH_SECONDS:g} seconds; see to it")
            self.note_failure(error)
            raise error from None
        except Exception as error:
            self.note_failure(error)
            raise
        self._is_prepared = True

    async def catch_up(self) -> bool:
        """Bring the projection up to date; return whether it is, or False if another process is at it.

        Raises:
            StoreUnavailable: Either store is out of reach; what was taken in stays.
        """
        try:
            # Tasks of this process take turns, so that a commit is not left behind because one was at it already.
            async with self._turn:
                await self.prepare()
                is_done = await self._take_turn()
                if not is_done:
                    self._unfinished = "" if await self._is_whole() else "another process is making it anew"
        except Exception as error:
            self.note_failure(error)
            raise
        self._failure = ""
        return is_done

    async def finish(self) -> None:
        """Bring the projection up to date, and wait where another process is at it.

        Raises:
            StoreUnavailable: Either store is out of reach.
        """
        while not await self.catch_up():  # noqa: ASYNC110 (nothing tells when another process is done)
            await asyncio.sleep(_POLL_SECONDS)

    async def rebuild(self) -> None:
        await self._outbox.register(self.name)
        await self._outbox.reset(self.name)
        await self.finish()

    async def find_differences(self) -> list[FollowerDifference]:
        """See `Follower`; looked at again if a commit came in between."""
        found: list[FollowerDifference] = []
        for _ in range(_MAX_TRIES):
            await self.finish()
            version = await self._home.get_data_version()
            found = await compare(self._home.inspection, self._lookup, self.projection)
            if not found or await self._home.get_data_version() == version:
                break
        return found

    async def _take_turn(self) -> bool:
        await self._outbox.register(self.name)
        async with self._outbox.lock(self.name) as is_held:
            if not is_held:
                return False
            cursor = await self._settled_cursor()
            while entries := await self._outbox.read(cursor, _PAGE):
                cursor = entries[-1].version
                await self._take_in(entries, cursor)
            # Versions that changed nothing here have no entries.
            if (version := await self._last_quiet_version(cursor)) > cursor:
                await self._move(version)
        self._unfinished = ""
        return True

    async def _is_whole(self) -> bool:
        """Return whether nobody is making it anew, nor has to."""
        acknowledged = (await self._outbox.get_readers()).get(self.name, -1)
        return 0 <= acknowledged <= await self.projection.get_cursor()

    async def _settled_cursor(self) -> int:
        """Return where to go on from; a projection that knows less than the outbox remembers starts anew."""
        cursor = await self.projection.get_cursor()
        acknowledged = (await self._outbox.get_readers()).get(self.name, 0)
        if cursor > 0 and not await self._home.get_data_version():
            _LOGGER.warning(
                "%r stands at commit %d of this workspace, and the store with the truth is empty: if its database or "
                "tables were removed, put them back or restore a backup; what follows from them is now made anew",
                *(self.name, cursor),
            )
        # What never acknowledged anything may hold the data of another store that had its name.
        if acknowledged < 0 or cursor < acknowledged or cursor > await self._home.get_data_version():
            cursor = await self._make_anew()
            await self._move(cursor)
        return cursor

    async def _take_in(self, entries: Sequence[OutboxEntry], version: int) -> None:
        if any(entry.kind is OutboxKind.RESET for entry in entries):
            version = max(version, await self._make_anew())
        else:
            async for change in self._lookup.changes(entries):
                await self.projection.apply(change)
        await self._move(version)

    async def _move(self, version: int) -> None:
        await self.projection.set_cursor(version)
        await self._outbox.acknowledge(self.name, version)

    async def _last_quiet_version(self, cursor: int) -> int:
        version = await self._home.get_data_version()
        # A commit between the two reads has entries, which are then read from the cursor.
        return cursor if await self._outbox.read(cursor, 1) else version

    async def _make_anew(self) -> int:
        self._unfinished = "it is being made anew"
        version = await self._home.get_data_version()
        await self.projection.clear()
        async for change in self._lookup.everything():
            await self.projection.apply(change)
        return version


def _role(projection: Projection) -> str:
    match projection:
        case GraphProjection():
            return "graph"
        case TextProjection():
            return "text"
        case CacheProjection():
            return "cache"
        case _:
            return "vectors"
