from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from heliograph.query.answers.models import Answer, AnswerKind
from heliograph.query.models import QueryParam
from heliograph.testing.fakes import FakeChatModel

from .world import World

QUESTION = "What is this?"
GIVEN: dict[str, Any] = {"hl_keywords": ["theme"], "ll_keywords": ["name"]}
NOTHING_COUNTED = {
    "total_entities_found": 0,
    "total_relations_found": 0,
    "entities_after_truncation": 0,
    "relations_after_truncation": 0,
    "merged_chunks_count": 0,
    "final_chunks_count": 0,
}


async def _fill(world: World) -> None:
    await world.chunk("p", source="a.md", score=0.9, headings=("Top", "Inner"), page=3)
    await world.chunk("q", source="b.md", score=0.8)
    await world.entity("A", "p q", score=0.9)
    await world.entity("B", "q", score=0.8)
    await world.relation("A-B", "p q", score=0.9, weight=2.0, keywords=("trust", "work"))


async def test_success_has_every_field_of_the_seeds_and_of_lightrag(world: World) -> None:
    await _fill(world)
    result = await world.engine().query_data(QUESTION, QueryParam(mode="mix", **GIVEN))
    assert (result["status"], result["message"]) == ("success", "Query processed successfully")
    data = result["data"]
    entity, relation, chunk = data["entities"][0], data["relationships"][0], data["chunks"][0]
    assert entity == {
        "entity_name": "A",
        "entity_type": "thing",
        "description": "A is an entity.",
        "source_id": "chunk-p<SEP>chunk-q",
        "file_path": "a.md<SEP>b.md",
        "created_at": entity["created_at"],
        "created_at_unix": entity["created_at_unix"],
        "reference_id": "1",
    }
    assert datetime.fromisoformat(entity["created_at"]).timestamp() == entity["created_at_unix"] > 0
    assert relation == {
        "src_id": "A",
        "tgt_id": "B",
        "description": "A meets B.",
        "keywords": "trust,work",
        "weight": 2.0,
        "source_id": "chunk-p<SEP>chunk-q",
        "file_path": "a.md<SEP>b.md",
        "created_at": relation["created_at"],
        "created_at_unix": relation["created_at_unix"],
        "reference_id": "1",
    }
    assert chunk == {
        "reference_id": "1",
        "content": "This is passage p.",
        "file_path": "a.md",
        "chunk_id": "chunk-p",
        "document_id": chunk["document_id"],
        "start": 0,
        "end": 18,
        "page": 3,
        "columns": [],
        "headings": ["Top", "Inner"],
        "source_marks": ["C1/1", "E1/1"],
        "rerank_score": None,
    }
    assert data["references"] == [
        {"reference_id": "1", "file_path": "a.md", "count": 1},
        {"reference_id": "2", "file_path": "b.md", "count": 1},
    ]
    timings = result["metadata"].pop("timings")
    assert set(timings) == {"keywords", "embed", "search", "select", "chunks", "total"}
    assert all(seconds >= 0 for seconds in timings.values())
    assert result["metadata"] == {
        "query_mode": "mix",
        "keywords": {"high_level": ["theme"], "low_level": ["name"]},
        "processing_info": {
            "total_entities_found": 2,
            "total_relations_found": 1,
            "entities_after_truncation": 2,
            "relations_after_truncation": 1,
            "merged_chunks_count": 2,
            "final_chunks_count": 2,
        },
    }


async def test_naive_counts_chunks_only(world: World) -> None:
    await _fill(world)
    result = await world.engine().query_data(QUESTION, QueryParam(mode="naive", chunk_top_k=1))
    assert result["data"]["entities"] == result["data"]["relationships"] == []
    counted = {"total_chunks_found": 1, "merged_chunks_count": 1, "final_chunks_count": 1}
    assert result["metadata"]["processing_info"] == NOTHING_COUNTED | counted


async def test_bypass_finds_nothing_and_succeeds(world: World) -> None:
    await _fill(world)
    result = await world.engine().query_data("?", QueryParam(mode="bypass"))
    assert result["status"] == "success"
    assert result["data"] == {"entities": [], "relationships": [], "chunks": [], "references": []}
    assert result["metadata"] == {
        "query_mode": "bypass",
        "keywords": {"high_level": [], "low_level": []},
        "processing_info": NOTHING_COUNTED,
    }


@pytest.mark.parametrize(
    ("mode", "message"), [("naive", "No relevant document chunks found."), ("local", "Query returned no results")]
)
async def test_nothing_found_is_a_failure_in_words(world: World, mode: str, message: str) -> None:
    result = await world.engine().query_data(QUESTION, QueryParam(mode=mode, **GIVEN))
    assert (result["status"], result["message"], result["data"]) == ("failure", message, {})
    assert result["metadata"]["failure_reason"] == "no_results"
    assert result["metadata"]["mode"] == result["metadata"]["query_mode"] == mode
    assert NOTHING_COUNTED.items() <= result["metadata"]["processing_info"].items()


async def test_long_question_without_keywords_is_a_failure(world: World) -> None:
    await _fill(world)
    chat = FakeChatModel('{"high_level_keywords": [], "low_level_keywords": []}')
    result = await world.engine(chat).query_data("x" * 50, QueryParam(mode="mix"))
    assert (result["status"], result["data"]) == ("failure", {})
    assert result["metadata"]["failure_reason"] == "no_keywords"
    assert result["metadata"]["warnings"]


async def test_budget_too_small_for_anything_is_a_failure_with_empty_lists(world: World) -> None:
    await _fill(world)
    result = await world.engine().query_data(QUESTION, QueryParam(mode="naive", max_total_tokens=1))
    assert (result["status"], result["message"]) == ("failure", "Query returned empty dataset.")
    assert result["data"] == {"entities": [], "relationships": [], "chunks": [], "references": []}


async def test_references_give_the_texts_of_their_chunks_on_request(world: World) -> None:
    await _fill(world)
    param = QueryParam(mode="naive", include_chunk_content=True)
    result = await world.engine().query_data(QUESTION, param)
    assert [reference["content"] for reference in result["data"]["references"]] == [
        ["This is passage p."],
        ["This is passage q."],
    ]


async def _answer(world: World, param: QueryParam) -> Answer:
    await _fill(world)
    return await world.engine(FakeChatModel("An answer.")).query(QUESTION, param)


async def test_plain_payload_is_the_text(world: World) -> None:
    param = QueryParam(mode="naive")
    answer = await _answer(world, param)
    assert answer.payload(param) == str(answer) == "An answer."


async def test_payload_with_sources_has_answer_and_data(world: World) -> None:
    param = QueryParam(mode="mix", include_sources=True, include_chunk_content=True, **GIVEN)
    payload = (await _answer(world, param)).payload(param)
    assert isinstance(payload, dict)
    assert list(payload) == ["answer", "entities", "relationships", "chunks", "references", "metadata"]
    assert payload["answer"] == "An answer."
    assert payload["references"][0]["content"] == ["This is passage p."]


async def test_structured_payload_has_everything(world: World) -> None:
    param = QueryParam(mode="mix", include_sources=True, return_structured=True, **GIVEN)
    answer = await _answer(world, param)
    payload = answer.payload(param)
    assert isinstance(payload, dict)
    assert payload["answer"] == "An answer."
    assert payload["context"] == answer.context.text
    assert (payload["status"], payload["mode"], payload["is_generated"]) == ("success", "mix", True)
    assert payload["usage"]["output_tokens"] > 0
    assert {"entities", "relationships", "chunks", "references", "metadata", "warnings", "from_cache"} <= set(payload)
    assert answer.kind is AnswerKind.GENERATED
