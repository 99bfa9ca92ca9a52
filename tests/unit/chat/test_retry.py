"""Chat calls are tried again; streams only before their first piece."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heliograph.calls.limit import CallGuard, RetryPolicy
from heliograph.chat.base import ChatRequest, GuardedChatModel
from heliograph.errors import BadModelReply, ModelTimeout, ModelUnavailable, RateLimited
from heliograph.testing.fakes import FakeChatModel

MakeRequest = Callable[..., ChatRequest]


async def no_wait(seconds: float) -> None:
    """Stand in for a sleep."""


def retrying(inner: FakeChatModel, retries: int = 2) -> GuardedChatModel:
    return GuardedChatModel(inner, CallGuard(retries=RetryPolicy(retries), sleep=no_wait))


async def test_complete_is_tried_again(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.fail_next(ModelTimeout("slow"), RateLimited("busy", 1))
    assert (await retrying(inner).complete(make_request())).text == "said"
    assert len(inner.requests) == 3


async def test_complete_gives_up(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.fail_next(*[ModelTimeout("slow")] * 3)
    with pytest.raises(ModelTimeout, match="after 3 tries"):
        await retrying(inner).complete(make_request())


async def test_bad_reply_is_not_asked_for_again(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.fail_next(BadModelReply("empty"))
    with pytest.raises(BadModelReply, match=r"^empty$"):
        await retrying(inner).complete(make_request())


async def test_stream_is_tried_again_before_its_first_piece(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said in pieces")
    inner.fail_next(ModelTimeout("slow"), ModelTimeout("slow"))
    assert "".join([piece async for piece in retrying(inner).stream(make_request())]) == "said in pieces"
    assert len(inner.requests) == 3
    assert inner.under_way == 0


async def test_stream_is_not_tried_again_after_its_first_piece(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said in pieces", cut_stream_after=1)
    pieces = retrying(inner).stream(make_request())
    assert await anext(pieces) == "said in "
    with pytest.raises(ModelUnavailable, match="broke off"):
        await anext(pieces)
    assert len(inner.requests) == 1


async def test_stream_gives_up(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said in pieces", cut_stream_after=0)
    with pytest.raises(ModelUnavailable, match="after 3 tries"):
        await anext(retrying(inner).stream(make_request()))


async def test_stream_without_pieces_ends(make_request: MakeRequest) -> None:
    assert [piece async for piece in retrying(FakeChatModel("")).stream(make_request())] == []


async def test_stream_closed_early_closes_the_inner_one(make_request: MakeRequest) -> None:
    inner = FakeChatModel("said in pieces")
    pieces = retrying(inner).stream(make_request())
    await anext(pieces)
    await pieces.aclose()  # type: ignore[attr-defined]
    assert (inner.cancelled, inner.under_way) == (1, 0)
