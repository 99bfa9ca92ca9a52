from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from heliograph.query.models import QueryParam
from heliograph.testing.fakes import FakeReranker
from heliograph.wire.answers import DataResponse, QueryResponse, RetrieveResponse

from .conftest import ANSWER, LAMPS, NOTES, QUESTION, MakeWorld, World, fake_chat

MODES = ("local", "global", "hybrid", "mix", "fusion", "auto", "naive")


async def test_body_that_is_declared_as_something_else_is_refused_and_told_how(world: World) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    response = await world.client.post("/query", content='{"query": "Why?"}', headers=form)
    assert response.status_code == 422
    assert "set Content-Type to application/json" in response.json()["detail"][0]["msg"]


@pytest.mark.parametrize(
    ("path", "body", "mode"),
    [
        ("/query", {"query": QUESTION}, "mix"),
        ("/query/stream", {"query": QUESTION, "stream": False}, "mix"),
        ("/query/data", {"query": QUESTION}, "mix"),
        ("/api/chat", {"model": "any", "messages": [{"role": "user", "content": QUESTION}], "stream": False}, "mix"),
        ("/api/chat", {"model": "any", "messages": [{"role": "user", "content": f"/context {QUESTION}"}]}, "mix"),
        ("/api/v1/retrieve", {"query": QUESTION}, "auto"),
        ("/v1/chat/completions", {"model": "heliograph", "messages": [{"role": "user", "content": QUESTION}]}, "auto"),
    ],
)
async def test_only_lightrags_routes_have_lightrags_default_mode(
    path: str, body: dict[str, Any], mode: str, world: World
) -> None:
    response = await world.client.post(path, json=body | {"heliograph": {"return_structured": True}})
    assert response.status_code == 200
    assert re.findall(r'"(?:query_)?mode": ?"(\w+)"', response.text)[:1] == [mode]


async def test_query_answers_in_lightrags_shape(world: World) -> None:
    response = await world.post("/query")
    body = response.json()
    assert response.status_code == 200
    assert body["response"].startswith(ANSWER)
    assert body["references"][0]["file_path"] == "notes.md"
    assert body["references"][0]["reference_id"] == "1"
    assert body["llm_generated"] is True
    assert body["response_time"] > 0
    assert body["kind"] == "generated"
    assert body["citations"][0]["quote"] == NOTES.split(". ")[0] + "."
    QueryResponse.model_validate(body)


@pytest.mark.parametrize("mode", MODES)
async def test_query_answers_in_every_mode(world: World, mode: str) -> None:
    body = (await world.post("/query", mode=mode)).json()
    assert body["mode"] == mode
    assert body["llm_generated"] is True


async def test_query_in_mode_bypass_asks_the_model_alone(world: World) -> None:
    body = (await world.post("/query", mode="bypass")).json()
    assert body["response"] == ANSWER
    assert body["references"] == []


async def test_query_without_a_chat_model_quotes(offline: World) -> None:
    body = (await offline.post("/query")).json()
    assert body["kind"] == "extractive"
    assert body["llm_generated"] is False
    assert NOTES.split(". ")[0] in body["response"]


async def test_query_in_mode_bypass_without_a_chat_model_is_refused(offline: World) -> None:
    response = await offline.post("/query", mode="bypass")
    assert response.status_code == 400
    assert "chat model" in response.json()["detail"]


@pytest.mark.parametrize("path", ["/query", "/query/stream"])
async def test_nothing_found_is_an_honest_answer(world: World, path: str) -> None:
    response = await world.post(path, filter={"team": "green"}, stream=False)
    body = response.json()
    assert response.status_code == 200
    assert (body["kind"], body["llm_generated"], body["references"]) == ("nothing_found", False, [])
    assert body["is_unanswered"] is True
    assert "Nothing was found" in body["response"]


async def test_nothing_found_has_a_text_where_the_context_is_asked_for(world: World) -> None:
    body = (await world.post("/query", filter={"team": "green"}, only_need_context=True)).json()
    assert body["response"] == "No relevant context found for the query."
    lines = await world.lines(filter={"team": "green"}, only_need_context=True)
    whole = {"response": "No relevant context found for the query.", "llm_generated": False}
    assert lines[:2] == [{"references": []}, whole]


async def test_references_are_left_out_and_filled_as_asked(world: World) -> None:
    without = (await world.post("/query", include_references=False)).json()
    assert "references" not in without
    null = (await world.post("/query", include_references=None, include_chunk_content=None)).json()
    assert "references" not in null
    assert "response" in (await world.lines(include_references=None, include_progress=None))[0]
    filled = (await world.post("/query", include_chunk_content=True, mode="naive", chunk_top_k=1)).json()
    assert filled["references"] == [{"reference_id": "1", "file_path": "notes.md", "count": 1, "content": [NOTES]}]


async def test_sources_and_structure_come_on_request(world: World) -> None:
    plain = (await world.post("/query")).json()
    sources = (await world.post("/query", include_sources=True)).json()
    everything = (await world.post("/query", return_structured=True)).json()
    assert "chunks" not in plain
    assert {"answer", "entities", "relationships", "chunks", "metadata"} <= sources.keys()
    assert sources.keys() < everything.keys()
    assert everything["context"]
    QueryResponse.model_validate(everything)


async def test_context_and_prompt_come_in_place_of_an_answer(world: World) -> None:
    context = (await world.post("/query", only_need_context=True)).json()
    prompt = (await world.post("/query", only_need_prompt=True, user_prompt="Use one sentence.")).json()
    assert (context["kind"], prompt["kind"]) == ("context", "prompt")
    assert context["response"] in prompt["response"]
    assert "Use one sentence." in prompt["response"]


async def test_filter_and_channels_reach_the_engine(world: World) -> None:
    red = (await world.post("/query/data", mode="naive", filter={"team": "red"})).json()
    assert {chunk["file_path"] for chunk in red["data"]["chunks"]} == {"notes.md"}
    fused = (await world.post("/query/data", mode="mix", channels=["keyword", "graph"], fusion="rank")).json()
    assert any("keyword" in chunk["scores"] for chunk in fused["data"]["chunks"])


async def test_documents_of_a_question_are_named_by_older_clients(world: World) -> None:
    async with world.engine() as kb:
        ids = {document.source: document.id for document in (await kb.documents()).documents}

    async def found(**body: Any) -> set[str]:
        answer = (await world.post("/query/data", mode="naive", history_turns=None, **body)).json()
        return {chunk["file_path"] for chunk in answer["data"].get("chunks", ())}

    everything = await found()
    assert len(everything) == 2 == len(ids)
    for source, id_ in ids.items():
        assert await found(ids=[id_]) == {source}
    assert await found(ids=list(ids.values()), filter={"team": "red"}) == {"notes.md"}
    assert await found(ids=[]) == await found(ids=None) == everything


async def test_format_picking_and_history_reach_the_engine(world: World) -> None:
    body = (await world.post("/query", only_need_context=True, context_format="csv", chunk_picking="weight")).json()
    assert "```csv" in body["response"]
    history = [{"role": "user", "content": f"question {turn}"} for turn in range(3)]
    await world.post("/query", conversation_history=history, history_turns=1, mode="naive")
    assert world.chat is not None
    assert [message.content for message in world.chat.requests[-1].messages[1:]] == ["question 2", QUESTION]


@pytest.mark.parametrize("mode", MODES)
async def test_data_is_what_the_engine_gives(world: World, mode: str) -> None:
    body = (await world.post("/query/data", mode=mode)).json()
    async with world.engine() as kb:
        wanted = await kb.query_data(QUESTION, QueryParam(mode=mode))
    for found in (body, wanted):
        del found["metadata"]["timings"]
    assert body == wanted
    DataResponse.model_validate(body)


async def test_data_of_mode_bypass_is_empty(world: World) -> None:
    body = (await world.post("/query/data", mode="bypass")).json()
    assert body["data"] == {"entities": [], "relationships": [], "chunks": [], "references": []}
    assert set(body["metadata"]["processing_info"].values()) == {0}


async def test_data_of_nothing_found_is_a_failure_in_a_good_response(world: World) -> None:
    response = await world.post("/query/data", filter={"team": "green"}, mode="naive")
    assert response.status_code == 200
    assert response.json()["status"] == "failure"
    assert response.json()["message"] == "No relevant document chunks found."
    assert response.json()["data"] == {}


@pytest.mark.parametrize("mode", [*MODES, "bypass"])
async def test_retrieve_gives_everything_typed(world: World, mode: str) -> None:
    response = await world.post("/api/v1/retrieve", mode=mode)
    body = RetrieveResponse.model_validate(response.json())
    assert response.status_code == 200
    assert body.question == QUESTION
    for chunk in body.chunks:
        assert {"notes.md": NOTES, "lamps.md": LAMPS}[chunk.source][chunk.start : chunk.end] == chunk.content
    assert {chunk.reference_id for chunk in body.chunks} == {row.reference_id for row in body.references}
    assert body.context or mode == "bypass"


async def test_retrieve_leaves_the_context_out_on_request(world: World) -> None:
    body = (await world.post("/api/v1/retrieve", include_context=False, mode="fusion")).json()
    assert "context" not in body
    assert body["chunks"][0]["scores"]
    assert body["paths"] == []


async def test_retrieve_of_nothing_found_has_empty_lists(world: World) -> None:
    body = (await world.post("/api/v1/retrieve", filter={"team": "green"})).json()
    assert body["status"] == "failure"
    assert body["entities"] == body["relations"] == body["chunks"] == body["references"] == []
    RetrieveResponse.model_validate(body)


async def test_stream_gives_references_first_then_the_answer(world: World) -> None:
    lines = await world.lines()
    assert lines[0]["references"][0]["file_path"] == "notes.md"
    pieces = [line["response"] for line in lines if "response" in line]
    assert len(pieces) > 3
    assert "".join(pieces).startswith(ANSWER)
    assert all("llm_generated" not in line for line in lines)
    assert lines[-1]["details"]["kind"] == "generated"
    assert lines[-1]["details"]["citations"]


async def test_stream_has_the_headers_that_keep_proxies_from_buffering(world: World) -> None:
    for stream in (True, False):
        headers = (await world.post("/query/stream", stream=stream)).headers
        assert headers["content-type"].startswith("application/x-ndjson")
        assert headers["cache-control"] == "no-cache"
        assert headers["x-accel-buffering"] == "no"
        assert headers["connection"] == "keep-alive"


async def test_stream_tells_stages_on_request(make_world: MakeWorld) -> None:
    async with make_world(fake_chat(), FakeReranker()) as world:
        lines = await world.lines(include_progress=True)
    stages = [line["progress"] for line in lines if "progress" in line]
    assert stages == [
        "extracting_keywords",
        "retrieving_entities",
        "retrieving_relations",
        "retrieving_chunks",
        "reranking",
        "generating_response",
    ]
    assert [*lines[: len(stages)]] == [{"progress": stage} for stage in stages]
    assert "references" in lines[len(stages)]
    assert lines[-1]["response_time"] > 0


async def test_stream_without_references_begins_with_the_answer(world: World) -> None:
    assert "response" in (await world.lines(include_references=False))[0]


async def test_stream_in_one_line_is_the_whole_answer(world: World) -> None:
    response = await world.post("/query/stream", stream=False)
    assert response.text.count("\n") == 1
    QueryResponse.model_validate(response.json())
    assert response.json()["response"].startswith(ANSWER)


async def test_stream_without_a_chat_model_quotes(offline: World) -> None:
    lines = await offline.lines()
    assert [list(line) for line in lines] == [["references"], ["response", "llm_generated"], ["details"]]
    assert lines[1]["llm_generated"] is False
    assert lines[-1]["details"]["kind"] == "extractive"
    assert lines[-1]["details"]["llm_generated"] is False


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"filter": {"team": "green"}}, "nothing_found"),
        ({"only_need_context": True}, "context"),
        ({"only_need_prompt": True, "include_progress": True}, "prompt"),
    ],
)
async def test_stream_of_what_no_model_wrote_says_so_beside_it(world: World, body: dict[str, Any], kind: str) -> None:
    lines = await world.lines(**body)
    assert [line["llm_generated"] for line in lines if "response" in line] == [False]
    assert [line["details"]["kind"] for line in lines if "details" in line] == [kind]


async def test_failed_reranker_is_a_warning(make_world: MakeWorld) -> None:
    reranker = FakeReranker(lambda question, text: float("nan"))
    async with make_world(fake_chat(), reranker) as world:
        response: httpx.Response = await world.post("/query")
    assert response.status_code == 200
    assert response.json()["warnings"]


@pytest.mark.parametrize("mode", MODES)
async def test_what_became_of_what_was_found_is_explained_on_request(world: World, mode: str) -> None:
    body = (await world.post("/query", mode=mode, explain=True)).json()
    QueryResponse.model_validate(body)
    found = body["explanation"]
    assert found["mode"] == mode
    kept = [chunk for chunk in found["chunks"] if chunk["outcome"] == "kept"]
    assert len(kept) == found["counts"]["final_chunks_count"] >= 1
    assert all(chunk["source"] and chunk["opening"] and chunk["tokens"] > 0 for chunk in found["chunks"])
    assert [chunk["place"] for chunk in found["chunks"]] == list(range(1, len(found["chunks"]) + 1))
    assert found["tokens"]["chunks"] > 0
    spent = sum(count for part, count in found["tokens"].items() if part != "total")
    assert spent <= found["tokens"]["total"]
    assert QUESTION in found["prompt"]
    assert kept[0]["opening"][:20] in found["prompt"]
    assert "explanation" not in (await world.post("/query", mode=mode)).json()


async def test_what_number_and_budget_drop_is_explained(world: World) -> None:
    few = (await world.post("/api/v1/retrieve", mode="naive", explain=True, chunk_top_k=1)).json()
    RetrieveResponse.model_validate(few)
    outcomes = [chunk["outcome"] for chunk in few["explanation"]["chunks"]]
    assert outcomes[0] == "kept"
    small = (await world.post("/api/v1/retrieve", mode="mix", explain=True, max_entity_tokens=1)).json()
    items = small["explanation"]["entities"]
    assert items
    assert not any(item["is_kept"] for item in items)
