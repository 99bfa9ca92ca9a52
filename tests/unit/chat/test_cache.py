"""The cache: what is kept, under which key, and how equal calls share one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from heliograph.chat.base import CachedChatModel, ChatMessage, ChatRequest, Purpose
from heliograph.errors import ModelTimeout, StoreUnavailable
from heliograph.testing.fakes import FakeChatModel

MakeRequest = Callable[..., ChatRequest]
KEPT = (Purpose.EXTRACT, Purpose.SUMMARY, Purpose.KEYWORDS)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("purpose", KEPT)
async def test_cache_keeps_a_reply_and_gives_it_again(
    replies: Any, make_request: MakeRequest, purpose: Purpose
) -> None:
    inner = FakeChatModel("said")
    model = CachedChatModel(inner, replies)
    request = make_request("ask", purpose, subject_id="chunk-1")
    new = await model.complete(request)
    again = await model.complete(request)
    assert len(inner.requests) == 1
    assert not new.from_cache
    assert again == replace(new, from_cache=True)
    assert new.cache_key.startswith(f"default:{purpose.value}:")
    kept = replies.kept[new.cache_key]
    assert (kept.text, kept.model, kept.usage, kept.subject_id) == ("said", "fake", new.usage, "chunk-1")


async def test_cache_does_not_keep_answers(replies: Any, make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    model = CachedChatModel(inner, replies)
    for _ in range(2):
        assert (await model.complete(make_request(purpose=Purpose.ANSWER))).cache_key == ""
    assert len(inner.requests) == 2
    assert replies.kept == {}


async def test_cache_does_not_keep_incomplete_replies(replies: Any, make_request: MakeRequest) -> None:
    model = CachedChatModel(FakeChatModel("said", is_complete=False), replies)
    reply = await model.complete(make_request(purpose=Purpose.EXTRACT))
    assert (reply.cache_key, reply.is_complete) == ("", False)
    assert replies.kept == {}


async def test_cache_does_not_keep_streams(replies: Any, make_request: MakeRequest) -> None:
    model = CachedChatModel(FakeChatModel("said"), replies)
    assert [piece async for piece in model.stream(make_request(purpose=Purpose.EXTRACT))] == ["said"]
    assert replies.kept == {}


async def test_cache_does_not_keep_failures(replies: Any, make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.fail_next(ModelTimeout("slow"))
    model = CachedChatModel(inner, replies)
    with pytest.raises(ModelTimeout):
        await model.complete(make_request(purpose=Purpose.EXTRACT))
    assert (await model.complete(make_request(purpose=Purpose.EXTRACT))).text == "said"


async def test_cache_key_covers_all_that_decides_a_reply(replies: Any) -> None:
    base = ChatRequest((ChatMessage("user", "a"), ChatMessage("user", "b")), Purpose.EXTRACT)
    variants = [
        base,
        replace(base, purpose=Purpose.SUMMARY),
        replace(base, json_mode=True),
        replace(base, max_output_tokens=5),
        replace(base, messages=(ChatMessage("system", "a"), ChatMessage("user", "b"))),
        replace(base, messages=(ChatMessage("user", "ab"),)),
        replace(base, messages=(ChatMessage("user", "a\ud800"), ChatMessage("user", "b"))),
    ]
    for name in ("one", "two"):
        model = CachedChatModel(FakeChatModel("said", name=name), replies)
        for request in variants:
            await model.complete(request)
    assert len(replies.kept) == 2 * len(variants)


async def test_cache_key_does_not_depend_on_the_chunk(replies: Any, make_request: MakeRequest) -> None:
    model = CachedChatModel(FakeChatModel("said"), replies)
    keys = {(await model.complete(make_request(purpose=Purpose.EXTRACT, subject_id=chunk))).cache_key for chunk in "ab"}
    assert len(keys) == 1


async def test_cache_asks_anew_for_a_fresh_request_and_replaces_what_was_kept(
    replies: Any, make_request: MakeRequest
) -> None:
    model = CachedChatModel(FakeChatModel(["bad", "good"]), replies)
    request = make_request(purpose=Purpose.EXTRACT)
    await model.complete(request)
    assert (await model.complete(replace(request, fresh=True))).text == "good"
    assert (await model.complete(request)).text == "good"


async def test_cache_lets_equal_calls_share_one(replies: Any, make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.gate = asyncio.Event()
    model = CachedChatModel(inner, replies)
    tasks = [asyncio.create_task(model.complete(make_request(purpose=Purpose.EXTRACT))) for _ in range(5)]
    await settle()
    inner.gate.set()
    shared = await asyncio.gather(*tasks)
    assert len(inner.requests) == 1
    assert sorted(reply.from_cache for reply in shared) == [False, True, True, True, True]


async def test_cache_tells_a_shared_failure_to_all(replies: Any, make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.gate = asyncio.Event()
    inner.fail_next(ModelTimeout("slow"))
    model = CachedChatModel(inner, replies)
    tasks = [asyncio.create_task(model.complete(make_request(purpose=Purpose.EXTRACT))) for _ in range(3)]
    await settle()
    inner.gate.set()
    failed = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in failed] == [ModelTimeout] * 3


@pytest.mark.parametrize("cancelled", [0, 1, 2])
async def test_cache_keeps_a_shared_call_alive_when_one_caller_is_cancelled(
    replies: Any, make_request: MakeRequest, cancelled: int
) -> None:
    inner = FakeChatModel("said")
    inner.gate = asyncio.Event()
    model = CachedChatModel(inner, replies)
    tasks = [asyncio.create_task(model.complete(make_request(purpose=Purpose.EXTRACT))) for _ in range(3)]
    await settle()
    tasks.pop(cancelled).cancel()
    await settle()
    inner.gate.set()
    left = await asyncio.gather(*tasks)
    assert [reply.text for reply in left] == ["said", "said"]
    assert sorted(reply.from_cache for reply in left) == [False, True], "what it cost is counted once"
    assert (len(inner.requests), inner.cancelled) == (1, 0)


async def test_cache_cancels_a_shared_call_with_its_last_caller(replies: Any, make_request: MakeRequest) -> None:
    inner = FakeChatModel("said")
    inner.gate = asyncio.Event()
    model = CachedChatModel(inner, replies)
    tasks = [asyncio.create_task(model.complete(make_request(purpose=Purpose.EXTRACT))) for _ in range(2)]
    await settle()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (inner.cancelled, inner.under_way) == (1, 0), "the call has ended when its callers have"
    inner.gate.set()
    assert (await model.complete(make_request(purpose=Purpose.EXTRACT))).text == "said"
    assert len(inner.requests) == 2


async def test_cache_survives_callers_that_come_and_go_at_random(replies: Any, make_request: MakeRequest) -> None:
    chance = random.Random(7)
    inner = FakeChatModel(lambda request: request.messages[0].content)
    model = CachedChatModel(inner, replies)
    tasks: list[asyncio.Task[Any]] = []
    for _ in range(300):
        fresh = chance.random() < 0.5
        request = make_request(str(chance.randrange(3)), Purpose.EXTRACT, fresh=fresh)
        tasks.append(asyncio.create_task(model.complete(request)))
        if chance.random() < 0.5:
            chance.choice(tasks).cancel()
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(item, asyncio.CancelledError) or item.text in "012" for item in done)
    assert (model._under_way, inner.under_way) == ({}, 0)


async def test_cache_that_cannot_be_read_is_an_error(replies: Any, make_request: MakeRequest) -> None:
    replies.fail_reading = StoreUnavailable("gone")
    inner = FakeChatModel("said")
    with pytest.raises(StoreUnavailable):
        await CachedChatModel(inner, replies).complete(make_request(purpose=Purpose.KEYWORDS))
    assert inner.requests == []


async def test_cache_that_cannot_be_written_stops_indexing(replies: Any, make_request: MakeRequest) -> None:
    replies.fail_writing = StoreUnavailable("full")
    with pytest.raises(StoreUnavailable):
        await CachedChatModel(FakeChatModel("said"), replies).complete(make_request(purpose=Purpose.EXTRACT))


async def test_cache_that_cannot_be_written_does_not_stop_queries(
    replies: Any, make_request: MakeRequest, caplog: pytest.LogCaptureFixture
) -> None:
    replies.fail_writing = StoreUnavailable("read-only")
    reply = await CachedChatModel(FakeChatModel("said"), replies).complete(make_request(purpose=Purpose.KEYWORDS))
    assert (reply.text, reply.cache_key) == ("said", "")
    assert "read-only" in caplog.text
