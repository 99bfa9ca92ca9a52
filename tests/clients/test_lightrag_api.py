"""The client `lightrag-api`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from heliograph.testing.fakes import FakeChatModel

from ..serving import ANSWER, Serve

lightrag_api = pytest.importorskip("lightrag.api._async_client", reason="needs: pip install lightrag-api")


@pytest.fixture
async def client(serve: Serve) -> AsyncGenerator[Any]:
    client = lightrag_api.AsyncLightRagClient(serve(FakeChatModel(ANSWER), api_key="the-key"), api_key="the-key")
    yield client
    await client.close()


async def test_questions_are_answered(client: Any) -> None:
    reply = await client.query("Who leads Bob?", top_k=5)
    assert "Ann leads Bob [1]" in reply.response
    assert reply.references[0].reference_id == "1"
    pieces = [line async for line in client.query_stream("Who leads Bob?")]
    assert "references" in pieces[0]
    assert "Ann leads Bob" in "".join(line.get("response", "") for line in pieces)
    data = await client.query_data("Who leads Bob?")
    assert data.status == "success"
    assert {item["entity_name"] for item in data.data["entities"]} >= {"Ann", "Bob"}


async def test_documents_come_and_go(client: Any) -> None:
    done = await client.insert_text("Dee (person): dances.", file_source="three.md")
    assert done.status == "success"
    await until_processed(client, 3)
    status = await client.get_track_status(done.track_id)
    (document,) = status.documents
    assert document.file_path == "three.md"
    assert (await client.upload_document(b"Eve (person): sings.", file_name="four.txt")).status == "success"
    await until_processed(client, 4)
    page = await client.get_documents_paginated(page_size=10)
    assert page.pagination.total_count == 4
    assert await client.check_entity_exists("Eve") == {"exists": True}
    deleted = await client.delete_document([document.id])
    assert deleted.status == "deletion_started"
    await until_processed(client, 3)
    assert (await client.clear_cache()).status == "success"
    assert not (await client.get_pipeline_status()).busy
    assert (await client.reprocess_failed()).status


async def test_graph_is_read_and_corrected(client: Any) -> None:
    assert await client.get_graph_labels() == ["Ann", "Annie", "Bob", "Cy"]
    assert await client.get_popular_labels(1) == ["Ann"]
    assert await client.search_labels("ann") == ["Ann", "Annie"]
    graph = await client.get_knowledge_graph("Ann")
    assert [node["id"] for node in graph["nodes"]] == ["Ann", "Bob"]
    made = await client.create_entity("Dee", {"description": "dances.", "entity_type": "PERSON"})
    assert made["status"] == "success"
    relation = {"description": "knows", "keywords": "friends"}
    assert (await client.create_relation("Dee", "Ann", relation))["status"] == "success"
    assert (await client.update_relation("Dee", "Ann", {"weight": 2}))["data"]["graph_data"]["weight"] == 2
    edited = await client.update_entity("Dee", {"entity_name": "Dora"}, allow_rename=True)
    assert edited["operation_summary"]["final_entity"] == "Dora"
    assert (await client.merge_entities(["Dora"], "Annie"))["data"]["entity_name"] == "Annie"
    assert (await client.delete_relation("Annie", "Ann")).status == "success"
    assert (await client.delete_entity("Annie")).status_code == 200
    assert await client.get_graph_labels() == ["Ann", "Bob", "Cy"]


async def until_processed(client: Any, count: int) -> None:
    for _ in range(300):
        counts = (await client.get_status_counts()).status_counts
        if counts.get("processed") == count and counts.get("all") == count:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not {count} documents processed: {counts}")
