"""The workspaces in a Redis."""

from __future__ import annotations

import asyncio

from heliograph.settings import StoreSettings
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.keys import WORKSPACES, Keys
from heliograph.stores.redis.session import Session

__all__ = ["drop_workspace", "find_workspaces"]


def find_workspaces(settings: StoreSettings) -> list[str]:
    """Return the names of the workspaces, sorted; none if nothing was ever stored. Blocks.

    Raises:
        StoreUnavailable: Redis cannot be reached.
    """
    return asyncio.run(_find(settings))


def drop_workspace(settings: StoreSettings) -> None:
    """Remove the workspace that the settings name with everything in it; nothing may have it open. Blocks.

    Raises:
        StoreUnavailable: Redis cannot be reached.
    """
    asyncio.run(_drop(settings))


def _connect(settings: StoreSettings) -> RedisConnection:
    return RedisConnection(settings.url, settings.workspace, "store.url")


async def _find(settings: StoreSettings) -> list[str]:
    connection = _connect(settings)
    try:
        return sorted(await Session(connection).read_one("SMEMBERS", WORKSPACES))
    finally:
        await connection.close()


async def _drop(settings: StoreSettings) -> None:
    connection = _connect(settings)
    try:
        session = Session(connection)
        keys = Keys(connection.prefix)
        if not await session.read_one("SISMEMBER", WORKSPACES, settings.workspace):
            return
        # Whoever commits watches these, and finds that the workspace is gone.
        await session.write([("DEL", keys.home, keys.version)])
        with connection.errors():
            await connection.clear()
        # Last, so that what was interrupted can be done again.
        await session.write([("SREM", WORKSPACES, settings.workspace)])
    finally:
        await connection.close()
