"""Small consistent changesets for the contract suites: a document per call, entities and relations by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heliograph.ids import (
    chunk_id,
    content_hash,
    document_id,
    entity_key,
    mention_rank,
    name_to_entity_id,
    names_to_relation_id,
)
from heliograph.models import (
    Chunk,
    Document,
    DocumentStatus,
    Entity,
    EntityEvidence,
    EntityMention,
    Extraction,
    Relation,
    RelationEvidence,
    RelationMention,
)
from heliograph.stores.changeset import Changeset, Collection, VectorBatch, chunk_terms, entity_terms

__all__ = ["DIMENSION", "equal_things", "example_changeset", "unit_vector"]

DIMENSION = 12
_MILLION = 1_000_000


def unit_vector(seed: str) -> NDArray[np.float32]:
    """Return a vector of length 1 that depends only on the seed."""
    state = np.random.default_rng(list(seed.encode()) or [0])
    vector = state.normal(size=DIMENSION).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def example_changeset(
    source: str,
    entities: Sequence[str] = (),
    relations: Sequence[tuple[str, str, float]] = (),
    *,
    text: str = "",
    status: DocumentStatus = DocumentStatus.PROCESSED,
    track: str = "",
) -> Changeset:
    """Return a changeset with one document of one chunk, as if it were the first to mention its entities.

    Args:
        source: Source of the document.
        entities: Names that its chunk mentions; end points of relations must be among them.
        relations: (name, name, weight).
        text: The document's text; made from the source when empty.
        status: Status of the document.
        track: Its batch.
    """
    text = text or f"This is {source}: {', '.join(entities)}."
    document = document_id(source)
    chunk = Chunk(chunk_id(document, text, 0), document, 0, text, 9, 0, len(text), ("Top", source), 1, "first")
    rank = mention_rank(document, 0, is_subject=False)
    mentions = [EntityMention(chunk.id, name, "thing", f"{name} in {source}", rank) for name in entities]
    pairs: list[RelationMention] = []
    for *ends, weight in relations:
        left, right = sorted(ends, key=entity_key)
        said = f"{left} and {right} in {source}"
        pairs.append(RelationMention(chunk.id, left, right, ("links",), said, weight, rank))
    folded = [_entity(mention) for mention in mentions]
    joined = [_relation(pair) for pair in pairs]
    return Changeset(
        documents=(
            Document(
                *(document, source, source.title(), content_hash(text), status),
                metadata={"source": source},
                length=len(text),
                chunk_count=1,
                track_id=track,
                page_starts=(0, 2, len(text)),
            ),
        ),
        document_texts={document: text},
        chunks=(chunk,),
        extractions=(Extraction(chunk.id, "example", tuple(mentions), tuple(pairs), reply_keys=("a:extract:b",)),),
        entity_evidence=tuple(
            EntityEvidence(entity.id, {mention.name: 1}, {mention.type: 1}, 1, (mention,))
            for entity, mention in zip(folded, mentions, strict=True)
        ),
        relation_evidence=tuple(
            RelationEvidence(
                *(relation.id, relation.source_id, relation.target_id, dict.fromkeys(pair.keywords, 1)),
                *(round(pair.weight * _MILLION), 1, (pair,)),
            )
            for relation, pair in zip(joined, pairs, strict=True)
        ),
        entities=tuple(folded),
        relations=tuple(joined),
        vectors={
            Collection.CHUNKS: _vectors([chunk.id]),
            Collection.ENTITIES: _vectors([entity.id for entity in folded]),
            Collection.RELATIONS: _vectors([relation.id for relation in joined]),
        },
        texts={
            Collection.CHUNKS: (chunk_terms(source.title(), chunk),),
            Collection.ENTITIES: tuple(map(entity_terms, folded)),
        },
    )


def equal_things(count: int) -> Changeset:
    """Return a document of `count` chunks and entities with equal scores in any search, the last ids first."""
    names = sorted((f"Owl {number}" for number in range(count)), key=name_to_entity_id, reverse=True)
    changeset = example_changeset("equals.md", names)
    (first,) = changeset.chunks
    ids = sorted((chunk_id(first.document_id, "owl", number) for number in range(count)), reverse=True)
    places = range(0, 4 * count, 4)
    chunks = [
        replace(first, id=id_, position=number, text="owl ", start=start, end=start + 4)
        for number, (id_, start) in enumerate(zip(ids, places, strict=True))
    ]
    found = {Collection.CHUNKS: ids, Collection.ENTITIES: [item.id for item in changeset.entities]}
    vector = unit_vector("owl")
    return replace(
        changeset,
        documents=(replace(changeset.documents[0], chunk_count=count, length=4 * count, page_starts=()),),
        document_texts={first.document_id: "owl " * count},
        chunks=tuple(chunks),
        extractions=(),
        entity_evidence=(),
        vectors={item: VectorBatch(tuple(ids), np.array([vector] * count)) for item, ids in found.items()},
        texts={**changeset.texts, Collection.CHUNKS: tuple(chunk_terms("Equals", chunk) for chunk in chunks)},
    )


def _vectors(ids: Sequence[str]) -> VectorBatch:
    rows = [unit_vector(id_) for id_ in ids]
    return VectorBatch(tuple(ids), np.array(rows, np.float32).reshape(len(ids), DIMENSION))


def _entity(mention: EntityMention) -> Entity:
    id_ = name_to_entity_id(mention.name)
    return Entity(id_, mention.name, mention.type, mention.description, (), (mention.chunk_id,), 7)


def _relation(mention: RelationMention) -> Relation:
    ends = name_to_entity_id(mention.source), name_to_entity_id(mention.target)
    return Relation(
        *(names_to_relation_id(mention.source, mention.target), mention.source, mention.target, *ends),
        *(mention.keywords, mention.description, mention.weight, (mention.chunk_id,), 8),
    )
