from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from .graph_world import ONE, World, graph_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with graph_world(tmp_path) as world:
        yield world


async def test_entity_comes_with_the_chunks_that_mention_it(world: World) -> None:
    found = await world.get("/graph/entity", name="bob")
    assert (found["entity"]["name"], found["entity"]["degree"], found["entity"]["descriptions"]) == (
        *("Bob", 1),
        ["writes."],
    )
    (source,) = found["sources"]
    assert (source["file_path"], source["text"], source["start"], source["end"]) == ("one.md", ONE, 0, len(ONE))
    assert found["source_count"] == 1
    assert (await world.get("/graph/entity", name="bob", limit=0))["sources"] == []
    await world.get("/graph/entity", 404, name="Nobody")


async def test_relation_comes_with_the_chunks_that_tell_of_it(world: World) -> None:
    found = await world.get("/graph/relation", source="Bob", target="Ann")
    assert (found["relation"]["keywords"], found["relation"]["weight"]) == (["leads"], 1.0)
    assert [source["file_path"] for source in found["sources"]] == ["one.md"]
    await world.get("/graph/relation", 404, source="Ann", target="Cy")


async def test_neighbours_and_paths_are_found(world: World) -> None:
    await world.post(
        "/graph/relation/create",
        {"source_entity": "Bob", "target_entity": "Annie", "relation_data": {"description": "knows"}},
    )
    near = await world.get("/graph/neighbours", name="Ann", depth=2)
    assert [item["name"] for item in near["entities"]] == ["Ann", "Bob", "Annie"]
    assert len(near["relations"]) == 2
    assert (await world.get("/graph/neighbours", name="Ann", depth=2, limit=2))["is_truncated"] is True
    (path,) = (await world.get("/graph/paths", source="Ann", target="Cy"))["paths"]
    assert [item["name"] for item in path["entities"]] == ["Ann", "Bob", "Annie", "Cy"]
    assert len(path["relations"]) == 3
    for name in ("max_hops", "max_length"):
        assert (await world.get("/graph/paths", source="Ann", target="Cy", **{name: 2})) == {"paths": []}
        assert (await world.get("/graph/paths", source="Ann", target="Cy", **{name: 3}))["paths"]
    await world.get("/graph/paths", 404, source="Ann", target="Nobody")
    await world.get("/graph/neighbours", 404, name="Nobody")


async def test_split_is_recorded_listed_and_undone(world: World) -> None:
    (source,) = (await world.get("/graph/entity", name="Ann"))["sources"]
    body = {"entity_name": "Ann", "new_name": "Ann B.", "document_ids": [source["document_id"]]}
    done = await world.post("/graph/entity/split", body)
    assert (done["kind"], done["scope"]) == ("split_entity", [source["document_id"]])
    assert "Ann B." in await world.get("/graph/label/list")
    listed = await world.get("/graph/curations", name="Ann B.")
    assert [item["id"] for item in listed["curations"]] == [done["id"]]
    undone = await world.post(f"/graph/curations/{done['id']}/undo", None)
    assert undone["undone_by"] == "anyone"
    await world.post(f"/graph/curations/{done['id']}/undo", None, 409)
    await world.post("/graph/curations/cur-none/undo", None, 404)
    assert (await world.get("/graph/curations", includes_undone=False)) == {"curations": [], "total": 0}
    await world.post("/graph/entity/split", body | {"document_ids": []}, 400)
    await world.post("/graph/entity/split", body | {"entity_name": "Nobody"}, 404)
    await world.post("/graph/entity/split", body | {"new_name": "Bob"}, 409)


async def test_history_says_who_said_what(world: World) -> None:
    edit = {"source_id": "Ann", "target_id": "Bob", "updated_data": {"weight": 3}}
    await world.post("/graph/relation/edit", edit)
    history = await world.get("/graph/history", name="Bob", other="Ann")
    assert [(item["names"], item["description"]) for item in history["statements"]] == [
        (["Ann", "Bob"], "Ann leads Bob.")
    ]
    assert [item["weight"] for item in history["curations"]] == [3.0]
    history = await world.get("/graph/history", name="ann", offset=1)
    assert (history["statements"], history["statement_count"], len(history["curations"])) == ([], 1, 1)
    await world.get("/graph/history", 404, name="Nobody")
    await world.get("/graph/history", 422, name="Ann", limit=0)


async def test_duplicates_are_proposed(world: World) -> None:
    body = {"entity_name": "Annies", "entity_data": {"description": "paints.", "entity_type": "person"}}
    await world.post("/graph/entity/create", body)
    pairs = (await world.get("/graph/duplicates"))["pairs"]
    assert [{pair["name"], pair["other"]} for pair in pairs] == [{"Annie", "Annies"}]
    assert (await world.get("/graph/duplicates", name="Cy")) == {"pairs": []}
