from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.unit.embedding.conftest import EmbeddingServer

from heliograph.embedding.base import build_embedding_model, wrap_embedding_model
from heliograph.embedding.e5.model import E5EmbeddingModel
from heliograph.errors import RateLimited, SettingsError
from heliograph.settings import EmbeddingSettings
from heliograph.testing.fakes import FakeEmbeddingModel

Make = Callable[..., EmbeddingSettings]


async def test_default_is_the_local_model(cache_folder: Path, e5: E5EmbeddingModel) -> None:
    model = await build_embedding_model(EmbeddingSettings(cache_dir=cache_folder))
    assert model.info == e5.info
    found = await model.embed(["a", "b", "a"], "document")
    expected = await e5.embed(["a", "b", "a"], "document")
    assert (found.vectors * expected.vectors).sum(1).min() > 0.9999
    assert model.usage["document"].texts == 3
    await model.close()


async def test_nothing_is_loaded_before_the_first_text(tmp_path: Path) -> None:
    model = await build_embedding_model(EmbeddingSettings(cache_dir=tmp_path / "cache"))
    assert model.info.dimension == 384
    await model.close()
    assert not (tmp_path / "cache").exists()


async def test_service_is_called_in_batches(server: EmbeddingServer, settings: Make) -> None:
    model = await build_embedding_model(settings(max_batch_texts=2, dimension=0))
    texts = ["a", "bb", "ccc", "bb", "dddd"]
    embeddings = await model.embed(texts, "document")
    firsts = [1, 2, 3, 2, 4]
    assert np.allclose(embeddings.vectors[:, 0] / embeddings.vectors[:, 1], firsts)
    assert sorted(len(asked["input"]) for asked in server.asked) == [1, 2, 2]
    assert model.usage["document"].usage.input_tokens == 14
    await model.close()


async def test_service_is_tried_again_also_for_its_dimension(server: EmbeddingServer, settings: Make) -> None:
    server.scripts.append((500, {"error": {"message": "starting"}}))
    model = await build_embedding_model(settings(dimension=0, max_retries=1))
    assert model.info.dimension == 3
    await model.close()


async def test_bad_settings_are_told_at_once(settings: Make) -> None:
    with pytest.raises(SettingsError):
        await build_embedding_model(settings(model=""))


async def test_any_model_can_be_wrapped() -> None:
    fake = FakeEmbeddingModel()
    fake.fail_next(RateLimited("slow down", retry_after_seconds=0))
    model = wrap_embedding_model(fake, EmbeddingSettings(max_retries=1))
    assert (await model.embed(["a"], "query")).vectors.shape == (1, 64)
    await model.close()
    assert fake.is_closed


@pytest.mark.parametrize("name", ["model", "base_url"])
async def test_service_named_without_its_provider_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"embedding\.{name} is set, but embedding\.provider is 'e5'"):
        await build_embedding_model(EmbeddingSettings.model_validate({name: "http://localhost:9/v1"}))
