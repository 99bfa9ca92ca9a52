from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from heliograph.chat.base import ChatRequest, Purpose
from heliograph.errors import (
    BadModelReply,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)

from .conftest import ANSWER, KEYWORDS, QUESTION, MakeWorld, World, fake_chat

MESSAGES = [{"role": "user", "content": QUESTION}]
ROUTES: dict[str, dict[str, Any]] = {
    "/query": {"query": QUESTION},
    "/query/stream": {"query": QUESTION},
    "/query/stream?one-line": {"query": QUESTION, "stream": False},
    "/api/chat": {"model": "heliograph", "messages": MESSAGES},
    "/api/chat?whole": {"model": "heliograph", "messages": MESSAGES, "stream": False},
    "/v1/chat/completions": {"model": "heliograph", "messages": MESSAGES, "stream": True},
    "/v1/chat/completions?whole": {"model": "heliograph", "messages": MESSAGES},
}
DATA_ROUTES: dict[str, dict[str, Any]] = {"/query/data": {"query": QUESTION}, "/api/v1/retrieve": {"query": QUESTION}}
ERRORS: list[tuple[ModelError, int]] = [
    (RateLimited("slow down", 7), 503),
    (RateLimited("slow down"), 503),
    (ModelTimeout("too late"), 504),
    (ModelUnavailable("gone"), 502),
    (ModelUnavailable("away", is_transient=True), 502),
    (BadModelReply("nonsense"), 502),
    (ContextTooLong("too long"), 502),
    (ModelError("something"), 502),
]


def _failing_at(purpose: Purpose, error: ModelError) -> Callable[[ChatRequest], str]:
    def reply(request: ChatRequest) -> str:
        if request.purpose is purpose:
            raise error
        return KEYWORDS if request.purpose is Purpose.KEYWORDS else ANSWER

    return reply


async def _post(world: World, route: str, body: dict[str, Any]) -> httpx.Response:
    return await world.client.post(route, json=body)


def _message(response: httpx.Response) -> str:
    """The text of a failure in the shape of its route."""
    body = response.json()
    path = response.request.url.path
    if path.startswith("/v1/chat"):
        return body["error"]["message"]
    return body["error"] if path == "/api/chat" else body["detail"]


@pytest.mark.parametrize("route", ROUTES)
async def test_failing_chat_model_is_told_by_the_status(world: World, route: str) -> None:
    assert world.chat is not None
    for error, status in ERRORS:
        for purpose in (Purpose.KEYWORDS, Purpose.ANSWER):
            if purpose is Purpose.KEYWORDS and isinstance(error, BadModelReply):
                continue  # keywords that cannot be read are found without the model
            world.chat._replies = _failing_at(purpose, error)
            response = await _post(world, route, ROUTES[route])
            assert response.status_code == status, f"{error!r} at {purpose}: {response.text}"
            assert str(error) in _message(response)
            assert ("retry-after" in response.headers) is (getattr(error, "retry_after_seconds", None) is not None)


@pytest.mark.parametrize("route", ROUTES | DATA_ROUTES)
async def test_failing_embedding_is_told_by_the_status(world: World, route: str) -> None:
    for number, (error, status) in enumerate(ERRORS):
        world.embedding.fail_next(error)
        # Asked anew each time, since vectors of questions are kept.
        body = json.loads(json.dumps((ROUTES | DATA_ROUTES)[route]).replace(QUESTION, f"{QUESTION} {number}"))
        response = await _post(world, route, body)
        assert response.status_code == status, f"{error!r}: {response.text}"
        assert str(error) in _message(response)


async def test_failing_store_is_told_by_the_status(world: World) -> None:
    async with world.engine() as kb:
        await kb.store.close()
    for route, body in (ROUTES | DATA_ROUTES).items():
        response = await _post(world, route, body)
        assert response.status_code == 503, f"{route}: {response.text}"
        assert "closed" in _message(response)


@pytest.mark.parametrize("mode", ["mix", "auto"])
async def test_defect_is_told_without_its_text(world: World, mode: str) -> None:
    def fail(request: ChatRequest) -> str:
        raise RuntimeError("a secret of the inside")

    assert world.chat is not None
    world.chat._replies = fail
    for route, body in (ROUTES | DATA_ROUTES).items():
        response = await _post(world, route, body | {"mode": mode})
        assert response.status_code == 500, f"{route}: {response.text}"
        assert "secret" not in response.text
        assert _message(response)


async def test_unknown_workspace_is_not_found(world: World) -> None:
    for route, body in (ROUTES | DATA_ROUTES).items():
        response = await world.client.post(route, json=body, headers={"LIGHTRAG-WORKSPACE": "elsewhere"})
        assert response.status_code == 404
        assert "elsewhere" in _message(response)


async def test_cut_stream_ends_with_an_error_line(make_world: MakeWorld) -> None:
    async with make_world(fake_chat(cut_stream_after=2)) as world:
        lines = await world.lines()
    assert "references" in lines[0]
    assert "response" in lines[1]
    assert "broke off" in lines[-1]["error"]
    assert lines[-1]["type"].endswith("ModelUnavailable")
    assert lines[-1]["status"] == 502


async def test_failure_after_progress_is_an_error_line(make_world: MakeWorld) -> None:
    chat = fake_chat()
    chat._replies = _failing_at(Purpose.ANSWER, ModelTimeout("too late"))
    async with make_world(chat) as world:
        lines = await world.lines(include_progress=True)
    assert lines[0] == {"progress": "extracting_keywords"}
    assert "references" in lines[-2]
    assert (lines[-1]["error"], lines[-1]["status"]) == ("too late", 504)


async def test_refusal_before_progress_keeps_its_status(world: World) -> None:
    assert (await world.post("/query/stream", filter={}, include_progress=True)).status_code == 400


async def test_cut_ollama_stream_ends_with_its_error(make_world: MakeWorld) -> None:
    async with make_world(fake_chat(cut_stream_after=2)) as world:
        response = await _post(world, "/api/chat", ROUTES["/api/chat"])
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert lines[0]["message"]["content"]
    assert "broke off" in lines[-1]["error"]


async def test_cut_openai_stream_ends_with_its_error(make_world: MakeWorld) -> None:
    async with make_world(fake_chat(cut_stream_after=2)) as world:
        response = await _post(world, "/v1/chat/completions", ROUTES["/v1/chat/completions"])
    events = [event.removeprefix("data: ") for event in response.text.strip().split("\n\n")]
    assert "broke off" in json.loads(events[-1])["error"]["message"]
    assert json.loads(events[-1])["error"]["type"] == "server_error"


async def test_defect_in_a_stream_is_told_without_its_text(make_world: MakeWorld) -> None:
    chat = fake_chat()

    def fail(request: ChatRequest) -> str:
        if request.purpose is Purpose.KEYWORDS:
            return KEYWORDS
        raise RuntimeError("a secret of the inside")

    chat._replies = fail
    async with make_world(chat) as world:
        lines = await world.lines(include_progress=True)
    assert lines[-1]["status"] == 500
    assert "secret" not in lines[-1]["error"]


async def test_failures_before_the_route_have_its_shape(make_world: MakeWorld) -> None:
    keys = [{"name": "reader", "key": "a-long-enough-secret-key", "role": "read"}]
    async with make_world(fake_chat(), keys=keys) as world:
        for route, body in (ROUTES | DATA_ROUTES).items():
            refused = await _post(world, route, body)
            assert refused.status_code == 403, route
            assert _message(refused)
            headers = {"Authorization": "Bearer a-long-enough-secret-key"}
            assert (await world.client.post(route, json=body, headers=headers)).status_code == 200
        unknown = await world.client.post("/api/show", json={}, headers=headers)
        assert unknown.status_code == 404
        assert unknown.json()["error"]
