from __future__ import annotations

import json
from typing import Any

import pytest

from heliograph.client.reading import response_error
from heliograph.errors import InvalidRequestError
from heliograph.models import Mode

from .conftest import QUESTION, World

# As in LightRAG one route alone says 400.
_REFUSED = {"/query/data": 400}
ROUTES = ("/query", "/query/stream", "/query/data", "/api/v1/retrieve")


def _history(count: int, characters: int = 1, role: str = "user") -> list[dict[str, str]]:
    return [{"role": role, "content": "x" * characters}] * count


INSIDE: list[dict[str, Any]] = [
    {"query": "abc"},
    {"query": "水位"},
    {"query": "x" * 65_536},
    {"query": "  padded  "},
    {"response_type": "x"},
    {"response_type": "x" * 256},
    {"top_k": 1},
    {"top_k": 1000},
    {"chunk_top_k": 1},
    {"chunk_top_k": 1000},
    {"max_entity_tokens": 1},
    {"max_relation_tokens": 1},
    {"max_total_tokens": 1},
    {"max_entity_tokens": 1_000_000, "max_relation_tokens": 1_000_000, "max_total_tokens": 1_000_000},
    {"hl_keywords": ["x" * 512] * 64},
    {"ll_keywords": ["x" * 512] * 64},
    {"hl_keywords": [], "ll_keywords": []},
    {"user_prompt": ""},
    {"user_prompt": "x" * 65_536},
    {"conversation_history": []},
    {"conversation_history": _history(128)},
    {"conversation_history": _history(3, 32_768)},
    {"history_turns": 0},
    {"history_turns": 128},
    {"channels": ["vector", "keyword", "bridge", "graph"]},
    {"unknown_field": 1},
    {"conversation_history": _history(1, role="r" * 64)},
    {"enable_rerank": None, "only_need_context": None, "top_k": None, "stream": None},
    {"disable_user_prompt_prefix": None, "include_references": None},
    {"include_chunk_content": None, "include_progress": None},
]

OUTSIDE: list[tuple[dict[str, Any], str]] = [
    ({"query": ""}, "query"),
    ({"query": " \n\t"}, "query"),
    ({"query": "ab"}, "query"),
    ({"query": " 水 "}, "query"),
    ({"query": "ab", "mode": "auto"}, "query"),
    ({"query": "x" * 65_537}, "query"),
    ({"query": None}, "query"),
    ({"query": 5}, "query"),
    ({"query": ["a question"]}, "query"),
    ({"mode": "deep"}, "mode"),
    ({"mode": ""}, "mode"),
    ({"mode": None}, "mode"),
    ({"response_type": ""}, "response_type"),
    ({"response_type": "x" * 257}, "response_type"),
    ({"top_k": 0}, "top_k"),
    ({"top_k": 1001}, "top_k"),
    ({"top_k": 10**300}, "top_k"),
    ({"top_k": 1.5}, "top_k"),
    ({"top_k": "many"}, "top_k"),
    ({"chunk_top_k": 0}, "chunk_top_k"),
    ({"chunk_top_k": 1001}, "chunk_top_k"),
    ({"max_entity_tokens": 0}, "max_entity_tokens"),
    ({"max_entity_tokens": 1_000_001}, "max_entity_tokens"),
    ({"max_relation_tokens": 0}, "max_relation_tokens"),
    ({"max_relation_tokens": 1_000_001}, "max_relation_tokens"),
    ({"max_total_tokens": 0}, "max_total_tokens"),
    ({"max_total_tokens": 1_000_001}, "max_total_tokens"),
    ({"hl_keywords": ["x"] * 65}, "hl_keywords"),
    ({"hl_keywords": ["x" * 513]}, "hl_keywords"),
    ({"hl_keywords": "one"}, "hl_keywords"),
    ({"ll_keywords": ["x"] * 65}, "ll_keywords"),
    ({"ll_keywords": ["x" * 513]}, "ll_keywords"),
    ({"ll_keywords": [5]}, "ll_keywords"),
    ({"user_prompt": "x" * 65_537}, "user_prompt"),
    ({"history_turns": -1}, "history_turns"),
    ({"history_turns": 129}, "history_turns"),
    ({"channels": ["sound"]}, "channels"),
    ({"channels": ["vector"] * 5}, "channels"),
    ({"fusion": "luck"}, "fusion"),
    ({"chunk_picking": "best"}, "chunk_picking"),
    ({"context_format": "xml"}, "context_format"),
    ({"filter": ["red"]}, "filter"),
    ({"only_need_context": "perhaps"}, "only_need_context"),
]

OUTSIDE_OF_CONVERSATIONS: list[tuple[dict[str, Any], str]] = [
    ({"conversation_history": _history(129)}, "conversation_history"),
    ({"conversation_history": _history(1, 32_769)}, "conversation_history"),
    ({"conversation_history": _history(1, role="r" * 65)}, "conversation_history"),
    ({"conversation_history": _history(1, role="")}, "conversation_history"),
    ({"conversation_history": [{"role": "user"}]}, "conversation_history"),
    ({"conversation_history": _history(5, 32_768)}, "131,072"),
    ({"stream": "often"}, "stream"),
]


# Many cases share a world, since making one takes longer than a hundred requests.


async def test_values_within_the_limits_are_served(world: World) -> None:
    for body in INSIDE:
        response = await world.post("/query", **({"mode": "naive"} | body))
        assert response.status_code == 200, f"{body!r:.100}: {response.text}"


@pytest.mark.parametrize("route", ROUTES)
async def test_values_beyond_the_limits_are_refused_by_name(world: World, route: str) -> None:
    for body, field in OUTSIDE:
        response = await world.post(route, **body)
        assert response.status_code == _REFUSED.get(route, 422), f"{body!r:.100}: {response.text}"
        assert field in response.text
        assert response.json()["detail"][0]["msg"]


@pytest.mark.parametrize("route", ROUTES[:3])
async def test_conversations_beyond_the_limits_are_refused_by_name(world: World, route: str) -> None:
    for body, field in OUTSIDE_OF_CONVERSATIONS:
        response = await world.post(route, **body)
        assert response.status_code == _REFUSED.get(route, 422), f"{body!r:.100}: {response.text}"
        assert field in response.text


async def test_data_of_a_question_that_is_not_valid_is_a_failure_as_in_lightrag(world: World) -> None:
    response = await world.post("/query/data", query="ab", mode="naive", top_k=0)
    body = response.json()
    assert (response.status_code, response.headers["content-type"]) == (400, "application/json")
    assert (body["status"], body["data"], body["metadata"]) == ("failure", {}, {})
    assert body["message"].startswith("Validation error: body -> top_k: ")
    assert "; body -> query: " in body["message"]
    assert [item["loc"] for item in body["detail"]] == [["body", "top_k"], ["body", "query"]]
    assert isinstance(response_error(400, response.content, response.headers), InvalidRequestError)


async def test_an_unknown_mode_is_told_which_there_are(world: World) -> None:
    for route in ROUTES:
        message = (await world.post(route, mode="deep")).json()["detail"][0]["msg"]
        assert all(repr(mode.value) in message for mode in Mode)


@pytest.mark.parametrize("route", ROUTES)
async def test_what_the_engine_refuses_is_a_bad_request(world: World, route: str) -> None:
    refused = (
        ({"filter": {}}, "at least one"),
        ({"filter": {"team": {"nonsense": 1}}}, "filter.team"),
        ({"filter": {"or": "red"}}, "filter.or"),
        ({"mode": "bypass", "channels": ["graph"]}, "channels"),
    )
    for body, said in refused:
        response = await world.post(route, **body)
        assert response.status_code == 400, f"{body!r:.100}: {response.text}"
        assert said in response.json()["detail"]


async def test_a_mode_that_searches_nothing_takes_short_questions(world: World) -> None:
    assert (await world.post("/query", query="ab", mode="bypass")).status_code == 200


async def test_what_tools_said_is_left_out_of_the_history(world: World) -> None:
    history = [{"role": role, "content": f"by {role}"} for role in ("user", "tool", "function", "assistant", "oracle")]
    for path in ROUTES[:3]:
        assert (await world.post(path, conversation_history=history, mode="naive")).status_code == 200
    assert world.chat is not None
    told = [message.content for message in world.chat.requests[-1].messages[1:]]
    assert told == ["by user", "by assistant", QUESTION]


NO_GOOD_JSON = (
    b"",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b'{"query": "a question"',
    b'{"query": NaN}',
    b'{"query": "\xff\xfe"}',
    rb'{"query": "\ud800 is half a character", "model": "\ud800"}',
    b'{"query": "a question", "top_k": ' + b"9" * 5_000 + b"}",
    b'{"query": ' + b"[" * 3_000 + b"]" * 3_000 + b"}",
    b'{"query": "a question", "filter": ' + b'{"not":' * 3_000 + b"{}" + b"}" * 3_000 + b"}",
)


@pytest.mark.parametrize("route", [*ROUTES, "/api/chat", "/api/generate", "/v1/chat/completions"])
async def test_what_is_no_good_json_is_refused(world: World, route: str) -> None:
    for content in NO_GOOD_JSON:
        response = await world.client.post(route, content=content, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 413, 422), f"{content!r:.60}: {response.text}"
        assert json.loads(response.text)


async def test_a_nested_filter_is_served_or_refused(world: World) -> None:
    for depth in (5, 25):
        condition: dict[str, Any] = {"team": "red"}
        for _ in range(depth):
            condition = {"not": condition}
        response = await world.post("/query/data", filter=condition, mode="naive")
        assert response.status_code == (200 if depth == 5 else 400)


async def test_huge_ids_in_a_filter_find_nothing_or_are_refused(world: World) -> None:
    long = await world.post("/query/data", filter={"document_id": "d" * 1_000}, mode="naive")
    assert (long.status_code, long.json()["data"]) == (200, {})
    huge = await world.post("/query/data", filter={"document_id": "d" * 500_000}, mode="naive")
    assert huge.status_code == 400
    assert len(huge.text) < 2_000
