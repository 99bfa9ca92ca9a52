from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.extraction.base import canonical_extraction, moved_extraction
from heliograph.ids import mention_rank, name_to_entity_id, names_to_relation_id
from heliograph.ingest.merging import mention_delta
from heliograph.models import EntityMention, Extraction, RelationMention

NAMES = st.sampled_from(["ESP32", "esp32", "“ESP32”", "MQTT", "TLS", "", "  ", "张三", "\ud800"])
TEXTS = st.sampled_from(["", "a chip", "  a chip ", "bad\x00\ud800"])


def entity(name: str, description: str = "", rank: int = 7, chunk: str = "chunk-1") -> EntityMention:
    return EntityMention(chunk, name, "thing", description, rank)


def relation(source: str, target: str, description: str = "", weight: float = 1.0, rank: int = 7) -> RelationMention:
    return RelationMention("chunk-1", source, target, ("uses",), description, weight, rank)


def extraction(*mentions: EntityMention | RelationMention) -> Extraction:
    return Extraction(
        "chunk-1",
        "test",
        tuple(item for item in mentions if isinstance(item, EntityMention)),
        tuple(item for item in mentions if isinstance(item, RelationMention)),
    )


def test_canonical_extraction_drops_repeats_and_what_has_no_name() -> None:
    found = canonical_extraction(
        extraction(entity("B"), entity("A"), entity("A"), entity(" "), relation("A", "B"), relation("A", "B"))
    )
    assert [mention.name for mention in found.entities] == ["A", "B"]
    assert len(found.relations) == 1


def test_canonical_extraction_drops_relations_of_a_thing_with_itself() -> None:
    found = canonical_extraction(extraction(entity("ESP32"), relation("ESP32", "esp32"), relation("ESP32", "")))
    assert found.relations == ()


def test_canonical_extraction_adds_ends_that_are_not_listed() -> None:
    found = canonical_extraction(extraction(entity("esp32"), relation("ESP32", "MQTT"), relation("mqtt", "ESP32")))
    assert [(mention.name, mention.type) for mention in found.entities] == [("MQTT", "unknown"), ("esp32", "thing")]


@pytest.mark.parametrize(("weight", "kept"), [(float("nan"), 1.0), (-2.0, 1.0), (0.0, 1.0), (0.5, 0.5), (1e12, 1e6)])
def test_canonical_extraction_mends_weights(weight: float, kept: float) -> None:
    assert canonical_extraction(extraction(relation("A", "B", weight=weight))).relations[0].weight == kept


@settings(deadline=None)
@given(st.lists(st.builds(entity, NAMES, TEXTS) | st.builds(relation, NAMES, NAMES, TEXTS)), st.randoms())
def test_canonical_extraction_does_not_depend_on_order(mentions: list[EntityMention | RelationMention], random) -> None:
    found = canonical_extraction(extraction(*mentions))
    random.shuffle(mentions)
    assert canonical_extraction(extraction(*mentions)) == found
    assert canonical_extraction(found) == found
    ids = {name_to_entity_id(mention.name) for mention in found.entities}
    assert all(
        {name_to_entity_id(mention.source), name_to_entity_id(mention.target)} <= ids for mention in found.relations
    )
    assert all(mention.description.encode("utf-8") is not None for mention in found.entities)


@settings(deadline=None)
@given(st.integers(0, 2_000_000), st.integers(0, 2_000_000), st.booleans())
def test_moved_extraction_has_the_ranks_of_its_new_place(old: int, new: int, is_subject: bool) -> None:
    rank, moved_rank = (mention_rank("doc-1", place, is_subject=is_subject) for place in (old, new))
    before = extraction(entity("A", rank=rank), relation("A", "B", rank=rank))
    assert moved_extraction(before, new) == extraction(
        entity("A", rank=moved_rank), relation("A", "B", rank=moved_rank)
    )


def test_mention_delta_leaves_out_what_stays() -> None:
    before = extraction(entity("A", "old"), entity("B"), relation("A", "B"))
    after = extraction(entity("A", "new"), entity("B"), relation("A", "B"))
    delta = mention_delta([before], [after])
    assert delta.entity_ids == [name_to_entity_id("A")]
    assert delta.relation_ids == []
    assert delta.most_removed == 1
    assert mention_delta([before], [before]).entity_ids == []


def test_mention_delta_groups_spellings_and_both_directions() -> None:
    delta = mention_delta([], [extraction(entity("ESP32"), entity("esp32"), relation("A", "B"), relation("b", "a"))])
    entities, relations = delta.added_entity_mentions, delta.added_relation_mentions
    assert {id_: len(found) for id_, found in entities.items()} == {name_to_entity_id("ESP32"): 2}
    assert {id_: len(found) for id_, found in relations.items()} == {names_to_relation_id("B", "A"): 2}


def test_mention_delta_sees_a_chunk_that_moved() -> None:
    before = extraction(entity("A", rank=1))
    delta = mention_delta([before], [replace(before, entities=(entity("A", rank=2),))])
    assert delta.removed_entity_mentions.keys() == delta.added_entity_mentions.keys() == {name_to_entity_id("A")}
