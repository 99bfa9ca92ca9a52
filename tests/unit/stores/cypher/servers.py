"""Stores whose graph is in a database that speaks Cypher, and what is in that database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.changeset import OutboxKind
from heliograph.stores.composed import ComposedStore
from heliograph.stores.cypher import CypherGraphProjection, Statement
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION
from tests.servers.falkordb import FalkorServer
from tests.servers.neo4j import Neo4jServer

__all__ = ["EMBEDDING", "World", "open_world"]

EMBEDDING = EmbeddingInfo("example", DIMENSION, 512)


@dataclass(frozen=True)
class World:
    """A composed store, and the server its graph is on."""

    store: ComposedStore
    graph: CypherGraphProjection
    server: Neo4jServer | FalkorServer

    async def ask(self, text: str, **values: Any) -> Sequence[Sequence[Any]]:
        """Return what a statement of somebody else finds in the workspace."""
        return await self.graph._database.read(Statement(text, {"workspace": self.graph._workspace, **values}))

    async def expect_equal(self) -> None:
        """Check that the graph is that of the store with the truth."""
        home = self.store._home
        assert await self.graph.list_entities(0, 10_000) == await home.graph.list_entities(0, 10_000)
        ids = await self.graph.scan(OutboxKind.RELATIONS, "", 10_000)
        assert len(ids) == (await home.get_stats()).relations
        assert await self.graph.get_relations(ids) == await home.graph.get_relations(ids)
        ranked = sorted(item.id for item in await self.graph.list_entities(0, 50))
        assert await self.graph.rank_incident_relations(ranked) == await home.graph.rank_incident_relations(ranked)


async def open_world(folder: Path, server: Neo4jServer | FalkorServer, workspace: str = "") -> World:
    """Open a store with its graph on this server."""
    name = workspace or f"w{uuid4().hex}"
    settings = StoreSettings(data_dir=folder, workspace=name, durability="normal", graph_url=server.url)
    store = await open_store(settings, EMBEDDING)
    assert isinstance(store, ComposedStore)
    (graph,) = store.projections
    assert isinstance(graph, CypherGraphProjection)
    return World(store, graph, server)
