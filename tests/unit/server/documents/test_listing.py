from __future__ import annotations

import pytest

import heliograph.server.routes.documents as routes

from .conftest import TEXT, Server

WORDS = {"pending", "parsing", "analyzing", "preprocessed", "processing", "processed", "failed", "all"}


async def _many(server: Server, count: int) -> None:
    sources = [f"{number:02d}.md" for number in range(count)]
    texts = [f"{TEXT} Number {source}." for source in sources]
    await server.send("POST", "/documents/texts", json={"texts": texts, "file_sources": sources})
    await server.settle()


async def test_page_has_lightrags_shape(server: Server) -> None:
    await _many(server, 25)
    body = {"page": 2, "page_size": 10, "sort_field": "file_path", "sort_direction": "asc"}
    page = await server.send("POST", "/documents/paginated", json=body)
    assert [item["file_path"] for item in page["documents"]] == [f"{number:02d}.md" for number in range(10, 20)]
    assert page["pagination"] == {
        "page": 2,
        "page_size": 10,
        "total_count": 25,
        "total_pages": 3,
        "has_next": True,
        "has_prev": True,
    }
    assert set(page["status_counts"]) == WORDS
    assert page["status_counts"]["processed"] == page["status_counts"]["all"] == 25
    first = page["documents"][0]
    assert set(first) == {
        *("id", "content_summary", "content_length", "status", "created_at", "updated_at", "track_id"),
        *("chunks_count", "error_msg", "metadata", "file_path"),
    }
    assert (first["status"], first["chunks_count"], first["error_msg"]) == ("processed", 1, None)
    assert await server.send("GET", "/documents/status_counts") == {"status_counts": page["status_counts"]}


@pytest.mark.parametrize(
    ("given", "total"),
    [
        ({"status_filter": "processed"}, 3),
        ({"status_filter": "PROCESSED"}, 3),
        ({"status_filters": ["failed", "pending"]}, 0),
        ({"status_filters": ["analyzing"]}, 0),
        ({"status_filter": "multimodal_processed"}, 0),
        ({"status_filter": "failed", "status_filters": ["processed"]}, 3),
        ({}, 3),
    ],
)
async def test_page_is_filtered_by_status(server: Server, given: dict, total: int) -> None:
    await _many(server, 3)
    page = await server.send("POST", "/documents/paginated", json=given)
    assert page["pagination"]["total_count"] == len(page["documents"]) == total


@pytest.mark.parametrize(
    "given",
    [
        {"page": 0},
        {"page_size": 9},
        {"page_size": 201},
        {"sort_field": "secret"},
        {"sort_direction": "sideways"},
        {"status_filter": "odd"},
    ],
)
async def test_page_that_is_not_valid_is_refused(server: Server, given: dict) -> None:
    await server.send("POST", "/documents/paginated", 422, json=given)


async def test_page_beyond_the_last_is_empty(server: Server) -> None:
    page = await server.send("POST", "/documents/paginated", json={"page": 7})
    assert (page["documents"], page["pagination"]["has_next"], page["pagination"]["total_pages"]) == ([], False, 0)


async def test_long_text_is_summed_up_by_its_beginning(server: Server) -> None:
    await server.add("语义检索。" * 1000, "long.md")
    (item,) = (await server.send("POST", "/documents/paginated", json={}))["documents"]
    assert item["content_summary"] == ("语义检索。" * 50)[:250] + "..."


async def test_unknown_batch_is_empty(server: Server) -> None:
    told = await server.send("GET", "/documents/track_status/nothing")
    assert told == {"track_id": "nothing", "documents": [], "total_count": 0, "status_summary": {}}


async def test_list_without_conditions_tells_documents_by_status_as_older_lightrag_does(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await server.send("GET", "/documents"))["statuses"] == {}
    await _many(server, 4)
    listed = await server.send("GET", "/documents")
    page = await server.send("POST", "/documents/paginated", json={"sort_field": "created_at"})
    assert listed["statuses"] == {"processed": page["documents"]}
    assert {item["id"] for item in listed["documents"]} == {item["id"] for item in page["documents"]}
    # A client generated from LightRAG's OpenAPI document sends the key as a parameter.
    assert await server.send("GET", "/documents", params={"api_key_header_value": "x"}) == listed
    assert (await server.send("GET", "/documents", params={"limit": 2}))["statuses"] == {}

    await server.upload("broken.pdf", b"%PDF-1.4 nothing of it")
    await server.settle()
    monkeypatch.setattr(routes, "_MOST_BY_STATUS", 3)
    found = (await server.send("GET", "/documents"))["statuses"]
    assert {word: len(documents) for word, documents in found.items()} == {"processed": 2, "failed": 1}
    assert found["failed"][0]["error"] == found["failed"][0]["error_msg"] != ""


async def test_nothing_is_in_conflict_and_nothing_is_to_be_recovered(server: Server) -> None:
    assert await server.send("GET", "/documents/source_conflicts") == {"conflicts": [], "next_cursor": None}
    await server.send("GET", "/documents/source_conflicts?limit=201", 422)
    await server.send("GET", "/documents/source_conflicts?cursor=x", 400)
    body = {"canonical_source_key": "a.md", "primary_doc_id": "doc-1"}
    await server.send("POST", "/documents/source_conflicts/repair", 409, json=body)
    told = await server.send("POST", "/documents/recovery/force_reset", json={"confirm": True})
    assert told["status"] == "no_recovery_required"
    await server.send("POST", "/documents/recovery/force_reset", 400, json={"confirm": False})
