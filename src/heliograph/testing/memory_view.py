"""Views of `MemoryStore`: what a filter leaves is copied into a store of its own, folded from nothing but that.

Slow and plain, so that the views of real back ends can be compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from heliograph.filters import Filter, matches
from heliograph.models import (
    COMMITTED_STATUSES,
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
from heliograph.stores.base import Fold, GraphStore, RecordsStore, StoreView, TextStore, VectorStore
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch
from heliograph.text.names import mention_entity_id, mention_relation_id

__all__ = ["MemoryContents", "MemoryView", "creation_moments", "filtered_contents"]

# The roles are looked up at each use, since what matches may have changed.
# pyright: reportIncompatibleVariableOverride=false


class MemoryView(StoreView):
    """The roles of the store that `filtered` returns; it is called at each use."""

    def __init__(self, filtered: Callable[[], StoreView]) -> None:
        self._filtered = filtered

    @property
    def records(self) -> RecordsStore:
        """What matching documents say."""
        return self._filtered().records

    @property
    def graph(self) -> GraphStore:
        """What is folded from it."""
        return self._filtered().graph

    @property
    def vectors(self) -> VectorStore:
        """The vectors under the filter."""
        return self._filtered().vectors

    @property
    def text(self) -> TextStore:
        """The full text under the filter."""
        return self._filtered().text


@dataclass(frozen=True)
class MemoryContents:
    """What a store in memory holds, by id."""

    documents: Mapping[str, Document]
    texts: Mapping[str, str]
    chunks: Mapping[str, Chunk]
    extractions: Mapping[str, Extraction]
    entities: Mapping[str, Entity]
    relations: Mapping[str, Relation]
    vectors: Mapping[Collection, Mapping[str, NDArray[np.float32]]]
    terms: Mapping[str, list[str]]


@dataclass
class _Mentions:
    """Mentions by what they count for, each in canonical order."""

    entities: dict[str, list[EntityMention]] = field(default_factory=dict[str, list[EntityMention]])
    relations: dict[str, list[RelationMention]] = field(default_factory=dict[str, list[RelationMention]])


def filtered_contents(contents: MemoryContents, filter_: Filter, fold: Fold) -> Changeset:
    """Return all that a filter leaves, as one changeset for an empty store."""
    matching = [item for item in contents.documents.values() if matches(filter_, item)]
    owners = _owners(contents, matching)
    documents = [_as_left(item, owners) for item in matching]
    allowed = {item.id for item in documents}
    chunks = [
        replace(chunk, document_id=owners[chunk.document_id])
        for chunk in contents.chunks.values()
        if chunk.document_id in owners
    ]
    extractions = [contents.extractions[chunk.id] for chunk in chunks if chunk.id in contents.extractions]
    entity_evidence, relation_evidence = _evidence(_mentions(contents, extractions), contents, fold)
    entities = [fold.fold_entity(evidence) for evidence in entity_evidence]
    relations = [fold.fold_relation(evidence) for evidence in relation_evidence]
    left = {
        Collection.CHUNKS: [chunk.id for chunk in chunks],
        Collection.ENTITIES: [entity.id for entity in entities],
        Collection.RELATIONS: [relation.id for relation in relations],
    }
    return Changeset(
        documents=tuple(documents),
        document_texts={
            owners.get(id_, id_): text
            for id_, text in contents.texts.items()
            if id_ in allowed or owners.get(id_) in allowed
        },
        chunks=tuple(chunks),
        extractions=tuple(extractions),
        entity_evidence=tuple(entity_evidence),
        relation_evidence=tuple(relation_evidence),
        entities=tuple(entities),
        relations=tuple(relations),
        vectors={collection: _batch(ids, contents.vectors[collection]) for collection, ids in left.items()},
        texts={
            Collection.CHUNKS: tuple(
                TextEntry(chunk.id, tuple(contents.terms[chunk.id])) for chunk in chunks if chunk.id in contents.terms
            ),
            Collection.ENTITIES: tuple(TextEntry(entity.id, tuple(fold.name_terms(entity))) for entity in entities),
        },
    )


def _owners(contents: MemoryContents, matching: list[Document]) -> dict[str, str]:
    """Return, per document that holds chunks of matching documents, which of these has them.

    Itself if it matches; else the first of its twins that do. A twin with another title does not vouch for chunks
    that were read under the original's.
    """
    owners = {item.id: item.id for item in matching if not item.twin_of}
    for item in sorted(matching, key=lambda item: item.id):
        original = contents.documents.get(item.twin_of)
        if original is not None and original.title == item.title and item.status in COMMITTED_STATUSES:
            owners.setdefault(original.id, item.id)
    return owners


def _as_left(document: Document, owners: Mapping[str, str]) -> Document:
    """Return a document as it would be without those that do not match: a twin may be the original then."""
    original = owners.get(document.twin_of, "")
    return replace(document, twin_of="" if original == document.id else original)


def creation_moments(left: Changeset) -> dict[str, int]:
    """Return, per entity and relation that a filter leaves, when the first document that mentions it was first seen."""
    seen: dict[str, int] = {}
    for document in left.documents:
        holder, moment = document.twin_of or document.id, int(document.created_at.timestamp())
        seen[holder] = min(moment, seen.get(holder, moment))
    moments = {chunk.id: seen[chunk.document_id] for chunk in left.chunks}
    found: dict[str, int] = {}
    for extraction in left.extractions:
        moment = moments[extraction.chunk_id]
        ids = (*map(mention_entity_id, extraction.entities), *map(mention_relation_id, extraction.relations))
        found.update((id_, min(moment, found.get(id_, moment))) for id_ in ids)
    return found


def _mentions(contents: MemoryContents, extractions: list[Extraction]) -> _Mentions:
    found = _Mentions()
    for extraction in extractions:
        for mention in extraction.entities:
            found.entities.setdefault(mention_entity_id(mention), []).append(mention)
        for relation in extraction.relations:
            found.relations.setdefault(mention_relation_id(relation), []).append(relation)
    for grouped in (found.entities, found.relations):
        for mentions in grouped.values():
            mentions.sort(key=lambda mention: (mention.rank, mention.chunk_id))
    # What a person deleted is mentioned, and yet is not there.
    for id_ in found.entities.keys() - contents.entities.keys():
        del found.entities[id_]
    for id_ in found.relations.keys() - contents.relations.keys():
        del found.relations[id_]
    return found


def _evidence(
    mentions: _Mentions, contents: MemoryContents, fold: Fold
) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
    entities = [fold.count_entity(id_, said, len(said)) for id_, said in mentions.entities.items()]
    relations: list[RelationEvidence] = []
    for id_, said in mentions.relations.items():
        stored = contents.relations[id_]
        if {stored.source_id, stored.target_id} <= mentions.entities.keys():
            relations.append(fold.count_relation(id_, (stored.source_id, stored.target_id), said, len(said)))
    return entities, relations


def _batch(ids: list[str], vectors: Mapping[str, NDArray[np.float32]]) -> VectorBatch:
    present = [id_ for id_ in ids if id_ in vectors]
    rows = np.stack([vectors[id_] for id_ in present]) if present else np.empty((0, 0), np.float32)
    return VectorBatch(tuple(present), rows)
