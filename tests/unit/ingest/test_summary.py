"""Descriptions of many fragments."""

from __future__ import annotations

import asyncio
import json
import logging
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.chat.base import ChatReply, ChatRequest, Purpose
from heliograph.errors import BadModelReply, ModelTimeout, ModelUnavailable
from heliograph.ingest.merging import EvidenceFold, join_fragments
from heliograph.ingest.summary import DescriptionSummarizer, Summary
from heliograph.models import Usage
from heliograph.settings import IngestSettings
from heliograph.testing.fakes import FakeChatModel
from heliograph.text.tokens import count_tokens

WORDS = ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "willow", "yew")


def statement(number: int, words: int = 30) -> str:
    draw = random.Random(number)
    return f"Statement {number}: " + " ".join(draw.choices(WORDS, k=words)) + "."


def settings(**changes: object) -> IngestSettings:
    return IngestSettings.model_validate(changes)


def statements_in(request: ChatRequest) -> list[str]:
    lines = request.messages[0].content.splitlines()
    return [json.loads(line) for line in lines if line.startswith('"')]


def echo(request: ChatRequest) -> str:
    """Summarise to a text that follows from what was asked, as a model at temperature 0 does."""
    return f"Summary of {len(statements_in(request))}: " + " ".join(line[:24] for line in statements_in(request))


def test_join_keeps_whole_fragments_in_order() -> None:
    assert join_fragments([], 9) == ""
    assert join_fragments(["a", "", "b", "a", " "], 99) == "a<SEP>b"
    fragments = [statement(number) for number in range(100)]
    joined = join_fragments(fragments, 200)
    assert fragments[: len(joined.split("<SEP>"))] == joined.split("<SEP>")
    assert 100 < count_tokens(joined) <= 200


def test_join_cuts_a_first_fragment_that_is_too_long() -> None:
    joined = join_fragments([statement(1, 500), "short"], 50)
    assert count_tokens(joined) == 50
    assert statement(1, 500).startswith(joined)


@given(st.lists(st.text(max_size=30), max_size=12), st.integers(1, 40))
def test_join_never_exceeds_its_budget_by_more_than_the_seams(fragments: list[str], max_tokens: int) -> None:
    joined = join_fragments(fragments, max_tokens)
    assert count_tokens(joined) <= max_tokens + 2 * joined.count("<SEP>")


async def test_few_short_fragments_are_joined_without_a_call() -> None:
    model = FakeChatModel("never asked")
    summarizer = DescriptionSummarizer(model, settings())
    assert await summarizer.summarize("Elm", ["One.", "Two.", "One."]) == Summary("One.<SEP>Two.", Usage())
    assert await summarizer.summarize("Elm", []) == Summary("", Usage())
    assert await summarizer.summarize("Elm", [statement(1, 700)]) == Summary(statement(1, 700), Usage())
    assert not model.requests


def test_without_a_chat_model_fragments_are_joined() -> None:
    fragments = [statement(number) for number in range(20)]
    assert EvidenceFold.of(settings(summary_tokens=60)).join(fragments) == join_fragments(fragments, 60)


@pytest.mark.parametrize(
    ("fragments", "is_needed"),
    [
        ([statement(number, 3) for number in range(7)], False),
        ([statement(number, 3) for number in range(8)], True),
        ([statement(number, 900) for number in range(2)], True),
        ([statement(1, 900)], False),
        (["Same."] * 50, False),
    ],
)
def test_need_depends_on_number_and_length(fragments: list[str], is_needed: bool) -> None:
    assert DescriptionSummarizer(FakeChatModel(), settings()).is_needed(fragments) is is_needed


async def test_fragments_that_fit_are_summarised_in_one_call() -> None:
    model = FakeChatModel("<SEP>An elm.\n\n It stands. ")
    fragments = [statement(number) for number in range(20)]
    summary = await DescriptionSummarizer(model, settings(language="German")).summarize("Elm $x", fragments)
    assert summary.text == "An elm. It stands."
    assert summary.usage.input_tokens > 500
    [request] = model.requests
    assert statements_in(request) == fragments
    assert request.purpose is Purpose.SUMMARY
    assert '"Elm $x"' in request.messages[0].content
    assert "German" in request.messages[0].content


@pytest.mark.parametrize(("configured", "expected"), [("fr", "fr"), ("", "the language of the statements")])
async def test_language_is_the_configured_one_or_that_of_the_fragments(configured: str, expected: str) -> None:
    model = FakeChatModel("x")
    summarizer = DescriptionSummarizer(model, settings(language=configured))
    await summarizer.summarize("Elm", [statement(number) for number in range(9)])
    assert f"Language: {expected}." in model.requests[0].messages[0].content


async def test_more_than_fits_is_summarised_in_groups_and_their_summaries_again() -> None:
    model = FakeChatModel(echo)
    fragments = [statement(number) for number in range(200)]
    summary = await DescriptionSummarizer(model, settings(summary_context_tokens=1000)).summarize("Elm", fragments)
    assert summary.text.startswith("Summary of ")
    assert len(model.requests) > 5
    for request in model.requests:
        assert sum(map(count_tokens, statements_in(request))) <= 1000
    read = [line for request in model.requests for line in statements_in(request) if line.startswith("Statement")]
    assert sorted(read) == sorted(set(read)), "no statement is read twice"
    assert len(read) >= 150
    assert summary.usage.output_tokens == sum(count_tokens(echo(request)) for request in model.requests)


async def requests_for(fragments: list[str]) -> list[ChatRequest]:
    model = FakeChatModel(echo)
    await DescriptionSummarizer(model, settings(summary_context_tokens=1000)).summarize("Elm", fragments)
    return model.requests


async def test_requests_are_a_function_of_the_fragments() -> None:
    fragments = [statement(number) for number in range(100)]
    assert set(await requests_for(fragments)) == set(await requests_for(list(fragments)))


async def test_one_more_fragment_asks_again_only_for_its_group_and_those_above() -> None:
    fragments = [statement(number) for number in range(300)]
    before = await requests_for(fragments)
    asked: list[int] = []
    for place in range(0, 300, 15):
        after = await requests_for([*fragments[:place], statement(1000 + place), *fragments[place:]])
        asked.append(len(set(after) - set(before)))
    assert len(before) > 15
    assert sum(asked) / len(asked) <= 5
    assert max(asked) <= len(before) // 2


async def test_one_fragment_less_asks_again_only_for_its_group_and_those_above() -> None:
    fragments = [statement(number) for number in range(300)]
    before = await requests_for(fragments)
    asked = [
        len(set(await requests_for(fragments[:place] + fragments[place + 1 :])) - set(before))
        for place in range(0, 300, 15)
    ]
    assert sum(asked) / len(asked) <= 5


@given(st.lists(st.integers(1, 400), min_size=2, max_size=60), st.integers(500, 2000))
async def test_any_fragments_come_to_an_end(lengths: list[int], context: int) -> None:
    model = FakeChatModel("word " * 2000)
    fragments = [statement(number, words) for number, words in enumerate(lengths)]
    summarizer = DescriptionSummarizer(model, settings(summary_context_tokens=context, summary_tokens=50))
    summary = await summarizer.summarize("Elm", fragments)
    assert count_tokens(summary.text) <= 50
    assert len(model.requests) <= len(fragments)


@pytest.mark.parametrize("reply", ["", "  \n "])
async def test_summary_that_is_empty_falls_back_to_the_join(reply: str, caplog: pytest.LogCaptureFixture) -> None:
    fragments = [statement(number) for number in range(10)]
    with caplog.at_level(logging.WARNING):
        summary = await DescriptionSummarizer(FakeChatModel(reply), settings()).summarize("Elm", fragments)
    assert summary.text == join_fragments(fragments, 100)
    assert summary.usage.input_tokens > 0
    assert "'Elm'" in caplog.text


async def test_reply_that_cannot_be_used_falls_back_to_the_join(caplog: pytest.LogCaptureFixture) -> None:
    model = FakeChatModel(echo)
    model.fail_next(BadModelReply("filtered"))
    fragments = [statement(number) for number in range(10)]
    with caplog.at_level(logging.WARNING):
        summary = await DescriptionSummarizer(model, settings()).summarize("Elm", fragments)
    assert summary.text == join_fragments(fragments, 100)
    assert "filtered" in caplog.text


@pytest.mark.parametrize("error", [ModelUnavailable("down"), ModelTimeout("slow")])
async def test_outage_is_raised_and_ends_the_other_calls(error: Exception) -> None:
    model = FakeChatModel(echo)
    model.fail_next(error)  # pyright: ignore[reportArgumentType]
    summarizer = DescriptionSummarizer(model, settings(summary_context_tokens=500))
    with pytest.raises(type(error)):
        await summarizer.summarize("Elm", [statement(number) for number in range(60)])
    assert model.under_way == 0


async def test_cancelling_ends_the_calls() -> None:
    started = asyncio.Event()

    class Watched(FakeChatModel):
        async def complete(self, request: ChatRequest) -> ChatReply:
            started.set()
            return await super().complete(request)

    model = Watched(echo)
    model.gate = asyncio.Event()
    summarizer = DescriptionSummarizer(model, settings(summary_context_tokens=500))
    task = asyncio.create_task(summarizer.summarize("Elm", [statement(number) for number in range(60)]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.under_way == 0
