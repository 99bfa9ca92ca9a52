from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.shared.exceptions import MCPError

from heliograph.mcp.tools import TOOLS, find_tool
from heliograph.models import Mode
from heliograph.service.access import Role

from .world import checked, failure, offered

READING = [tool.name for tool in TOOLS if tool.role is Role.READ]
DOCS = Path(__file__).parents[3] / "docs" / "mcp.md"
HUGE = "x" * 70_000
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("query", {}, "query: it is missing"),
    ("query", {"query": ""}, "query: String should have at least 1 character"),
    ("query", {"query": "   "}, "query: String should have at least 1 character"),
    ("query", {"query": 5}, "query: Input should be a valid string"),
    ("query", {"query": HUGE}, "at most 65536"),
    ("query", {"query": "who?", "mode": "magic"}, "'naive' or 'bypass'"),
    ("query", {"query": "who?", "top_k": "many"}, "top_k: Input should be a valid integer"),
    ("query", {"query": "who?", "top_k": 0}, "greater than or equal to 1"),
    ("query", {"query": "who?", "topk": 5}, "topk: there is no such argument"),
    ("query", {"query": "who?", "filters": "team"}, "filters: Input should be a valid dictionary"),
    ("query", {"query": "who?", "filters": {"and": 1}}, "filter.and"),
    ("query", {"query": "who?", "filters": {"team": {"like": "%' OR 1=1 --"}}}, "filter.team"),
    ("get_entities", {"query": "a", "offset": 3}, "offset goes without query"),
    ("get_entities", {"limit": 10**9}, "less than or equal to 200"),
    ("get_relations", {"entity": "Robert'); DROP TABLE entity;--"}, "there is no entity"),
    ("get_relations", {"entity": "Ann", "depth": 99}, "less than or equal to 5"),
    ("get_relations", {"entity": "\x00"}, "there is no entity"),
    ("get_relations", {"entity": HUGE}, "at most 4096"),
    ("insert", {"content": ""}, "content: String should have at least 1 character"),
    ("insert", {"content": " \n\x00 "}, "there is no text in it"),
    ("insert", {"content": "text", "metadata": ["a"]}, "metadata: Input should be a valid dictionary"),
    ("insert", {"content": "text", "source": "s" * 5_000}, "at most 4096"),
    ("batch_insert", {"documents": []}, "at least 1 item"),
    ("batch_insert", {"documents": [{"text": "x"}]}, "documents.0.content: it is missing"),
    ("batch_insert", {"documents": [{"content": "x"}] * 1_001}, "at most 1000 items"),
    ("update", {"document_id": "doc-1"}, "nothing is to be changed"),
    ("update", {"document_id": "../../etc/passwd", "content": "x"}, "there is no document"),
    ("delete", {"document_ids": []}, "at least 1 item"),
    ("delete", {"document_ids": ["*"]}, "there is no document '*'"),
    ("delete", {"document_ids": [None]}, "document_ids.0: Input should be a valid string"),
    ("stats", {"workspace": "other"}, "workspace: there is no such argument"),
    ("rebuild_index", {"force": True}, "force: there is no such argument"),
]


async def test_bad_arguments_are_told_and_change_nothing(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        before = await checked(world.client, "knowledge.stats")
        for name, arguments, part in BAD:
            told = await failure(world.client, f"knowledge.{name}", **arguments)
            assert part in told, (name, arguments, told)
            assert told.startswith(f"knowledge.{name} failed: ")
            assert len(told) < 2_000
        assert await checked(world.client, "knowledge.stats") == before


async def test_unknown_tool_is_an_error_of_the_protocol(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        for name in ("knowledge.magic", "query", "knowledge", ""):
            with pytest.raises(MCPError, match=r"there is no tool .*; there are: knowledge\.") as caught:
                await world.client.call_tool(name, {})
            listed = (await world.client.list_tools()).tools
            assert str(caught.value).endswith("there are: " + ", ".join(tool.name for tool in listed))


async def test_readers_see_and_use_only_what_reads(tmp_path: Path) -> None:
    async with offered(tmp_path, Role.READ) as world:
        listed = (await world.client.list_tools()).tools
        assert [tool.name for tool in listed] == [f"knowledge.{name}" for name in READING]
        await checked(world.client, "knowledge.query", query="Who leads Bob?")
        told = await failure(world.client, "knowledge.insert", content="text")
        assert "'tester' has the role read, and this needs write" in told
        assert "needs admin" in await failure(world.client, "knowledge.rebuild_index")


async def test_writers_may_do_all_but_rebuild(tmp_path: Path) -> None:
    async with offered(tmp_path, Role.WRITE) as world:
        listed = {tool.name for tool in (await world.client.list_tools()).tools}
        assert {f"knowledge.{tool.name}" for tool in TOOLS} - listed == {"knowledge.rebuild_index"}
        assert "needs admin" in await failure(world.client, "knowledge.rebuild_index")


async def test_read_only_server_offers_and_runs_only_what_reads(tmp_path: Path) -> None:
    async with offered(tmp_path, read_only=True) as world:
        listed = (await world.client.list_tools()).tools
        assert [tool.name for tool in listed] == [f"knowledge.{name}" for name in READING]
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed)
        told = await failure(world.client, "knowledge.delete", document_ids=["x"])
        assert "this server is read-only" in told


async def test_names_go_without_dots_where_clients_take_none(tmp_path: Path) -> None:
    async with offered(tmp_path, name_separator="_") as world:
        listed = [tool.name for tool in (await world.client.list_tools()).tools]
        assert listed == [f"knowledge_{tool.name}" for tool in TOOLS]
        assert (await checked(world.client, "knowledge_stats"))["documents"] == 2


def test_every_spelling_of_a_name_is_understood() -> None:
    for spelling in ("knowledge.batch_insert", "knowledge_batch_insert", "knowledge-batch_insert"):
        found = find_tool(spelling)
        assert found is not None
        assert found.name == "batch_insert"
    assert find_tool("knowledgebatch_insert") is None


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_plain_and_describe_every_argument(tool: Any) -> None:
    described = tool.describe(".")
    for schema in (described.input_schema, described.output_schema):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "$ref" not in str(schema)
    assert "anyOf" not in str(described.input_schema)
    assert all(part.get("description") for part in described.input_schema["properties"].values())


def test_annotations_keep_to_what_tools_do() -> None:
    hints = {tool.name: tool.describe(".").annotations for tool in TOOLS}
    assert {name for name, hint in hints.items() if hint and hint.read_only_hint} == set(READING)
    assert {name for name, hint in hints.items() if hint and hint.destructive_hint} == {"update", "delete"}
    assert not any(hint and hint.open_world_hint for hint in hints.values())


def test_every_tool_is_in_the_documentation_with_its_role_and_arguments() -> None:
    rows = re.findall(r"^\| `knowledge\.(\w+)` \| (\w+) \|(.*)\|$", DOCS.read_text("utf-8"), re.MULTILINE)
    told = {name: (role, set(re.findall(r"`(\w+)`", arguments))) for name, role, arguments in rows}
    offered = {tool.name: (tool.role.value, set(tool.describe(".").input_schema["properties"])) for tool in TOOLS}
    assert told == offered


def test_every_mode_of_the_engine_can_be_asked_for() -> None:
    (query,) = [tool for tool in TOOLS if tool.name == "query"]
    assert set(query.describe(".").input_schema["properties"]["mode"]["enum"]) == set(Mode)
