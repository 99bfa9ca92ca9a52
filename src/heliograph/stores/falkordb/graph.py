"""The graph on FalkorDB: opening it."""

from __future__ import annotations

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.cypher.graph import CypherGraphProjection
from heliograph.stores.falkordb.database import FalkorDatabase


class FalkorGraphProjection(CypherGraphProjection):
    """The graph of one workspace as a graph of its own."""

    @classmethod
    async def open(
        cls,
        settings: StoreSettings,
        url: str,
        embedding: EmbeddingInfo,  # noqa: ARG003 (as all projections open)
    ) -> FalkorGraphProjection:
        """Read the address; FalkorDB is first called when it is prepared.

        Raises:
            SettingsError: The address is none.
        """
        return cls(FalkorDatabase(url, settings.workspace), settings.workspace)
