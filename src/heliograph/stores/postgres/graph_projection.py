"""The graph in PostgreSQL beside another store: the tables of a store at home, read by its statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.postgres.address import Address
from heliograph.stores.postgres.faults import DEGREE_FAULTS
from heliograph.stores.postgres.graph import PostgresGraphStore
from heliograph.stores.postgres.graph_write import followed_graph_statements, graph_comparisons
from heliograph.stores.postgres.projection import PostgresProjection
from heliograph.stores.postgres.session import Statement
from heliograph.stores.projection import GraphProjection, ProjectionChange


class PostgresGraphProjection(PostgresProjection, PostgresGraphStore, GraphProjection):
    """The entities and relations of one workspace."""

    role = "graph"
    tables = ("heliograph_entity", "heliograph_degree", "heliograph_relation")
    scanned: ClassVar = {OutboxKind.ENTITIES: "heliograph_entity", OutboxKind.RELATIONS: "heliograph_relation"}
    faults: ClassVar = DEGREE_FAULTS

    def __init__(self, address: Address, settings: StoreSettings, embedding: EmbeddingInfo) -> None:
        PostgresProjection.__init__(self, address, settings, embedding)
        PostgresGraphStore.__init__(self, self._database)

    def statements(self, change: ProjectionChange) -> Iterator[Statement]:
        removed = change.removed.get(OutboxKind.ENTITIES, ()), change.removed.get(OutboxKind.RELATIONS, ())
        return followed_graph_statements(self._database.workspace, removed, change.entities, change.relations)

    def comparisons(self, expected: ProjectionChange) -> Iterator[Statement]:
        return graph_comparisons(self._database.workspace, expected.entities, expected.relations)
