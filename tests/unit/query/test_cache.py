from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from heliograph.chat.base import ChatMessage
from heliograph.errors import StoreUnavailable
from heliograph.models import Usage, utc_now
from heliograph.query.models import QueryParam
from heliograph.query.pipeline import AnswerCache, answer_key
from heliograph.settings import QuerySettings
from heliograph.stores.base import CachedReply
from heliograph.stores.changeset import Changeset
from heliograph.testing.fakes import FakeChatModel, FakeReranker

from .world import World, plan

QUESTION = "What is this passage?"
NAIVE = QueryParam(mode="naive")
MODELS = {"chat": "gpt"}


@pytest.fixture
async def filled(world: World) -> World:
    await world.chunk("p", score=0.9, headings=("Top",), page=2)
    await world.entity("A", "p", score=0.9)
    await world.relation("A-B", "p", score=0.9)
    return world


async def test_second_answer_comes_whole_from_the_cache(filled: World) -> None:
    chat = FakeChatModel("An answer.")
    param = QueryParam(mode="mix", hl_keywords=["a"], ll_keywords=["b"])
    engine = filled.engine(chat, FakeReranker())
    first = await engine.query(QUESTION, param)
    second = await engine.query(QUESTION, param)
    assert len(chat.requests) == 1
    assert second == replace(first, from_cache=True, usage=Usage())
    assert second.context.relations
    assert second.payload(replace(param, include_sources=True)) == first.payload(replace(param, include_sources=True))


async def test_key_names_mode_and_type(filled: World) -> None:
    await filled.engine(FakeChatModel("x")).query(QUESTION, NAIVE)
    (key,) = filled.kept_replies()
    assert key.startswith("naive:query:")


async def test_commit_makes_the_answer_new(filled: World) -> None:
    chat = FakeChatModel("x")
    engine = filled.engine(chat)
    await engine.query(QUESTION, NAIVE)
    await filled.store.apply(Changeset())
    await engine.query(QUESTION, NAIVE)
    assert len(chat.requests) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"mode": "local"},
        {"response_type": "List"},
        {"top_k": 3},
        {"chunk_top_k": 3},
        {"max_entity_tokens": 99},
        {"max_relation_tokens": 99},
        {"max_total_tokens": 9999},
        {"hl_keywords": ["x"]},
        {"ll_keywords": ["x"]},
        {"conversation_history": [{"role": "user", "content": "x"}]},
        {"conversation_history": [ChatMessage("user", "y")]},
        {"history_turns": 1},
        {"user_prompt": "x"},
        {"enable_rerank": False},
        {"include_references": True},
        {"include_chunk_content": True},
        {"include_sources": True},
        {"return_structured": True},
        {"chunk_picking": "weight"},
        {"context_format": "csv"},
        {"system_prompt": "x"},
        {"disable_user_prompt_prefix": True},
    ],
)
def test_every_parameter_changes_the_key(changed: dict[str, Any]) -> None:
    assert answer_key(plan(**changed), MODELS, 1) != answer_key(plan(), MODELS, 1)


def test_question_settings_models_and_data_change_the_key() -> None:
    made = plan()
    keys = {
        answer_key(made, MODELS, 1),
        answer_key(plan("What is that?"), MODELS, 1),
        answer_key(plan(settings=QuerySettings(related_chunks=9)), MODELS, 1),
        answer_key(plan(settings=QuerySettings(user_prompt_prefix="Rhyme.")), MODELS, 1),
        answer_key(made, {"chat": "other"}, 1),
        answer_key(made, MODELS, 2),
    }
    assert len(keys) == 6
    assert answer_key(plan(), MODELS, 1) in keys


async def test_models_names_are_part_of_the_key(filled: World) -> None:
    first, second = FakeChatModel("x", name="one"), FakeChatModel("y", name="two")
    assert (await filled.engine(first).query(QUESTION, NAIVE)).text == "x"
    assert (await filled.engine(second).query(QUESTION, NAIVE)).text == "y"
    own = QueryParam(mode="naive", chat_model=second)
    assert (await filled.engine(first).query(QUESTION, own)).text == "y"


@pytest.mark.parametrize(
    "param",
    [
        {"stream": True},
        {"only_need_context": True},
        {"only_need_prompt": True},
    ],
)
async def test_streams_and_previews_are_not_kept(filled: World, param: dict[str, bool]) -> None:
    await filled.engine(FakeChatModel("x")).query(QUESTION, QueryParam(mode="naive", **param))
    assert not filled.kept_replies()


async def test_cut_extractive_and_empty_answers_are_not_kept(filled: World) -> None:
    await filled.engine(FakeChatModel("x", is_complete=False)).query(QUESTION, NAIVE)
    await filled.engine().query(QUESTION, NAIVE)
    await World().engine(FakeChatModel("x")).query(QUESTION, NAIVE)
    assert not filled.kept_replies()


async def test_cache_can_be_switched_off(filled: World) -> None:
    chat = FakeChatModel("x")
    engine = filled.engine(chat, cache_answers=False)
    await engine.query(QUESTION, NAIVE)
    await engine.query(QUESTION, NAIVE)
    assert len(chat.requests) == 2


async def test_unreadable_entry_is_no_answer(filled: World) -> None:
    await filled.store.replies.put_reply(CachedReply("naive:query:1", "{}", "m", Usage(), utc_now()))
    assert await AnswerCache(filled.store.replies).get("naive:query:1") is None


async def test_answer_that_cannot_be_kept_is_still_given(filled: World, monkeypatch: Any, caplog: Any) -> None:
    async def full(_: CachedReply) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(filled.store.replies, "put_reply", full)
    assert (await filled.engine(FakeChatModel("x")).query(QUESTION, NAIVE)).text == "x"
    assert "the disk is full" in caplog.text


async def test_broken_unicode_in_an_answer_can_be_kept(filled: World) -> None:
    engine = filled.engine(FakeChatModel("half a pair \ud83d"))
    assert (await engine.query(QUESTION, NAIVE)).text == "half a pair \ud83d"
    (reply,) = filled.kept_replies().values()
    reply.text.encode()
    assert (await engine.query(QUESTION, NAIVE)).text == "half a pair \ud83d"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, {"team": "red"}),
        ({"team": "red"}, {"team": "blue"}),
        ({"team": 1}, {"team": True}),
        ({"and": [{"a": 1}, {"b": 1}]}, {"or": [{"a": 1}, {"b": 1}]}),
        ({"source": "a"}, {"document_id": "a"}),
        ({"source": "a"}, {"source_prefix": "a"}),
    ],
)
def test_key_tells_filters_apart(one: Any, other: Any) -> None:
    assert answer_key(plan(filter=one), MODELS, 1) != answer_key(plan(filter=other), MODELS, 1)


async def test_answer_under_a_filter_is_not_given_to_another(filled: World) -> None:
    chat = FakeChatModel("x")
    engine = filled.engine(chat)
    for filter_ in (None, {"source": "a.md"}, {"source_prefix": "a"}, {"source": "a.md"}):
        await engine.query(QUESTION, replace(NAIVE, filter=filter_))
    assert len(chat.requests) == 3
