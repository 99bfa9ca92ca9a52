"""Two engines on one database hand documents over, process and delete them at once, as two processes would."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliograph import AsyncHeliograph, Settings
from heliograph.settings import StoreSettings
from heliograph.testing.fakes import FakeEmbeddingModel
from tests.unit.ingest.test_handing_over import hand_over_at_random
from tests.unit.ingest.world import SpelledExtractor


@pytest.mark.parametrize("seed", range(3))
async def test_last_versions_are_what_is_stored(tmp_path: Path, postgres_database: str, seed: int) -> None:
    store = StoreSettings(url=postgres_database, workspace=f"over{seed}", durability="normal", pool_size=2)

    def engine() -> AsyncHeliograph:
        settings = Settings(store=store)
        return AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor())

    fresh = AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor())
    async with engine() as one, engine() as other, fresh:
        await hand_over_at_random([one, other], seed, fresh)
