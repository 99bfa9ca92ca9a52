"""What one commit is about, before and while it is drafted, and the changeset that it becomes.

`DocumentChange` says what becomes of one document. `DraftMemo` holds what drafts of that change have read, folded and
paid for, so that a second draft repeats only what another commit has changed in between. `changeset` puts both
together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from heliograph.ingest.folding import Folded, TouchedEntity, TouchedRelation
from heliograph.ingest.mentions import MentionDelta
from heliograph.models import Chunk, Document, Entity, Extraction, Relation, Usage
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch

__all__ = ["DocumentChange", "DraftMemo", "changeset"]


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
    """

    basis: Document
    document: Document | None = None
    chunks: tuple[Chunk, ...] = ()
    removed_chunks: tuple[str, ...] = ()
    replaced: tuple[Extraction, ...] = ()
    extractions: tuple[Extraction, ...] = ()
    passages: Mapping[str, str] = field(default_factory=dict[str, str])
    terms: tuple[TextEntry, ...] = ()

    @property
    def is_removal(self) -> bool:
        """Whether the document goes."""
        return self.document is None


@dataclass(slots=True)
class DraftMemo:
    """What is known of a change so far.

    Attributes:
        delta: Mentions that go and come.
        entities: Entities that it touches, as they were when last read.
        relations: Relations likewise.
        folded_entities: What their folds change.
        folded_relations: Likewise.
        descriptions: Summaries per label and fragments.
        vectors: Vector per embedded text.
        usage: Tokens that chat models spent on summaries.
    """

    delta: MentionDelta
    entities: dict[str, TouchedEntity] = field(default_factory=dict[str, TouchedEntity])
    relations: dict[str, TouchedRelation] = field(default_factory=dict[str, TouchedRelation])
    folded_entities: dict[str, Folded[Entity]] = field(default_factory=dict[str, Folded[Entity]])
    folded_relations: dict[str, Folded[Relation]] = field(default_factory=dict[str, Folded[Relation]])
    descriptions: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict[tuple[str, tuple[str, ...]], str])
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])
    usage: Usage = field(default_factory=Usage)

    def touched(self) -> Iterator[TouchedEntity | TouchedRelation]:
        """Yield all that the change touches."""
        yield from self.entities.values()
        yield from self.relations.values()

    def index_texts(self) -> dict[Collection, dict[str, str]]:
        """Return the texts of entities and relations that must be embedded, per id."""
        entities = {id_: item.index_text for id_, item in self.folded_entities.items()}
        relations = {id_: item.index_text for id_, item in self.folded_relations.items()}
        return {
            Collection.ENTITIES: {id_: text for id_, text in entities.items() if text is not None},
            Collection.RELATIONS: {id_: text for id_, text in relations.items() if text is not None},
        }


def changeset(change: DocumentChange, memo: DraftMemo, vectors: Mapping[Collection, VectorBatch]) -> Changeset:
    """Put together a changeset that expects all to be as it was read."""
    document = change.document
    entities, relations = memo.folded_entities.values(), memo.folded_relations.values()
    return Changeset(
        documents=(replace(document, usage=document.usage + memo.usage),) if document else (),
        removed_documents=() if document else (change.basis.id,),
        chunks=change.chunks,
        removed_chunks=change.removed_chunks,
        extractions=change.extractions,
        entity_evidence=tuple(item.evidence for item in memo.entities.values()),
        relation_evidence=tuple(item.evidence for item in memo.relations.values()),
        entities=tuple(item.fold for item in entities if item.fold is not None),
        removed_entities=tuple(id_ for id_, item in memo.entities.items() if item.is_gone),
        relations=tuple(item.fold for item in relations if item.fold is not None),
        removed_relations=tuple(id_ for id_, item in memo.relations.items() if item.is_gone),
        vectors=vectors,
        texts={
            Collection.CHUNKS: change.terms,
            Collection.ENTITIES: tuple(item.terms for item in entities if item.terms is not None),
        },
        expected={item.evidence.id: item.evidence.version for item in memo.touched()},
        expected_documents={change.basis.id: change.basis.content_hash},
    )
