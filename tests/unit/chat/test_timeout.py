"""Calls that take too long are cancelled and say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from heliograph.calls.limit import CallGuard
from heliograph.chat.base import ChatReply, ChatRequest, GuardedChatModel
from heliograph.errors import ModelTimeout
from heliograph.testing.fakes import FakeChatModel

MakeRequest = Callable[..., ChatRequest]


class StuckMidway(FakeChatModel):
    """Streams one piece and then nothing."""

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        with self._call(request):
            yield "first"
            await asyncio.Event().wait()


async def test_complete_that_takes_too_long_is_cancelled(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.gate = asyncio.Event()
    with pytest.raises(ModelTimeout, match=r"'fake' gave no reply within 0\.01 seconds; .*timeout_seconds"):
        await GuardedChatModel(inner, CallGuard(timeout_seconds=0.01)).complete(make_request())
    assert inner.cancelled == 1


async def test_complete_in_time_is_left_alone(make_request: MakeRequest) -> None:
    assert (
        await GuardedChatModel(FakeChatModel("said"), CallGuard(timeout_seconds=60)).complete(make_request())
    ).text == "said"


async def test_stream_that_never_starts_is_cancelled(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.gate = asyncio.Event()
    with pytest.raises(ModelTimeout, match="piece"):
        await anext(GuardedChatModel(inner, CallGuard(timeout_seconds=0.01)).stream(make_request()))
    assert (inner.cancelled, inner.under_way) == (1, 0)


async def test_stream_that_gets_stuck_is_cancelled(make_request: MakeRequest) -> None:
    inner = StuckMidway()
    pieces = GuardedChatModel(inner, CallGuard(timeout_seconds=0.01)).stream(make_request())
    assert await anext(pieces) == "first"
    with pytest.raises(ModelTimeout, match="piece"):
        await anext(pieces)
    assert (inner.cancelled, inner.under_way) == (1, 0)


async def test_stream_is_not_charged_for_its_readers_time(make_request: MakeRequest) -> None:
    seen: list[str] = []
    finished: list[ChatReply] = []
    async for piece in GuardedChatModel(FakeChatModel("said in pieces"), CallGuard(timeout_seconds=0.02)).stream(
        make_request(on_finish=finished.append)
    ):
        seen.append(piece)
        await asyncio.sleep(0.03)
    assert "".join(seen) == "said in pieces"
    assert len(finished) == 1
