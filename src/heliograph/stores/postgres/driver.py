"""The driver, psycopg 3 with its pool, which the extra `postgres` brings; the rest of the room takes it from here."""

from __future__ import annotations

from heliograph.errors import MissingDependencyError

try:
    import psycopg
    from psycopg import AsyncConnection, sql
    from psycopg.adapt import AdaptersMap, Dumper
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import Format, TransactionStatus
    from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
except ImportError as error:
    raise MissingDependencyError("psycopg", "postgres") from error

__all__ = [
    "AdaptersMap",
    "AsyncConnection",
    "AsyncConnectionPool",
    "Dumper",
    "Format",
    "PoolClosed",
    "PoolTimeout",
    "TransactionStatus",
    "conninfo_to_dict",
    "make_conninfo",
    "psycopg",
    "sql",
]
