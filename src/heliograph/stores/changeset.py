"""What one commit changes, in all stores at once.

A changeset is computed outside any lock (folding may call models) and applied in one transaction. `expected` names
the evidence it was computed from; if another commit changed any of it in between, nothing is applied and
`StaleChangesetError` is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from heliograph.models import (
    Chunk,
    Document,
    Entity,
    EntityEvidence,
    Extraction,
    Relation,
    RelationEvidence,
)

__all__ = ["Changeset", "Collection", "TextEntry", "VectorBatch"]


class Collection(StrEnum):
    """What vectors and full text are kept of. Full text has no collection of relations."""

    CHUNKS = "chunks"
    ENTITIES = "entities"
    RELATIONS = "relations"


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Vectors to upsert.

    Attributes:
        ids: `n` ids of the collection.
        vectors: `(n, dimension)` float32, each row of length 1.
    """

    ids: tuple[str, ...]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TextEntry:
    """Full text to upsert: `terms` come from `heliograph.text.analysis` and contain no spaces."""

    id: str
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changeset:
    """Upserts and removals, each idempotent; removing what is absent is a no-op.

    Attributes:
        documents: Documents to upsert (all fields but `created_at` of one already stored).
        document_texts: Text per document id, where it is new or changed.
        removed_documents: Ids; their chunks and extractions must be in `removed_chunks`.
        chunks: Chunks to upsert.
        removed_chunks: Ids; their mentions, vectors, full text and cached replies go with them.
        extractions: Each replaces all that was read in its chunk.
        entity_evidence: New evidence; a `mention_count` of 0 removes it.
        relation_evidence: Likewise.
        entities: Folded entities to upsert.
        removed_entities: Ids; vectors and full text go with them.
        relations: Folded relations to upsert.
        removed_relations: Ids; vectors go with them.
        vectors: Vectors to upsert per collection.
        texts: Full text to upsert per collection.
        expected: Evidence version per entity or relation id that must still hold (0: must be absent).
        expected_documents: Content hash per document id that must still be stored (empty: must be absent).
    """

    documents: tuple[Document, ...] = ()
    document_texts: Mapping[str, str] = field(default_factory=dict[str, str])
    removed_documents: tuple[str, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    removed_chunks: tuple[str, ...] = ()
    extractions: tuple[Extraction, ...] = ()
    entity_evidence: tuple[EntityEvidence, ...] = ()
    relation_evidence: tuple[RelationEvidence, ...] = ()
    entities: tuple[Entity, ...] = ()
    removed_entities: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    removed_relations: tuple[str, ...] = ()
    vectors: Mapping[Collection, VectorBatch] = field(default_factory=dict[Collection, VectorBatch])
    texts: Mapping[Collection, tuple[TextEntry, ...]] = field(default_factory=dict[Collection, tuple[TextEntry, ...]])
    expected: Mapping[str, int] = field(default_factory=dict[str, int])
    expected_documents: Mapping[str, str] = field(default_factory=dict[str, str])
