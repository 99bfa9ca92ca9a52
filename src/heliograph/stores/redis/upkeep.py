"""Emptying a workspace in Redis, and giving back the room of what was deleted, in the server's files, too."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from heliograph.errors import StoreUnavailable
from heliograph.stores.redis.changes import forget_changes
from heliograph.stores.redis.committer import Committer, Head
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.outbox import reset_command
from heliograph.stores.redis.session import Command, CommitSession

__all__ = ["clear", "vacuum"]

_POLL_SECONDS = 0.05
_BUSY = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")


async def clear(committer: Committer) -> int:
    """Delete all of a workspace but what says how it was made; return the new data version."""

    async def draft(session: CommitSession, head: Head) -> Sequence[Command]:
        keys = session.keys
        kept = {keys.home, keys.version, keys.commits, keys.outbox_readers, keys.outbox_acknowledged}
        commands: list[Command] = [("HDEL", keys.home, "next_embedding_name", "next_embedding_dimension")]
        async for page in committer.connection.pages():
            doomed = [key for key in page if key not in kept and not key.startswith(keys.of("lock", ""))]
            if doomed:
                commands.append(("UNLINK", *doomed))
        return [*commands, *forget_changes(keys, head.version + 1), reset_command(keys)]

    # A reply that came meanwhile would stay, but not in the lists by which it is found.
    replies = Keys(committer.connection.prefix).of("replies")
    return await committer.run(draft, [replies])


async def vacuum(connection: RedisConnection) -> None:
    """Have Redis write its files anew, those of all that it keeps, and wait for it.

    Raises:
        StoreError: It refuses, as managed services may.
        StoreUnavailable: It is out of reach, or could not write them.
    """
    with connection.errors():
        is_logged = (await _persistence(connection))["aof_enabled"]
        if is_logged:
            await _write(connection, "BGREWRITEAOF", "aof_last_bgrewrite_status")
        if await _has_snapshots(connection):
            await _write(connection, "BGSAVE", "rdb_last_bgsave_status")


async def _write(connection: RedisConnection, command: str, status: str) -> None:
    # What is being written already may hold what was deleted since it began.
    await _wait(connection)
    await connection.client.execute_command(command)
    await asyncio.sleep(_POLL_SECONDS)
    found = await _wait(connection)
    if found[status] != "ok":
        raise StoreUnavailable(
            f"Redis at {connection.where!r} could not write its files anew ({command}: {found[status]!r}); see its log"
        )


async def _wait(connection: RedisConnection) -> Mapping[str, Any]:
    found = await _persistence(connection)
    while any(found.get(name) for name in _BUSY):
        await asyncio.sleep(_POLL_SECONDS)
        found = await _persistence(connection)
    return found


async def _persistence(connection: RedisConnection) -> Mapping[str, Any]:
    return await connection.client.info("persistence")


async def _has_snapshots(connection: RedisConnection) -> bool:
    try:
        found = await connection.client.config_get("save")
    except ResponseError:
        # Managed services hide their configuration.
        return True
    return bool(found.get("save"))
