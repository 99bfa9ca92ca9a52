from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.errors import StoreError
from heliograph.extraction.base import entity_mention_order, relation_mention_order
from heliograph.ids import end_ids, entity_key, name_to_entity_id, names_to_relation_id
from heliograph.ingest.merging import (
    EvidenceFold,
    apply_entity_delta,
    apply_relation_delta,
    empty_entity_evidence,
    empty_relation_evidence,
    fold_entity,
    fold_relation,
    split_keywords,
)
from heliograph.models import Entity, EntityEvidence, EntityMention, Relation, RelationEvidence, RelationMention
from heliograph.text.tokens import count_tokens, entity_row, relation_row

LIMITS = EvidenceFold(max_fragments=3, max_sources=4, max_description_tokens=1000)
ENTITY = name_to_entity_id("ESP32")
RELATION = names_to_relation_id("ESP32", "MQTT")

CHUNKS = st.sampled_from([f"chunk-{number}" for number in range(8)])
ENTITY_MENTIONS = st.builds(
    EntityMention,
    CHUNKS,
    st.sampled_from(["ESP32", "esp32", "Esp32"]),
    st.sampled_from(["chip", "device", "unknown"]),
    st.sampled_from(["", "a chip", "has Wi-Fi", "costs little", "双核芯片"]),
    st.integers(0, 5),
)
RELATION_MENTIONS = st.builds(
    lambda chunk, names, keywords, description, weight, rank: RelationMention(
        chunk, *names, keywords, description, weight, rank
    ),
    CHUNKS,
    st.sampled_from([("ESP32", "MQTT"), ("MQTT", "ESP32"), ("esp32", "MQTT"), ("mqtt", "esp32")]),
    st.sampled_from([(), ("uses, sends",), ("uses; 连接、发送",), ("sends", "sends , ")]),
    st.sampled_from(["", "sends by", "speaks"]),
    st.sampled_from([1.0, 0.1, 0.2, 2.5]),
    st.integers(0, 5),
)


class StoredEvidence:
    """Evidence as a store keeps it: exact counts, and all mentions in canonical order."""

    def __init__(self, empty: Any, apply: Callable[..., Any], order: Callable[[Any], Any]) -> None:
        self.evidence = empty
        self.mentions: set[Any] = set()
        self._apply = apply
        self._order = order

    def change(self, removed: Sequence[Any], added: Sequence[Any]) -> None:
        read = LIMITS.leading + len(removed)
        known = replace(self.evidence, leading=tuple(sorted(self.mentions, key=self._order))[:read])
        self.evidence = self._apply(known, removed, added, LIMITS.leading)
        self.mentions = (self.mentions - set(removed)) | set(added)


def entities() -> StoredEvidence:
    return StoredEvidence(empty_entity_evidence(ENTITY), apply_entity_delta, entity_mention_order)


def relations() -> StoredEvidence:
    empty = empty_relation_evidence(RELATION, end_ids(RelationMention("", "MQTT", "ESP32", (), "", 1.0, 0)))
    return StoredEvidence(empty, apply_relation_delta, relation_mention_order)


def fold(evidence: EntityEvidence | RelationEvidence) -> Entity | Relation:
    description = "<SEP>".join(LIMITS.fragments(evidence))
    if isinstance(evidence, EntityEvidence):
        return fold_entity(evidence, description, LIMITS)
    return fold_relation(evidence, description, LIMITS)


def check_any_order(stored: StoredEvidence, scratch: StoredEvidence, mentions: list[Any], data: st.DataObject) -> None:
    """Come and go in any order: the fold is that of what is left, added at once."""
    for mention in mentions:
        if mention in stored.mentions:
            continue
        others = (
            data.draw(st.lists(st.sampled_from(sorted(stored.mentions, key=repr)), unique=True))
            if stored.mentions
            else []
        )
        stored.change(others, [mention])
        if data.draw(st.booleans()):
            stored.change([], others)
    scratch.change([], sorted(stored.mentions, key=repr))
    assert stored.evidence == scratch.evidence
    if stored.mentions:
        assert fold(stored.evidence) == fold(scratch.evidence)


@settings(deadline=None)
@given(st.lists(ENTITY_MENTIONS, max_size=12), st.data())
def test_entity_fold_depends_on_its_mentions_alone(mentions: list[EntityMention], data: st.DataObject) -> None:
    check_any_order(entities(), entities(), mentions, data)


@settings(deadline=None)
@given(st.lists(RELATION_MENTIONS, max_size=12), st.data())
def test_relation_fold_depends_on_its_mentions_alone(mentions: list[RelationMention], data: st.DataObject) -> None:
    check_any_order(relations(), relations(), mentions, data)


@settings(deadline=None)
@given(st.lists(ENTITY_MENTIONS, min_size=1, unique=True), st.randoms())
def test_adding_and_removing_all_leaves_nothing(mentions: list[EntityMention], random: Any) -> None:
    stored = entities()
    stored.change([], mentions)
    random.shuffle(mentions)
    for mention in mentions:
        stored.change([mention], [])
    assert stored.evidence == empty_entity_evidence(ENTITY)


def evidence_of(*mentions: EntityMention) -> EntityEvidence:
    stored = entities()
    stored.change([], mentions)
    return stored.evidence


def mention(
    name: str = "ESP32", type_: str = "chip", description: str = "", rank: int = 0, chunk: str = ""
) -> EntityMention:
    return EntityMention(chunk or f"chunk-{rank}", name, type_, description, rank)


def test_name_is_the_commonest_spelling_then_the_first_in_order() -> None:
    evidence = evidence_of(mention("esp32", rank=1), mention("ESP32", rank=2), mention("Esp32", rank=3))
    assert fold(evidence).name == "ESP32"
    assert fold(evidence).aliases == ("Esp32", "esp32")
    assert (
        fold(evidence_of(mention("ESP32", rank=1), mention("esp32", rank=2), mention("esp32", rank=3))).name == "esp32"
    )


def test_unknown_type_never_beats_another() -> None:
    unknown = [mention(type_="unknown", rank=rank) for rank in range(3)]
    assert fold(evidence_of(*unknown)).type == "unknown"
    assert fold(evidence_of(*unknown, mention(type_="chip", rank=9))).type == "chip"
    assert fold(evidence_of(mention(type_="device", rank=1), mention(type_="chip", rank=2))).type == "chip"


def test_description_is_made_of_the_first_distinct_fragments() -> None:
    found = [mention(description=text, rank=rank) for rank, text in enumerate(["b", "", "b", "a", "c"])]
    assert EvidenceFold(4, 4, 1000).fragments(evidence_of(*found)) == ("b", "a")
    assert EvidenceFold(2, 4, 1000).fragments(evidence_of(*found)) == ("b",)


def test_chunks_are_listed_once_in_canonical_order_up_to_the_limit() -> None:
    found = [mention(rank=rank, description=text, chunk=f"chunk-{9 - rank}") for rank in range(6) for text in "xy"]
    assert fold(evidence_of(*found)).chunk_ids == ("chunk-9", "chunk-8")
    assert fold(evidence_of(*(mention(rank=rank) for rank in range(6)))).chunk_ids == tuple(
        f"chunk-{n}" for n in range(4)
    )


def test_token_count_is_that_of_the_line_and_taken_over_when_it_is_the_same() -> None:
    evidence = evidence_of(mention(description="a chip"))
    entity = fold_entity(evidence, "a chip", LIMITS)
    assert entity.token_count == count_tokens(entity_row("ESP32", "chip", "a chip"))
    assert fold_entity(evidence, "a chip", LIMITS, replace(entity, token_count=99)).token_count == 99
    assert fold_entity(evidence, "other", LIMITS, replace(entity, token_count=99)).token_count != 99


def test_relation_sums_weights_exactly_and_unites_keywords() -> None:
    stored = relations()
    found = [RelationMention(f"chunk-{n}", "MQTT", "ESP32", ("sends, uses",), "", 0.1, n) for n in range(10)]
    stored.change([], found)
    relation = fold(stored.evidence)
    assert isinstance(relation, Relation)
    assert relation.weight == 1.0
    assert relation.keywords == ("sends", "uses")
    assert (relation.source, relation.target) == ("ESP32", "MQTT")
    assert (relation.source_id, relation.target_id) == (name_to_entity_id("ESP32"), name_to_entity_id("MQTT"))
    assert relation.token_count == count_tokens(relation_row("ESP32", "MQTT", ""))


def test_relation_ends_are_sorted_by_key_not_by_spelling() -> None:
    mentions = [RelationMention("chunk-1", "beta", "Alpha", (), "", 1.0, 0)]
    evidence = apply_relation_delta(empty_relation_evidence("rel-1", end_ids(mentions[0])), [], mentions, 5)
    relation = fold_relation(evidence, "", LIMITS)
    assert entity_key(relation.source) < entity_key(relation.target)
    assert (relation.source, relation.source_id) == ("Alpha", name_to_entity_id("alpha"))


def test_many_keywords_are_shown_by_frequency() -> None:
    rare = RelationMention("chunk-1", "A", "B", (", ".join(f"word {n:03}" for n in range(100)),), "", 1.0, 0)
    common = RelationMention("chunk-2", "A", "B", ("zebra",), "", 1.0, 1)
    again = replace(common, chunk_id="chunk-3")
    evidence = apply_relation_delta(empty_relation_evidence("rel-1", end_ids(rare)), [], [rare, common, again], 5)
    shown = fold_relation(evidence, "", LIMITS).keywords
    assert len(shown) == 50
    assert shown[-1] == "zebra"
    assert list(shown) == sorted(shown)


def test_keywords_are_split_trimmed_and_distinct() -> None:
    assert split_keywords(["uses, sends", "sends;连接、发送，uses；x", " , ", ""]) == (
        "sends",
        "uses",
        "x",
        "发送",
        "连接",
    )
    assert len(split_keywords(["k" * 900])[0]) == 500


def test_removing_what_was_never_counted_is_a_store_error() -> None:
    with pytest.raises(StoreError, match=r"ent-.*backup"):
        apply_entity_delta(empty_entity_evidence(ENTITY), [mention()], [], 5)
