"""The engine builds and closes the reranker of the settings, and a failing one never fails a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliograph import AsyncHeliograph, QueryParam, Settings
from heliograph import engine as opening
from heliograph.errors import ModelUnavailable, SettingsError
from heliograph.settings import RerankSettings
from heliograph.testing.fakes import FakeEmbeddingModel, FakeReranker

TEXTS = ["The Lantern forwards readings over MQTT.", "The Beacon sleeps at night.", "The Harbour is wet."]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> FakeReranker:
    reranker = FakeReranker(lambda _, text: float("Beacon" in text))

    async def build(settings: RerankSettings) -> FakeReranker:
        return reranker

    monkeypatch.setattr(opening, "build_reranker", build)
    return reranker


async def ask(kb: AsyncHeliograph) -> dict:
    await kb.insert(TEXTS)
    return await kb.query_data("What does the Lantern forward?", QueryParam(mode="naive"))


async def test_reranker_of_the_settings_orders_chunks_and_is_closed(tmp_path: Path, built: FakeReranker) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        found = await ask(kb)
    assert found["data"]["chunks"][0]["content"] == TEXTS[1]
    assert found["data"]["chunks"][0]["rerank_score"] == 1.0
    assert found["metadata"]["timings"]["rerank"] >= 0
    assert built.is_closed


async def test_failing_reranker_leaves_the_order_of_the_search_and_warns(tmp_path: Path, built: FakeReranker) -> None:
    built.fail_next(ModelUnavailable("it is down; start it"))
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        found = await ask(kb)
    assert found["data"]["chunks"][0]["content"] == TEXTS[0]
    assert "it is down" in found["metadata"]["warnings"][0]


async def test_callers_own_reranker_goes_before_the_settings_and_stays_open(
    tmp_path: Path, built: FakeReranker
) -> None:
    own = FakeReranker()
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(), reranker=own) as kb:
        await ask(kb)
    assert own.calls
    assert not own.is_closed
    assert not built.calls


async def test_nothing_configured_reranks_nothing(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(), settings=Settings()) as kb:
        found = await ask(kb)
    assert "rerank" not in found["metadata"]["timings"]
    assert not any(chunk["rerank_score"] for chunk in found["data"]["chunks"])


async def test_settings_that_cannot_work_are_refused_when_opening(tmp_path: Path) -> None:
    settings = Settings.load(rerank={"provider": "vllm"})
    with pytest.raises(SettingsError, match=r"rerank\.base_url"):
        await AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(), settings=settings).open()
