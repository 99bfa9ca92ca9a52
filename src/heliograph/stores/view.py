"""The part of a workspace within a filter, read as a store: the same for every back end, over arrays of integer keys.

A `Scope` holds the part of one data version that a filter leaves: the matching documents, their chunks, and the
entities and relations with a mention in one of these, with degrees and weights counted from such mentions alone. A back
end computes it, caches those used last, and gives with it a `ScopedReading` of the same moment; the roles of a view are
built on that. Keys are those of the back end, or indexes into the rows it has read.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Collection as Some
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import chain
from types import CoroutineType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from heliograph.filters import And, Filter, filter_key, matches
from heliograph.models import (
    Chunk,
    Document,
    Entity,
    EntityEvidence,
    EntityMention,
    Extraction,
    Relation,
    RelationEvidence,
    RelationMention,
)
from heliograph.stores.base import (
    DocumentPage,
    DocumentQuery,
    EntityPlaces,
    Fold,
    Hit,
    RecordsStore,
    StoreView,
    TextStore,
    VectorStore,
    places_of,
)
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.graph import GraphStore, IncidentRelation, Node

Keys = NDArray[np.int64]


class KeySet:
    """Distinct keys in ascending order, with the position of each."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: int | None) -> bool:
        place = int(np.searchsorted(self.keys, key)) if key is not None else len(self.keys)
        return place < len(self.keys) and bool(self.keys[place] == key)

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the keys are in the set."""
        if not len(self.keys):
            return np.zeros(keys.shape, np.bool_)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return self.keys[places] == keys

    def places(self, keys: Keys) -> Keys:
        """Return the position of each key; all of them must be in the set."""
        return np.searchsorted(self.keys, keys)

    def rechecked(self, checked: Keys, present: Keys) -> KeySet:
        """Return the set after a lookup: `checked` keys are removed, `present` ones added; all ascending."""
        left = np.delete(self.keys, self.places(checked[self.holds(checked)]))
        return KeySet(np.insert(left, np.searchsorted(left, present), present))


T = TypeVar("T")
M = TypeVar("M", EntityMention, RelationMention)
Kind = Literal["documents", "chunks", "entities", "relations"]
Places = NDArray[np.int64]

# Each takes some 50 bytes per entity and relation within it.
_MOST_SCOPES = 8
_MOST_FOLDS = 16_000
# Commits whose changes are kept.
_MOST_COMMITS = 64
# Weights are summed in whole millionths, as evidence counts them: sums are exact in any order.
MILLION = 1_000_000
# Entities found in full text at first, per one requested; if too few have such names in the scope, all are read.
_HITS_PER_HIT = 8
_LEAST_HITS = 64


@dataclass(frozen=True, slots=True)
class NotedCommit:
    """The ids that a commit of this process touched, to update older scopes.

    Attributes:
        entity_ids: Entities whose mentions it changed, or that it removed.
        keys: Keys that its ids have or had, where the back end has any.
    """

    version: int
    documents: tuple[Document, ...]
    document_ids: Sequence[str]
    chunk_ids: Sequence[str]
    entity_ids: Sequence[str]
    relation_ids: Sequence[str]
    removed_entities: Sequence[str]
    removed_relations: Sequence[str]
    is_curated: bool
    keys: Mapping[str, int]

    @classmethod
    def of(cls, version: int, changeset: Changeset, keys: Mapping[str, int]) -> Self:
        """Return the notes of a changeset; of its writes they keep only the rows of documents."""
        chunks = chain(changeset.chunks, changeset.removed_chunks)
        said = (item.chunk_id for item in changeset.extractions)
        return cls(
            version=version,
            documents=changeset.documents,
            document_ids=(*(item.id for item in changeset.documents), *changeset.removed_documents),
            chunk_ids=(*(item if isinstance(item, str) else item.id for item in chunks), *said),
            entity_ids=(*(item.id for item in changeset.entity_evidence), *changeset.removed_entities),
            relation_ids=(*(item.id for item in changeset.relation_evidence), *changeset.removed_relations),
            removed_entities=changeset.removed_entities,
            removed_relations=changeset.removed_relations,
            is_curated=bool(changeset.curations),
            keys=keys,
        )


@dataclass(slots=True, eq=False, kw_only=True)
class Scope:
    """The part of one data version that a filter leaves.

    Attributes:
        shown_as: Chunks may be stored under a document that does not match while one with the same text does: maps the
            id that they are stored under to the id that they are shown under, the first that matches.
        chunks: Chunks of the matching documents; if the filter has conditions on chunks, those that meet them.
        ends: Per relation the positions of its two entities, `(n, 2)`.
        weights: Per relation the sum of the weights of its mentions here.
        incident: Adjacency in CSR form: positions of the relations of the entity at position `e` are
            `incident[incident_from[e]:incident_from[e + 1]]`. Each relation is in it twice.
        incident_from: Per entity where its group begins, and one more. Entities and relations that a renewal appended
            are not covered, and scanned one by one.
        folded: Entities and relations folded so far, by key.
    """

    version: int
    documents: KeySet
    shown_as: Mapping[str, str]
    chunks: KeySet
    entities: KeySet
    degrees: NDArray[np.int64]
    relations: KeySet
    ends: NDArray[np.int64]
    weights: NDArray[np.float64]
    incident: NDArray[np.int64]
    incident_from: NDArray[np.int64]
    folded: dict[int, Entity | Relation] = field(default_factory=dict[int, Entity | Relation])

    def keys_of(self, kind: Kind | Collection) -> KeySet:
        """Return the keys of a kind."""
        return getattr(self, str(kind))

    def has_any(self, kind: Kind, ids: Iterable[str], keys: Mapping[str, int]) -> bool:
        """Whether any of these ids is in the scope, given the keys of ids as far as they are known."""
        found = [keys[id_] for id_ in ids if id_ in keys]
        return bool(self.keys_of(kind).holds(np.array(found, np.int64)).any())

    def is_left_alone(self, commit: NotedCommit, filter_: Filter) -> bool:
        """Whether a commit certainly changed nothing within the filter, by a cheap check.

        This holds if documents were added, changed or removed that match neither before nor now, and that store no
        chunk of one that does. Edits by people and repairs never pass the check.
        """
        keys = commit.keys
        return bool(commit.document_ids) and not (
            commit.is_curated
            or any(matches(filter_, document) for document in commit.documents)
            or not self.shown_as.keys().isdisjoint(commit.document_ids)
            or self.has_any("documents", commit.document_ids, keys)
            or self.has_any("chunks", commit.chunk_ids, keys)
            or self.has_any("entities", commit.removed_entities, keys)
            or self.has_any("relations", commit.removed_relations, keys)
        )

    def touching(self, entities: Places) -> Places:
        """Return the positions of the relations that touch any of these entity positions, once each, ascending."""
        covered, starts = len(self.incident) // 2, self.incident_from
        known = [place for place in entities.tolist() if place + 1 < len(starts)]
        groups = [self.incident[starts[place] : starts[place + 1]] for place in known]
        late = np.flatnonzero(np.isin(self.ends[covered:], entities).any(axis=1)) + covered
        return np.unique(np.concatenate((*groups, late)))

    def remember(self, key: int, fold: Entity | Relation) -> None:
        """Cache a folded item; when there are too many, all are dropped."""
        if len(self.folded) >= _MOST_FOLDS:
            self.folded.clear()
        self.folded[key] = fold


def scoped_relations(entities: KeySet, relations: Keys, ends: Keys, weights: NDArray[np.float64]) -> dict[str, Any]:
    """Return the fields of a `Scope` for relations that are mentioned and stored, ascending by key.

    `ends` are the keys of their two entities, `(n, 2)`; relations with an end outside the scope are left out.
    """
    whole = entities.holds(ends).all(axis=1) if len(relations) else np.empty(0, np.bool_)
    places = entities.places(ends[whole]).reshape(-1, 2)
    touched = places.T.reshape(-1)
    degrees = np.bincount(touched, minlength=len(entities)).astype(np.int64)
    return {
        "degrees": degrees,
        "relations": KeySet(relations[whole]),
        "ends": places,
        "weights": weights[whole],
        "incident": np.argsort(touched, kind="stable") % max(len(places), 1),
        "incident_from": np.concatenate(([0], np.cumsum(degrees))),
    }


def find_shown(documents: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return, per document that stores chunks and does not match, the first of its matching twins, by id.

    `documents` are the matching documents by ascending id, each with the one that stores its chunks, if any does.
    """
    listed = list(documents)
    matching = {id_ for id_, _ in listed}
    shown_as: dict[str, str] = {}
    for id_, holder in listed:
        if holder is not None and holder not in matching:
            shown_as.setdefault(holder, id_)
    return shown_as


S = TypeVar("S", bound=Scope)


class ScopeMemory(Generic[S]):
    """An LRU cache of scopes by filter and fold; thread-safe.

    A scope is made under a lock of the event loop, or of threads.
    """

    def __init__(self, lock: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._make_lock = lock
        self._scopes: OrderedDict[tuple[str, Fold], S] = OrderedDict()
        # Callers that make a scope, or wait for it, keep its lock alive.
        self._making: WeakValueDictionary[tuple[str, Fold], AbstractAsyncContextManager[Any]] = WeakValueDictionary()
        self._guard = threading.Lock()
        # The last commits of this process.
        self._commits: deque[NotedCommit] = deque(maxlen=_MOST_COMMITS)

    def note(self, version: int, changeset: Changeset, keys: Mapping[str, int]) -> None:
        """Record the commit of `version`, so that untouched scopes are kept, and others updated."""
        commit = NotedCommit.of(version, changeset, keys)
        with self._guard:
            self._commits.append(commit)

    async def get(
        self,
        filter_: Filter,
        fold: Fold,
        version: int,
        make: Callable[[], Awaitable[S]],
        renew: Callable[[S, Sequence[NotedCommit]], S | None] | None = None,
    ) -> S:
        """Return the scope of a filter in a data version: cached, renewed, or made from nothing.

        `renew` updates an earlier scope by all commits since; if it is None or returns None, the scope is rebuilt.
        """
        name = filter_key(filter_), fold
        with self._guard:
            making = self._making.setdefault(name, self._make_lock())
        # Two questions that come at once under one filter make its scope once.
        async with making:
            found = self._recall(name, filter_, version, renew)
            if found is None:
                found = await make()
            with self._guard:
                known = self._scopes.get(name)
                # Otherwise this reader's moment is older than another's.
                if known is None or known.version <= found.version:
                    self._scopes[name] = found
                    self._scopes.move_to_end(name)
                while len(self._scopes) > _MOST_SCOPES:
                    self._scopes.popitem(last=False)
        return found

    def _recall(
        self,
        name: tuple[str, Fold],
        filter_: Filter,
        version: int,
        renew: Callable[[S, Sequence[NotedCommit]], S | None] | None,
    ) -> S | None:
        with self._guard:
            found = self._scopes.get(name)
            if found is None or found.version > version:
                return None
            since = [commit for commit in self._commits if found.version < commit.version <= version]
        if found.version == version:
            return found
        if len(since) < version - found.version:
            return None  # Another process committed, or there were too many commits.
        if all(found.is_left_alone(commit, filter_) for commit in since):
            return replace(found, version=version)
        return renew(found, since) if renew is not None else None


# The reads that a back end implements, and the folds built on them.


@dataclass(frozen=True, slots=True)
class ScopedMentions(Generic[M]):
    """An item's mentions in a scope, in canonical order, and when the first of their documents was first seen."""

    created_at: int
    mentions: Sequence[M]


@dataclass(frozen=True, slots=True)
class ScopedReading(ABC):
    """A reader of one moment of a workspace: the scope of a filter, and how to fold it."""

    scope: Scope
    fold: Fold
    records: RecordsStore
    vectors: VectorStore

    @abstractmethod
    async def find_keys(self, kind: Kind | Collection, ids: Iterable[str]) -> dict[str, int]:
        """Return the keys of those ids that are in the scope, in the order given."""

    @abstractmethod
    async def find_ids(self, kind: Kind | Collection, keys: Some[int]) -> Mapping[int, str]:
        """Return the ids of keys of the scope."""

    @abstractmethod
    async def read_entity_mentions(self, keys: Sequence[int]) -> Mapping[int, ScopedMentions[EntityMention]]:
        """Return the scope's mentions of these entities, all of which are in it."""

    @abstractmethod
    async def read_relation_mentions(self, keys: Sequence[int]) -> Mapping[int, ScopedMentions[RelationMention]]:
        """Return the scope's mentions of these relations, all of which are in it."""

    @abstractmethod
    async def find_nearest(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_cosine: float
    ) -> list[Hit]:
        """Return the nearest items in the scope, as `VectorStore.search` does."""

    @abstractmethod
    async def find_texts(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """Return items in the scope with any of the terms, as `TextStore.search` does, by their unfiltered names."""

    @abstractmethod
    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], most: int | None = None
    ) -> list[list[int]]:
        """Return, per phrase, the scope's keys that hold it: all, or up to `most`; if possible, the first by id."""

    async def read_places(self, ids: Sequence[str], most: int) -> list[EntityPlaces]:
        """Return, in order, where the scope mentions these entities, as `RecordsStore.get_mention_places` does."""
        return [places_of(evidence, most) for evidence in await self.read_entity_evidence(ids, most)]

    async def keep(self, kind: Kind | Collection, ids: Sequence[str]) -> list[str]:
        """Return those of the ids that are in the scope, in order."""
        keys = await self.find_keys(kind, ids)
        return [id_ for id_ in ids if id_ in keys]

    async def find_places(self, ids: Iterable[str]) -> Places:
        """Return the positions of those ids that are entities of the scope."""
        keys = await self.find_keys("entities", ids)
        return self.scope.entities.places(np.fromiter(keys.values(), np.int64, len(keys)))

    async def read_entity_evidence(self, ids: Sequence[str], leading: int) -> list[EntityEvidence]:
        """Return, in order, the evidence that the scope has of these entities."""
        keys = await self.find_keys("entities", ids)
        said = await self.read_entity_mentions(list(keys.values()))
        counted = (self.fold.count_entity(id_, said[key].mentions, leading) for id_, key in keys.items())
        return [replace(evidence, version=self.scope.version) for evidence in counted]

    async def read_relation_evidence(self, ids: Sequence[str], leading: int) -> list[RelationEvidence]:
        """Return, in order, the evidence that the scope has of these relations."""
        keys = await self.find_keys("relations", ids)
        said = await self.read_relation_mentions(list(keys.values()))
        ends = await self._ends(list(keys.values()))
        counted = (self.fold.count_relation(id_, ends[key], said[key].mentions, leading) for id_, key in keys.items())
        return [replace(evidence, version=self.scope.version) for evidence in counted]

    async def fold_entities(self, keys: Sequence[int]) -> dict[int, Entity]:
        """Return, in order, the entities with these keys, all of them in the scope, as the scope folds them."""
        scope = self.scope
        found = {key: item for key in keys if isinstance(item := scope.folded.get(key), Entity)}
        if missing := [key for key in dict.fromkeys(keys) if key not in found]:
            ids = await self.find_ids("entities", missing)
            said = await self.read_entity_mentions(missing)
            degrees = scope.degrees[scope.entities.places(np.array(missing, np.int64))].tolist()
            for key, degree in zip(missing, degrees, strict=True):
                counted = self.fold.count_entity(ids[key], said[key].mentions, self.fold.leading)
                entity = self.fold.fold_entity(counted)
                found[key] = replace(entity, degree=degree, created_at=said[key].created_at)
                scope.remember(key, found[key])
        return {key: found[key] for key in keys}

    async def fold_relations(self, keys: Sequence[int]) -> dict[int, Relation]:
        """Return, in order, the relations with these keys, all of them in the scope, as the scope folds them."""
        scope = self.scope
        found = {key: item for key in keys if isinstance(item := scope.folded.get(key), Relation)}
        if missing := [key for key in dict.fromkeys(keys) if key not in found]:
            ids, ends = await self.find_ids("relations", missing), await self._ends(missing)
            said = await self.read_relation_mentions(missing)
            for key in missing:
                counted = self.fold.count_relation(ids[key], ends[key], said[key].mentions, self.fold.leading)
                found[key] = replace(self.fold.fold_relation(counted), created_at=said[key].created_at)
                scope.remember(key, found[key])
        return {key: found[key] for key in keys}

    async def _ends(self, relations: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Return the ids of the two entities of each relation."""
        scope = self.scope
        places = scope.ends[scope.relations.places(np.array(relations, np.int64))]
        ends = scope.entities.keys[places].reshape(-1, 2).tolist()
        ids = await self.find_ids("entities", {key for pair in ends for key in pair})
        return {key: (ids[source], ids[target]) for key, (source, target) in zip(relations, ends, strict=True)}


class ScopedReader(ABC):
    """Reads under one filter."""

    filter: Filter

    @abstractmethod
    async def read(self, work: Callable[[ScopedReading], Coroutine[Any, Any, T]]) -> T:
        """Run `work` on the scope of the filter at one moment."""

    async def at_one_moment(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which reads the view, as `StoreView.at_one_moment` does."""
        return await work()


class _HeldReader(ScopedReader):
    """Reads at the given moment."""

    def __init__(self, reading: ScopedReading) -> None:
        self._reading = reading

    async def read(self, work: Callable[[ScopedReading], Coroutine[Any, Any, T]]) -> T:
        return await work(self._reading)


class _Role:
    """The common part of a view's roles: the reader under the filter."""

    def __init__(self, reader: ScopedReader) -> None:
        self.reader = reader


R = TypeVar("R", bound=_Role)
P = ParamSpec("P")


def _within(
    method: Callable[Concatenate[R, ScopedReading, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[R, P], CoroutineType[Any, Any, T]]:
    """Fill in a method's first parameter, `reading`: the scope at one moment. Callers leave it out."""

    @wraps(method)
    async def call(role: R, *args: P.args, **kwargs: P.kwargs) -> T:
        return await role.reader.read(lambda reading: method(role, reading, *args, **kwargs))

    return call


class FilteredView(StoreView):
    """A workspace under one filter."""

    def __init__(self, reader: ScopedReader) -> None:
        self._reader = reader
        self.records = _Records(reader)
        self.graph = _Graph(reader)
        self.vectors = _Vectors(reader)
        self.text = _Text(reader)

    async def at_one_moment(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await self._reader.at_one_moment(work)


class _Records(_Role, RecordsStore):
    """Matching documents and their chunks, extractions and evidence."""

    @_within
    async def get_documents(self, reading: ScopedReading, ids: Sequence[str]) -> list[Document]:
        return await _as_left(reading, await reading.records.get_documents(await reading.keep("documents", ids)))

    @_within
    async def find_documents(self, reading: ScopedReading, query: DocumentQuery) -> DocumentPage:
        both = And((self.reader.filter, query.filter)) if query.filter else self.reader.filter
        page = await reading.records.find_documents(replace(query, filter=both))
        return replace(page, documents=tuple(await _as_left(reading, page.documents)))

    @_within
    async def get_document_text(self, reading: ScopedReading, document_id: str) -> str | None:
        is_left = await reading.keep("documents", [document_id])
        return await reading.records.get_document_text(document_id) if is_left else None

    @_within
    async def get_chunks(self, reading: ScopedReading, ids: Sequence[str]) -> list[Chunk]:
        return _owned(reading.scope, await reading.records.get_chunks(await reading.keep("chunks", ids)))

    @_within
    async def get_document_chunks(self, reading: ScopedReading, document_id: str) -> list[Chunk]:
        if not await reading.keep("documents", [document_id]):
            return []
        held_by = {shown: holder for holder, shown in reading.scope.shown_as.items()}
        holder = held_by.get(document_id, document_id)
        chunks = await reading.records.get_document_chunks(holder)
        left = await reading.find_keys("chunks", [chunk.id for chunk in chunks])
        return _owned(reading.scope, [chunk for chunk in chunks if chunk.id in left])

    @_within
    async def get_sources(self, reading: ScopedReading, chunk_ids: Sequence[str]) -> dict[str, str]:
        allowed = await reading.keep("chunks", chunk_ids)
        if not reading.scope.shown_as:
            return await reading.records.get_sources(allowed)
        chunks = _owned(reading.scope, await reading.records.get_chunks(allowed))
        owners = await reading.records.get_owners(chunks)
        return {chunk.id: owners[chunk.document_id].source for chunk in chunks if chunk.document_id in owners}

    @_within
    async def get_twins(
        self, reading: ScopedReading, chunk_ids: Sequence[str]
    ) -> dict[str, tuple[tuple[str, str], ...]]:
        found = await reading.records.get_twins(await reading.keep("chunks", chunk_ids))
        ids = dict.fromkeys(id_ for twins in found.values() for id_, _ in twins)
        # If the scope shows the chunks under a document, that is their document and not a twin of it.
        others = (await reading.find_keys("documents", ids)).keys() - set(reading.scope.shown_as.values())
        left = {id_: tuple(twin for twin in twins if twin[0] in others) for id_, twins in found.items()}
        return {id_: twins for id_, twins in left.items() if twins}

    @_within
    async def get_extractions(self, reading: ScopedReading, chunk_ids: Sequence[str]) -> list[Extraction]:
        return await reading.records.get_extractions(await reading.keep("chunks", chunk_ids))

    @_within
    async def get_entity_mentions(
        self, reading: ScopedReading, chunk_ids: Sequence[str]
    ) -> dict[str, tuple[EntityMention, ...]]:
        return await reading.records.get_entity_mentions(await reading.keep("chunks", chunk_ids))

    @_within
    async def get_evidence(
        self, reading: ScopedReading, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """The evidence of a view is counted on request and carries the data version."""
        entities = await reading.read_entity_evidence(entity_ids, leading)
        return entities, await reading.read_relation_evidence(relation_ids, leading)

    async def get_mention_places(self, entity_ids: Sequence[str], most: int) -> list[EntityPlaces]:
        return await self.reader.read(lambda reading: reading.read_places(entity_ids, most))


def _owned(scope: Scope, chunks: list[Chunk]) -> list[Chunk]:
    """Return chunks under the documents that have them in the scope."""
    if not scope.shown_as:
        return chunks
    return [replace(item, document_id=scope.shown_as.get(item.document_id, item.document_id)) for item in chunks]


async def _as_left(reading: ScopedReading, documents: Sequence[Document]) -> list[Document]:
    """Return documents as if those that do not match did not exist: a twin may then be the original."""
    shown_as = reading.scope.shown_as
    originals = await reading.find_keys("documents", [item.twin_of for item in documents if item.twin_of])
    left: list[Document] = []
    for document in documents:
        original = document.twin_of
        if original and original not in originals:
            shown = shown_as.get(original, "")
            document = replace(document, twin_of="" if shown == document.id else shown)
        left.append(document)
    return left


class _Graph(_Role, GraphStore):
    """Entities and relations folded from the chunks in the scope; walks use the arrays of the `Scope`."""

    async def at_one_moment(self, work: Callable[[GraphStore], Coroutine[Any, Any, T]]) -> T:
        return await self.reader.read(lambda reading: work(_Graph(_HeldReader(reading))))

    @_within
    async def get_entities(self, reading: ScopedReading, ids: Sequence[str]) -> list[Entity]:
        keys = await reading.find_keys("entities", ids)
        found = await reading.fold_entities(list(keys.values()))
        return [found[keys[id_]] for id_ in ids if id_ in keys]

    @_within
    async def get_relations(self, reading: ScopedReading, ids: Sequence[str]) -> list[Relation]:
        keys = await reading.find_keys("relations", ids)
        found = await reading.fold_relations(list(keys.values()))
        return [found[keys[id_]] for id_ in ids if id_ in keys]

    @_within
    async def rank_incident_relations(
        self, reading: ScopedReading, entity_ids: Sequence[str]
    ) -> list[IncidentRelation]:
        scope = reading.scope
        places = scope.touching(await reading.find_places(entity_ids))
        relations = scope.relations.keys[places].tolist()
        ids = await reading.find_ids("relations", relations)
        degrees = scope.degrees[scope.ends[places]].sum(axis=1).tolist()
        weights = scope.weights[places].tolist()
        ranked = [IncidentRelation(ids[key], *rank) for key, *rank in zip(relations, degrees, weights, strict=True)]
        return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

    @_within
    async def list_entities(self, reading: ScopedReading, offset: int, limit: int) -> list[Entity]:
        order = np.argsort(-reading.scope.degrees, kind="stable")
        falling = -reading.scope.degrees[order]
        page = falling[max(offset, 0) : max(offset, 0) + max(limit, 0)]
        if not len(page):
            return []
        # Names break ties, so all that are equal to the first or the last of the page are read.
        start, end = np.searchsorted(falling, page[0]), np.searchsorted(falling, page[-1], "right")
        ranked = await _ranked(reading, order[start:end])
        return ranked[offset - int(start) :][: len(page)]

    @_within
    async def find_relations_among(self, reading: ScopedReading, entity_ids: Sequence[str]) -> list[Relation]:
        places = await reading.find_places(entity_ids)
        touching = reading.scope.touching(places)
        inside = touching[np.isin(reading.scope.ends[touching], places).all(axis=1)]
        found = await reading.fold_relations(reading.scope.relations.keys[inside].tolist())
        return sorted(found.values(), key=lambda relation: (-relation.weight, relation.id))

    async def find_nodes(self, entity_ids: Sequence[str]) -> Mapping[str, Node]:
        return await self.reader.read(lambda reading: reading.find_keys("entities", entity_ids))

    async def name_nodes(self, nodes: Some[Node]) -> Mapping[Node, str]:
        return await self.reader.read(lambda reading: reading.find_ids("entities", nodes))

    @_within
    async def find_steps(
        self, reading: ScopedReading, nodes: Some[Node], limit: int | None
    ) -> list[tuple[Node, Node, float]]:
        scope = reading.scope
        touching = scope.touching(scope.entities.places(np.fromiter(nodes, np.int64, len(nodes))))
        ends = scope.entities.keys[scope.ends[touching]].reshape(-1, 2).tolist()
        ways = list(zip(ends, scope.weights[touching].tolist(), strict=True))
        near = set(nodes)
        steps = [(left, right, weight) for (left, right), weight in ways if left in near]
        return [*steps, *((right, left, weight) for (left, right), weight in ways if right in near)][:limit]

    @_within
    async def order_nodes(self, reading: ScopedReading, nodes: Some[Node], limit: int) -> list[Node]:
        scope = reading.scope
        places = scope.entities.places(np.fromiter(nodes, np.int64, len(nodes)))
        # Names break ties: all that are as well connected as the last are read.
        if limit < len(places):
            degrees = scope.degrees[places]
            least = np.partition(degrees, len(degrees) - limit)[len(degrees) - limit] if limit > 0 else np.inf
            places = places[degrees >= least]
        first = (await _ranked(reading, places))[: max(0, limit)]
        return list((await reading.find_keys("entities", [entity.id for entity in first])).values())


async def _ranked(reading: ScopedReading, places: Places) -> list[Entity]:
    """Return the entities at these positions by degree (descending), then name."""
    found = await reading.fold_entities(reading.scope.entities.keys[places].tolist())
    return sorted(found.values(), key=lambda entity: (-entity.degree, entity.name, entity.id))


class _Vectors(_Role, VectorStore):
    """Vectors under the filter; those of entities and relations are made from all documents, and only order hits."""

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_cosine: float
    ) -> list[Hit]:
        return await self.reader.read(lambda reading: reading.find_nearest(collection, vector, limit, min_cosine))

    @_within
    async def get_vectors(
        self, reading: ScopedReading, collection: Collection, ids: Sequence[str]
    ) -> dict[str, NDArray[np.float32]]:
        return await reading.vectors.get_vectors(collection, await reading.keep(collection, ids))

    @_within
    async def rank(
        self,
        reading: ScopedReading,
        collection: Collection,
        vector: NDArray[np.float32],
        ids: Sequence[str],
        limit: int,
    ) -> list[Hit]:
        return await reading.vectors.rank(collection, vector, await reading.keep(collection, ids), limit)


class _Text(_Role, TextStore):
    """Full text under the filter; an entity is found only by the names that matching documents give it."""

    @_within
    async def search(
        self, reading: ScopedReading, collection: Collection, terms: Sequence[str], limit: int
    ) -> list[Hit]:
        if limit < 1:
            return []
        wanted = set(terms)
        if collection is not Collection.ENTITIES:
            return await reading.find_texts(collection, terms, limit)
        looked_at = max(limit * _HITS_PER_HIT, _LEAST_HITS)
        while True:
            found = await reading.find_texts(collection, terms, looked_at)
            keys = await reading.find_keys(collection, [hit.id for hit in found])
            hits = {keys[hit.id]: hit for hit in found if hit.id in keys}
            kept = await _called(reading, list(hits), lambda names: not wanted.isdisjoint(names), limit)
            if len(kept) >= limit or len(found) < looked_at:
                return [hits[key] for key in kept]
            looked_at = len(reading.scope.entities) + 1

    @_within
    async def find_phrases(
        self, reading: ScopedReading, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """Entities are found by the names that they have in the scope."""
        if limit < 1:
            return [[] for _ in phrases]
        if collection is Collection.ENTITIES:
            # Very many may have a common word in their names: all are read only if few of the first have it in the
            # scope.
            first = await reading.find_phrases(collection, phrases, limit * _HITS_PER_HIT)
            found = [
                await _called_by(reading, keys, phrase, limit) for keys, phrase in zip(first, phrases, strict=True)
            ]
            for place, phrase in enumerate(phrases):
                if len(found[place]) < limit and len(first[place]) >= limit * _HITS_PER_HIT:
                    [keys] = await reading.find_phrases(collection, [phrase])
                    found[place] = await _called_by(reading, keys, phrase, limit)
        else:
            found = await reading.find_phrases(collection, phrases, limit)
        ids = await reading.find_ids(collection, {key for keys in found for key in keys})
        return [[ids[key] for key in keys] for keys in found]


async def _called_by(reading: ScopedReading, keys: Sequence[int], phrase: Sequence[str], limit: int) -> list[int]:
    """Return the first of the entities, up to `limit`, whose names in the scope hold a phrase."""
    return await _called(reading, keys, lambda names: f" {' '.join(phrase)} " in f" {' '.join(names)} ", limit)


async def _called(
    reading: ScopedReading, keys: Sequence[int], fits: Callable[[Sequence[str]], bool], limit: int
) -> list[int]:
    """Return the first of the entities, up to `limit`, whose terms in the scope fit."""
    found: list[int] = []
    for start in range(0, len(keys), limit):
        entities = await reading.fold_entities(keys[start : start + limit])
        found += [key for key, entity in entities.items() if fits(reading.fold.name_terms(entity))]
        if len(found) >= limit:
            break
    return found[:limit]
