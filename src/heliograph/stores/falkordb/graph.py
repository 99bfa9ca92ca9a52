"""The graph on FalkorDB: opening it."""

from __future__ import annotations

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.cypher.graph import CypherGraphProjection
from heliograph.stores.falkordb.database import FalkorDatabase

__all__ = ["FalkorGraphProjection"]


class FalkorGraphProjection(CypherGraphProjection):
    """The graph of one workspace as a graph of its own."""

    @classmethod
    async def open(
        cls,
        settings: StoreSettings,
        url: str,
        embedding: EmbeddingInfo,  # noqa: ARG003 (as all projections open)
    ) -> FalkorGraphProjection:
        """Connect, and make indexes where they are missing.

        Raises:
            SettingsError: The address is none.
            StoreUnavailable: FalkorDB is out of reach, or refuses the user.
        """
        return await cls(FalkorDatabase(url, settings.workspace), settings.workspace).prepared()
