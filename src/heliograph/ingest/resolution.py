"""Resolves names to entities, and computes people's corrections of these, by the rules of a `RuleBook`.

A name is resolved in this order: splits by people, aliases from documents, then merges and renames by people. The
active curations give the overrides of an entity or relation; the last one that sets a field wins. Corrections of an
entity still hold after a rename. All of that is pure functions. A `RuleLoader` reads the rules, and the `Resolver`
applies them to a change, and the change to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import ConflictError
from heliograph.extraction.base import UNKNOWN_TYPE
from heliograph.ids import end_ids, name_to_entity_id, relation_id, succeeding_entity_id
from heliograph.ingest.merging import NO_ENTITY_OVERRIDES, NO_RELATION_OVERRIDES, EntityOverrides, RelationOverrides
from heliograph.ingest.reading import NO_CHUNKS, ChunkPlan, DocumentChange
from heliograph.models import Curation, CurationKind, EntityMention, Extraction, NameRules, RelationMention
from heliograph.stores.base import Store

_MOVES = (CurationKind.RENAME_ENTITY, CurationKind.MERGE_ENTITIES)
_MARKS = (CurationKind.CREATE_ENTITY, CurationKind.DELETE_ENTITY)
_MAKERS = (*_MOVES, CurationKind.SPLIT_ENTITY, CurationKind.CREATE_ENTITY)

LocalAliases = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a mention: document, chunk, and the document's aliases (ids of names per id of an alias)."""

    document_id: str = ""
    chunk_id: str = ""
    aliases: LocalAliases = field(default_factory=dict[str, frozenset[str]])


_NOWHERE = Place()


class RuleBook:
    """Name rules by id of the name."""

    def __init__(self, rules: Iterable[NameRules] = ()) -> None:
        self._rules = {item.id: item for item in rules}

    def __contains__(self, id_: str) -> bool:
        return id_ in self._rules

    def __getitem__(self, id_: str) -> NameRules:
        """Return the rules of an id, empty ones if it has none."""
        return self._rules.get(id_) or NameRules(id_)

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[NameRules]:
        return iter(self._rules.values())

    def changed(self, rules: Iterable[NameRules]) -> RuleBook:
        """Return a book in which these rules replace those of the same ids."""
        return RuleBook((*self, *rules))

    def resolve(self, id_: str, place: Place = _NOWHERE) -> str:
        """Return the id of the entity that a name resolves to at a place; without a place, in general."""
        # Most names have no rules.
        if id_ not in self._rules and id_ not in place.aliases:
            return id_
        seen = {id_}
        current = self._split(id_, place) or self._leads_to(id_, place) or id_
        while True:
            seen.add(current)
            split = self._split(current, place)
            following = split if split and split not in seen else self.moved_to(current)
            if not following:
                return current
            if following in seen:
                return following
            current = following

    def named(self, id_: str) -> str:
        """Return the id of the entity that people mean by a name: the last one given it, else its resolution."""
        return self.resolve(self.bearer(id_))

    def bearer(self, id_: str) -> str:
        """Return the id of the last entity given a name that others had lost; the name's own id if there is none."""
        bearer, current = id_, succeeding_entity_id(id_)
        while self[current].curations:
            if self._makers(current):
                bearer = current
            current = succeeding_entity_id(current)
        return bearer

    def predecessors(self, id_: str) -> set[str]:
        """Return the ids of the entities that had lost the name before this entity was given it."""
        found: set[str] = set()
        for maker in self._makers(id_):
            passed, current = list[str](), name_to_entity_id(maker.names[-1])
            while current != id_ and (not passed or self[current].curations):
                passed.append(current)
                current = succeeding_entity_id(current)
            found.update(passed if current == id_ else ())
        return found

    def has_lost(self, id_: str, without: str = "") -> bool:
        """Return whether an entity lost its name, as people deleted, merged or renamed it.

        The curation with the id `without` is ignored.
        """
        found = [item for item in self[id_].curations if item.id != without]
        if any(item.kind in _MOVES and id_ in item.entity_ids[:-1] and item.entity_ids[-1] != id_ for item in found):
            return True
        marks = [item for item in found if item.kind in _MARKS and item.entity_ids[-1] == id_]
        return bool(marks) and max(marks, key=lambda item: item.place).kind is CurationKind.DELETE_ENTITY

    def renamed(self, id_: str) -> str:
        """Return the id of an entity after all its renames, not following merges."""
        seen = {id_}
        while (move := self._move(id_)) and move.kind is CurationKind.RENAME_ENTITY and move.entity_ids[-1] not in seen:
            id_ = move.entity_ids[-1]
            seen.add(id_)
        return id_

    def moved_to(self, id_: str) -> str:
        """Return the id into which an entity was last merged or renamed; empty if it was not."""
        move = self._move(id_)
        return move.entity_ids[-1] if move else ""

    def is_ambiguous(self, id_: str) -> bool:
        """Return whether documents state it as an alias of several names."""
        return len(self[id_].names) > 1 and not self._stays(id_)

    def splits(self, id_: str) -> list[Curation]:
        """Return the splits of an entity, the last first."""
        return _last_first(
            item for item in self[id_].curations if item.kind is CurationKind.SPLIT_ENTITY and item.entity_ids[0] == id_
        )

    def next_ids(self, id_: str) -> set[str]:
        """Return the ids that one resolution step may lead to, at any place."""
        rules = self[id_]
        following = {item.entity_ids[1] for item in self.splits(id_)}
        if rules.names and not self._stays(id_):
            following.update(rules.names)
        if moved := self.moved_to(id_):
            following.add(moved)
        return following

    def previous_ids(self, id_: str) -> set[str]:
        """Return the ids that one merge, rename or split leads here from."""
        found: set[str] = set()
        for item in self[id_].curations:
            if (item.kind in _MOVES or item.kind is CurationKind.SPLIT_ENTITY) and item.entity_ids[-1] == id_:
                found.update(item.entity_ids[:-1])
        return found - {id_}

    def sources(self, id_: str) -> set[str]:
        """Return this id and all ids from which resolution steps lead here, aliases included."""
        found = _closure((id_,), self.previous_ids)
        return found.union(*(self[current].aliases for current in found))

    def reachable(self, ids: Iterable[str]) -> set[str]:
        """Return these ids and all ids reachable from them by resolution steps, at any place."""
        return _closure(ids, self.next_ids)

    def subjects(self, entity_id: str) -> set[str]:
        """Return the ids whose curations apply to this entity."""
        return {id_ for id_ in self.sources(entity_id) if self.resolve(id_) == entity_id}

    def route(self, id_: str) -> tuple[object, ...]:
        """Return a key of how a name resolves: equal routes resolve alike, except for aliases local to a document."""
        steps: list[object] = [self.is_ambiguous(id_), self._leads_to(id_, _NOWHERE)]
        seen: set[str] = set()
        waiting = [id_]
        while waiting:
            current = waiting.pop(0)
            if current in seen:
                continue
            seen.add(current)
            splits = tuple((item.entity_ids[1], item.scope) for item in self.splits(current))
            steps.append((current, splits, self.moved_to(current)))
            waiting += sorted(self.next_ids(current))
        return tuple(steps)

    def _leads_to(self, id_: str, place: Place) -> str:
        """Return the id of the name that an alias stands for; empty if the id is no alias, or an ambiguous one."""
        if self._stays(id_):
            return ""
        local = place.aliases.get(id_, ())
        names = local if len(local) == 1 else self[id_].names
        return next(iter(names)) if len(names) == 1 else ""

    def _stays(self, id_: str) -> bool:
        return bool(self[id_].aliases or self._makers(id_))

    def _makers(self, id_: str) -> list[Curation]:
        return [item for item in self[id_].curations if item.kind in _MAKERS and item.entity_ids[-1] == id_]

    def _split(self, id_: str, place: Place) -> str:
        for item in self.splits(id_):
            if place.chunk_id in item.scope or place.document_id in item.scope:
                return item.entity_ids[1]
        return ""

    def _move(self, id_: str) -> Curation | None:
        moves = (item for item in self[id_].curations if item.kind in _MOVES and id_ in item.entity_ids[:-1])
        return next(iter(_last_first(item for item in moves if item.entity_ids[-1] != id_)), None)


def _closure(ids: Iterable[str], step: Callable[[str], set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = set(ids)
    while waiting:
        current = waiting.pop()
        found.add(current)
        waiting |= step(current) - found
    return found


@dataclass(frozen=True, slots=True)
class Resolution:
    """A change with its mentions resolved by the rules.

    Attributes:
        book: The rules after the change, for all names that it touches.
        rules: The rules that it changes.
        versions: Version per id of all rules that were read; 0 for an id without rules.
        watched: Evidence version per entity that must have no new mentions when the change is committed.
        data_version: Data version of the reads; None if later commits do not matter.
        entities: Entities whose corrections by people change.
        relations: The two entity ids of each relation whose corrections change.
    """

    replaced: tuple[Extraction, ...] = ()
    extractions: tuple[Extraction, ...] = ()
    book: RuleBook = field(default_factory=RuleBook)
    rules: tuple[NameRules, ...] = ()
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    watched: Mapping[str, int] = field(default_factory=dict[str, int])
    data_version: int | None = None
    entities: frozenset[str] = frozenset()
    relations: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


def local_aliases(extractions: Iterable[Extraction], ids: Collection[str]) -> LocalAliases:
    """Return the ids of the names of which one document's chunks state these ids as aliases."""
    found: dict[str, set[str]] = {}
    for extraction in extractions:
        for mention in extraction.aliases:
            if (id_ := name_to_entity_id(mention.alias)) in ids:
                found.setdefault(id_, set()).add(name_to_entity_id(mention.name))
    return {id_: frozenset(names) for id_, names in found.items()}


def resolve_extraction(
    extraction: Extraction,
    book: RuleBook,
    document_id: str,
    aliases: LocalAliases,
    only: Collection[str] | None = None,
) -> Extraction:
    """Return an extraction with its mentions resolved by the rules; the same object if none changes.

    Args:
        extraction: Canonical.
        book: Holds the rules of all names in it, or of all in `only`.
        document_id: The document of its chunk.
        aliases: That document's own aliases, for aliases that are ambiguous elsewhere.
        only: Ids of the names to resolve; other mentions keep their entities. None resolves all.
    """
    place = Place(document_id, extraction.chunk_id, aliases)

    def resolved(name: str, current: str) -> str:
        id_ = name_to_entity_id(name)
        if only is not None and id_ not in only:
            return current
        found = book.resolve(id_, place)
        return "" if found == id_ else found

    entities: list[EntityMention] = []
    for entity in extraction.entities:
        id_ = resolved(entity.name, entity.entity_id)
        entities.append(entity if entity.entity_id == id_ else replace(entity, entity_id=id_))
    relations: list[RelationMention] = []
    for relation in extraction.relations:
        ends = resolved(relation.source, relation.source_id), resolved(relation.target, relation.target_id)
        is_same = (relation.source_id, relation.target_id) == ends
        relations.append(relation if is_same else replace(relation, source_id=ends[0], target_id=ends[1]))
    if entities == list(extraction.entities) and relations == list(extraction.relations):
        return extraction
    return replace(extraction, entities=tuple(entities), relations=tuple(relations))


def rule_counts(extractions: Iterable[Extraction]) -> dict[tuple[str, str], int]:
    """Return how often chunks state an alias, per ids of alias and name."""
    counts: dict[tuple[str, str], int] = {}
    for extraction in extractions:
        for mention in extraction.aliases:
            pair = name_to_entity_id(mention.alias), name_to_entity_id(mention.name)
            counts[pair] = counts.get(pair, 0) + 1
    return counts


def _last_first(items: Iterable[Curation]) -> list[Curation]:
    return sorted(items, key=lambda item: item.place, reverse=True)


# Overrides of an entity or a relation from the active curations in a `RuleBook`: pure functions.
#
# Curations of an entity still hold after a rename. After a merge, curations of the resulting entity win over those of
# the entities merged into it; a deletion holds for its own entity alone. The last curation that sets a field wins. The
# type `unknown` counts only as an edit of the entity itself, since elsewhere it just means that no type was known.

RELATION_KINDS = (CurationKind.CREATE_RELATION, CurationKind.EDIT_RELATION, CurationKind.DELETE_RELATION)
_ENTITY_KINDS = (CurationKind.CREATE_ENTITY, CurationKind.EDIT_ENTITY, CurationKind.DELETE_ENTITY)
_NAMING = (
    *(CurationKind.CREATE_ENTITY, CurationKind.RENAME_ENTITY),
    *(CurationKind.MERGE_ENTITIES, CurationKind.SPLIT_ENTITY),
)


@dataclass(frozen=True, slots=True)
class _Said:
    """Curations of one entity or relation by sequence: its own, and those of the ones merged into it."""

    own: list[Curation]
    merged: list[Curation]

    @property
    def all(self) -> list[Curation]:
        return sorted((*self.own, *self.merged), key=lambda item: item.place)

    @property
    def by_weight(self) -> list[Curation]:
        """All curations by ascending precedence, so that the last one that sets a field wins."""
        return [*self.merged, *self.own]


def entity_overrides(book: RuleBook, entity_id: str) -> EntityOverrides:
    """Return people's corrections of an entity; the book must hold the rules of all ids that resolve to it."""
    # Rules name both ends of every step, so that no step leads to an entity without rules.
    if entity_id not in book:
        return NO_ENTITY_OVERRIDES
    subjects = book.subjects(entity_id)
    found = _distinct(item for id_ in subjects for item in book[id_].curations)
    if not found:
        return NO_ENTITY_OVERRIDES
    said = _Said([], [])
    for item in found:
        if item.kind in _ENTITY_KINDS and (subject := item.entity_ids[0]) in subjects:
            (said.own if book.renamed(subject) == entity_id else said.merged).append(item)
    created = [item for item in said.all if item.kind is CurationKind.CREATE_ENTITY]
    edits = [item for item in said.by_weight if item.kind is CurationKind.EDIT_ENTITY]
    typed = [
        item.type
        for item in said.by_weight
        if item.kind is not CurationKind.DELETE_ENTITY
        and item.type
        and (item.type != UNKNOWN_TYPE or (item.kind is CurationKind.EDIT_ENTITY and item in said.own))
    ]
    held = _names_held(book, subjects, found)
    named = [item for item in found if item.kind in _NAMING and book.renamed(item.entity_ids[-1]) == entity_id]
    # After a merge into the entity of that name, the mentions of that name decide its spelling.
    merged = [item.names[-1] for item in named if _is_named_by_id(item)]
    given = [item.names[-1] for item in named if not _is_named_by_id(item)]
    return EntityOverrides(
        name=given[-1] if given else "",
        merged_name=merged[-1] if merged else "",
        type=typed[-1] if typed else "",
        description=next((item.description for item in reversed(edits) if item.description is not None), None),
        statements=tuple(dict.fromkeys(item.description for item in created if item.description)),
        aliases=tuple(sorted({*(item.names[0] for item in created), *held})),
        is_kept=bool(created or held),
        is_hidden=_is_deleted(said, CurationKind.CREATE_ENTITY, CurationKind.DELETE_ENTITY),
    )


def relation_overrides(book: RuleBook, source_id: str, target_id: str) -> RelationOverrides:
    """Return people's corrections of the relation between two entities, its ends in ascending order of their ids."""
    first, second = sorted((source_id, target_id))
    if first not in book and second not in book:
        return NO_RELATION_OVERRIDES
    ends = entity_overrides(book, first), entity_overrides(book, second)
    subjects = book.subjects(first) | book.subjects(second)
    found = _distinct(item for id_ in subjects for item in book[id_].curations if item.kind in RELATION_KINDS)
    about = [item for item in found if relation_pair(book, item) == (first, second)]
    if not about and ends == (NO_ENTITY_OVERRIDES, NO_ENTITY_OVERRIDES):
        return NO_RELATION_OVERRIDES
    own = [item for item in about if sorted(map(book.renamed, item.entity_ids)) == [first, second]]
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
    """Return the entity ids that the ends of a relation's curation resolve to now, ascending."""
    return _ascending(*(book.resolve(id_) for id_ in item.entity_ids))


def _ascending(left: str, right: str) -> tuple[str, str]:
    return (left, right) if left <= right else (right, left)


def _made_name(book: RuleBook, created: list[Curation], end: str) -> str:
    names = (
        name
        for item in created
        for name, id_ in zip(item.names, item.entity_ids, strict=True)
        if book.resolve(id_) == end
    )
    return next(names, "")


def _is_named_by_id(item: Curation) -> bool:
    is_merge = item.kind is CurationKind.MERGE_ENTITIES
    return is_merge and name_to_entity_id(item.names[-1]) == item.entity_ids[-1]


def _names_held(book: RuleBook, subjects: set[str], found: list[Curation]) -> set[str]:
    """Return the entity's names as an end of relations that were created by hand and not deleted since."""
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


def relation_curations(rules: NameRules) -> Iterator[Curation]:
    """Return the active curations of relations in a name's rules."""
    return (item for item in rules.curations if item.kind in RELATION_KINDS)


class RuleLoader:
    """Reads the rules of names, and of all names connected to them by resolution steps in either direction."""

    def __init__(self, store: Store) -> None:
        self._curations = store.curations
        self._read: set[str] = set()
        self._followed: set[str] = set()
        self._aliases: set[str] = set()
        self._ends: set[str] = set()
        self._changed: tuple[NameRules, ...] = ()
        self.rules: dict[str, NameRules] = {}

    @property
    def book(self) -> RuleBook:
        """All rules that were read."""
        return RuleBook(self.rules.values())

    def versions(self) -> dict[str, int]:
        """Return the version of all rules that were read."""
        return {id_: self.rules[id_].version if id_ in self.rules else 0 for id_ in self._read}

    async def load(self, ids: Iterable[str]) -> None:
        """Read the rules of these ids and follow resolution steps in both directions to their ends."""
        waiting = set(ids) - self._followed
        while waiting:
            await self._fetch(waiting)
            self._followed |= waiting
            following: set[str] = set()
            for book in self._books():
                for id_ in (id_ for id_ in waiting if id_ in book):
                    following |= book.next_ids(id_) | book.previous_ids(id_)
                    self._aliases.update(book[id_].aliases)
            waiting = following - self._followed
        await self._fetch(self._aliases)
        # An alias may lead elsewhere by another document or a person. The other ends of curated relations are resolved
        # too, to find curations of the same pair.
        subjects = self._followed | self._aliases
        said = (rules for book in self._books() for rules in book if rules.id in subjects)
        ends = {id_ for rules in said for item in relation_curations(rules) for id_ in item.entity_ids}
        waiting = (ends | self._aliases) - self._followed - self._ends
        while waiting:
            await self._fetch(waiting)
            self._ends |= waiting
            following = {id_ for book in self._books() for known in waiting for id_ in book.next_ids(known)}
            waiting = following - self._followed - self._ends

    async def load_bearers(self, ids: Iterable[str]) -> None:
        """Read the rules of all successive entities of these ids' names, and of the names that they lead to."""
        waiting = set(ids)
        await self.load(waiting)
        while waiting:
            waiting = {succeeding_entity_id(id_) for id_ in waiting}
            await self.load(waiting)
            waiting = {id_ for id_ in waiting if id_ in self.rules and self.rules[id_].curations}

    async def load_changed(self, rules: Sequence[NameRules]) -> None:
        """From now on, follow the changed rules too: a name may stop being its own entity and lead elsewhere."""
        self._changed = tuple(rules)
        ids = {item.id for item in rules}
        self._followed -= ids
        await self.load(ids)

    def _books(self) -> tuple[RuleBook, ...]:
        return (self.book, self.book.changed(self._changed)) if self._changed else (self.book,)

    async def _fetch(self, ids: set[str]) -> None:
        if missing := sorted(ids - self._read):
            for item in await self._curations.get_rules(missing):
                self.rules[item.id] = item
            self._read.update(missing)


async def find_entity_ids(store: Store, names: Sequence[str]) -> list[str]:
    """Return the id of the entity that each name resolves to, whether that entity exists or not."""
    ids = [name_to_entity_id(name) for name in names]
    near = {*ids, *map(succeeding_entity_id, ids)}
    if not await store.curations.get_rules(sorted(near)):
        # These names have no rules, like most: there is nothing to follow.
        return ids
    loader = RuleLoader(store)
    await loader.load_bearers(ids)
    book = loader.book
    return [book.named(id_) for id_ in ids]


@dataclass(frozen=True, slots=True)
class CurationChange:
    """Curations to add or undo; no document is read or written."""

    curations: tuple[Curation, ...]
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    # The `Resolver` finds the mentions that resolve to other entities.
    plan: ClassVar[ChunkPlan] = NO_CHUNKS
    extractions: ClassVar[tuple[Extraction, ...]] = ()
    vectors: ClassVar[Mapping[str, NDArray[np.float32]]] = {}
    is_removal: ClassVar[bool] = False
    may_call_chat: ClassVar[bool] = True


Change = DocumentChange | CurationChange


# Applying a change to the rules of names, and these rules to the change.
#
# If the change itself makes names resolve differently (a chunk introduces an acronym, a person merges two entities),
# the mentions of those names in other documents are resolved again, and removed and added with it. Rules are read once
# for all names of a change; without any rules nothing more is done. The resolution names every version that was read,
# so that an outdated draft is refused.


class Resolver:
    """Resolves one change; only reads the store."""

    def __init__(self, store: Store, change: Change) -> None:
        self._store = store
        self._change = change
        self._loader = RuleLoader(store)
        self._document_id = change.basis.id if isinstance(change, DocumentChange) else ""
        self._own_chunks = {item.chunk_id for item in (*change.plan.replaced, *change.extractions)}
        self._own_chunks.update(change.plan.removed)
        # Ids of the aliases whose counts change, and the rules that the change modifies, as they are afterwards.
        self._aliases: set[str] = set()
        self._rules: tuple[NameRules, ...] = ()

    async def resolve(self) -> Resolution:
        """Return the change with its mentions resolved by the stored rules and its own.

        Raises:
            ConflictError: The change is joint, and its names have rules, which may differ per document.
            StoreError: The store cannot be read.
        """
        change, loader = self._change, self._loader
        # Change of the counts of alias mentions, per ids of alias and name.
        counts: dict[tuple[str, str], int] = {}
        if isinstance(change, DocumentChange):
            counts = rule_counts(change.extractions)
            for pair, count in rule_counts(change.plan.replaced).items():
                counts[pair] = counts.get(pair, 0) - count
            counts = {pair: count for pair, count in counts.items() if count}
        curated = {id_ for item in change.curations for id_ in item.entity_ids}
        touched = curated.union(*counts)
        await loader.load(_named_ids(change) | touched)
        if not loader.rules and not touched:
            return Resolution(change.plan.replaced, change.extractions, versions=loader.versions())
        if isinstance(change, DocumentChange) and change.is_joint:
            raise ConflictError("rules of names concern several documents at once; commit them one by one")
        # Read again: mentions may have been resolved differently since the change was planned.
        replaced = change.plan.replaced and tuple(
            await self._store.records.get_extractions([item.chunk_id for item in change.plan.replaced])
        )
        self._aliases = {alias for alias, _ in counts}
        self._rules = _changed_rules(loader, counts, change.curations)
        await loader.load_changed(self._rules)
        return await self._resolve_by_rules(replaced)

    async def _resolve_by_rules(self, replaced: Sequence[Extraction]) -> Resolution:
        data_version = await self._store.get_data_version() if self._rules else None
        before, after = self._books()
        near = set[str]().union(*(book.sources(item.id) for book in (before, after) for item in self._rules))
        affected = {id_ for id_ in near if before.route(id_) != after.route(id_)}
        # Read before the mentions: a mention added in between makes the draft stale.
        reached = before.reachable(affected)
        evidence = (await self._store.records.get_evidence(sorted(reached), [], 0))[0] if reached else ()
        watched = dict.fromkeys(reached, 0) | {item.id: item.version for item in evidence}
        # The document's own aliases, for those that are ambiguous across documents.
        local: LocalAliases = {}
        doubtful = {id_ for id_ in _named_ids(self._change) | self._aliases if after.is_ambiguous(id_)}
        if doubtful and self._document_id:
            given = (await self._store.records.get_document_aliases([self._document_id])).get(self._document_id, ())
            kept = tuple(item for item in given if item.chunk_id not in self._own_chunks)
            local = local_aliases((*self._change.extractions, Extraction("", "", aliases=kept)), doubtful)
        extractions = [resolve_extraction(item, after, self._document_id, local) for item in self._change.extractions]
        others = await self._read_others(affected, local)
        moved = [(old, new) for old, new in others if new != old]
        either = [item for pair in moved for item in pair]
        counted = {id_ for item in either for mention in item.relations for id_ in end_ids(mention)}
        counted |= {one.entity_id or name_to_entity_id(one.name) for item in either for one in item.entities}
        await self._loader.load(counted)
        entities, relations = frozenset[str](), dict[str, tuple[str, str]]()
        if affected or self._change.curations:
            entities, relations = await self._reshaped(near, others)
        return Resolution(
            replaced=(*replaced, *(old for old, _ in moved)),
            extractions=(*extractions, *(new for _, new in moved)),
            book=self._books()[1],
            rules=self._rules,
            versions=self._loader.versions(),
            watched=watched,
            # All relations of these entities were looked up: none may be added in between.
            data_version=data_version if entities else None,
            entities=entities,
            relations=relations,
        )

    def _books(self) -> tuple[RuleBook, RuleBook]:
        """Return the rules before and after the change, as far as they are read."""
        before = self._loader.book
        return before, before.changed(self._rules)

    async def _read_others(self, affected: set[str], local: LocalAliases) -> list[tuple[Extraction, Extraction]]:
        """Return extractions of other chunks with names that resolve differently now, each before and after."""
        before, after = self._books()
        places = await self._store.curations.find_mentioning_chunks(sorted(affected))
        doubtful = affected | self._aliases
        ambiguous = {id_ for id_ in doubtful if before.is_ambiguous(id_) or after.is_ambiguous(id_)}
        if self._aliases & ambiguous and isinstance(self._change, DocumentChange) and self._change.basis.chunk_count:
            kept = await self._store.records.get_document_chunks(self._document_id)
            places |= {chunk.id: self._document_id for chunk in kept}
        places = {chunk: document for chunk, document in places.items() if chunk not in self._own_chunks}
        found = await self._store.records.get_extractions(list(places))
        given = await self._store.records.get_document_aliases(sorted({*places.values()})) if ambiguous else {}
        per_document = {
            id_: local_aliases([Extraction("", "", aliases=tuple(items))], ambiguous) for id_, items in given.items()
        }
        per_document[self._document_id] = local
        return [
            (item, resolve_extraction(item, after, document, per_document.get(document, {}), affected | ambiguous))
            for item in found
            if (document := places[item.chunk_id])
        ]

    async def _reshaped(
        self, near: set[str], others: Sequence[tuple[Extraction, Extraction]]
    ) -> tuple[frozenset[str], dict[str, tuple[str, str]]]:
        """Return the entities and relations whose corrections by people, or the names in these, change."""
        before, after = self._books()
        ids = near | {book.resolve(id_) for book in (before, after) for id_ in near}
        related = [item for rules in (*before, *after) if rules.id in ids for item in relation_curations(rules)]
        await self._loader.load(id_ for item in related for id_ in item.entity_ids)
        before, after = self._books()
        # Whether a relation created by hand keeps its end entities depends on the resolution of both ends.
        ids |= {end for book in (before, after) for item in related for end in relation_pair(book, item)}
        entities = {id_ for id_ in ids if entity_overrides(before, id_) != entity_overrides(after, id_)}
        pairs = {relation_pair(book, item) for book in (before, after) for item in related}
        pairs |= await self._incident_pairs(entities, others)
        await self._loader.load(id_ for pair in pairs for id_ in pair)
        before, after = self._books()
        reshaped = {
            relation_id(*pair): pair
            for pair in pairs
            if pair[0] != pair[1] and relation_overrides(before, *pair) != relation_overrides(after, *pair)
        }
        return frozenset(entities), reshaped

    async def _incident_pairs(
        self, entities: set[str], others: Sequence[tuple[Extraction, Extraction]]
    ) -> set[tuple[str, str]]:
        """Return the ends of all relations of those entities that are renamed, appear or disappear."""
        before, after = self._books()
        changed: set[str] = set()
        shown: set[str] = set()
        for id_ in entities:
            old, new = entity_overrides(before, id_), entity_overrides(after, id_)
            # If no other name may resolve to it, even within one document, all mentions spell its own name.
            is_alone = {id_} in (before.sources(id_), after.sources(id_))
            is_renamed = old.merged_name != new.merged_name and not is_alone
            if is_renamed or (old.name, old.is_hidden) != (new.name, new.is_hidden):
                changed.add(id_)
            if old.is_hidden and not new.is_hidden:
                shown.add(id_)
        if not changed:
            return set()
        incident = await self._store.graph.rank_incident_relations(sorted(changed))
        relations = await self._store.graph.get_relations([item.id for item in incident])
        pairs = {_ascending(item.source_id, item.target_id) for item in relations}
        # The graph has no relations of hidden entities: take them from mentions.
        said = [item for pair in others for item in pair]
        if shown:
            names = sorted(set[str]().union(*(book.sources(id_) for book in (before, after) for id_ in shown)))
            places = await self._store.curations.find_mentioning_chunks(names)
            said += await self._store.records.get_extractions(list(places))
        ends = (_ascending(*end_ids(mention)) for item in said for mention in item.relations)
        return pairs | {pair for pair in ends if not shown.isdisjoint(pair)}


def _changed_rules(
    loader: RuleLoader, counts: Mapping[tuple[str, str], int], curations: Sequence[Curation]
) -> tuple[NameRules, ...]:
    changed: dict[str, NameRules] = {}

    def rules(id_: str) -> NameRules:
        return changed.get(id_) or loader.rules.get(id_) or NameRules(id_)

    for (alias, name), count in counts.items():
        changed[alias] = replace(rules(alias), names=_counted(rules(alias).names, name, count))
        changed[name] = replace(rules(name), aliases=_counted(rules(name).aliases, alias, count))
    for item in curations:
        for id_ in item.entity_ids:
            kept = [other for other in rules(id_).curations if other.id != item.id]
            active = sorted((*kept, item) if item.is_active else kept, key=lambda item: item.place)
            changed[id_] = replace(rules(id_), curations=tuple(active))
    return tuple(changed.values())


def _counted(counts: Mapping[str, int], id_: str, count: int) -> dict[str, int]:
    new = {**counts, id_: counts.get(id_, 0) + count}
    return {key: value for key, value in new.items() if value > 0}


def _named_ids(change: Change) -> set[str]:
    """Return the ids of all names in a change, and of the entities that its replaced mentions count for."""
    ids: set[str] = set()
    for extraction in change.extractions:
        ids.update(name_to_entity_id(mention.name) for mention in extraction.entities)
    for extraction in change.plan.replaced:
        ids.update(name_to_entity_id(mention.name) for mention in extraction.entities)
        ids.update(mention.entity_id for mention in extraction.entities if mention.entity_id)
    return ids


async def resolve_again(store: Store, document_id: str, extractions: Sequence[Extraction]) -> list[Extraction]:
    """Return a document's extractions with every mention resolved by the stored rules.

    For checks and rebuilding; in an intact store the result equals the stored extractions.
    """
    ids = {name_to_entity_id(mention.name) for item in extractions for mention in item.entities}
    loader = RuleLoader(store)
    await loader.load(ids)
    book = loader.book
    ambiguous = {id_ for id_ in ids if book.is_ambiguous(id_)}
    given = await store.records.get_document_aliases([document_id]) if ambiguous else {}
    said = Extraction("", "", aliases=tuple(given.get(document_id, ())))
    local = local_aliases([said], ambiguous)
    return [resolve_extraction(item, book, document_id, local) for item in extractions]
