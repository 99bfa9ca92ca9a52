"""What every store must do with rules of names and curations; part of `heliograph.testing.store_contract`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from heliograph.errors import StaleChangesetError
from heliograph.ids import relation_id
from heliograph.models import AliasMention, Curation, CurationKind, NameRules
from heliograph.stores.base import CurationQuery, Store
from heliograph.stores.changeset import Changeset
from heliograph.testing.examples import example_changeset
from heliograph.text.names import name_to_entity_id as entity

__all__ = ["CurationContract"]

_MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _merge(id_: str, *names: str) -> Curation:
    ids = tuple(entity(name) for name in names)
    return Curation(id_, CurationKind.MERGE_ENTITIES, names, ids, author="eve", created_at=_MOMENT)


def _changes(*curations: Curation) -> Changeset:
    ids = dict.fromkeys(id_ for item in curations for id_ in item.entity_ids)
    return Changeset(curations=curations, name_rules=tuple(NameRules(id_) for id_ in ids))


class CurationContract:
    """Rules, curations, and mentions that count for another entity than their names stand for."""

    async def test_mention_comes_back_with_what_it_counts_for(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["A", "B", "C"], [("A", "B", 1.0), ("A", "C", 1.0)])
        (read,) = changeset.extractions
        resolved = replace(
            read,
            entities=(replace(read.entities[0], entity_id=entity("B")), *read.entities[1:]),
            relations=tuple(replace(item, source_id=entity("B")) for item in read.relations),
            aliases=(AliasMention(read.chunk_id, "B", "A"),),
        )
        await store.apply(replace(changeset, extractions=(resolved,)))
        assert await store.records.get_extractions([read.chunk_id]) == [resolved]
        evidence, relations = await store.records.get_evidence(
            [entity("A"), entity("B")], [relation_id(entity("A"), entity("C"))], 9
        )
        assert [item.leading for item in evidence] == [(), resolved.entities[:2]]
        assert [item.leading for item in relations] == [()]

    async def test_mentioning_chunks_are_found_by_name_and_by_entity(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["A", "B"])
        (read,) = changeset.extractions
        moved = replace(read, entities=(replace(read.entities[0], entity_id=entity("C")), read.entities[1]))
        await store.apply(replace(changeset, extractions=(moved,)))
        await store.apply(example_changeset("b.md", ["C"]))
        other = example_changeset("b.md", ["C"]).chunks[0]
        place = {read.chunk_id: changeset.documents[0].id}
        assert await store.curations.find_mentioning_chunks([entity("A")]) == place
        assert await store.curations.find_mentioning_chunks([entity("B"), entity("none")]) == place
        assert await store.curations.find_mentioning_chunks([entity("C")]) == place | {other.id: other.document_id}
        assert await store.curations.find_mentioning_chunks([]) == {}

    async def test_aliases_of_a_document_come_and_go_with_its_chunks(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["A"])
        document = changeset.documents[0].id
        alias = AliasMention(changeset.chunks[0].id, "A", "Ay")
        await store.apply(replace(changeset, extractions=(replace(changeset.extractions[0], aliases=(alias,)),)))
        assert await store.curations.get_document_aliases([document, "doc-none"]) == {document: [alias]}
        await store.apply(Changeset(removed_chunks=(changeset.chunks[0].id,)))
        assert await store.curations.get_document_aliases([document]) == {}

    async def test_rules_come_back_with_active_curations_and_their_version(self, store: Store) -> None:
        assert await store.curations.get_rules([entity("A")]) == []
        rules = NameRules(entity("A"), {entity("B"): 2}, {entity("C"): 1})
        version = await store.apply(Changeset(curations=(_merge("cur-1", "A", "B"),), name_rules=(rules,)))
        (found,) = await store.curations.get_rules([entity("none"), entity("A")])
        assert found == replace(rules, curations=found.curations, version=version)
        assert [replace(item, sequence=0) for item in found.curations] == [_merge("cur-1", "A", "B")]

    async def test_curations_keep_their_order_and_their_content(self, store: Store) -> None:
        ends = ("A", "B"), (entity("A"), entity("B"))
        edit = Curation("cur-2", CurationKind.EDIT_RELATION, *ends, (), None, "", ("x", "y"), 2.5, "", _MOMENT)
        split = Curation(
            "cur-3", CurationKind.SPLIT_ENTITY, *ends, ("doc-1",), "thing", author="me", created_at=_MOMENT
        )
        await store.apply(_changes(_merge("cur-1", "C", "A"), edit))
        await store.apply(_changes(split))
        page = await store.curations.find_curations(CurationQuery())
        assert [replace(item, sequence=0) for item in page.curations] == [_merge("cur-1", "C", "A"), edit, split]
        assert page.total == 3
        assert sorted(item.sequence for item in page.curations) == [item.sequence for item in page.curations]
        page = await store.curations.find_curations(
            CurationQuery(entity_id=entity("B"), descending=True, offset=1, limit=1)
        )
        assert [item.id for item in page.curations] == ["cur-2"]
        assert page.total == 2

    async def test_undone_curation_stays_in_the_list_and_out_of_the_rules(self, store: Store) -> None:
        await store.apply(_changes(_merge("cur-1", "A", "B"), _merge("cur-2", "C", "B")))
        (first,) = await store.curations.get_curations(["cur-none", "cur-1"])
        undone = replace(first, undone_at=_MOMENT, undone_by="me")
        await store.apply(_changes(undone))
        assert await store.curations.get_curations(["cur-1"]) == [undone]
        (rules,) = await store.curations.get_rules([entity("B")])
        assert [item.id for item in rules.curations] == ["cur-2"]
        page = await store.curations.find_curations(CurationQuery(includes_undone=False))
        assert [item.id for item in page.curations] == ["cur-2"]

    async def test_stale_rules_change_nothing(self, store: Store) -> None:
        version = await store.apply(_changes(_merge("cur-1", "A", "B")))
        for expected in ({entity("A"): version + 1}, {entity("B"): 0}, {entity("none"): 1}):
            with pytest.raises(StaleChangesetError):
                await store.apply(replace(_changes(_merge("cur-2", "C", "D")), expected_rules=expected))
        assert await store.curations.get_curations(["cur-2"]) == []
        await store.apply(Changeset(expected_rules={entity("A"): version, entity("none"): 0}))

    async def test_changeset_may_expect_that_nothing_was_committed(self, store: Store) -> None:
        version = await store.apply(example_changeset("a.md", ["A"]))
        with pytest.raises(StaleChangesetError):
            await store.apply(replace(_changes(_merge("cur-1", "A", "B")), expected_version=version - 1))
        assert await store.curations.get_curations(["cur-1"]) == []
        assert await store.apply(replace(_changes(_merge("cur-1", "A", "B")), expected_version=version)) == version + 1

    async def test_deleted_entity_leaves_its_mentions(self, store: Store) -> None:
        changeset = example_changeset("a.md", ["A"])
        await store.apply(changeset)
        await store.apply(Changeset(removed_entities=(entity("A"),), entity_evidence=changeset.entity_evidence))
        evidence, _ = await store.records.get_evidence([entity("A")], [], 9)
        assert [item.leading for item in evidence] == [changeset.extractions[0].entities]
