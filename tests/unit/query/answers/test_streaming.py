from __future__ import annotations

import asyncio

import pytest

from heliograph.errors import InvalidRequestError, ModelUnavailable
from heliograph.observing import Observer, QuestionReport
from heliograph.query.answers.models import AnswerKind
from heliograph.query.models import QueryParam
from heliograph.testing.fakes import FakeChatModel

from ..world import World

QUESTION = "What is this passage?"
NAIVE = QueryParam(mode="naive")


@pytest.fixture
async def filled(world: World) -> World:
    await world.chunk("p", score=0.9)
    return world


async def test_references_are_there_before_the_first_piece(filled: World) -> None:
    chat = FakeChatModel("It is passage p [1].")
    stream = await filled.engine(chat).stream(QUESTION, NAIVE)
    assert [reference.source for reference in stream.references] == ["a.md"]
    assert stream.context.chunks
    assert not chat.requests
    pieces = [piece async for piece in stream]
    assert len(pieces) > 1
    text = "It is passage p [1].\n\n### References\n\n- [1] a.md"
    assert "".join(pieces) == text
    assert stream.answer is not None
    assert (stream.answer.text, stream.answer.kind) == (text, AnswerKind.GENERATED)
    assert stream.answer.usage.output_tokens > 0


async def test_leaving_the_loop_cancels_the_call(filled: World) -> None:
    chat = FakeChatModel("x" * 100)
    stream = await filled.engine(chat).stream(QUESTION, NAIVE)
    async for _ in stream:
        break
    for _ in range(5):
        await asyncio.sleep(0)
    assert (chat.cancelled, chat.under_way) == (1, 0)
    assert stream.answer is None


async def test_leaving_the_context_waits_for_the_cancellation(filled: World) -> None:
    chat = FakeChatModel("x" * 100)
    async with await filled.engine(chat).stream(QUESTION, NAIVE) as stream:
        pieces = aiter(stream)
        await anext(pieces)
    assert (chat.cancelled, chat.under_way) == (1, 0)
    await stream.aclose()


async def test_cancelling_the_reader_cancels_the_call(filled: World) -> None:
    chat = FakeChatModel("x" * 100)
    chat.gate = asyncio.Event()
    stream = await filled.engine(chat).stream(QUESTION, NAIVE)
    reader = asyncio.create_task(stream.collect())
    await asyncio.sleep(0.01)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert (chat.cancelled, chat.under_way) == (1, 0)


async def test_closing_while_another_task_waits_for_a_piece_says_what_to_do(filled: World) -> None:
    chat = FakeChatModel("x" * 100)
    chat.gate = asyncio.Event()
    stream = await filled.engine(chat).stream(QUESTION, NAIVE)
    reader = asyncio.create_task(stream.collect())
    while not chat.under_way:  # noqa: ASYNC110
        await asyncio.sleep(0)
    with pytest.raises(InvalidRequestError, match="cancel that task"):
        await stream.aclose()
    chat.gate.set()
    assert (await reader).text


async def test_stream_can_be_read_once(filled: World) -> None:
    stream = await filled.engine(FakeChatModel("x")).stream(QUESTION, NAIVE)
    await stream.collect()
    with pytest.raises(InvalidRequestError, match="read already"):
        aiter(stream)


@pytest.mark.parametrize("chat", [None, FakeChatModel("x" * 100)])
@pytest.mark.parametrize("is_taken", [False, True])
async def test_closing_an_unread_stream_tells_of_it_once(
    filled: World, chat: FakeChatModel | None, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[QuestionReport] = []
    monkeypatch.setattr(Observer, "tell_question", lambda _, report: told.append(report))
    async with await filled.engine(chat).stream(QUESTION, NAIVE) as stream:
        pieces = aiter(stream) if is_taken else None
    await stream.aclose()
    with pytest.raises(InvalidRequestError, match="closed"):
        aiter(stream)
    assert [report.outcome for report in told] == ["cancelled"]
    if pieces is not None:
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)


async def test_stream_that_breaks_off_raises(filled: World) -> None:
    stream = await filled.engine(FakeChatModel("x" * 100, cut_stream_after=2)).stream(QUESTION, NAIVE)
    pieces = aiter(stream)
    assert len(await anext(pieces)) == len(await anext(pieces)) == 8
    with pytest.raises(ModelUnavailable):
        await anext(pieces)
    assert stream.answer is None


async def test_without_a_model_the_quoted_answer_is_the_only_piece(filled: World, world: World) -> None:
    stream = await filled.engine().stream(QUESTION, NAIVE)
    (piece,) = [piece async for piece in stream]
    assert "This is passage p." in piece
    assert stream.answer is not None
    assert stream.answer.kind is AnswerKind.EXTRACTIVE


async def test_nothing_found_streams_the_statement(world: World) -> None:
    chat = FakeChatModel("made up")
    answer = await (await world.engine(chat).stream(QUESTION, NAIVE)).collect()
    assert answer.kind is AnswerKind.NOTHING_FOUND
    assert not chat.requests


@pytest.mark.parametrize("param", [{}, {"include_sources": True}, {"return_structured": True}])
async def test_streamed_query_is_collected(filled: World, param: dict[str, bool]) -> None:
    chat = FakeChatModel("It is passage p.")
    wanted = QueryParam(mode="naive", stream=True, **param)
    answer = await filled.engine(chat).query(QUESTION, wanted)
    assert answer.text == "It is passage p."
    assert answer.usage.output_tokens > 0
    payload = answer.payload(wanted)
    assert (payload["answer"] if isinstance(payload, dict) else payload) == "It is passage p."


async def test_cut_stream_is_told_by_its_answer(filled: World) -> None:
    answer = await (await filled.engine(FakeChatModel("x", is_complete=False)).stream(QUESTION, NAIVE)).collect()
    assert not answer.is_complete
