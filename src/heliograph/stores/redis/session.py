"""Commands of Redis as plain tuples: many in one round trip, and those of a change in one transaction.

Texts come back as `str`, whatever `read_bytes` returns as `bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.client import NEVER_DECODE

from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.keys import Keys

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

    async def write(self, commands: Sequence[Command]) -> list[Any]:
        """Run all commands in one transaction; return their answers.

        It may be sent again after a connection broke, so commands must be such as can be repeated.
        """
        return await self._run(commands, {}, is_transaction=True) if commands else []

    async def _run(self, commands: Sequence[Command], options: dict[str, Any], *, is_transaction: bool) -> list[Any]:
        pipe = self.connection.client.pipeline(transaction=is_transaction)
        with self.connection.errors():
            for command in commands:
                pipe.execute_command(*command, **options)
            return await pipe.execute()
