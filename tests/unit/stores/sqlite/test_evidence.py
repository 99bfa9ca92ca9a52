from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.ids import name_to_entity_id, names_to_relation_id
from heliograph.models import EntityEvidence
from heliograph.stores.changeset import Changeset
from heliograph.stores.sqlite.records import EvidenceMemory
from heliograph.stores.sqlite.store import SqliteStore
from heliograph.testing.examples import example_changeset

from .conftest import OpenStore

HUB = name_to_entity_id("Hub")
PAIR = names_to_relation_id("Hub", "Spoke")
MENTIONS = 12


async def _mention_hub(store: SqliteStore, count: int, first: int = 0) -> None:
    """Write documents that mention the hub, each with evidence that counts all before it, as an ingest does."""
    for number in range(first, first + count):
        entities, relations = await store.records.get_evidence([HUB], [PAIR], 100)
        new = example_changeset(f"{number}.md", ["Hub", "Spoke"], [("Hub", "Spoke", 1.0)])
        await store.apply(
            replace(
                new,
                entity_evidence=tuple(_grown(item, entities) for item in new.entity_evidence if item.id == HUB),
                relation_evidence=tuple(_grown(item, relations) for item in new.relation_evidence),
            )
        )


def _grown(item, before):
    leading = sorted((*(before[0].leading if before else ()), *item.leading), key=lambda mention: mention.rank)
    return replace(item, mention_count=len(leading), leading=tuple(leading))


async def test_remembered_evidence_is_what_another_process_reads(open_store: OpenStore) -> None:
    writer = await open_store()
    await _mention_hub(writer, MENTIONS)
    reader = await open_store()
    for leading in (0, 1, 5, MENTIONS, 100):
        remembered = await writer.records.get_evidence([HUB], [PAIR], leading)
        assert remembered == await reader.records.get_evidence([HUB], [PAIR], leading)
        assert [len(item.leading) for item in remembered[0]] == [min(leading, MENTIONS)]


async def test_change_of_another_process_is_seen(open_store: OpenStore) -> None:
    one, other = await open_store(), await open_store()
    await _mention_hub(one, 6)
    await one.records.get_evidence([HUB], [PAIR], 100)
    await _mention_hub(other, 8, first=6)
    ((evidence,), _) = await one.records.get_evidence([HUB], [], 100)
    assert evidence.mention_count == 14
    await other.apply(Changeset(entity_evidence=(replace(evidence, mention_count=0),), removed_entities=(HUB,)))
    assert await one.records.get_evidence([HUB], [], 100) == ([], [])


async def test_more_mentions_than_are_remembered_are_read(open_store: OpenStore) -> None:
    store = await open_store()
    await _mention_hub(store, MENTIONS)
    other = await open_store()
    ((few,), _) = await other.records.get_evidence([HUB], [], 5)
    ((all_,), _) = await other.records.get_evidence([HUB], [], 100)
    assert (len(few.leading), len(all_.leading)) == (5, MENTIONS)
    assert all_.leading[:5] == few.leading


async def test_what_is_read_beyond_the_remembered_goes_on_where_it_ended(open_store: OpenStore) -> None:
    writer = await open_store()
    # Three mentions a chunk stand at one place of the canonical order.
    for number in range(3):
        names = ["HUB", "Hub", "hub"]
        new = example_changeset(f"{number}.md", names)
        said = tuple(mention for item in new.entity_evidence for mention in item.leading)
        counted = replace(new.entity_evidence[0], mention_count=3 * number + 3, leading=said)
        await writer.apply(replace(new, entity_evidence=(counted,), entities=new.entities[:1], vectors={}, texts={}))
    reader = await open_store()
    for leading in range(4, 10):
        afresh = await open_store()
        found = await reader.records.get_evidence([HUB], [], leading)
        assert found == await afresh.records.get_evidence([HUB], [], leading)
        assert len(found[0][0].leading) == leading


async def test_memory_is_bounded(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.stores.sqlite.records._MOST_MENTIONS", 10)
    memory = EvidenceMemory()
    store = await open_store()
    await _mention_hub(store, 6)
    ((hub,), _) = await store.records.get_evidence([HUB], [], 100)
    for number in range(5):
        copy: EntityEvidence = replace(hub, id=f"ent-{number}")
        memory.note(Changeset(entity_evidence=(copy,)), 7)
    assert list(memory._known) == ["ent-4"]
    assert memory._mentions == 6
