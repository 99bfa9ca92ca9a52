"""The fake chat model does what tests rely on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heliograph.chat.base import ChatReply, ChatRequest, Purpose
from heliograph.errors import InvalidRequestError, ModelTimeout, ModelUnavailable
from heliograph.testing.fakes import FakeChatModel, FakeReplies

MakeRequest = Callable[..., ChatRequest]


@pytest.mark.parametrize(
    "replies",
    [
        "said",
        ["said"],
        {"hello": "said"},
        {"other": "wrong", Purpose.ANSWER: "said"},
        {Purpose.EXTRACT: "wrong", "ell": "said"},
        lambda request: "said" if request.purpose is Purpose.ANSWER else "wrong",
    ],
)
async def test_fake_replies_as_scripted(replies: FakeReplies, make_request: MakeRequest) -> None:
    model = FakeChatModel(replies)
    assert (await model.complete(make_request("hello"))).text == "said"


@pytest.mark.parametrize("replies", [[], {"other": "wrong"}])
async def test_fake_without_a_reply_says_so(replies: FakeReplies, make_request: MakeRequest) -> None:
    with pytest.raises(InvalidRequestError):
        await FakeChatModel(replies).complete(make_request("hello"))


async def test_fake_fails_the_next_calls_only(make_request: MakeRequest) -> None:
    model = FakeChatModel("said")
    model.fail_next(ModelTimeout("one"), ModelTimeout("two"))
    for words in ("one", "two"):
        with pytest.raises(ModelTimeout, match=words):
            await model.complete(make_request())
    assert (await model.complete(make_request())).text == "said"
    assert len(model.requests) == 3


async def test_fake_streams_in_pieces_and_tells_the_end(make_request: MakeRequest) -> None:
    finished: list[ChatReply] = []
    model = FakeChatModel("said", piece_characters=3)
    assert [piece async for piece in model.stream(make_request(on_finish=finished.append))] == ["sai", "d"]
    assert [reply.text for reply in finished] == ["said"]


async def test_fake_cuts_a_stream_midway(make_request: MakeRequest) -> None:
    pieces = FakeChatModel("said", piece_characters=1, cut_stream_after=2).stream(make_request())
    assert [await anext(pieces), await anext(pieces)] == ["s", "a"]
    with pytest.raises(ModelUnavailable) as caught:
        await anext(pieces)
    assert caught.value.is_transient
