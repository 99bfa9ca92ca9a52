from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from heliograph.ids import name_to_entity_id as entity
from heliograph.ingest.merging import NO_ENTITY_OVERRIDES, NO_RELATION_OVERRIDES
from heliograph.ingest.resolution import (
    Place,
    RuleBook,
    entity_overrides,
    local_aliases,
    relation_overrides,
    resolve_extraction,
    rule_counts,
)
from heliograph.models import (
    AliasMention,
    Curation,
    CurationKind,
    EntityMention,
    Extraction,
    NameRules,
    RelationMention,
)

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def curation(sequence: int, kind: CurationKind, *names: str, **said: object) -> Curation:
    ids = tuple(entity(name) for name in names)
    item = Curation(f"cur-{sequence}", kind, names, ids, created_at=MOMENT, sequence=sequence)
    return replace(item, **said)  # pyright: ignore[reportArgumentType]


def book(*curations: Curation, aliases: tuple[tuple[str, str], ...] = ()) -> RuleBook:
    """Rules of these curations, and of aliases given as (alias, name)."""
    rules: dict[str, NameRules] = {}

    def of(id_: str) -> NameRules:
        return rules.get(id_, NameRules(id_))

    for item in curations:
        for id_ in item.entity_ids:
            rules[id_] = replace(of(id_), curations=(*of(id_).curations, item))
    for alias, name in aliases:
        rules[entity(alias)] = replace(of(entity(alias)), names={**of(entity(alias)).names, entity(name): 1})
        rules[entity(name)] = replace(of(entity(name)), aliases={**of(entity(name)).aliases, entity(alias): 1})
    return RuleBook(rules.values())


def test_name_without_rules_stands_for_itself() -> None:
    assert book().resolve(entity("A")) == entity("A")
    assert entity_overrides(book(), entity("A")) == NO_ENTITY_OVERRIDES
    assert relation_overrides(book(), entity("A"), entity("B")) == NO_RELATION_OVERRIDES


def test_alias_leads_to_the_one_name_that_all_give() -> None:
    assert book(aliases=(("a", "Name"),)).resolve(entity("A")) == entity("Name")
    assert book(aliases=(("a", "Name"), ("a", "Other"))).resolve(entity("A")) == entity("A")


def test_aliases_make_no_chains() -> None:
    chain = book(aliases=(("a", "b"), ("b", "c")))
    assert [chain.resolve(entity(name)) for name in "abc"] == [entity("b"), entity("b"), entity("c")]
    ring = book(aliases=(("a", "b"), ("b", "a")))
    assert [ring.resolve(entity(name)) for name in "ab"] == [entity("a"), entity("b")]


def test_ambiguous_alias_holds_within_the_document_that_gives_it() -> None:
    rules = book(aliases=(("a", "Name"), ("a", "Other")))
    given = local_aliases([Extraction("c", "x", aliases=(AliasMention("c", "Name", "A"),))], {entity("a")})
    assert rules.resolve(entity("a"), Place("doc-1", "c", given)) == entity("Name")
    assert rules.resolve(entity("a"), Place("doc-2", "d")) == entity("a")


def test_merges_and_renames_are_followed_to_their_end() -> None:
    rules = book(
        curation(1, CurationKind.MERGE_ENTITIES, "A", "B", "C"),
        curation(2, CurationKind.RENAME_ENTITY, "C", "D"),
        aliases=(("ay", "A"),),
    )
    assert {rules.resolve(entity(name)) for name in ("A", "B", "C", "D", "ay")} == {entity("D")}
    assert rules.renamed(entity("C")) == entity("D")
    assert rules.renamed(entity("A")) == entity("A")
    assert rules.subjects(entity("D")) == {entity(name) for name in ("A", "B", "C", "D", "ay")}


def test_name_that_a_person_gave_does_not_lead_away() -> None:
    rules = book(curation(1, CurationKind.RENAME_ENTITY, "Long", "LF"), aliases=(("LF", "Long"),))
    assert rules.resolve(entity("LF")) == rules.resolve(entity("Long")) == entity("LF")


def test_split_holds_in_its_scope_and_ends_where_it_is_merged_back() -> None:
    split = curation(1, CurationKind.SPLIT_ENTITY, "A", "A2", scope=("doc-1", "chunk-9"))
    rules = book(split)
    assert rules.resolve(entity("A"), Place("doc-1", "chunk-1")) == entity("A2")
    assert rules.resolve(entity("A"), Place("doc-2", "chunk-9")) == entity("A2")
    assert rules.resolve(entity("A"), Place("doc-2", "chunk-1")) == entity("A")
    back = book(split, curation(2, CurationKind.MERGE_ENTITIES, "A2", "A"))
    assert back.resolve(entity("A"), Place("doc-1", "chunk-1")) == entity("A")


def test_resolved_extraction_marks_only_what_leads_elsewhere() -> None:
    mentions = EntityMention("c", "A", "x", "", 0), EntityMention("c", "C", "x", "", 0)
    relation = RelationMention("c", "A", "C", (), "", 1.0, 0)
    read = Extraction("c", "x", mentions, (relation,))
    rules = book(curation(1, CurationKind.MERGE_ENTITIES, "A", "B"))
    found = resolve_extraction(read, rules, "doc-1", {})
    assert [item.entity_id for item in found.entities] == [entity("B"), ""]
    assert [(item.source_id, item.target_id) for item in found.relations] == [(entity("B"), "")]
    assert resolve_extraction(found, book(), "doc-1", {}) == read
    assert resolve_extraction(read, book(), "doc-1", {}) is read
    assert resolve_extraction(found, book(), "doc-1", {}, only=set()) is found


def test_alias_mentions_are_counted_per_pair() -> None:
    said = (AliasMention("c", "Name", "N"), AliasMention("c", "name", "n"), AliasMention("c", "Other", "N"))
    assert rule_counts([Extraction("c", "x", aliases=said)]) == {
        (entity("n"), entity("name")): 2,
        (entity("n"), entity("other")): 1,
    }


def test_last_edit_counts_and_goes_with_a_rename() -> None:
    edits = (
        curation(1, CurationKind.EDIT_ENTITY, "A", type="one", description="first"),
        curation(2, CurationKind.EDIT_ENTITY, "A", description="second"),
        curation(3, CurationKind.RENAME_ENTITY, "A", "B"),
    )
    said = entity_overrides(book(*edits), entity("B"))
    assert (said.name, said.type, said.description, said.is_kept) == ("B", "one", "second", False)


def test_after_a_merge_the_target_goes_first() -> None:
    said = (
        curation(1, CurationKind.EDIT_ENTITY, "A", type="from a", description="from a"),
        curation(2, CurationKind.EDIT_ENTITY, "B", description="from b"),
        curation(3, CurationKind.CREATE_ENTITY, "A", description="made"),
        curation(4, CurationKind.MERGE_ENTITIES, "A", "B"),
    )
    found = entity_overrides(book(*said), entity("B"))
    assert (found.type, found.description, found.statements) == ("from a", "from b", ("made",))
    assert (found.aliases, found.is_kept) == (("A",), True)


def test_deletion_holds_until_it_is_made_again_and_not_beyond_a_merge() -> None:
    hidden = curation(1, CurationKind.DELETE_ENTITY, "A")
    assert entity_overrides(book(hidden), entity("A")).is_hidden
    made = curation(2, CurationKind.CREATE_ENTITY, "A")
    assert not entity_overrides(book(hidden, made), entity("A")).is_hidden
    merged = curation(2, CurationKind.MERGE_ENTITIES, "A", "B")
    assert not entity_overrides(book(hidden, merged), entity("B")).is_hidden
    assert relation_overrides(book(hidden), entity("A"), entity("B")).is_hidden


def test_relation_made_by_hand_keeps_its_ends_until_it_is_deleted() -> None:
    made = curation(1, CurationKind.CREATE_RELATION, "A", "B", weight=2.0, keywords=("x",), description="said")
    rules = book(made, curation(2, CurationKind.MERGE_ENTITIES, "B", "C"))
    said = relation_overrides(rules, entity("A"), entity("C"))
    assert (said.is_kept, said.more_weight, said.more_keywords, said.statements) == (True, 2.0, ("x",), ("said",))
    assert entity_overrides(rules, entity("A")).is_kept
    assert entity_overrides(rules, entity("C")).merged_name == "C"
    gone = book(made, curation(2, CurationKind.DELETE_RELATION, "B", "A"))
    assert relation_overrides(gone, entity("A"), entity("B")).is_hidden
    assert not entity_overrides(gone, entity("A")).is_kept
