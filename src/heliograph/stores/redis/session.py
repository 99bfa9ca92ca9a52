"""Commands of Redis as plain tuples: many in one round trip, and those of a commit in one transaction.

Roles read through a `Session` and say what they write as a list of `Command`s, so that a commit can chain what all of
them have to say. Texts come back as `str`, whatever `read_bytes` returns as `bytes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio.client import Pipeline
from redis.client import NEVER_DECODE
from redis.exceptions import WatchError

from heliograph.stores.inspection import ScanKind
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.keys import Keys

__all__ = ["Command", "CommitSession", "Session", "Watched", "watching"]

Command = tuple[str | bytes | int | float, ...]


class Session:
    """Reads and writes of one workspace.

    Args:
        connection: Where it is.

    Attributes:
        keys: Names of the workspace's keys.
        connection: As given.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self.connection = connection
        self.keys = Keys(connection.prefix)

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answer to each command, all asked in one round trip; none without commands."""
        return await self._run(commands, {}, is_transaction=False) if commands else []

    async def read_bytes(self, commands: Sequence[Command]) -> list[Any]:
        """Return what `read` does with bytes in place of texts."""
        return await self._run(commands, {NEVER_DECODE: True}, is_transaction=False) if commands else []

    async def read_one(self, *command: str | bytes | int | float) -> Any:
        """Return the answer to one command."""
        return (await self.read([command]))[0]

    async def read_at_once(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers as of one moment."""
        return await self._run(commands, {}, is_transaction=True) if commands else []

    async def write(self, commands: Sequence[Command]) -> list[Any]:
        """Run all commands in one transaction that no commit takes notice of; return their answers.

        It may be sent again after a connection broke, so commands must be such as can be repeated.
        """
        return await self._run(commands, {}, is_transaction=True) if commands else []

    async def scan(self, kind: ScanKind, after: str, limit: int) -> list[str]:
        """Return the first `limit` ids of a kind greater than `after`, ascending."""
        if limit < 1:
            return []
        start = f"({after}" if after else "-"
        return await self.read_one("ZRANGEBYLEX", self.keys.ids(kind), start, "+", "LIMIT", 0, limit)

    async def scan_pages(self, kind: ScanKind, limit: int = 1_000) -> AsyncGenerator[list[str]]:
        """Yield all ids of a kind, ascending, by pages."""
        after = ""
        while page := await self.scan(kind, after, limit):
            yield page
            after = page[-1]

    async def _run(self, commands: Sequence[Command], options: dict[str, Any], *, is_transaction: bool) -> list[Any]:
        pipe = self.connection.client.pipeline(transaction=is_transaction)
        with self.connection.errors():
            for command in commands:
                pipe.execute_command(*command, **options)
            return await pipe.execute()


class Watched(Session):
    """A session whose last transaction succeeds only if none of some keys has changed since the session began."""

    def __init__(self, connection: RedisConnection, pipe: Pipeline) -> None:
        super().__init__(connection)
        self._pipe = pipe

    async def commit(self, commands: Sequence[Command]) -> list[Any] | None:
        """Run all commands in one transaction; None if a watched key has changed, or the connection broke."""
        self._pipe.multi()
        with self.connection.errors():
            try:
                for command in commands:
                    self._pipe.execute_command(*command)
                return await self._pipe.execute()
            except WatchError:
                return None


@asynccontextmanager
async def watching(connection: RedisConnection, *keys: str) -> AsyncGenerator[CommitSession]:
    """Return a session for a commit that fails if any of these keys changes from now on."""
    async with connection.client.pipeline(transaction=True) as pipe:
        with connection.errors():
            await pipe.watch(*keys)
        yield CommitSession(connection, pipe)


class CommitSession(Watched):
    """Gathers what is asked by several roles at the same time into one round trip."""

    def __init__(self, connection: RedisConnection, pipe: Pipeline) -> None:
        super().__init__(connection, pipe)
        self._waiting: dict[bool, list[tuple[Sequence[Command], asyncio.Future[list[Any]]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        """See `Session`."""
        return await self._ask(commands, super().read, is_text=True)

    async def read_bytes(self, commands: Sequence[Command]) -> list[Any]:
        """See `Session`."""
        return await self._ask(commands, super().read_bytes, is_text=False)

    async def _ask(
        self,
        commands: Sequence[Command],
        read: Callable[[Sequence[Command]], Awaitable[list[Any]]],
        *,
        is_text: bool,
    ) -> list[Any]:
        if not commands:
            return []
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Any]] = loop.create_future()
        waiting = self._waiting.setdefault(is_text, [])
        waiting.append((commands, answer))
        if len(waiting) == 1:
            # Others that are ready to ask do so before the loop comes back to this.
            loop.call_soon(self._send, is_text, read)
        return await answer

    def _send(self, is_text: bool, read: Callable[[Sequence[Command]], Awaitable[list[Any]]]) -> None:
        task = asyncio.create_task(_answer(self._waiting.pop(is_text), read))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _answer(
    waiting: Sequence[tuple[Sequence[Command], asyncio.Future[list[Any]]]],
    read: Callable[[Sequence[Command]], Awaitable[list[Any]]],
) -> None:
    try:
        answers = await read([command for commands, _ in waiting for command in commands])
    except BaseException as error:
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)
        if not isinstance(error, Exception):
            raise
        return
    start = 0
    for commands, future in waiting:
        if not future.done():
            future.set_result(answers[start : start + len(commands)])
        start += len(commands)
