from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from .graph_world import TWO, World, graph_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with graph_world(tmp_path) as world:
        yield world


async def edit(world: World, name: str, status: int = 200, /, **data: Any) -> Any:
    flags = {key: data.pop(key) for key in ("allow_rename", "allow_merge") if key in data}
    return await world.post("/graph/entity/edit", {"entity_name": name, "updated_data": data, **flags}, status)


async def test_edited_entity_survives_reindexing_and_can_be_undone(world: World) -> None:
    done = await edit(world, "annie", description="sculpts.", entity_type="Artist", source_id="chunk-x")
    assert (done["status"], done["message"]) == ("success", "Entity updated successfully")
    assert done["data"]["entity_name"] == "Annie"
    assert done["data"]["graph_data"]["description"] == "sculpts."
    assert done["data"]["graph_data"]["entity_type"] == "artist"
    assert done["operation_summary"] == {
        "merged": False,
        "merge_status": "not_attempted",
        "merge_error": None,
        "operation_status": "success",
        "target_entity": None,
        "final_entity": "Annie",
        "renamed": False,
    }
    async with world.service.workspaces.use() as engine:
        await engine.insert([TWO.replace("paints", "draws")], sources=["two.md"])
    assert (await world.get("/graph/entity", name="Annie"))["entity"]["descriptions"] == ["sculpts."]
    (id_,) = done["curation_ids"]
    await world.post(f"/graph/curations/{id_}/undo", None)
    assert (await world.get("/graph/entity", name="Annie"))["entity"]["descriptions"] == ["draws."]


async def test_curation_is_signed_by_who_asks(world: World) -> None:
    await edit(world, "Ann", description="x")
    (item,) = (await world.get("/graph/curations"))["curations"]
    assert (item["author"], item["kind"], item["names"]) == ("anyone", "edit_entity", ["Ann"])


async def test_rename_needs_permission_and_a_free_name(world: World) -> None:
    assert "allow_rename" in (await edit(world, "Ann", 400, entity_name="Anna"))["detail"]
    assert "another entity" in (await edit(world, "Ann", 400, entity_name="Bob", allow_rename=True))["detail"]
    done = await edit(world, "Ann", entity_name="Anna", description="new", allow_rename=True)
    assert done["operation_summary"]["renamed"] is True
    assert done["operation_summary"]["final_entity"] == "Anna"
    assert done["data"]["graph_data"]["description"] == "new"
    assert len(done["curation_ids"]) == 2
    assert await world.get("/graph/label/list") == ["Anna", "Annie", "Bob", "Cy"]
    assert (await edit(world, "Anna", entity_name="Anna", description="same"))["operation_summary"]["renamed"] is False


async def test_rename_that_is_refused_changes_nothing(world: World) -> None:
    await edit(world, "Ann", 400, entity_name="Bob", description="new", allow_rename=True)
    assert (await world.get("/graph/curations"))["total"] == 0


async def test_rename_and_edit_are_one_commit(world: World) -> None:
    before = (await world.get("/ready"))["data_version"]
    done = await edit(world, "Ann", entity_name="Anna", entity_type="singer", description="new", allow_rename=True)
    assert (await world.get("/ready"))["data_version"] == before + 1
    assert [item["kind"] for item in (await world.get("/graph/curations"))["curations"]] == [
        "rename_entity",
        "edit_entity",
    ]
    assert (done["data"]["entity_name"], done["data"]["graph_data"]["entity_type"]) == ("Anna", "singer")


async def test_merge_with_an_edit_is_all_or_nothing(world: World) -> None:
    before = (await world.get("/ready"))["data_version"]
    told = await edit(world, "Ann", 400, entity_name="Cy", description="new", allow_rename=True)
    assert "another entity" in told["detail"]
    assert (await world.get("/ready"))["data_version"] == before
    done = await edit(world, "Annie", entity_name="Ann", description="new", allow_rename=True, allow_merge=True)
    assert (await world.get("/ready"))["data_version"] == before + 1
    assert (done["operation_summary"]["operation_status"], done["operation_summary"]["merged"]) == ("success", True)
    assert len(done["curation_ids"]) == 2


async def test_rename_to_a_taken_name_merges_if_allowed(world: World) -> None:
    done = await edit(world, "Annie", entity_name="ann", allow_rename=True, allow_merge=True)
    assert done["message"] == "Entity merged successfully into 'Ann'"
    summary = done["operation_summary"]
    assert (summary["merged"], summary["merge_status"], summary["target_entity"]) == (True, "success", "Ann")
    assert await world.get("/graph/label/list") == ["Ann", "Bob", "Cy"]
    graph = await world.get("/graphs", label="Ann", max_depth=1)
    assert {edge["id"] for edge in graph["edges"]} == {"Ann-Bob", "Ann-Cy"}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"source_id": "chunk-1"},
        {"colour": "red"},
        {"description": 3},
        {"description": " "},
        {"entity_type": ["x"]},
        {"entity_name": 7, "allow_rename": True},
        {"entity_name": "  ", "allow_rename": True},
        {"entity_name": "\x00", "allow_rename": True},
    ],
)
async def test_bad_edit_of_an_entity_is_refused(world: World, data: dict[str, Any]) -> None:
    assert isinstance((await edit(world, "Ann", 400, **data))["detail"], str)
    assert (await world.get("/graph/curations"))["total"] == 0


async def test_unknown_names_are_told_as_lightrag_does(world: World) -> None:
    await edit(world, "Nobody", 400, description="x")
    relation = {"source_id": "Ann", "target_id": "Cy", "updated_data": {"description": "x"}}
    await world.post("/graph/relation/edit", relation, 400)
    merge = {"entities_to_change": ["Nobody"], "entity_to_change_into": "Ann"}
    await world.post("/graph/entities/merge", merge, 400)
    await world.delete("/graph/entity/delete", {"entity_name": "Nobody"}, 404)
    await world.delete("/graph/relation/delete", {"source_entity": "Ann", "target_entity": "Cy"}, 404)
    await world.post("/graph/entity/edit", {"entity_name": "", "updated_data": {}}, 422)


async def test_entity_and_relation_are_made_and_hidden(world: World) -> None:
    body = {"entity_name": "Dee", "entity_data": {"description": "new here", "entity_type": "PERSON", "other": 1}}
    done = await world.post("/graph/entity/create", body)
    assert done["message"] == "Entity 'Dee' created successfully"
    assert done["data"]["source_id"] == "manual_creation"
    await world.post("/graph/entity/create", body, 400)
    await world.post("/graph/entity/create", {"entity_name": "E", "entity_data": {}}, 400)
    data = {"description": "knows", "keywords": "friend, old", "weight": "2.5"}
    relation = {"source_entity": "Dee", "target_entity": "Ann", "relation_data": data}
    done = await world.post("/graph/relation/create", relation)
    assert done["message"] == "Relation created successfully between 'Dee' and 'Ann'"
    assert done["data"]["graph_data"]["keywords"] == "friend,old"
    assert done["data"]["graph_data"]["weight"] == 2.5
    await world.post("/graph/relation/create", relation, 400)
    done = await world.delete("/graph/relation/delete", {"source_entity": "ann", "target_entity": "dee"})
    assert (done["status"], done["status_code"], done["doc_id"], done["file_path"]) == ("success", 200, "", None)
    done = await world.delete("/documents/delete_entity", {"entity_name": "dee"})
    assert done["message"] == "Entity 'Dee' and its relationships have been deleted."
    assert await world.get("/graph/entity/exists", name="Dee") == {"exists": False}


async def test_name_that_was_merged_away_deletes_nothing(world: World) -> None:
    await world.post("/graph/entities/merge", {"entities_to_change": ["Annie"], "entity_to_change_into": "Ann"})
    await world.delete("/graph/entity/delete", {"entity_name": "Annie"}, 404)
    await world.delete("/graph/relation/delete", {"source_entity": "Annie", "target_entity": "Cy"}, 404)
    assert await world.get("/graph/label/list") == ["Ann", "Bob", "Cy"]


async def test_origin_of_what_is_made_is_kept(world: World) -> None:
    said = {"description": "new", "source_id": "crm-7", "file_path": "crm.csv"}
    done = await world.post("/graph/entity/create", {"entity_name": "Dee", "entity_data": said})
    assert (done["data"]["source_id"], done["data"]["graph_data"]["file_path"]) == ("crm-7", "crm.csv")
    relation = {"source_entity": "Dee", "target_entity": "Ann", "relation_data": said}
    assert (await world.post("/graph/relation/create", relation))["data"]["source_id"] == "crm-7"
    done = await edit(world, "Dee", description="other")
    assert done["data"]["graph_data"]["source_id"] == "crm-7"


@pytest.mark.parametrize("given", [{}, {"entity_type": "UNKNOWN"}, {"entity_type": " unknown "}, {"entity_type": ""}])
async def test_entity_made_without_a_type_has_that_of_documents(world: World, given: dict[str, str]) -> None:
    body = {"entity_name": "Dee", "entity_data": {"description": "new here", **given}}
    done = await world.post("/graph/entity/create", body)
    assert done["data"]["graph_data"]["entity_type"] == "unknown"
    (node,) = (await world.get("/graphs", label="Dee"))["nodes"]
    assert node["properties"]["entity_type"] == "unknown"
    async with world.service.workspaces.use() as engine:
        await engine.insert("Dee (ship): sails.", sources=["three.md"])
    (node,) = (await world.get("/graphs", label="Dee"))["nodes"]
    assert node["properties"]["entity_type"] == "ship"


async def test_edit_to_the_type_unknown_is_done_and_taken_back(world: World) -> None:
    done = await edit(world, "Ann", entity_type="UNKNOWN", description="new")
    assert done["data"]["graph_data"]["entity_type"] == "unknown"
    (id_,) = done["curation_ids"]
    async with world.service.workspaces.use() as engine:
        await engine.undo(id_)
        found = await engine.entity("Ann")
    assert found is not None
    assert found.type == "person"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"description": "x", "weight": "nan"},
        {"description": "x", "weight": -1},
        {"description": "x", "weight": True},
        {"description": "x", "weight": "1e999"},
        {"description": "x", "weight": 10**400},
        {"description": "x", "keywords": ["a"]},
    ],
)
async def test_bad_relation_is_refused(world: World, data: dict[str, Any]) -> None:
    body = {"source_entity": "Ann", "target_entity": "Cy", "relation_data": data}
    await world.post("/graph/relation/create", body, 400)
    await world.post("/graph/relation/edit", {"source_id": "Ann", "target_id": "Bob", "updated_data": data}, 400)


async def test_self_loops_are_refused(world: World) -> None:
    body = {"source_entity": "Ann", "target_entity": "ANN", "relation_data": {"description": "x"}}
    await world.post("/graph/relation/create", body, 400)


async def test_relation_is_edited_in_either_order(world: World) -> None:
    body = {"source_id": "Bob", "target_id": "Ann", "updated_data": {"keywords": "guides；helps", "file_path": "x"}}
    done = await world.post("/graph/relation/edit", body)
    assert done["message"] == "Relation updated successfully"
    assert done["data"]["graph_data"]["keywords"] == "guides,helps"
    await world.post("/graph/relation/edit", body | {"updated_data": {"rank": 1}}, 400)


async def test_several_entities_become_one_under_a_new_name(world: World) -> None:
    body = {"entities_to_change": ["Ann", "Annie"], "entity_to_change_into": "Anne"}
    done = await world.post("/graph/entities/merge", body)
    assert done["message"] == "Successfully merged 2 entities into 'Anne'"
    assert await world.get("/graph/label/list") == ["Anne", "Bob", "Cy"]
    await world.post("/graph/entities/merge", body | {"entities_to_change": []}, 422)
