"""What holds for all tests. Network is banned but for loopback, warnings are errors: see pyproject.toml."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from .servers.falkordb import FalkorServer, running_falkordb
from .servers.neo4j import Neo4jServer, running_neo4j
from .servers.postgres import PostgresServer, running_postgres
from .servers.qdrant import QdrantPlace, qdrant_place
from .servers.redis import RedisServer, running_redis

# Real servers, live models, browsers, kills and long runs: `make test-all` runs them, `make test` leaves them out.
_LONG_FOLDERS = ("browser", "chat", "faults", "integration")
_SERVERS = {"postgres_server", "redis_server", "neo4j_server", "falkordb_server", "qdrant", "ray_nodes"}

# Machines are shared: how long an example takes says nothing.
settings.register_profile("heliograph", deadline=None)
settings.load_profile("heliograph")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `long` what needs a server, a model or a browser, or is marked as slow."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        fixtures = set(getattr(item, "fixturenames", ()))
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            fixtures |= {value for value in item.callspec.params.values() if isinstance(value, str)}
        if folder in _LONG_FOLDERS or fixtures & _SERVERS or item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def postgres_server() -> Generator[PostgresServer]:
    """One PostgreSQL server for all tests that ask for it; skipped, saying how to get one, where there is none."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresServer) -> str:
    """The URL of one database that tests share, each with workspaces of its own."""
    return postgres_server.make_database()


@pytest.fixture(scope="session")
def redis_server() -> Generator[RedisServer]:
    """One Redis server for all tests that ask for it, each with workspaces of its own; skipped where there is none."""
    with running_redis() as server:
        yield server


@pytest.fixture(scope="session")
def neo4j_server() -> Generator[Neo4jServer]:
    """One Neo4j server for all tests that ask for it, each with workspaces of its own; skipped where there is none."""
    with running_neo4j() as server:
        yield server


@pytest.fixture(scope="session")
def falkordb_server() -> Generator[FalkorServer]:
    """One FalkorDB server for all tests that ask for it, each with workspaces of its own; skipped likewise."""
    with running_falkordb() as server:
        yield server


@pytest.fixture(scope="session")
def qdrant() -> Generator[QdrantPlace]:
    """One Qdrant, or what stands in for it, for all tests that ask for it; skipped where there is neither."""
    with qdrant_place() as place:
        yield place
