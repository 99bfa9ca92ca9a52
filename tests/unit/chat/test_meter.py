"""What chat calls cost is counted per purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from heliograph.chat.base import ChatMeter, ChatReply, ChatRequest, GuardedChatModel, Purpose
from heliograph.errors import ModelTimeout, ModelUnavailable
from heliograph.models import Usage
from heliograph.observing import CallCount
from heliograph.testing.fakes import FakeChatModel

MakeRequest = Callable[..., ChatRequest]


async def test_meter_counts_calls_and_tokens_per_purpose(make_request: MakeRequest) -> None:
    model = GuardedChatModel(FakeChatModel("one two three"))
    for purpose in (Purpose.EXTRACT, Purpose.EXTRACT, Purpose.ANSWER):
        await model.complete(make_request("hello", purpose))
    counts = model.usage()
    assert counts.by_purpose[Purpose.EXTRACT] == CallCount(2, 0, Usage(2, 6))
    assert counts.by_purpose[Purpose.ANSWER] == CallCount(1, 0, Usage(1, 3))
    assert counts.by_purpose[Purpose.SUMMARY] == CallCount()
    assert counts.total == CallCount(3, 0, Usage(3, 9))


async def test_meter_counts_failures(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.fail_next(ModelTimeout("slow"), ModelTimeout("slow"))
    model = GuardedChatModel(inner)
    with pytest.raises(ModelTimeout):
        await model.complete(make_request())
    with pytest.raises(ModelTimeout):
        await anext(model.stream(make_request()))
    assert model.usage().total == CallCount(2, 2)


async def test_meter_counts_what_a_stream_cost(make_request: MakeRequest) -> None:
    model = GuardedChatModel(FakeChatModel("one two three", piece_characters=4))
    finished: list[ChatReply] = []
    assert len([piece async for piece in model.stream(make_request("hello", on_finish=finished.append))]) == 4
    assert model.usage().total == CallCount(1, 0, Usage(1, 3))
    assert [reply.text for reply in finished] == ["one two three"], "the caller is told too"


async def test_meter_estimates_a_stream_left_early(make_request: MakeRequest) -> None:
    model = GuardedChatModel(FakeChatModel("one two three", piece_characters=4))
    pieces = model.stream(make_request())
    await anext(pieces)
    await pieces.aclose()  # type: ignore[attr-defined]
    total = model.usage().total
    assert (total.calls, total.failures) == (1, 0)
    assert total.usage.input_tokens >= 1
    assert 0 < total.usage.output_tokens < 3


async def test_meter_estimates_a_stream_that_breaks_off(make_request: MakeRequest) -> None:
    model = GuardedChatModel(FakeChatModel("one two three", piece_characters=4, cut_stream_after=2))
    with pytest.raises(ModelUnavailable):
        _ = [piece async for piece in model.stream(make_request())]
    total = model.usage().total
    assert (total.calls, total.failures) == (1, 1)
    assert total.usage.output_tokens > 0


async def test_meter_estimates_a_stream_whose_model_does_not_tell(make_request: MakeRequest) -> None:
    class Silent(FakeChatModel):
        async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
            yield "one two three"

    model = GuardedChatModel(Silent())
    assert [piece async for piece in model.stream(make_request())] == ["one two three"]
    assert model.usage().total.usage.output_tokens == 3


async def test_meter_counts_a_cancelled_call_as_a_call(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.gate = asyncio.Event()
    model = GuardedChatModel(inner)
    task = asyncio.create_task(model.complete(make_request()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert model.usage().total == CallCount(1)


async def test_meter_can_be_shared_and_its_snapshot_does_not_change(make_request: MakeRequest) -> None:
    meter = ChatMeter()
    models = [GuardedChatModel(FakeChatModel("said"), meter=meter) for _ in range(2)]
    before = meter.usage()
    for model in models:
        await model.complete(make_request())
    assert before.total == CallCount()
    assert meter.usage().total.calls == 2
    with pytest.raises(TypeError):
        before.by_purpose[Purpose.ANSWER] = CallCount(9)  # type: ignore[index]
