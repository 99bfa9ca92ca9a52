"""The graph on Neo4j: opening it."""

from __future__ import annotations

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.cypher.graph import CypherGraphProjection
from heliograph.stores.neo4j.address import Neo4jAddress
from heliograph.stores.neo4j.database import Neo4jDatabase


class Neo4jGraphProjection(CypherGraphProjection):
    """The graph of one workspace in a database that workspaces share."""

    @classmethod
    async def open(
        cls,
        settings: StoreSettings,
        url: str,
        embedding: EmbeddingInfo,  # noqa: ARG003 (as all projections open)
    ) -> Neo4jGraphProjection:
        """Read the address; Neo4j is first called when it is prepared.

        Raises:
            SettingsError: The address is none.
        """
        return cls(Neo4jDatabase(Neo4jAddress.parse(url)), settings.workspace)
