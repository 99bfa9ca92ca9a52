"""The workspaces in a Redis."""

from __future__ import annotations

import asyncio

from heliograph.settings import StoreSettings
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.keys import WORKSPACES, Keys
from heliograph.stores.redis.session import Session

__all__ = ["IDENTITY_SECONDS", "drop_workspace", "find_workspaces", "workspace_identity"]

# For how long an identity may be taken to hold: asking for it takes a connection.
IDENTITY_SECONDS = 2.0


def find_workspaces(settings: StoreSettings) -> list[str]:
    """Return the names of the workspaces, sorted; none if nothing was ever stored. Blocks.

    Raises:
        StoreUnavailable: Redis cannot be reached.
    """
    return asyncio.run(_find(settings))


def workspace_identity(settings: StoreSettings) -> str | None:
    """Return a token of the workspace: another one if it was removed and made again, None if it is not there. Blocks.

    One that was made before there were tokens has an empty one.

    Raises:
        StoreUnavailable: Redis cannot be reached.
    """
    return asyncio.run(_identify(settings))


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


async def _identify(settings: StoreSettings) -> str | None:
    connection = _connect(settings)
    try:
        keys = Keys(connection.prefix)
        name, made = await Session(connection).read_one("HMGET", keys.home, "embedding_name", "made")
        return None if name is None else made or ""
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
