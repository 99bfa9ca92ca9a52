"""The graph on Neo4j and on FalkorDB: what others can read in it, whose it is, and how it goes on after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("neo4j", reason="needs: pip install 'heliograph[neo4j]'")
pytest.importorskip("falkordb", reason="needs: pip install 'heliograph[falkordb]'")

from heliograph.errors import StoreUnavailable
from heliograph.ids import name_to_entity_id, names_to_relation_id
from heliograph.models import Entity, Relation
from heliograph.stores.changeset import OutboxKind
from heliograph.stores.cypher import TypeNames
from heliograph.stores.projection import ProjectionChange
from heliograph.testing.examples import example_changeset

from .servers import World, open_world


@pytest.fixture(params=["neo4j_server", "falkordb_server"])
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[World]:
    world = await open_world(tmp_path, request.getfixturevalue(request.param))
    yield world
    await world.store.close()


def relation(source: str, target: str, keywords: tuple[str, ...], weight: float = 1.0) -> Relation:
    ends = sorted((name_to_entity_id(source), name_to_entity_id(target)))
    return Relation(names_to_relation_id(source, target), source, target, *ends, keywords, "said", weight, ("chunk-1",))


def entity(name: str, type_: str = "person") -> Entity:
    return Entity(name_to_entity_id(name), name, type_, f"About {name}", (), ("chunk-1", "chunk-2"))


async def test_properties_are_those_that_other_programs_read(world: World) -> None:
    people = (entity("Ann", "Research group"), entity("Bob", ""))
    await world.graph.apply(
        ProjectionChange(entities=people, relations=(relation("Ann", "Bob", ("works with", "knows"), 2.5),))
    )
    rows = await world.ask(
        """MATCH (e:Entity {workspace: $workspace})
           RETURN e.displayName, labels(e), e.entity_type, e.description, e.source_id ORDER BY e.displayName"""
    )
    assert [(name, set(labels), *rest) for name, labels, *rest in rows] == [
        ("Ann", {"Entity", world.graph._label, "RESEARCH_GROUP"}, "RESEARCH_GROUP", "About Ann", "chunk-1<SEP>chunk-2"),
        ("Bob", {"Entity", world.graph._label, "UNKNOWN"}, "UNKNOWN", "About Bob", "chunk-1<SEP>chunk-2"),
    ]
    assert [item.type for item in await world.graph.get_entities([item.id for item in people])] == [
        "Research group",
        "",
    ]
    found = await world.ask(
        f"""MATCH (:`{world.graph._label}`)-[r]->(:`{world.graph._label}`)
            RETURN type(r), r.keywords, r.relation_type, r.description, r.weight, r.source_id"""
    )
    assert [list(row) for row in found] == [
        ["WORKS_WITH", "works with,knows", "works with", "said", 2.5, "chunk-1"],
    ]


async def test_changed_type_takes_the_old_label_away(world: World) -> None:
    for type_ in ("person", "robot", "robot"):
        await world.graph.apply(ProjectionChange(entities=(entity("Ann", type_),)))
    ((labels,),) = await world.ask("MATCH (e:Entity {workspace: $workspace}) RETURN labels(e)")
    assert set(labels) == {"Entity", world.graph._label, "ROBOT"}


async def test_changed_keyword_moves_the_relation_to_another_type(world: World) -> None:
    people = (entity("Ann"), entity("Bob"))
    for keywords in (("knows",), ("likes", "knows"), ("likes",)):
        await world.graph.apply(ProjectionChange(entities=people, relations=(relation("Ann", "Bob", keywords),)))
    rows = await world.ask("MATCH (e:Entity {workspace: $workspace})-[r]->() RETURN type(r), r.keywords")
    assert [list(row) for row in rows] == [["LIKES", "likes"]]
    assert [item.degree for item in await world.graph.list_entities(0, 9)] == [1, 1]


async def test_types_are_not_more_than_a_database_bears(world: World) -> None:
    world.graph._types = TypeNames(["KNOWS"], 1)
    people = (entity("Ann"), entity("Bob"), entity("Cy"))
    put = (relation("Ann", "Bob", ("knows",)), relation("Bob", "Cy", ("never heard of",)))
    await world.graph.apply(ProjectionChange(entities=people, relations=put))
    rows = await world.ask("MATCH (e:Entity {workspace: $workspace})-[r]->() RETURN type(r), r.relation_type")
    assert sorted(map(tuple, rows)) == [("KNOWS", "knows"), ("RELATED", "never heard of")]
    assert len(await world.graph.get_relations([item.id for item in put])) == 2


async def test_relation_may_come_before_its_ends_and_go_after_them(world: World) -> None:
    link = relation("Ann", "Bob", ("knows",))
    await world.graph.apply(ProjectionChange(relations=(link,)))
    assert await world.graph.list_entities(0, 9) == []
    people = (entity("Ann"), entity("Bob"))
    await world.graph.apply(ProjectionChange(entities=people))
    assert await world.graph.list_entities(0, 9) == [replace(item, degree=1) for item in people]
    gone = [item.id for item in people]
    await world.graph.apply(ProjectionChange(removed={OutboxKind.ENTITIES: gone}))
    assert await world.graph.scan(OutboxKind.ENTITIES, "", 9) == []
    await world.graph.apply(ProjectionChange(removed={OutboxKind.RELATIONS: [link.id]}))
    assert list(await world.ask("MATCH (n) WHERE n.workspace = $workspace AND n.id > '' RETURN n.id")) == []


async def test_same_change_again_changes_nothing(world: World) -> None:
    names = ["Ann", "Bob", "Cy"]
    changeset = example_changeset("a.md", names, [("Ann", "Bob", 0.5), ("Bob", "Cy", 1.5)])
    await world.store.apply(changeset)
    change = ProjectionChange(entities=changeset.entities, relations=changeset.relations)
    kept = await world.graph.list_entities(0, 9)
    await world.graph.apply(change)
    assert [item.degree for item in await world.graph.list_entities(0, 9)] == [item.degree for item in kept]
    assert len(await world.ask("MATCH (e:Entity {workspace: $workspace})-[r]->() RETURN r.id")) == 2


async def test_any_text_comes_back_as_it_was(world: World) -> None:
    odd = """a"b'c\\d\\u0041\n\t`x` $y {z} 知识 😀 \\" --//"""
    item = replace(entity("Ann", odd), description=odd, aliases=("", odd))
    link = replace(relation("Ann", "Bob", (odd, "a,b")), description=odd)
    await world.graph.apply(ProjectionChange(entities=(item,), relations=(link,)))
    assert await world.graph.get_entities([item.id]) == [replace(item, degree=1)]
    assert await world.graph.get_relations([link.id]) == [link]


async def test_names_are_in_the_order_of_code_points(world: World) -> None:
    names = ["é", "z", "Y", "\N{FULLWIDTH WON SIGN}", "\N{GRINNING FACE}"]
    await world.graph.apply(ProjectionChange(entities=tuple(entity(name) for name in names)))
    assert [item.name for item in await world.graph.list_entities(0, 9)] == sorted(names)


async def test_scan_is_in_order_of_ids(world: World) -> None:
    changeset = example_changeset("a.md", ["ESP32", "MQTT", "TLS"])
    await world.store.apply(changeset)
    ids = sorted(item.id for item in changeset.entities)
    assert await world.graph.scan(OutboxKind.ENTITIES, "", 2) == ids[:2]
    assert await world.graph.scan(OutboxKind.ENTITIES, ids[1], 9) == ids[2:]
    assert await world.graph.scan(OutboxKind.DOCUMENTS, "", 9) == []


async def test_workspaces_are_walled_off(world: World, tmp_path: Path) -> None:
    changeset = example_changeset("a.md", ["Ann", "Bob"], [("Ann", "Bob", 1.0)])
    await world.store.apply(changeset)
    other = await open_world(tmp_path, world.server)
    assert await other.graph.get_cursor() == 0
    assert await other.graph.get_entities([item.id for item in changeset.entities]) == []
    await other.store.apply(example_changeset("b.md", ["Ann", "Bob", "Cy"], [("Ann", "Cy", 1.0)]))
    assert [item.name for item in await world.graph.list_entities(0, 9)] == ["Ann", "Bob"]
    assert len(await other.graph.rank_incident_relations([item.id for item in changeset.entities])) == 1
    await other.graph.clear()
    assert await other.graph.get_cursor() == -1
    assert await other.graph.list_entities(0, 9) == []
    await other.store.close()
    await world.expect_equal()


async def test_killed_server_catches_up_with_an_ingest(world: World) -> None:
    is_under_way = asyncio.Event()

    async def ingest() -> None:
        for number in range(60):
            names = [f"N{number}", f"N{number + 1}", "Hub"]
            pairs = [(names[0], names[1], 1.0), (names[0], "Hub", 0.5)]
            await world.store.apply(example_changeset(f"{number}.md", names, pairs))
            if number == 10:
                is_under_way.set()

    ingesting = asyncio.create_task(ingest())
    await is_under_way.wait()
    world.server.kill()
    try:
        await ingesting
        with pytest.raises(StoreUnavailable, match=r"out of reach.*store\.graph_url"):
            await world.graph.list_entities(0, 9)
        assert (await world.store.get_lags())[world.graph.name] > 0
    finally:
        await asyncio.to_thread(world.server.start)
    await world.store.followers[0].finish()
    await world.expect_equal()
