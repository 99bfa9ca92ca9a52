"""What the tools of `mcp-lightrag` do: its client of the REST interface, generated from LightRAG's OpenAPI."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest

from heliograph.testing.fakes import FakeChatModel

from ..serving import ANSWER, Serve

_spec = find_spec("mcp_lightrag")
if _spec is None:
    pytest.skip("needs: pip install mcp-lightrag", allow_module_level=True)
# Without its `__init__`, which imports its tools: they need the first MCP SDK, the client does not.
_package = sys.modules.setdefault("mcp_lightrag", ModuleType("mcp_lightrag"))
_package.__path__ = list(_spec.submodule_search_locations or ())
api_client: Any = import_module("mcp_lightrag.api_client")
models: Any = import_module("mcp_lightrag.client.light_rag_server_api_client.models")
ServerSettings: Any = import_module("mcp_lightrag.models").ServerSettings


@pytest.fixture
async def client(serve: Serve) -> AsyncGenerator[Any]:
    address = urlsplit(serve(FakeChatModel(ANSWER), api_key="the-key"))
    client = api_client.LightRAGApiClient(ServerSettings(address.hostname, address.port, "the-key"))
    yield client
    await client.close()


async def test_question_is_answered(client: Any) -> None:
    param = models.QueryRequest(query="Who leads Bob?", mode=models.QueryRequestMode("mix"), top_k=60)
    reply = await client.query(param)
    assert "Ann leads Bob [1]" in reply.response


async def test_documents_come_and_go(client: Any, tmp_path: Path) -> None:
    assert (await client.check_health()) is not None
    path = tmp_path / "three.txt"
    path.write_text("Dee (person): dances.")
    assert (await client.upsert_document(path))["action"] == "created"
    found = await until_found(client, "three.txt")
    assert (await client.upsert_document(path))["action"] == "skipped"
    assert (await client.add_text("Eve (person): sings.")).status.value == "success"
    assert await client.get_all_documents()
    assert (await client.get_pipeline_status()).busy in (True, False)
    assert (await client.delete_by_doc(found.id)).status.value == "deletion_started"


async def test_graph_is_read_and_corrected(client: Any) -> None:
    assert await client.get_labels() == ["Ann", "Annie", "Bob", "Cy"]
    await client.create_entity("Dee", "person", "dances.", "manual")
    await client.edit_entity("Dee", "person", "sings.", "manual")
    await client.manage_relation("Dee", "Ann", "knows", "friends", weight=1.0, source_id="manual")
    await client.merge_entities(["Annie"], "Ann", {})
    assert await client.get_labels() == ["Ann", "Bob", "Cy", "Dee"]
    assert (await client.delete_entity("Dee")).status.value == "success"


async def until_found(client: Any, name: str) -> Any:
    for _ in range(300):
        found = await client.find_document_by_file_name(name)
        if found is not None and found.status.value == "processed":
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} was not processed")
