from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from heliograph.chat.base import ChatMessage
from heliograph.errors import InvalidRequestError
from heliograph.filters import Equals
from heliograph.models import Mode
from heliograph.query.models import Keywords, QueryParam
from heliograph.query.plan import Channel, make_plan, readable_tokens
from heliograph.settings import ChatSettings, QuerySettings, Settings
from heliograph.testing.fakes import FakeChatModel
from heliograph.text.tokens import count_tokens

from .world import plan


def test_defaults_come_from_the_settings() -> None:
    made = plan(settings=QuerySettings(top_k=7, chunk_picking="weight", enable_rerank=False))
    used = made.settings
    assert (made.mode, used.top_k, used.chunk_top_k, used.chunk_picking) == (Mode.AUTO, 7, 20, "weight")
    assert (used.max_entity_tokens, used.max_relation_tokens, used.max_total_tokens) == (6000, 8000, 30_000)
    assert used.enable_rerank is False
    assert plan(top_k=3, settings=QuerySettings(top_k=7)).settings.top_k == 3


@pytest.mark.parametrize(
    ("window", "longest_reply", "readable"),
    [(0, None, None), (0, 500, None), (16_000, None, 11_904), (16_000, 1000, 15_000), (2000, 1900, 1000), (1, None, 1)],
)
def test_a_window_leaves_room_for_the_reply(window: int, longest_reply: int | None, readable: int | None) -> None:
    assert readable_tokens(ChatSettings(context_tokens=window, max_output_tokens=longest_reply)) == readable


def test_a_question_reads_no_more_than_the_chat_model_can() -> None:
    def total(readable: int | None, **param: Any) -> int:
        return make_plan("What is this?", QueryParam(**param), QuerySettings(), readable).settings.max_total_tokens

    assert total(None) == total(40_000) == 30_000
    assert total(12_000) == total(12_000, max_total_tokens=50_000) == 12_000
    assert total(12_000, max_total_tokens=900) == 900
    assert total(12_000, chat_model=FakeChatModel()) == 30_000
    said = "It was a long story. " * 500
    history = [ChatMessage("user", said)]
    assert total(12_000, conversation_history=history) == 12_000 - count_tokens(said)
    assert total(500, conversation_history=history) == 1


@pytest.mark.parametrize(
    ("mode", "channels"),
    [
        ("local", "entity"),
        ("global", "relation"),
        ("hybrid", "entity relation"),
        ("mix", "entity relation vector"),
        ("naive", "vector"),
        ("bypass", ""),
    ],
)
def test_mode_is_a_row_of_channels(mode: str, channels: str) -> None:
    assert plan(mode=mode).channels == tuple(Channel(name) for name in channels.split())


@pytest.mark.parametrize("question", ["ab", "水", " a \n", "?"])
def test_question_too_short_to_search_is_refused(question: str) -> None:
    with pytest.raises(InvalidRequestError, match="too short"):
        plan(question)
    assert plan(question, mode="bypass").question == question.strip()


@pytest.mark.parametrize("question", ["abc", "灯塔", "水a", "한국", "かな"])
def test_cjk_characters_weigh_two(question: str) -> None:
    assert plan(question).question == question


@pytest.mark.parametrize("mode", ["naive", "bypass"])
def test_empty_question_is_refused_in_every_mode(mode: str) -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        plan(" \t\n", mode=mode)


def test_long_question_is_refused_by_its_length() -> None:
    with pytest.raises(InvalidRequestError, match="100,000 characters; ask in at most 65,536"):
        plan("x" * 100_000)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("top_k", 0, "at least 1, at most 10,000"),
        ("top_k", 10**9, "at least 1, at most 10,000"),
        ("top_k", 1 << 2000, "at most 10,000, got int"),
        ("top_k", True, "whole number"),
        ("top_k", "5", "whole number"),
        ("chunk_top_k", -1, "at least 1, at most 10,000"),
        ("chunk_top_k", 2.5, "whole number"),
        ("max_entity_tokens", 0, "at least 1"),
        ("max_relation_tokens", 0, "at least 1"),
        ("max_total_tokens", -5, "at least 1"),
        ("history_turns", -1, "at least 0"),
        ("mode", "magic", "auto, fusion, mix, hybrid, local, global, naive, bypass"),
        ("mode", ["mix"], "local"),
        ("chunk_picking", "best", "vector, weight, shared_relations"),
        ("context_format", "xml", "json, csv"),
        ("hl_keywords", "one string", "list of texts"),
        ("ll_keywords", [1], "must be a text, got int"),
        ("ll_keywords", 5, "list of texts"),
        ("response_type", 5, "a text or None, got int"),
        ("user_prompt", b"bytes", "a text or None, got bytes"),
        ("system_prompt", {}, "a text or None, got dict"),
        ("chat_model", "gpt", "ChatModel"),
        ("channels", ["vector", "sound"], "channels[1] must be one of vector, keyword, bridge, graph"),
        ("explain", 1, "True or False, got int"),
        ("enable_rerank", "no", "True or False or None, got str"),
        ("conversation_history", "hello", "list of ChatMessages or mappings"),
    ],
)
def test_value_out_of_range_is_refused_by_name(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(InvalidRequestError, match=field) as refusal:
        plan(**{field: value})
    assert allowed in str(refusal.value)


def test_default_of_a_derived_param_is_held_against_its_type() -> None:
    @dataclass(frozen=True)
    class Wide(QueryParam):
        top_k: int | None = "many"  # type: ignore[assignment]

    with pytest.raises(InvalidRequestError, match="top_k must be a whole number or None, got str"):
        make_plan("What is Git?", Wide(), QuerySettings())


def test_param_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="QueryParam"):
        make_plan("What is this?", {"mode": "mix"}, QuerySettings())  # pyright: ignore[reportArgumentType]


def test_huge_budget_is_fine() -> None:
    assert plan(max_total_tokens=10**12).settings.max_total_tokens == 10**12


@pytest.mark.parametrize(
    "message", [{"content": "no role"}, {"role": "user"}, {"role": "robot", "content": "x"}, "text", None]
)
def test_malformed_history_is_refused_by_place(message: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"conversation_history\[1\]"):
        plan(conversation_history=[{"role": "user", "content": "x"}, message])


def test_history_turns_keep_the_last_turns() -> None:
    history = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "one"},
        ChatMessage("user", "2"),
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "3"},
    ]

    def contents(turns: int) -> list[str]:
        return [message.content for message in plan(conversation_history=history, history_turns=turns).history]

    assert contents(0) == contents(3) == contents(9) == ["1", "one", "2", "two", "3"]
    assert contents(2) == ["2", "two", "3"]
    assert contents(1) == ["3"]


def test_given_keywords_are_used_as_they_are() -> None:
    made = plan(hl_keywords=["Theme, of sorts", " "], ll_keywords=[])
    assert made.keywords == Keywords(high_level=("Theme, of sorts",))
    assert plan().keywords is None


def test_user_prompt_follows_the_prefix_of_the_settings() -> None:
    settings = QuerySettings(user_prompt_prefix="Be brief.")
    assert plan(settings=settings).user_prompt == "Be brief."
    assert plan(settings=settings, user_prompt="In French.").user_prompt == "Be brief.\n\nIn French."
    assert (
        plan(settings=settings, user_prompt="In French.", disable_user_prompt_prefix=True).user_prompt == "In French."
    )


def test_lone_surrogates_are_replaced() -> None:
    assert plan("what \ud83d is").question == "what \ufffd is"
    assert plan(user_prompt="\udc00x").user_prompt == "\ufffdx"


def test_filter_is_read_and_checked() -> None:
    assert plan(filter=None).filter is None
    assert plan(filter={"team": "red"}).filter == Equals("team", "red")
    assert plan(filter=Equals("team", "red")).filter == Equals("team", "red")
    for wrong in ({}, "team=red", {"team": {"above": 1}}):
        with pytest.raises(InvalidRequestError, match="filter"):
            plan(filter=wrong)


@pytest.mark.parametrize(
    ("file", "environment", "given", "least", "origin"),
    [
        ("", "MIN_SCORE", {}, 0.3, "environment"),
        ("min_score", "", {}, 0.2, "heliograph.toml"),
        ("min_cosine", "MIN_SCORE", {}, 0.3, "environment"),
        ("min_score", "MIN_COSINE", {}, 0.3, "environment"),
        ("min_cosine", "", {"min_score": 0.4}, 0.4, "heliograph.toml"),
        ("min_score", "MIN_SCORE", {"min_cosine": 0.4}, 0.4, "environment"),
    ],
)
def test_least_cosine_may_be_set_by_its_former_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    environment: str,
    given: dict[str, float],
    least: float,
    origin: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if file:
        (tmp_path / "heliograph.toml").write_text(f"[query]\n{file} = 0.2\n")
    if environment:
        monkeypatch.setenv(f"HELIOGRAPH_QUERY__{environment}", "0.3")
    settings = Settings.load(query=given)
    assert plan(settings=settings.query).settings.min_cosine == least
    assert Settings.find_origins() == {"query.min_cosine": origin}
    assert QuerySettings(min_score=0.1).min_cosine == 0.1  # pyright: ignore[reportCallIssue]
