"""Who hangs up ends what was done for them. A real server on loopback, since only it can be hung up on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from heliograph.chat.base import Purpose

from .conftest import QUESTION, MakeWorld, World, fake_chat, serve

MESSAGES = [{"role": "user", "content": QUESTION}]
ROUTES: dict[str, dict[str, Any]] = {
    "/query": {"query": QUESTION},
    "/query/stream": {"query": QUESTION},
    "/query/stream?progress": {"query": QUESTION, "include_progress": True},
    "/query/stream?one-line": {"query": QUESTION, "stream": False},
    "/query/data": {"query": QUESTION},
    "/api/v1/retrieve": {"query": QUESTION},
    "/api/chat": {"model": "heliograph", "messages": MESSAGES},
    "/api/generate": {"model": "heliograph", "prompt": QUESTION},
    "/v1/chat/completions": {"model": "heliograph", "messages": MESSAGES, "stream": True},
    "/v1/chat/completions?whole": {"model": "heliograph", "messages": MESSAGES},
}


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (what is waited for tells nobody)
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("route", ROUTES)
async def test_hanging_up_cancels_the_models_call(world: World, route: str) -> None:
    chat = world.chat
    assert chat is not None
    chat.gate = asyncio.Event()
    async with serve(world.app) as address, httpx.AsyncClient(base_url=address, timeout=60) as client:
        asking = asyncio.create_task(client.post(route, json=ROUTES[route]))
        await _until(lambda: chat.under_way == 1)
        asking.cancel()
        await _until(lambda: chat.under_way == 0)
        assert chat.cancelled == 1
        await _until(lambda: world.app.state.service.admission.running == 0)


async def test_hanging_up_in_the_middle_of_a_stream_cancels_the_models_call(make_world: MakeWorld) -> None:
    chat = fake_chat(piece_characters=4)
    chat._replies = {Purpose.KEYWORDS: "{}", Purpose.ANSWER: "word " * 200_000}
    async with make_world(chat) as world, serve(world.app) as address, httpx.AsyncClient(timeout=60) as client:
        async with client.stream("POST", f"{address}/query/stream", json={"query": QUESTION}) as response:
            lines = response.aiter_lines()
            assert "references" in await anext(lines)
            assert "response" in await anext(lines)
        await _until(lambda: chat.under_way == 0)
        assert chat.cancelled == 1
        await _until(lambda: world.app.state.service.admission.running == 0)


async def test_first_piece_leaves_before_the_model_is_done(make_world: MakeWorld) -> None:
    class Held(type(fake_chat())):  # type: ignore[misc]
        """Writes one sentence, and the rest when it is told to."""

        async def stream(self, request: Any) -> Any:
            yield "The ESP32 speaks MQTT. "
            await self.gate.wait()
            yield "That is all."

    chat = Held({Purpose.KEYWORDS: "{}"})
    async with make_world(chat) as world, serve(world.app) as address, httpx.AsyncClient(timeout=60) as client:
        chat.gate = asyncio.Event()
        body = {"query": QUESTION, "mode": "naive"}
        async with client.stream("POST", f"{address}/query/stream", json=body) as response:
            lines = response.aiter_lines()
            await anext(lines)
            assert "ESP32" in await anext(lines)
            assert not chat.gate.is_set()
            chat.gate.set()
            assert "That is all." in "".join([line async for line in lines])


async def test_more_questions_than_may_wait_are_refused(make_world: MakeWorld) -> None:
    chat = fake_chat()
    async with make_world(chat, max_concurrent_queries=1, max_waiting_queries=1) as world, serve(world.app) as address:
        chat.gate, admission = asyncio.Event(), world.app.state.service.admission
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            first = asyncio.create_task(client.post("/query", json={"query": QUESTION}))
            await _until(lambda: admission.running == 1)
            second = asyncio.create_task(client.post("/query", json={"query": QUESTION}))
            await _until(lambda: admission.waiting == 1)
            for route, body in ROUTES.items():
                refused = await client.post(route, json=body)
                assert refused.status_code == 429, route
                assert int(refused.headers["retry-after"]) >= 1
            chat.gate.set()
            assert [(await task).status_code for task in (first, second)] == [200, 200]


async def test_who_hangs_up_while_waiting_leaves_the_queue(make_world: MakeWorld) -> None:
    chat = fake_chat()
    async with make_world(chat, max_concurrent_queries=1, max_waiting_queries=9) as world, serve(world.app) as address:
        chat.gate, admission = asyncio.Event(), world.app.state.service.admission
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            first = asyncio.create_task(client.post("/query", json={"query": QUESTION}))
            await _until(lambda: admission.running == 1)
            waiting = [asyncio.create_task(client.post(route, json=body)) for route, body in list(ROUTES.items())[:4]]
            await _until(lambda: admission.waiting == 4)
            for task in waiting:
                task.cancel()
            await _until(lambda: admission.waiting == 0)
            chat.gate.set()
            assert (await first).status_code == 200
        assert len(chat.requests) == 2


async def test_two_hundred_open_streams_are_all_answered(world: World) -> None:
    assert world.chat is not None
    world.chat.gate = asyncio.Event()
    admission = world.app.state.service.admission
    limits = httpx.Limits(max_connections=200)
    async with serve(world.app) as address, httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        body = {"query": QUESTION, "mode": "naive", "include_progress": True}
        asking = [asyncio.create_task(client.post("/query/stream", json=body)) for _ in range(200)]
        await _until(lambda: admission.running + admission.waiting == 200)
        world.chat.gate.set()
        responses = await asyncio.gather(*asking)
    assert all("generating_response" in response.text for response in responses)
    assert all('"kind":"generated"' in response.text for response in responses)
    assert admission.running == 0
