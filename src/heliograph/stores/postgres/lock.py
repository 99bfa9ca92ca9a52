"""The lock that one ingest at a time holds on a workspace: an advisory lock of a connection of its own.

The server drops it when the connection ends, be it that its holder closes it, dies, or is out of reach for a minute.
A connection of the pool would not do: it may be handed on, or closed for being idle, while the lock is held.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import blake2b

from heliograph.errors import StoreUnavailable
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.errors import translate_errors
from heliograph.stores.postgres.session import Connection, Statement

_POLL_SECONDS = 0.05
_KEEPALIVE = """SELECT set_config('tcp_keepalives_idle', '20', false),
  set_config('tcp_keepalives_interval', '10', false), set_config('tcp_keepalives_count', '4', false)"""
_HOLDER = """SELECT coalesce(nullif(activity.application_name, ''), 'a client')
    || coalesce(' on ' || host(activity.client_addr), '')
  FROM pg_locks JOIN pg_stat_activity AS activity USING (pid)
  WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid::bigint = (%s::bigint >> 32) & 4294967295
    AND objid::bigint = %s::bigint & 4294967295
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


@asynccontextmanager
async def advisory_lock(database: Database, purpose: str, timeout_seconds: float) -> AsyncGenerator[None]:
    """Hold the lock of this purpose on the workspace, waiting for it.

    Raises:
        StoreUnavailable: Somebody else still holds it after `timeout_seconds`, or the server is out of reach.
    """
    key = _key(database.workspace, purpose)
    async with database.own_connection() as connection:
        deadline = time.monotonic() + timeout_seconds
        with translate_errors(database.address.label):
            await connection.execute(_KEEPALIVE)
            while not await _try_lock(connection, key):
                if time.monotonic() >= deadline:
                    holder = await _holder(connection, key)
                    raise StoreUnavailable(
                        f"{holder} has been writing to the workspace {database.workspace!r} in "
                        f"{database.address.label!r} for more than {timeout_seconds:g} s; wait for it to finish, or "
                        "raise store.write_timeout_seconds"
                    )
                await asyncio.sleep(_POLL_SECONDS)
        yield


@asynccontextmanager
async def try_advisory_lock(database: Database, purpose: str) -> AsyncGenerator[bool]:
    """Hold the lock if it is free now; yields whether it is held.

    The lock belongs to a transaction of one of the pool's connections, with which it ends in any case.
    """
    async with database.held_session() as session:
        _, ((is_held,),) = await session.run(
            Statement("BEGIN"),
            Statement("SELECT pg_try_advisory_xact_lock(%s::bigint)", (_key(database.workspace, purpose),)),
        )
        yield bool(is_held)


def _key(workspace: str, purpose: str) -> int:
    hashed = blake2b(f"heliograph {purpose} {workspace}".encode(), digest_size=8).digest()
    return int.from_bytes(hashed, "big", signed=True)


async def _try_lock(connection: Connection, key: int) -> bool:
    rows = await (await connection.execute("SELECT pg_try_advisory_lock(%s::bigint)", (key,))).fetchall()
    return bool(rows[0][0])


async def _holder(connection: Connection, key: int) -> str:
    rows = await (await connection.execute(_HOLDER, (key, key))).fetchall()
    return str(rows[0][0]) if rows else "another process"
