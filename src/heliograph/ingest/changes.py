"""What one commit is about, and how it changes the rules of names.

`DocumentChange` says what becomes of a document, `CurationChange` what people say of the graph. Where a change makes
names lead elsewhere (a new acronym, a merge of two entities), mentions in other documents are resolved again. A memo
keeps what drafts have read and paid for, so a second draft repeats only what another commit changed. `changeset` puts
all together for the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import ConflictError
from heliograph.ids import relation_id
from heliograph.ingest.merging import Folded, IndexEntry, TouchedEntity, TouchedRelation
from heliograph.ingest.reading import MentionDelta
from heliograph.ingest.resolution import (
    LocalAliases,
    Resolution,
    RuleBook,
    RuleLoader,
    entity_overrides,
    local_aliases,
    relation_curations,
    relation_overrides,
    relation_pair,
    resolve_extraction,
    rule_counts,
)
from heliograph.models import Chunk, Curation, Document, Entity, Extraction, NameRules, Relation, Usage
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch
from heliograph.text.names import end_ids, name_to_entity_id


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """What becomes of one document.

    Attributes:
        basis: The document as it is stored, and as the rest was computed from.
        document: As it shall be stored; None if it goes.
        chunks: Chunks to write.
        removed_chunks: Ids of chunks that go.
        replaced: What was read in chunks that go, that were read again, or that moved.
        extractions: What takes its place, canonical.
        passages: Text to embed per id of a new chunk.
        terms: Full text of the new chunks.
        vectors: Vector per text of `passages` that was embedded before.
        text: The document's text, if it is to be stored with the rest; None leaves it as it is.
        dropped_texts: Ids of documents that keep no text of their own from now on.
        others: Further documents to write as they are here.
        other_texts: Text per id of such a document, where it gets another one.
        gone: Ids of further documents that go; their chunks are among those that do.
        expected: Content hash per id of other documents that the change relies on.
        is_new: Whether it is not stored yet, not even as pending; its basis then has no content hash.
        is_joint: Whether `others` are new as it is, and all else is about them too.
        may_call_chat: Whether a chat model may be asked for descriptions; else those that it gave before are taken
            where they are kept, and fragments are joined.
    """

    basis: Document
    document: Document | None = None
    chunks: tuple[Chunk, ...] = ()
    removed_chunks: tuple[str, ...] = ()
    replaced: tuple[Extraction, ...] = ()
    extractions: tuple[Extraction, ...] = ()
    passages: Mapping[str, str] = field(default_factory=dict[str, str])
    terms: tuple[TextEntry, ...] = ()
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])
    text: str | None = None
    dropped_texts: tuple[str, ...] = ()
    others: tuple[Document, ...] = ()
    other_texts: Mapping[str, str] = field(default_factory=dict[str, str])
    gone: tuple[str, ...] = ()
    expected: Mapping[str, str] = field(default_factory=dict[str, str])
    is_new: bool = False
    is_joint: bool = False
    may_call_chat: bool = True
    curations: ClassVar[tuple[Curation, ...]] = ()

    @property
    def is_removal(self) -> bool:
        """Whether the document goes."""
        return self.document is None


@dataclass(frozen=True, slots=True)
class CurationChange:
    """What people say of the graph, or no longer say; no document is read or written.

    Attributes:
        curations: As they shall be stored: new, or undone.
        versions: Version of the rules per entity id that the curations were checked against.
    """

    curations: tuple[Curation, ...]
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    # Which mentions count otherwise is found by the `Resolver`.
    replaced: ClassVar[tuple[Extraction, ...]] = ()
    extractions: ClassVar[tuple[Extraction, ...]] = ()
    passages: ClassVar[Mapping[str, str]] = {}
    vectors: ClassVar[Mapping[str, NDArray[np.float32]]] = {}
    is_removal: ClassVar[bool] = False
    may_call_chat: ClassVar[bool] = True


Change = DocumentChange | CurationChange


@dataclass(slots=True)
class DraftMemo:
    """The state of a change while its changeset is computed.

    Attributes:
        resolution: The change, its mentions counting for what the rules lead to; None before the first draft.
        delta: Mentions that go and come.
        entities: Entities that it touches, as they were when last read.
        relations: Relations likewise.
        folded_entities: What their folds change.
        folded_relations: Likewise.
        descriptions: Summaries per label and fragments.
        vectors: Vector per embedded text.
        reply_keys: Keys of the kept replies behind the descriptions.
        usage: Tokens that chat models spent on summaries.
    """

    resolution: Resolution | None = None
    delta: MentionDelta = field(default_factory=MentionDelta)
    entities: dict[str, TouchedEntity] = field(default_factory=dict[str, TouchedEntity])
    relations: dict[str, TouchedRelation] = field(default_factory=dict[str, TouchedRelation])
    folded_entities: dict[str, Folded[Entity]] = field(default_factory=dict[str, Folded[Entity]])
    folded_relations: dict[str, Folded[Relation]] = field(default_factory=dict[str, Folded[Relation]])
    descriptions: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict[tuple[str, tuple[str, ...]], str])
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])
    reply_keys: set[str] = field(default_factory=set[str])
    usage: Usage = field(default_factory=Usage)

    def begin(self, resolution: Resolution, delta: MentionDelta) -> None:
        """Restart with a change whose names are resolved otherwise; keeps summaries and vectors already paid for."""
        self.resolution, self.delta = resolution, delta
        for known in (self.entities, self.relations, self.folded_entities, self.folded_relations):
            known.clear()

    def forget_description(self, id_: str) -> None:
        """Mark the description of an entity or relation to be written again."""
        if id_ in self.entities:
            self.entities[id_] = replace(self.entities[id_], description=None)
        else:
            self.relations[id_] = replace(self.relations[id_], description=None)

    def touched(self) -> Iterator[TouchedEntity | TouchedRelation]:
        """Yield all that the change touches."""
        yield from self.entities.values()
        yield from self.relations.values()

    def entries(self) -> dict[Collection, dict[str, IndexEntry]]:
        """Return, per id, what the vectors of entities and relations are made of that must be made."""
        entities = {id_: item.entry for id_, item in self.folded_entities.items()}
        relations = {id_: item.entry for id_, item in self.folded_relations.items()}
        return {
            Collection.ENTITIES: {id_: entry for id_, entry in entities.items() if entry is not None},
            Collection.RELATIONS: {id_: entry for id_, entry in relations.items() if entry is not None},
        }


def changeset(change: Change, memo: DraftMemo, vectors: Mapping[Collection, VectorBatch]) -> Changeset:
    """Put together a changeset that expects all to be as it was read."""
    graph = _graph_changeset(memo, vectors)
    if isinstance(change, CurationChange):
        return replace(graph, curations=change.curations)
    document = change.document
    return replace(
        graph,
        documents=(*((replace(document, usage=document.usage + memo.usage),) if document else ()), *change.others),
        document_texts={**({} if change.text is None else {change.basis.id: change.text}), **change.other_texts},
        removed_documents=change.gone if document else (change.basis.id, *change.gone),
        chunks=change.chunks,
        removed_chunks=change.removed_chunks,
        texts={Collection.CHUNKS: change.terms, **graph.texts},
        removed_texts=change.dropped_texts,
        expected_documents={change.basis.id: change.basis.content_hash, **change.expected},
    )


def _graph_changeset(memo: DraftMemo, vectors: Mapping[Collection, VectorBatch]) -> Changeset:
    entities, relations = memo.folded_entities.values(), memo.folded_relations.values()
    resolution = memo.resolution or Resolution()
    return Changeset(
        extractions=resolution.extractions,
        entity_evidence=tuple(item.evidence for item in memo.entities.values()),
        relation_evidence=tuple(item.evidence for item in memo.relations.values()),
        entities=tuple(item.fold for item in entities if item.fold is not None),
        removed_entities=tuple(id_ for id_, item in memo.entities.items() if item.is_gone),
        relations=tuple(item.fold for item in relations if item.fold is not None),
        removed_relations=tuple(id_ for id_, item in memo.relations.items() if item.is_gone),
        vectors=vectors,
        texts={Collection.ENTITIES: tuple(item.terms for item in entities if item.terms is not None)},
        name_rules=resolution.rules,
        kept_replies=tuple(sorted(memo.reply_keys)),
        expected={item.evidence.id: item.evidence.version for item in memo.touched()} | {**resolution.watched},
        expected_rules=resolution.versions,
        expected_version=resolution.data_version,
    )


# What a change does to the rules of names, and what those rules do to it.
#
# A change comes in with what it takes away and adds, as chunks say it; out come the same extractions with every
# mention counting for the entity that the rules lead to. Where the change itself makes names lead elsewhere (a chunk
# introduces an acronym, a person merges two entities), the mentions of those names in other documents are resolved
# anew and go and come with it. Rules are read once for all names of a change, and where there are none that is all
# that is done. Every version that was read is named, so that a draft that comes too late is refused.

_NO_ENDS: Mapping[str, tuple[str, str]] = {}


class Resolver:
    """Resolves the changes of one store, which it only reads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def resolve(self, change: Change) -> Resolution:
        """Return a change resolved by the rules that are stored now and those that it brings.

        Raises:
            ConflictError: The change is joint, and rules, which may differ from document to document, concern it.
            StoreError: The store cannot be read.
        """
        # By how much the counts of alias mentions change, per ids of alias and name.
        counts: dict[tuple[str, str], int] = {}
        if isinstance(change, DocumentChange):
            counts = rule_counts(change.extractions)
            for pair, count in rule_counts(change.replaced).items():
                counts[pair] = counts.get(pair, 0) - count
            counts = {pair: count for pair, count in counts.items() if count}
        curated = {id_ for item in change.curations for id_ in item.entity_ids}
        touched = curated.union(*counts)
        loader = RuleLoader(self._store)
        await loader.load(_named_ids(change) | touched)
        if not loader.rules and not touched:
            return Resolution(change.replaced, change.extractions, versions=loader.versions())
        if isinstance(change, DocumentChange) and change.is_joint:
            raise ConflictError("rules of names concern several documents at once; commit them one by one")
        # What was read when the change was planned may have come to count for something else since.
        replaced = change.replaced and tuple(
            await self._store.records.get_extractions([item.chunk_id for item in change.replaced])
        )
        rules = _changed_rules(loader, counts, change.curations)
        await loader.load_changed(rules)
        task = _Task(self._store, loader, change, replaced, rules, {alias for alias, _ in counts})
        return await task.run()


class _Task:
    """One change that touches rules."""

    def __init__(
        self,
        store: Store,
        loader: RuleLoader,
        change: Change,
        replaced: tuple[Extraction, ...],
        rules: tuple[NameRules, ...],
        aliases: set[str],
    ) -> None:
        self._store = store
        self._loader = loader
        self._change = change
        self._replaced = replaced
        self._rules = rules
        self._aliases = aliases
        self._own_chunks = {item.chunk_id for item in (*replaced, *change.extractions)}
        if isinstance(change, DocumentChange):
            self._own_chunks.update(change.removed_chunks)

    async def run(self) -> Resolution:
        """Resolve it."""
        data_version = await self._store.get_data_version() if self._rules else None
        before, after = self._books()
        near = set[str]().union(*(book.sources(item.id) for book in (before, after) for item in self._rules))
        affected = {id_ for id_ in near if before.route(id_) != after.route(id_)}
        # Read before the mentions are: what is mentioned in between makes the draft stale.
        reached = before.reachable(affected)
        evidence = (await self._store.records.get_evidence(sorted(reached), [], 0))[0] if reached else ()
        watched = dict.fromkeys(reached, 0) | {item.id: item.version for item in evidence}
        # What the change's document gives as aliases where others disagree.
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
        entities, relations = frozenset[str](), _NO_ENDS
        if affected or self._change.curations:
            entities, relations = await self._reshaped(near, others)
        return Resolution(
            replaced=(*self._replaced, *(old for old, _ in moved)),
            extractions=(*extractions, *(new for _, new in moved)),
            book=self._books()[1],
            rules=self._rules,
            versions=self._loader.versions(),
            watched=watched,
            # All relations of these were looked for: none may come in between.
            data_version=data_version if entities else None,
            entities=entities,
            relations=relations,
        )

    @property
    def _document_id(self) -> str:
        return self._change.basis.id if isinstance(self._change, DocumentChange) else ""

    def _books(self) -> tuple[RuleBook, RuleBook]:
        """Return the rules before and after, as far as they are read."""
        before = RuleBook(self._loader.rules.values())
        return before, before.changed(self._rules)

    async def _read_others(self, affected: set[str], local: LocalAliases) -> list[tuple[Extraction, Extraction]]:
        """Return what other chunks say with names that lead elsewhere now, as it is and as it shall be."""
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
    ) -> tuple[frozenset[str], Mapping[str, tuple[str, str]]]:
        """Return the entities and relations of which people now say something else, or under other names."""
        before, after = self._books()
        ids = near | {book.resolve(id_) for book in (before, after) for id_ in near}
        related = [item for rules in (*before, *after) if rules.id in ids for item in relation_curations(rules)]
        await self._loader.load(id_ for item in related for id_ in item.entity_ids)
        before, after = self._books()
        # Whether a relation made by hand still holds its ends depends on what both lead to.
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
        """Return the ends of all relations of the entities that are named otherwise, appear or disappear."""
        before, after = self._books()
        changed: set[str] = set()
        shown: set[str] = set()
        for id_ in entities:
            old, new = entity_overrides(before, id_), entity_overrides(after, id_)
            # Without another name that may lead here, even within one document only, all mentions spell its own.
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
        # Relations of what was hidden are in no graph: the mentions tell them.
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
    """Return the ids of all names in a change, and those that its mentions count for."""
    ids: set[str] = set()
    for extraction in change.extractions:
        ids.update(name_to_entity_id(mention.name) for mention in extraction.entities)
    for extraction in change.replaced:
        ids.update(name_to_entity_id(mention.name) for mention in extraction.entities)
        ids.update(mention.entity_id for mention in extraction.entities if mention.entity_id)
    return ids


def _ascending(left: str, right: str) -> tuple[str, str]:
    return (left, right) if left <= right else (right, left)


async def resolve_again(store: Store, document_id: str, extractions: Sequence[Extraction]) -> list[Extraction]:
    """Return what a document's chunks say, every mention counting for the entity that the stored rules lead to now.

    For checks and rebuilding; of an intact store, what comes out is what is stored.

    Args:
        store: Read only.
        document_id: The document.
        extractions: Of any of its chunks, canonical.
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
