"""The graph on FalkorDB, beside the store that holds the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from falkordb.asyncio.graph import AsyncGraph
from falkordb.helpers import stringify_param_value
from redis.exceptions import ResponseError

from heliograph.stores.cypher import CypherDatabase, CypherGraphProjection, Dialect, Statement
from heliograph.stores.redis import RedisConnection

# A pool of connections to FalkorDB, which keeps graphs in a Redis; each workspace has a graph of its own.
#
# A change is one Redis transaction, whose statements run without interleaving.

# A change is some hundred statements.
_TIMEOUT_SECONDS = 60.0
_READ_SECONDS = 20.0
_IS_THERE = "already indexed"


class FalkorDatabase(CypherDatabase):
    """The graph of one workspace, at `falkordb://[[user]:password@]host[:port]`, or by TLS at `falkordbs://`.

    Raises:
        SettingsError: The address is invalid.
    """

    product = "FalkorDB"
    dialect = Dialect(
        degree="indegree(e) + outdegree(e)",
        constraints=(
            *(f"CREATE INDEX FOR (e:Entity) ON (e.{name})" for name in ("id", "degree")),
            "CREATE INDEX FOR (k:RelationEnds) ON (k.id)",
        ),
        # It keeps a matrix per type, and reads all of them wherever a step may be of any type.
        most_types=100,
        has_dynamic_names=False,
    )

    def __init__(self, url: str, workspace: str) -> None:
        redis_url = url.replace("falkordbs:", "rediss:", 1).replace("falkordb:", "redis:", 1)
        self._connection = RedisConnection(redis_url, workspace, "store.graph_url", self.product, _TIMEOUT_SECONDS)
        self.where = self._connection.where
        self._name = f"heliograph:{workspace}"
        # Constructing the client of the whole server would already connect, and block.
        self._graph = AsyncGraph(self._connection.client, self._name)

    async def read(self, statement: Statement, *, is_patient: bool = True) -> list[list[Any]]:  # noqa: ARG002
        """Creates an empty graph if there is none."""
        with self._connection.errors():
            async with asyncio.timeout(_READ_SECONDS):
                return await self._query(statement)

    async def write(self, statements: Sequence[Statement]) -> list[list[Any]]:
        if len(statements) == 1:
            with self._connection.errors():
                return await self._query(statements[0])
        pipe = self._connection.client.pipeline(transaction=True)
        for statement in statements:
            values = _clean(dict(statement.parameters)).items()
            header = " ".join(f"{name}={stringify_param_value(value)}" for name, value in values)
            pipe.execute_command("GRAPH.QUERY", self._name, f"CYPHER {header} {statement.text}", "--compact")
        with self._connection.errors():
            await pipe.execute()
        return []

    async def prepare(self) -> Mapping[str, str]:
        with self._connection.errors():
            facts = await self._connection.check_durability()
            for text in self.dialect.constraints:
                try:
                    await self._graph.query(text)
                except ResponseError as error:
                    if _IS_THERE not in str(error):
                        raise
        return facts

    async def close(self) -> None:
        await self._connection.close()

    async def _query(self, statement: Statement) -> list[list[Any]]:
        result = await self._graph.query(statement.text, _clean(dict(statement.parameters)))
        return cast("list[list[Any]]", result.result_set)


def _clean(value: Any) -> Any:
    """Return a value without NUL, at which FalkorDB stops reading."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in cast("dict[str, Any]", value).items()}
    return [_clean(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


class FalkorGraphProjection(CypherGraphProjection):
    """The graph of one workspace as a graph of its own."""

    @staticmethod
    def connect(url: str, workspace: str) -> CypherDatabase:
        return FalkorDatabase(url, workspace)
