"""A chat model orders the first passages by their numbers; what it leaves out keeps its place behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heliograph import AsyncHeliograph, QueryParam, Settings
from heliograph.chat.base import Purpose
from heliograph.errors import BadModelReply, SettingsError
from heliograph.rerank.base import ChatReranker, RerankHit
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

TEXTS = ["The Lantern forwards readings over MQTT.", "The Beacon sleeps at night.", "The Harbour is wet."]


def texts_of(found: Any) -> list[str]:
    return [chunk["content"] for chunk in found["data"]["chunks"]]


async def order(reply: str, texts: list[str], top_n: int = 50) -> list[int]:
    return [hit.index for hit in await ChatReranker(FakeChatModel(reply), 100).rerank("Which?", texts, top_n)]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("[3] > [1] > [2]", [2, 0, 1]),
        ("3, 1, 2", [2, 0, 1]),
        ('{"order": [2, 3]}', [1, 2, 0]),
        ("[2] > [2] > [9] > [0]", [1, 0, 2]),
        ("Passage 3 answers it; 1.5 is no number of a passage.", [2, 0, 1]),
    ],
)
async def test_passages_follow_the_numbers_of_the_reply(reply: str, expected: list[int]) -> None:
    assert await order(reply, TEXTS) == expected


async def test_scores_fall_evenly_and_stay_above_zero() -> None:
    hits = await ChatReranker(FakeChatModel("[2] > [1]"), 100).rerank("Which?", TEXTS[:2], 2)
    assert hits == [RerankHit(1, 1.0), RerankHit(0, 0.5)]


async def test_twenty_are_read_and_the_rest_keep_their_places() -> None:
    chat = FakeChatModel("[20]")
    hits = await ChatReranker(chat, 100).rerank("Which?", [f"passage {n}" for n in range(25)], 25)
    assert [hit.index for hit in hits] == [19, *range(19), *range(20, 25)]
    assert "[20] passage 19" in chat.requests[0].messages[-1].content
    assert "passage 20" not in chat.requests[0].messages[-1].content
    assert chat.requests[0].purpose is Purpose.RERANK


async def test_long_passages_are_cut_and_stand_on_one_line() -> None:
    chat = FakeChatModel("[1]")
    await ChatReranker(chat, 8).rerank("Which?", ["one\ntwo " * 20, "short"], 2)
    shown = chat.requests[0].messages[-1].content.split("\n\n")[0]
    assert shown.startswith("[1] one two one")
    assert len(shown.split()) < 12


async def test_a_reply_without_a_number_is_unusable() -> None:
    with pytest.raises(BadModelReply, match="names no passage"):
        await order("I do not know.", TEXTS)


async def test_nothing_to_order_asks_nobody() -> None:
    chat = FakeChatModel("[1]")
    assert await ChatReranker(chat, 100).rerank("Which?", TEXTS[:1], 5) == [RerankHit(0, 1.0)]
    assert await ChatReranker(chat, 100).rerank("Which?", TEXTS, 0) == []
    assert not chat.requests


async def test_the_configured_chat_model_orders_chunks(tmp_path: Path) -> None:
    chat = FakeChatModel({Purpose.RERANK: "[2]", Purpose.EXTRACT: "{}", Purpose.ANSWER: "It is wet [1]."})
    settings = Settings.load(rerank={"provider": "chat"}, ingest={"extractor": "local"})
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(), chat=chat, settings=settings) as kb:
        await kb.insert(TEXTS)
        before = await kb.query_data("What forwards readings?", QueryParam(mode="naive", enable_rerank=False))
        found = await kb.query_data("What forwards readings?", QueryParam(mode="naive"))
    names = texts_of(before)
    assert texts_of(found) == [names[1], names[0], *names[2:]]


async def test_without_a_chat_model_it_is_refused_when_opening(tmp_path: Path) -> None:
    settings = Settings.load(rerank={"provider": "chat"})
    with pytest.raises(SettingsError, match=r"chat\.model"):
        await AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(), settings=settings).open()
