"""Changes of names that reach what other documents say, one case each; the property tests hold them all."""

from __future__ import annotations

import pytest

from heliograph.ingest.models import NewDocument
from heliograph.testing.memory_store import MemoryStore

from .test_curation_property import World, differences, graph


@pytest.mark.parametrize("is_undone", [False, True])
async def test_merge_renames_the_ends_of_relations_that_one_document_alone_gave_the_alias(is_undone: bool) -> None:
    world = World(MemoryStore())
    await world.pipeline.insert(
        [
            NewDocument("Ann (person): one.", "a.md"),
            NewDocument("Cy = Ann", "b.md"),
            # Ann is an alias of two names: here it counts for Bob, elsewhere for itself.
            NewDocument("Ann -> Cy [knows] 1.5: met\nBob = Ann", "c.md"),
        ]
    )
    merge = await world.curator.merge_entities(["Ann"], "Bob", author="me")
    if is_undone:
        await world.curator.undo(merge.id, author="me")

    fresh = await world.anew()

    (relation,) = (await graph(world.store))["relations"]
    assert {relation.source, relation.target} == ({"Ann", "Cy"} if is_undone else {"Bob", "Cy"})
    assert differences(await graph(world.store), await graph(fresh.store)) == []


async def test_name_that_leads_away_again_leads_to_what_was_deleted_by_hand() -> None:
    world = World(MemoryStore())
    said = "Cy = Ann\nNew (person): one.\nCy = New"
    await world.pipeline.insert([NewDocument("Cy = Ann\nAnn (person): one.", "b.md")])
    await world.curator.delete_entity("Ann", author="me")
    await world.pipeline.insert([NewDocument(said, "c.md")])
    # While New has an alias of its own, it does not lead to Cy.
    await world.pipeline.insert([NewDocument("New = Dot", "b.md")])
    await world.curator.merge_entities(["New"], "ann", author="me")

    # The chunk moves to the other document: no alias is gained or lost but Dot.
    await world.pipeline.insert([NewDocument(said, "b.md")])

    found = await graph(world.store)
    assert found["entities"] == []
    assert differences(found, await graph((await world.anew()).store)) == []


async def test_end_of_a_relation_made_by_hand_goes_where_a_merge_of_the_other_end_makes_it_a_deleted_one() -> None:
    world = World(MemoryStore())
    await world.pipeline.insert([NewDocument("Ann -> Dot [knows] 1.5: met\nBob -> New [knows] 1.5: met", "b.md")])
    await world.curator.create_relation("Dot", "New", keywords=[], description="by hand", weight=2.0, author="me")
    await world.curator.delete_relation("New", "Bob", author="me")
    await world.curator.merge_entities(["Dot"], "Bob", author="me")

    await world.pipeline.insert([NewDocument("Cy -> Dot [knows] 1.5: met", "b.md")])

    found = await graph(world.store)
    assert sorted(item.name for item in found["entities"]) == ["Bob", "Cy"]
    assert differences(found, await graph((await world.anew()).store)) == []
