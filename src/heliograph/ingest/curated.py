"""What the active curations in a `RuleBook` say of an entity or a relation: pure functions.

What was said of an entity goes on to hold after a rename. After a merge, what was said of the entity that they became
goes first, and of those merged into it what it leaves open; a deletion holds for that entity alone. Of several that
say something, the last one counts. The type `unknown` says something only as an edit of the entity itself: it is what
is written where nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from heliograph.ingest.mentions import UNKNOWN_TYPE
from heliograph.ingest.overrides import (
    NO_ENTITY_OVERRIDES,
    NO_RELATION_OVERRIDES,
    EntityOverrides,
    RelationOverrides,
)
from heliograph.ingest.resolution import RuleBook
from heliograph.models import Curation, CurationKind
from heliograph.text.names import name_to_entity_id

__all__ = ["RELATION_KINDS", "entity_overrides", "relation_overrides", "relation_pair"]

RELATION_KINDS = (CurationKind.CREATE_RELATION, CurationKind.EDIT_RELATION, CurationKind.DELETE_RELATION)
_ENTITY_KINDS = (CurationKind.CREATE_ENTITY, CurationKind.EDIT_ENTITY, CurationKind.DELETE_ENTITY)
_NAMING = (
    *(CurationKind.CREATE_ENTITY, CurationKind.RENAME_ENTITY),
    *(CurationKind.MERGE_ENTITIES, CurationKind.SPLIT_ENTITY),
)


@dataclass(frozen=True, slots=True)
class _Said:
    """Curations of one thing by sequence: those of itself, and those of what was merged into it."""

    own: list[Curation]
    merged: list[Curation]

    @property
    def all(self) -> list[Curation]:
        return sorted((*self.own, *self.merged), key=lambda item: item.place)

    @property
    def by_weight(self) -> list[Curation]:
        """All, so that the last that says something counts."""
        return [*self.merged, *self.own]


def entity_overrides(book: RuleBook, entity_id: str) -> EntityOverrides:
    """Return what people say of an entity.

    Args:
        book: Holds the rules of all ids from which merges, renames and aliases lead to the entity.
        entity_id: The entity that those lead to in the end.
    """
    subjects = book.subjects(entity_id)
    found = _distinct(item for id_ in subjects for item in book[id_].curations)
    if not found:
        return NO_ENTITY_OVERRIDES
    said = _said(book, entity_id, subjects, (item for item in found if item.kind in _ENTITY_KINDS))
    created = [item for item in said.all if item.kind is CurationKind.CREATE_ENTITY]
    edits = [item for item in said.by_weight if item.kind is CurationKind.EDIT_ENTITY]
    held = _names_held(book, subjects, found)
    name, merged_name = _given_names(book, entity_id, found)
    return EntityOverrides(
        name=name,
        merged_name=merged_name,
        type=next((item.type for item in reversed(_typed(said)) if item.type), ""),
        description=next((item.description for item in reversed(edits) if item.description is not None), None),
        statements=tuple(dict.fromkeys(item.description for item in created if item.description)),
        aliases=tuple(sorted({*(item.names[0] for item in created), *held})),
        is_kept=bool(created or held),
        is_hidden=_is_deleted(said, CurationKind.CREATE_ENTITY, CurationKind.DELETE_ENTITY),
    )


def relation_overrides(book: RuleBook, source_id: str, target_id: str) -> RelationOverrides:
    """Return what people say of the relation between two entities, its ends in ascending order of their ids.

    Args:
        book: As for `entity_overrides`, of both ends.
        source_id: One end.
        target_id: The other.
    """
    first, second = sorted((source_id, target_id))
    ends = entity_overrides(book, first), entity_overrides(book, second)
    subjects = book.subjects(first) | book.subjects(second)
    found = _distinct(item for id_ in subjects for item in book[id_].curations if item.kind in RELATION_KINDS)
    about = [item for item in found if relation_pair(book, item) == (first, second)]
    if not about and ends == (NO_ENTITY_OVERRIDES, NO_ENTITY_OVERRIDES):
        return NO_RELATION_OVERRIDES
    own = [item for item in about if _renamed_pair(book, item) == (first, second)]
    deleted = max((item.place for item in own if item.kind is CurationKind.DELETE_RELATION), default=-1)
    is_anew = any(item.kind is CurationKind.CREATE_RELATION and item.place > deleted >= 0 for item in own)
    if is_anew:
        about, own = ([item for item in items if item.place > deleted] for items in (about, own))
    said = _Said(own, [item for item in about if item not in own])
    created = [item for item in said.all if item.kind is CurationKind.CREATE_RELATION]
    edits = [item for item in reversed(said.by_weight) if item.kind is CurationKind.EDIT_RELATION]
    is_deleted = _is_deleted(said, CurationKind.CREATE_RELATION, CurationKind.DELETE_RELATION)
    return RelationOverrides(
        source=ends[0].name,
        target=ends[1].name,
        other_names=(
            ends[0].merged_name or _made_name(book, created, first),
            ends[1].merged_name or _made_name(book, created, second),
        ),
        description=next((item.description for item in edits if item.description is not None), None),
        keywords=next((item.keywords for item in edits if item.keywords is not None), None),
        weight=next((item.weight for item in edits if item.weight is not None), None),
        statements=tuple(dict.fromkeys(item.description for item in created if item.description)),
        more_keywords=tuple(dict.fromkeys(keyword for item in created for keyword in item.keywords or ())),
        more_weight=sum(item.weight or 0.0 for item in created),
        is_kept=bool(created),
        is_hidden=is_deleted or any(end.is_hidden for end in ends),
        is_anew=is_anew,
    )


def relation_pair(book: RuleBook, item: Curation) -> tuple[str, str]:
    """Return the entity ids that the ends of a curation of a relation now count for, ascending."""
    first, second = sorted(book.resolve(id_) for id_ in item.entity_ids)
    return first, second


def _made_name(book: RuleBook, created: list[Curation], end: str) -> str:
    names = (
        name
        for item in created
        for name, id_ in zip(item.names, item.entity_ids, strict=True)
        if book.resolve(id_) == end
    )
    return next(names, "")


def _renamed_pair(book: RuleBook, item: Curation) -> tuple[str, str]:
    first, second = sorted(book.renamed(id_) for id_ in item.entity_ids)
    return first, second


def _said(book: RuleBook, entity_id: str, subjects: set[str], items: Iterable[Curation]) -> _Said:
    own: list[Curation] = []
    merged: list[Curation] = []
    for item in items:
        subject = item.entity_ids[0]
        if subject in subjects:
            (own if book.renamed(subject) == entity_id else merged).append(item)
    return _Said(own, merged)


def _typed(said: _Said) -> list[Curation]:
    edits = [item for item in said.own if item.kind is CurationKind.EDIT_ENTITY]
    return [
        item
        for item in said.by_weight
        if item.kind is not CurationKind.DELETE_ENTITY and (item.type != UNKNOWN_TYPE or item in edits)
    ]


def _given_names(book: RuleBook, entity_id: str, found: list[Curation]) -> tuple[str, str]:
    """Return the name that people last gave the entity itself, and the one it got by merges; empty if there is none.

    A merge into an entity of that name leaves the spelling to the mentions of that name.
    """
    named = [item for item in found if item.kind in _NAMING and book.renamed(item.entity_ids[-1]) == entity_id]
    merges = [item for item in named if _is_named_by_id(item)]
    given = [item for item in named if not _is_named_by_id(item)]
    return given[-1].names[-1] if given else "", merges[-1].names[-1] if merges else ""


def _is_named_by_id(item: Curation) -> bool:
    is_merge = item.kind is CurationKind.MERGE_ENTITIES
    return is_merge and name_to_entity_id(item.names[-1]) == item.entity_ids[-1]


def _names_held(book: RuleBook, subjects: set[str], found: list[Curation]) -> set[str]:
    """Return the names of the entity as an end of relations that were made by hand and are still there."""
    relations = [item for item in found if item.kind in RELATION_KINDS]
    deleted = {relation_pair(book, item): item for item in relations if item.kind is CurationKind.DELETE_RELATION}
    held: set[str] = set()
    for item in relations:
        last = deleted.get(relation_pair(book, item))
        if item.kind is CurationKind.CREATE_RELATION and (last is None or last.place < item.place):
            held.update(name for name, id_ in zip(item.names, item.entity_ids, strict=True) if id_ in subjects)
    return held


def _is_deleted(said: _Said, created: CurationKind, deleted: CurationKind) -> bool:
    marks = [item.kind for item in said.own if item.kind in (created, deleted)]
    return bool(marks) and marks[-1] is deleted


def _distinct(items: Iterable[Curation]) -> list[Curation]:
    return sorted({item.id: item for item in items}.values(), key=lambda item: item.place)
