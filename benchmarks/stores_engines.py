"""The back ends whose costs are compared, each started for one run, and how their round trips are counted.

Redis, FalkorDB and Neo4j are asked through asyncio's streams, where every request that is waited for is one `drain`;
PostgreSQL counts for itself, and one call of Qdrant's client is one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import psutil
import pytest
from tests.servers.falkordb import running_falkordb
from tests.servers.neo4j import running_neo4j
from tests.servers.postgres import running_postgres
from tests.servers.qdrant import running_qdrant
from tests.servers.redis import running_redis

from heliograph import AsyncHeliograph
from heliograph.stores.composed import ComposedStore
from heliograph.stores.postgres.projections import PostgresProjection
from heliograph.stores.postgres.store import PostgresStore

__all__ = ["ENGINES", "Engine", "RoundTrips", "counted_trips"]

_STAND_IN = "the server is the tests' stand-in (tests/servers/qdrant_rest.py), whose own figures say little"
_QDRANT_CALLS = ("query_points", "retrieve", "upsert", "delete", "set_payload", "scroll")


@dataclass(frozen=True, slots=True)
class Engine:
    """A back end that runs.

    Attributes:
        title: How it is called in figures.
        settings: What leads to it, of `store`.
        is_home: Whether it holds the truth; else it stands beside the embedded store.
        server: Process id of its server, if that is no child of this process.
        remark: What else to know of its figures.
    """

    title: str
    settings: Mapping[str, Any]
    is_home: bool = False
    server: int | None = None
    remark: str = ""

    def server_seconds(self) -> float:
        """Return the CPU time of all processes of the server so far, as far as the system tells of those that ended."""
        known = psutil.Process().children(recursive=True)
        if self.server is not None:
            parent = psutil.Process(self.server)
            known += [parent, *parent.children(recursive=True)]
        return sum(map(_process_seconds, known))


class RoundTrips:
    """Answers that were waited for since counting began.

    Attributes:
        count: Of the drivers whose calls are counted here.
    """

    def __init__(self) -> None:
        self.count = 0

    def total(self, kb: AsyncHeliograph) -> int:
        """Return all so far, those that PostgreSQL's stores and projections count for themselves too."""
        opened = (kb.store, *(kb.store.projections if isinstance(kb.store, ComposedStore) else ()))
        counting = (item for item in opened if isinstance(item, PostgresStore | PostgresProjection))
        return self.count + sum(item._database.round_trips for item in counting)

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a coroutine function that counts and calls another."""

        @wraps(call)
        async def counting(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            return await call(*arguments, **options)

        return counting


@contextmanager
def counted_trips() -> Generator[RoundTrips]:
    """Count the round trips of all drivers."""
    trips = RoundTrips()
    seams: list[tuple[Any, str]] = [(asyncio.StreamWriter, "drain")]
    if find_spec("qdrant_client"):
        client = import_module("qdrant_client").AsyncQdrantClient
        seams += [(client, name) for name in _QDRANT_CALLS]
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in seams:
            patch.setattr(owner, name, trips.wrap(getattr(owner, name)))
        yield trips


def _on_postgres(title: str, setting: str) -> Callable[[], AbstractContextManager[Engine]]:
    @contextmanager
    def start() -> Generator[Engine]:
        with running_postgres() as server:
            yield Engine(title, {setting: server.make_database()}, is_home=setting == "url", server=server.pid)

    return start


def _served(
    title: str, running: Callable[[], AbstractContextManager[Any]], setting: str, remark: str = ""
) -> Callable[[], AbstractContextManager[Engine]]:
    @contextmanager
    def start() -> Generator[Engine]:
        with running() as server:
            yield Engine(title, {setting: server.url}, is_home=setting == "url", remark=remark)

    return start


def _process_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return sum(getattr(times, name, 0.0) for name in ("user", "system", "children_user", "children_system"))


# Each starts its back end, and skips where it is not there, saying how to get it.
ENGINES: Mapping[str, Callable[[], AbstractContextManager[Engine]]] = {
    "postgres": _on_postgres("PostgreSQL", "url"),
    "neo4j_graph": _served("graph on Neo4j", running_neo4j, "graph_url"),
    "falkordb_graph": _served("graph on FalkorDB", running_falkordb, "graph_url"),
    "redis_graph": _served("graph on Redis", running_redis, "graph_url"),
    "redis_cache": _served("replies on Redis", running_redis, "cache_url"),
    "postgres_graph": _on_postgres("graph on PostgreSQL", "graph_url"),
    "postgres_text": _on_postgres("full text on PostgreSQL", "text_url"),
    "postgres_vectors": _on_postgres("vectors on PostgreSQL", "vectors_url"),
    "qdrant_vectors": _served("vectors on Qdrant", running_qdrant, "vectors_url", _STAND_IN),
}
