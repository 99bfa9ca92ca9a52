"""The whole path through the facade with a real, tiny model: in, keywords, answers plain and streamed, outages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph, DocumentStatus, Outcome, QueryParam, Settings
from heliograph.errors import CancelledIngestError, ModelTimeout
from heliograph.settings import ChatSettings
from heliograph.testing.fakes import FakeEmbeddingModel

pytestmark = pytest.mark.chat

TEXT = "# Gateway\n\nThe ESP32 publishes readings over MQTT to the broker Mosquitto. Anna Weber keeps the gateway."


def engine(folder: Path, chat: ChatSettings, **changes: object) -> AsyncHeliograph:
    chosen = chat.model_copy(update={"max_output_tokens": 60, "timeout_seconds": 300, **changes}).model_dump()
    ingest = {"gleaning_passes": 0, "extraction_retries": 0}
    settings = Settings.load(chat=chosen, ingest=ingest)
    return AsyncHeliograph(folder, settings=settings, embedding=FakeEmbeddingModel(dimension=32))


@pytest.fixture
async def kb(tmp_path: Path, chat_settings: ChatSettings) -> AsyncGenerator[AsyncHeliograph]:
    async with engine(tmp_path, chat_settings) as kb:
        yield kb


async def test_document_goes_in_and_a_model_answers(kb: AsyncHeliograph) -> None:
    report = await kb.insert(TEXT, sources=["gateway.md"])
    assert report.results[0].outcome in {Outcome.PROCESSED, Outcome.PARTIAL}
    assert report.usage.output_tokens > 0
    answer = await kb.query("Who keeps the gateway?", QueryParam(mode="mix"))
    assert answer.is_generated
    assert answer.text.strip()
    assert [reference.source for reference in answer.references] == ["gateway.md"]
    spent = kb.usage()
    again = await kb.insert(TEXT, sources=["gateway.md"])
    assert again.results[0].outcome is Outcome.UNCHANGED
    assert kb.usage() == spent


async def test_answer_streams_after_its_references(kb: AsyncHeliograph) -> None:
    await kb.insert(TEXT, sources=["gateway.md"])
    stream = await kb.query_stream("Who keeps the gateway?", QueryParam(mode="naive"))
    assert [reference.source for reference in stream.references] == ["gateway.md"]
    pieces = [piece async for piece in stream]
    assert len(pieces) > 1
    assert stream.answer is not None
    assert stream.answer.text == "".join(pieces)


async def test_reply_that_is_too_slow_is_a_timeout(tmp_path: Path, chat_settings: ChatSettings) -> None:
    async with engine(tmp_path, chat_settings, timeout_seconds=0.05) as kb:
        with pytest.raises(ModelTimeout):
            await kb.query("Who keeps the gateway?", QueryParam(mode="bypass"))


async def test_cancelled_ingest_stays_pending_and_resumes(tmp_path: Path, chat_settings: ChatSettings) -> None:
    async with engine(tmp_path, chat_settings, max_output_tokens=400) as kb:
        inserting = asyncio.create_task(kb.insert(TEXT, sources=["gateway.md"]))
        await asyncio.sleep(1)
        kb.cancel()
        with pytest.raises(CancelledIngestError):
            await inserting
        assert set((await kb.stats()).documents) <= {DocumentStatus.PENDING, DocumentStatus.PROCESSING}
    async with engine(tmp_path, chat_settings) as kb:
        report = await kb.resume()
        assert report.results[0].outcome in {Outcome.PROCESSED, Outcome.PARTIAL}


async def test_the_chat_model_as_reranker_orders_chunks_or_leaves_the_order_of_the_search(
    tmp_path: Path, chat_settings: ChatSettings
) -> None:
    chosen = chat_settings.model_copy(update={"max_output_tokens": 40, "timeout_seconds": 300}).model_dump()
    settings = Settings.load(
        chat=chosen, ingest={"extractor": "local"}, rerank={"provider": "chat", "timeout_seconds": 300}
    )
    async with AsyncHeliograph(tmp_path, settings=settings, embedding=FakeEmbeddingModel(dimension=32)) as kb:
        await kb.insert([TEXT, "The broker Mosquitto keeps no readings.", "Anna Weber lives near the gateway."])
        before = await kb.query_data("Who keeps the gateway?", QueryParam(mode="fusion", enable_rerank=False))
        found = await kb.query_data("Who keeps the gateway?", QueryParam(mode="fusion"))
    chunks = found["data"]["chunks"]
    assert {chunk["content"] for chunk in chunks} == {chunk["content"] for chunk in before["data"]["chunks"]}
    scores = [chunk["rerank_score"] for chunk in chunks]
    if found["metadata"]["warnings"]:
        assert "names no passage" in found["metadata"]["warnings"][0]
        assert not any(scores)
    else:
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == 1.0
