from __future__ import annotations

from array import array
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from heliograph import NewDocument
from heliograph.stores.sqlite.graph import _RELATIONS_AMONG, SqliteGraphStore
from heliograph.wire.graph import GraphColumns, KnowledgeGraph

from .graph_world import World, graph_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with graph_world(tmp_path) as world:
        yield world


async def test_labels_are_listed_by_name_and_by_degree(world: World) -> None:
    assert await world.get("/graph/label/list") == ["Ann", "Annie", "Bob", "Cy"]
    await world.post(
        "/graph/relation/create",
        {"source_entity": "Bob", "target_entity": "Cy", "relation_data": {"description": "visits"}},
    )
    assert await world.get("/graph/label/popular") == ["Bob", "Cy", "Ann", "Annie"]
    assert await world.get("/graph/label/popular", limit=1) == ["Bob"]
    for limit in (0, 1001, "x"):
        await world.get("/graph/label/popular", 422, limit=limit)


async def test_entities_are_listed_by_type_and_name_page_by_page(world: World) -> None:
    first = await world.get("/api/v1/entities", limit=2)
    assert (len(first["entities"]), first["next_offset"]) == (2, 2)
    rest = await world.get("/api/v1/entities", offset=2)
    assert [item["name"] for item in (*first["entities"], *rest["entities"])] == await world.get("/graph/label/popular")
    assert rest["next_offset"] is None
    assert first["entities"][0] == (await world.get("/graph/entity", name=first["entities"][0]["name"]))["entity"]
    kinds = {item["name"]: item["type"] for item in (*first["entities"], *rest["entities"])}
    for kind in set(kinds.values()):
        found = await world.get("/api/v1/entities", type=kind.upper())
        assert [item["name"] for item in found["entities"]] == [name for name in kinds if kinds[name] == kind]
    found = await world.get("/api/v1/entities", search="ann", type="person", limit=1)
    assert ([item["name"] for item in found["entities"]], found["next_offset"]) == (["Ann"], 1)
    assert (await world.get("/api/v1/entities", type="starship"))["entities"] == []
    for wrong in ({"limit": 0}, {"limit": 1001}, {"offset": -1}):
        await world.get("/api/v1/entities", 422, **wrong)


async def test_labels_are_searched_by_index(world: World) -> None:
    assert await world.get("/graph/label/search", q="ann") == ["Ann", "Annie"]
    assert await world.get("/graph/label/search", q="ann", limit=1) == ["Ann"]
    assert await world.get("/graph/label/search", q="nni") == ["Annie"]
    assert await world.get("/graph/label/search", q="") == []
    assert await world.get("/graph/label/search", q='"* OR') == []
    await world.get("/graph/label/search", 422)
    await world.get("/graph/label/search", 422, q="a", limit=101)


async def test_graph_around_an_entity_has_the_shape_of_lightrag(world: World) -> None:
    graph = await world.get("/graphs", label="ann", max_depth=1)
    KnowledgeGraph.model_validate(graph)
    assert [node["id"] for node in graph["nodes"]] == ["Ann", "Bob"]
    (edge,) = graph["edges"]
    assert (edge["id"], edge["type"], edge["source"], edge["target"]) == ("Ann-Bob", "DIRECTED", "Ann", "Bob")
    assert edge["properties"]["weight"] == 1.0
    assert edge["properties"]["keywords"] == "leads"
    properties = graph["nodes"][0]["properties"]
    assert graph["nodes"][0]["labels"] == ["Ann"]
    assert (properties["entity_id"], properties["entity_type"]) == ("Ann", "person")
    assert (properties["description"], properties["file_path"]) == ("leads the team.", "one.md")
    assert properties["source_id"].startswith("chunk-")
    assert isinstance(properties["created_at"], int)
    assert graph["is_truncated"] is False


async def test_graph_of_an_unknown_entity_is_empty(world: World) -> None:
    assert await world.get("/graphs", label="Nobody") == {"nodes": [], "edges": [], "is_truncated": False}
    await world.get("/graphs", 422)
    await world.get("/graphs", 422, label="Ann", max_depth=0)
    await world.get("/graphs", 422, label="Ann", max_nodes=0)


async def test_graph_of_all_is_cut_at_the_best_connected(world: World) -> None:
    graph = await world.get("/graphs", label="*", max_depth=10**9, max_nodes=10**9)
    assert [node["id"] for node in graph["nodes"]] == ["Ann", "Annie", "Bob", "Cy"]
    assert len(graph["edges"]) == 2
    assert graph["is_truncated"] is False
    graph = await world.get("/graphs", label="*", max_nodes=3)
    assert [node["id"] for node in graph["nodes"]] == ["Ann", "Annie", "Bob"]
    assert [edge["id"] for edge in graph["edges"]] == ["Ann-Bob"]
    assert graph["is_truncated"] is True


async def test_entity_exists_by_any_spelling(world: World) -> None:
    assert await world.get("/graph/entity/exists", name="ANN") == {"exists": True}
    assert await world.get("/graph/entity/exists", name="Anna") == {"exists": False}


async def test_workspace_that_is_not_there_has_no_graph(world: World) -> None:
    response = await world.client.get("/graph/label/list", headers={"LIGHTRAG-WORKSPACE": "other"})
    assert response.status_code == 404


async def test_part_of_the_graph_comes_in_columns(world: World) -> None:
    whole = await world.get("/api/v1/graph")
    GraphColumns.model_validate(whole)
    nodes, edges = whole["nodes"], whole["edges"]
    assert nodes["name"] == ["Ann", "Annie", "Bob", "Cy"]
    assert whole["types"] == ["person", "place"]
    assert [whole["types"][place] for place in nodes["type"]] == ["person", "person", "person", "place"]
    pairs = {
        tuple(sorted((nodes["name"][s], nodes["name"][t])))
        for s, t in zip(edges["source"], edges["target"], strict=True)
    }
    assert pairs == {("Ann", "Bob"), ("Annie", "Cy")}
    assert sorted(edges["weight"]) == [1.0, 2.0]
    assert (nodes["degree"], whole["is_truncated"]) == ([1, 1, 1, 1], False)


async def test_columns_say_which_date_documents_state(world: World) -> None:
    async with world.service.workspaces.use() as engine:
        for name, date in (("Dora", "2024-05-01T10:00:00+02:00"), ("Dora", "2025-01-01"), ("Eve", "last spring")):
            text = f"{name} (person): sings in {date}."
            await engine.insert([NewDocument(text, f"{date}.md", metadata={"created_at": date})])
    nodes = (await world.get("/api/v1/graph"))["nodes"]
    places = {name: place for place, name in enumerate(nodes["name"])}
    stated = int(datetime(2024, 5, 1, 8, tzinfo=UTC).timestamp())
    assert nodes["dated_at"][places["Dora"]] == stated
    assert all(nodes["dated_at"][places[name]] == nodes["created_at"][places[name]] for name in ("Ann", "Cy", "Eve"))
    assert (await world.get("/api/v1/graph", name="dora"))["nodes"]["dated_at"] == [stated]


async def test_columns_begin_at_names_and_say_when_they_are_cut(world: World) -> None:
    around = await world.get("/api/v1/graph", name="ann")
    assert around["nodes"]["name"] == ["Ann", "Bob"]
    both = await world.get("/api/v1/graph", name=["ann", "cy"])
    assert sorted(both["nodes"]["name"]) == ["Ann", "Annie", "Bob", "Cy"]
    assert len(both["edges"]["source"]) == 2
    cut = await world.get("/api/v1/graph", limit=1)
    assert (len(cut["nodes"]["name"]), cut["edges"]["source"], cut["is_truncated"]) == (1, [], True)
    await world.get("/api/v1/graph", 404, name="Nobody")
    await world.get("/api/v1/graph", 422, limit=0)


async def test_relations_among_many_entities_are_looked_up_in_a_set(world: World) -> None:
    """With a list of entities, not the square of it: SQLite makes a set of them once."""
    async with world.service.workspaces.use() as engine:
        graph = engine.store.graph
        assert isinstance(graph, SqliteGraphStore)

        def plan(connection: apsw.Connection) -> str:
            rows = connection.execute(f"EXPLAIN QUERY PLAN {_RELATIONS_AMONG}", (apsw.carray(array("q", [1, 2])),))
            return "\n".join(str(row[3]) for row in rows)

        assert "LIST SUBQUERY" in await graph._database.read(plan)
