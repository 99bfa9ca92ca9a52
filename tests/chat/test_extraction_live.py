"""Extraction by a real model so small that its replies loop, break off and hold little of use."""

from __future__ import annotations

import asyncio

import pytest

from heliograph.chat.base import build_chat_model
from heliograph.errors import ModelUnavailable
from heliograph.extraction.chat import ChatExtractor
from heliograph.ids import chunk_id, clean_name, entity_key
from heliograph.ingest.summary import DescriptionSummarizer
from heliograph.models import Chunk, Document, Extraction
from heliograph.settings import ChatSettings, IngestSettings
from heliograph.text.tokens import count_tokens

pytestmark = pytest.mark.chat

DOCUMENT = Document("doc-live", "handbook.md", title="Handbook")
PASSAGES = (
    "The ESP32 is a microcontroller made by Espressif. It publishes sensor values over MQTT to the broker Mosquitto.",
    "艾达在伦敦遇见了查尔斯，他们一起设计了一台机器，后来那台机器成了城里的名胜。",
)
# Enough for a record or two, too little to close the list.
SHORT_REPLY = 80


def chunk(position: int, text: str) -> Chunk:
    return Chunk(chunk_id(DOCUMENT.id, text, 0), DOCUMENT.id, position, text, count_tokens(text), 0, len(text))


async def extract(chat_settings: ChatSettings, **changes: object) -> list[Extraction]:
    short = chat_settings.model_copy(update={"max_output_tokens": SHORT_REPLY, "timeout_seconds": 300})
    model = build_chat_model(short, None)
    assert model is not None
    extractor = ChatExtractor(model, IngestSettings.model_validate({"gleaning_passes": 1, **changes}))
    try:
        return await extractor.extract(DOCUMENT, [chunk(*pair) for pair in enumerate(PASSAGES)])
    finally:
        await model.close()


@pytest.mark.parametrize(("form", "retries"), [("json", 1), ("delimiter", 0)])
async def test_replies_that_loop_or_break_off_become_extractions(
    chat_settings: ChatSettings, form: str, retries: int
) -> None:
    extractions = await extract(chat_settings, extraction_format=form, extraction_retries=retries)
    assert [extraction.chunk_id for extraction in extractions] == [chunk(0, text).id for text in PASSAGES]
    for extraction in extractions:
        assert not extraction.error or not extraction.entities
        assert 0 < extraction.usage.output_tokens <= 3 * SHORT_REPLY
        names = {entity_key(entity.name) for entity in extraction.entities}
        assert all(entity.name == clean_name(entity.name) != "" for entity in extraction.entities)
        assert all({entity_key(r.source), entity_key(r.target)} <= names for r in extraction.relations)


async def test_server_that_is_not_there_is_an_outage_not_an_empty_document(chat_settings: ChatSettings) -> None:
    absent = chat_settings.model_copy(update={"base_url": "http://127.0.0.1:9/v1"})
    with pytest.raises(ModelUnavailable):
        await extract(absent)


async def test_extraction_that_is_cancelled_frees_the_server(chat_settings: ChatSettings, llama_server) -> None:
    endless = chat_settings.model_copy(update={"max_output_tokens": 3000})
    model = build_chat_model(endless, None)
    assert model is not None
    extractor = ChatExtractor(model, IngestSettings())
    task = asyncio.create_task(extractor.extract(DOCUMENT, [chunk(*pair) for pair in enumerate(PASSAGES)]))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(llama_server.wait_until_idle)
    await model.close()


async def test_summary_is_some_text_of_bounded_length(chat_settings: ChatSettings) -> None:
    short = chat_settings.model_copy(update={"max_output_tokens": SHORT_REPLY, "timeout_seconds": 300})
    model = build_chat_model(short, None)
    assert model is not None
    fragments = [f"The ESP32 has property number {number}." for number in range(12)]
    summarizer = DescriptionSummarizer(model, IngestSettings(summary_tokens=60))  # pyright: ignore[reportCallIssue]
    summary = await summarizer.summarize("ESP32", fragments)
    assert 0 < count_tokens(summary.text) <= 60
    assert summary.usage.output_tokens > 0
    await model.close()
