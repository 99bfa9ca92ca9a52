"""Whoever shows entities and relations calls the ends of a relation as the entities are called."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from heliograph import QueryParam
from heliograph.cli.rendering import to_plain
from heliograph.engine import AsyncHeliograph
from heliograph.ingest.models import NewDocument

from ..mcp.world import offered
from ..server.graph_world import graph_world

# Mentions write names and aliases; people rename, merge and give again.
DOCUMENTS = {
    "spec.md": "Transport Layer Security = TLS\nTransport Layer Security (protocol): safe.\nMQTT (protocol): sends.",
    "use.md": "MQTT -> TLS [runs over] 2.0: MQTT runs over TLS.\nTLS -> Okafor [signed by] 1.0: Okafor signs for TLS.",
    "more.md": "tls -> Gateway [secures] 1.0: tls secures it.\nGATEWAY (device): a box.\nGateway (device): the box.",
}
QUESTION = "MQTT TLS Okafor Gateway Relay"
_ENDS = (("source", "target"), ("src_id", "tgt_id"), ("entity1", "entity2"))


async def fill(engine: AsyncHeliograph) -> set[str]:
    """Take the documents in, correct them, and return the names of all entities."""
    await engine.insert([NewDocument(text, source, metadata={"team": "red"}) for source, text in DOCUMENTS.items()])
    await engine.rename_entity("Okafor", "Daniel Okafor")
    await engine.merge_entities(["MQTT"], into="Relay")
    return {entity.name for entity in await engine.entities(limit=1_000)}


def ends(found: Any) -> Iterator[str]:
    """Yield the ends of all relations in what an operation returned, whatever its shape."""
    if isinstance(found, str):
        for line in found.splitlines():
            if line.startswith("{"):
                yield from ends(json.loads(line))
    elif isinstance(found, dict):
        rows = cast("dict[str, Any]", found)
        for pair in _ENDS:
            if set(pair) <= rows.keys() and not any(rows[end].startswith(("doc-", "ent-")) for end in pair):
                yield from (rows[end] for end in pair)
        for value in rows.values():
            yield from ends(value)
    elif isinstance(found, list | tuple):
        for value in cast("list[Any]", found):
            yield from ends(value)


async def test_engine_names_relation_ends_as_entities(tmp_path: Path) -> None:
    async with graph_world(tmp_path) as world, world.service.workspaces.use() as engine:
        names = await fill(engine)
        assert {"Relay", "Daniel Okafor", "Transport Layer Security"} <= names
        # Under a filter an entity is called as the documents that match call it.
        seen = {entity.name for entity in await engine.view({"team": "red"}).graph.list_entities(0, 1_000)}
        found: dict[str, Any] = {
            "relation": await engine.relation("TLS", "MQTT"),
            "neighbours": await engine.neighbours("TLS", depth=2),
            "paths": await engine.paths("Gateway", "Okafor"),
        }
        for mode in ("local", "global", "hybrid", "mix", "fusion", "auto"):
            for only_context in (False, True):
                param = QueryParam(mode=mode, ll_keywords=["TLS"], hl_keywords=["runs"], only_need_context=only_context)
                found[f"{mode} data"] = await engine.query_data(QUESTION, param)
                found[f"{mode} context"] = (await engine.query(QUESTION, param)).text
                filtered = await engine.query_data(QUESTION, replace(param, filter={"team": "red"}))
                assert {*ends(filtered)} <= seen, mode
        for what, told in found.items():
            assert {*ends(to_plain(told))} <= names, what
        for what in ("relation", "neighbours", "paths", "local data", "global data", "mix context"):
            assert {*ends(to_plain(found[what]))} & {"Relay", "Transport Layer Security", "Daniel Okafor"}, what


async def test_service_names_relation_ends_as_entities(tmp_path: Path) -> None:
    async with graph_world(tmp_path) as world:
        async with world.service.workspaces.use() as engine:
            names = await fill(engine)
        found = [
            await world.get("/graphs", label="TLS"),
            await world.get("/graphs", label="*"),
            await world.get("/graph/neighbours", name="TLS", depth=2),
            await world.get("/graph/paths", source="Gateway", target="Okafor"),
            await world.get("/graph/relation", source="TLS", target="MQTT"),
            await world.post("/query/data", {"query": QUESTION, "mode": "mix"}),
            await world.post("/query", {"query": QUESTION, "mode": "mix", "only_need_context": True}),
        ]
        for told in found:
            assert {*ends(told)} <= names
            assert {*ends(told)} & {"Relay", "Transport Layer Security"}


async def test_agents_are_told_relation_ends_as_entities(tmp_path: Path) -> None:
    async with offered(tmp_path) as world:
        async with world.workspaces.use() as engine:
            names = await fill(engine)
        read = await world.client.read_resource("heliograph://entities/TLS")
        assert {*ends(json.loads(cast("Any", read.contents[0]).text))} <= names
        for tool in (await world.client.list_tools()).tools:
            given = {"name": "TLS", "entity": "TLS", "source": "Gateway", "target": "Okafor", "query": QUESTION}
            wanted = {key: value for key, value in given.items() if key in tool.input_schema.get("properties", {})}
            if tool.annotations is None or not tool.annotations.read_only_hint:
                continue
            result = await world.client.call_tool(tool.name, wanted)
            assert {*ends(result.structured_content)} <= names, tool.name


@pytest.mark.parametrize("format_", ["csv", "graphml", "markdown", "obsidian"])
async def test_exports_name_relation_ends_as_entities(tmp_path: Path, format_: str) -> None:
    async with graph_world(tmp_path / "data") as world, world.service.workspaces.use() as engine:
        names = await fill(engine)
        await engine.export(tmp_path / "out", format_)
    path = tmp_path / "out"
    texts = [file.read_text() for file in ([path] if path.is_file() else sorted(path.rglob("*"))) if file.is_file()]
    found = {
        name for text in texts for edge in re.findall(r'<edge source="(.*?)" target="(.*?)"', text) for name in edge
    }
    found |= {name for text in texts for pair in re.findall(r"^## (.+?) - (.+?)$", text, re.MULTILINE) for name in pair}
    if format_ == "csv":
        rows = csv.DictReader((path / "relations.csv").read_text().splitlines())
        found = {row[end] for row in rows for end in ("source", "target")}
    assert found <= names
    if format_ != "obsidian":
        assert {"Relay", "Transport Layer Security", "Daniel Okafor"} <= found
