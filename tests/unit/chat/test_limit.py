"""Chat calls wait for slots, queries first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from heliograph.calls.limit import CallGuard
from heliograph.chat.base import ChatRequest, GuardedChatModel, Purpose
from heliograph.errors import ModelUnavailable
from heliograph.testing.fakes import FakeChatModel

MakeRequest = Callable[..., ChatRequest]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_limit_holds_for_replies_and_streams_together(make_request: MakeRequest) -> None:
    inner = FakeChatModel("a reply of some length")
    model = GuardedChatModel(inner, CallGuard(2))

    async def read() -> None:
        async for _ in model.stream(make_request()):
            pass

    await asyncio.gather(*(model.complete(make_request()) for _ in range(5)), *(read() for _ in range(5)))
    assert len(inner.requests) == 10
    assert inner.most_under_way == 2


async def test_limit_lets_queries_go_before_indexing(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.gate = asyncio.Event()
    model = GuardedChatModel(inner, CallGuard(1))
    order = (Purpose.EXTRACT, Purpose.SUMMARY, Purpose.EXTRACT, Purpose.ANSWER, Purpose.KEYWORDS)
    tasks = []
    for purpose in order:
        tasks.append(asyncio.create_task(model.complete(make_request(purpose=purpose))))
        await settle()
    inner.gate.set()
    await asyncio.gather(*tasks)
    assert [request.purpose for request in inner.requests] == [order[0], *order[3:], *order[1:3]]


@pytest.mark.parametrize("purpose", Purpose)
async def test_limit_knows_every_purpose(make_request: MakeRequest, purpose: Purpose) -> None:
    assert (
        await GuardedChatModel(FakeChatModel("said"), CallGuard(1)).complete(make_request(purpose=purpose))
    ).text == "said"


async def test_stream_holds_its_slot_until_it_is_closed(make_request: MakeRequest) -> None:
    inner = FakeChatModel("a reply of some length")
    model = GuardedChatModel(inner, CallGuard(1))
    pieces = model.stream(make_request())
    await anext(pieces)
    waiting = asyncio.create_task(model.complete(make_request()))
    await settle()
    assert len(inner.requests) == 1
    await pieces.aclose()  # type: ignore[attr-defined]
    await waiting
    assert inner.cancelled == 1


async def test_stream_that_fails_gives_its_slot_back(make_request: MakeRequest) -> None:
    model = GuardedChatModel(FakeChatModel("a reply of some length", cut_stream_after=1), CallGuard(1))
    for _ in range(3):
        with pytest.raises(ModelUnavailable):
            _ = [piece async for piece in model.stream(make_request())]
