"""Checks through the public contracts that every projection of a workspace agrees with its truth.

Entities and relations are folded again from all mentions at once (the engine keeps them by differences), degrees are
counted, vectors made again of texts, names and chunks, and full text and vector search asked for everything
they hold. What is missing, stale or left over is named. Works for workspaces that fit into memory and were filled
without a chat model, whose descriptions are joined and not summarised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from heliograph.embedding.base import EmbeddingModel
from heliograph.ids import end_ids, name_to_entity_id, names_to_relation_id
from heliograph.ingest.merging import (
    EvidenceFold,
    IndexEntry,
    Indexing,
    apply_entity_delta,
    apply_relation_delta,
    empty_entity_evidence,
    empty_relation_evidence,
    entity_entry,
    fold_entity,
    fold_relation,
    make_vectors,
    relation_entry,
)
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
    utc_now,
)
from heliograph.settings import IngestSettings
from heliograph.stores.base import DocumentQuery, Store
from heliograph.stores.changeset import Collection, entity_terms
from heliograph.text.analysis import chunk_index_text, terms

__all__ = ["Contents", "find_disagreements", "read_contents"]

_SETTINGS = IngestSettings()  # pyright: ignore[reportCallIssue]
_LIMITS = EvidenceFold.of(_SETTINGS)
_EPOCH = utc_now()


@dataclass(frozen=True, slots=True)
class Contents:
    """The truth of a workspace, and what is folded from it: each by id, without moments in time and batch names.

    Two workspaces with equal contents answer every question the same.
    """

    documents: Mapping[str, Document]
    texts: Mapping[str, str | None]
    chunks: Mapping[str, Chunk]
    extractions: Mapping[str, Extraction]
    entities: Mapping[str, Entity]
    relations: Mapping[str, Relation]

    def passages(self) -> dict[str, str]:
        """Return, per chunk id, the text under which a chunk is indexed."""
        titles = {document.id: document.title for document in self.documents.values()}
        return {chunk.id: chunk_index_text(titles.get(chunk.document_id, ""), chunk) for chunk in self.chunks.values()}

    def entity_mentions(self) -> dict[str, list[EntityMention]]:
        """Return all mentions per entity id."""
        found: dict[str, list[EntityMention]] = {}
        for extraction in self.extractions.values():
            for mention in extraction.entities:
                found.setdefault(name_to_entity_id(mention.name), []).append(mention)
        return found

    def relation_mentions(self) -> dict[str, list[RelationMention]]:
        """Return all mentions per relation id."""
        found: dict[str, list[RelationMention]] = {}
        for extraction in self.extractions.values():
            for mention in extraction.relations:
                found.setdefault(names_to_relation_id(mention.source, mention.target), []).append(mention)
        return found


async def read_contents(store: Store) -> Contents:
    """Read a whole workspace through the contracts."""
    page = await store.records.find_documents(DocumentQuery(limit=1_000_000))
    chunks = [chunk for item in page.documents for chunk in await store.records.get_document_chunks(item.id)]
    extractions = await store.records.get_extractions([chunk.id for chunk in chunks])
    truth = Contents(
        documents={item.id: _timeless(item) for item in page.documents},
        texts={item.id: await store.records.get_document_text(item.id) for item in page.documents},
        chunks={chunk.id: chunk for chunk in chunks},
        extractions={extraction.chunk_id: extraction for extraction in extractions},
        entities={},
        relations={},
    )
    entities = await store.graph.get_entities(list(truth.entity_mentions()))
    relations = await store.graph.get_relations(list(truth.relation_mentions()))
    return replace(
        truth,
        entities={item.id: replace(item, created_at=0) for item in entities},
        relations={item.id: replace(item, created_at=0) for item in relations},
    )


async def find_disagreements(store: Store, embedding: EmbeddingModel, contents: Contents) -> list[str]:
    """Return what is wrong, in words; nothing if all projections agree with the truth in `contents`."""
    return [
        *await _wrong_counts(store, contents),
        *await _wrong_evidence(store, contents),
        *_wrong_folds(contents),
        *await _wrong_vectors(store, embedding, contents),
        *await _wrong_texts(store, contents),
    ]


async def _wrong_counts(store: Store, contents: Contents) -> list[str]:
    stats = await store.get_stats()
    unread = contents.chunks.keys() ^ contents.extractions.keys()
    found = {
        "documents": (sum(stats.documents.values()), len(contents.documents)),
        "chunks": (stats.chunks, len(contents.chunks)),
        "entities": (stats.entities, len(contents.entity_mentions())),
        "relations": (stats.relations, len(contents.relation_mentions())),
        "chunks without extraction": (len(unread), 0),
        "documents without text": (sum(text is None for text in contents.texts.values()), 0),
    }
    return [f"{there} {what} instead of {wanted}" for what, (there, wanted) in found.items() if there != wanted]


async def _wrong_evidence(store: Store, contents: Contents) -> list[str]:
    entities, relations = contents.entity_mentions(), contents.relation_mentions()
    stored = await store.records.get_evidence(list(entities), list(relations), _LIMITS.leading)
    wanted = {id_: _entity_evidence(id_, mentions) for id_, mentions in entities.items()}
    joined = {id_: _relation_evidence(id_, mentions) for id_, mentions in relations.items()}
    return [
        *_differences("evidence of entity", {item.id: replace(item, version=0) for item in stored[0]}, wanted),
        *_differences("evidence of relation", {item.id: replace(item, version=0) for item in stored[1]}, joined),
    ]


def _wrong_folds(contents: Contents) -> list[str]:
    joined: dict[str, Relation] = {}
    for id_, mentions in contents.relation_mentions().items():
        evidence = _relation_evidence(id_, mentions)
        joined[id_] = fold_relation(evidence, _description(evidence), _LIMITS)
    degrees = Counter(end for relation in joined.values() for end in (relation.source_id, relation.target_id))
    folded: dict[str, Entity] = {}
    for id_, mentions in contents.entity_mentions().items():
        evidence = _entity_evidence(id_, mentions)
        folded[id_] = replace(fold_entity(evidence, _description(evidence), _LIMITS), degree=degrees[id_])
    return [
        *_differences("entity", contents.entities, folded),
        *_differences("relation", contents.relations, joined),
    ]


async def _wrong_vectors(store: Store, embedding: EmbeddingModel, contents: Contents) -> list[str]:
    indexing = Indexing(embedding.info.max_input_tokens, from_chunks=True)
    entries = {
        Collection.CHUNKS: {id_: IndexEntry.of(text) for id_, text in contents.passages().items()},
        Collection.ENTITIES: {id_: entity_entry(item, indexing) for id_, item in contents.entities.items()},
        Collection.RELATIONS: {id_: relation_entry(item, indexing) for id_, item in contents.relations.items()},
    }
    texts = list({text: None for part in entries.values() for item in part.values() for text in item.embedded})
    embedded = dict(zip(texts, (await embedding.embed(texts, "document")).vectors, strict=True))
    chunks = {id_: embedded[text] for id_, text in contents.passages().items()}
    wrong: list[str] = []
    for collection, part in entries.items():
        stored = await store.vectors.get_vectors(collection, list(part))
        vectors = make_vectors(part, embedded, chunks).vectors if part else ()
        stale = [
            id_
            for id_, vector in zip(part, vectors, strict=True)
            if id_ in stored and not np.allclose(stored[id_], vector, atol=1e-6)
        ]
        wrong += [f"the vector of {id_} in {collection} is not that of its text" for id_ in stale]
        wrong += _missing_and_extra(f"vectors of {collection}", stored.keys(), part.keys())
        probe = np.zeros(embedding.info.dimension, np.float32)
        probe[0] = 1.0
        hits = await store.vectors.search(collection, probe, 10 * len(part) + 100, -1.0)
        wrong += _missing_and_extra(f"search in vectors of {collection}", [hit.id for hit in hits], part.keys())
    return wrong


async def _wrong_texts(store: Store, contents: Contents) -> list[str]:
    named = {id_: set(entity_terms(item).terms) for id_, item in contents.entities.items()}
    said = {id_: set(terms(passage)) for id_, passage in contents.passages().items()}
    return [
        *await _wrong_postings(store, Collection.ENTITIES, named),
        *await _wrong_postings(store, Collection.CHUNKS, said),
    ]


async def _wrong_postings(store: Store, collection: Collection, terms_of: Mapping[str, set[str]]) -> list[str]:
    """Compare, for the commonest terms that together everything has, what a search finds with what has the term."""
    counts = Counter(term for found in terms_of.values() for term in found)
    wrong: list[str] = []
    covered: set[str] = set()
    for term, _ in counts.most_common():
        if len(covered) == len(terms_of):
            break
        having = {id_ for id_, found in terms_of.items() if term in found}
        covered |= having
        hits = await store.text.search(collection, [term], 10 * len(terms_of) + 100)
        wrong += _missing_and_extra(f"full text of {collection} for {term!r}", [hit.id for hit in hits], having)
    return wrong


def _differences(what: str, stored: Mapping[str, object], wanted: Mapping[str, object]) -> list[str]:
    both = stored.keys() & wanted.keys()
    wrong = [
        f"{what} {id_}: {stored[id_]!r:.400} instead of {wanted[id_]!r:.400}"
        for id_ in sorted(both)
        if stored[id_] != wanted[id_]
    ]
    return wrong + _missing_and_extra(what, stored.keys(), wanted.keys())


def _missing_and_extra(what: str, there: Iterable[str], wanted: Iterable[str]) -> list[str]:
    found, expected = set(there), set(wanted)
    return [
        *(f"{what}: {id_} is missing" for id_ in sorted(expected - found)),
        *(f"{what}: {id_} is left over" for id_ in sorted(found - expected)),
    ]


def _entity_evidence(id_: str, mentions: list[EntityMention]) -> EntityEvidence:
    return apply_entity_delta(empty_entity_evidence(id_), (), mentions, _LIMITS.leading)


def _relation_evidence(id_: str, mentions: list[RelationMention]) -> RelationEvidence:
    return apply_relation_delta(empty_relation_evidence(id_, end_ids(mentions[0])), (), mentions, _LIMITS.leading)


def _description(evidence: EntityEvidence | RelationEvidence) -> str:
    return _LIMITS.join(_LIMITS.fragments(evidence))


def _timeless(document: Document) -> Document:
    return replace(document, created_at=_EPOCH, updated_at=_EPOCH, track_id="")
