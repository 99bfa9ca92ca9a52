"""An engine in memory that can be away, slow, wrong or broken from its very opening on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset
from heliograph.stores.projection import ProjectionChange
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION, example_changeset
from tests.memory_projection import MemoryGraphProjection

__all__ = ["EMBEDDING", "Graph", "example", "open_home", "until"]

EMBEDDING = EmbeddingInfo("example", DIMENSION, 512)


class Graph(MemoryGraphProjection):
    """A graph that fails as it is told to.

    Attributes:
        refusal: Raised when the engine is reached, if any.
        attempts: How often it was tried to be reached.
        passes: Cleared, reaching it and changing it wait.
    """

    def __init__(self, name: str = "graph:memory") -> None:
        super().__init__(name)
        self.refusal: Exception | None = None
        self.attempts = 0
        self.passes = asyncio.Event()
        self.passes.set()

    async def prepare(self) -> None:
        self.attempts += 1
        await self.passes.wait()
        if self.refusal is not None:
            raise self.refusal
        self._check()

    async def apply(self, change: ProjectionChange) -> None:
        await self.passes.wait()
        await super().apply(change)


async def open_home(folder: Path) -> Store:
    """Open an embedded store to stand in the middle."""
    return await open_store(StoreSettings(data_dir=folder, durability="normal"), EMBEDDING)


def example(source: str) -> Changeset:
    """Return a document with two entities of its own and a relation between them."""
    names = [f"Alpha {source}", f"Beta {source}"]
    return example_changeset(source, names, [(names[0], names[1], 1.5)])


async def until(store: Store) -> None:
    """Wait until every engine beside a store serves and is up to date."""
    async with asyncio.timeout(60):
        while store.get_troubles() or any((await store.get_lags()).values()):  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.01)
