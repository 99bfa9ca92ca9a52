"""What one commit changes, in all stores at once.

A changeset is computed outside any lock (folding may call models) and applied in one transaction. `expected` names
the evidence it was computed from; if another commit changed any of it in between, nothing is applied and
`StaleChangesetError` is raised.

In the transaction of each commit, an outbox records the ids that the commit changed, in order, for external stores,
and keeps them as long as some reader has still to read them. An entry carries no content: a reader looks up the current
state, so that entries can be read again and several changes of one item are one entry. Without a reader nothing is
recorded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from heliograph.models import (
    Chunk,
    Curation,
    Document,
    Entity,
    EntityEvidence,
    Extraction,
    NameRules,
    Relation,
    RelationEvidence,
)
from heliograph.text.analysis import chunk_index_text, entity_index_terms, passage_terms

__all__ = [
    "Changeset",
    "Collection",
    "Outbox",
    "OutboxEntry",
    "OutboxKind",
    "TextEntry",
    "VectorBatch",
    "changed_ids",
    "chunk_terms",
    "digest_terms",
    "entity_terms",
]


class Collection(StrEnum):
    """The collections that have vectors and full text. Full text has no collection of relations."""

    CHUNKS = "chunks"
    ENTITIES = "entities"
    RELATIONS = "relations"


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Vectors to upsert.

    Attributes:
        ids: `n` ids of the collection.
        vectors: `(n, dimension)` float32, each row of length 1.
        texts: The embedded texts, for back ends that show them beside the vectors; empty where they are not known.
    """

    ids: tuple[str, ...]
    vectors: NDArray[np.float32]
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextEntry:
    """Full text to upsert.

    Attributes:
        id: Id of a chunk or an entity.
        terms: Terms it is found by, without spaces. They are derived from the truth, so for external stores they are
            computed again.
    """

    id: str
    terms: tuple[str, ...]


def chunk_terms(title: str, chunk: Chunk) -> TextEntry:
    """Return the terms of a chunk under its document's title; takes CPU time in proportion to its text."""
    return TextEntry(chunk.id, tuple(passage_terms(chunk_index_text(title, chunk))))


def entity_terms(entity: Entity) -> TextEntry:
    """Return the terms by which an entity is found: those of its name and of its aliases."""
    return TextEntry(entity.id, tuple(entity_index_terms(entity)))


def digest_terms(terms: Iterable[str]) -> int:
    """Return a number below 2**63 that is equal for equal terms with equal counts, in whatever order."""
    return sum(map(_term_hash, terms)) % (1 << 63)


@lru_cache(maxsize=200_000)
def _term_hash(term: str) -> int:
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=7).digest(), "little")


@dataclass(frozen=True, slots=True)
class Changeset:
    """Upserts and removals, each idempotent; removing an absent item is a no-op.

    Attributes:
        documents: Documents to upsert (all fields except `created_at` of one already stored).
        document_texts: Text per document id, where it is new or changed.
        removed_texts: Ids of documents that keep no text of their own, being twins.
        removed_documents: Ids; their chunks and extractions must be in `removed_chunks`.
        chunks: Chunks to upsert.
        removed_chunks: Ids; their mentions, vectors, full text and cached replies are removed with them.
        extractions: Each replaces the previous extraction of its chunk.
        entity_evidence: New evidence; a `mention_count` of 0 removes it.
        relation_evidence: Likewise.
        entities: Folded entities to upsert.
        removed_entities: Ids; their vectors and full text are removed with them.
        relations: Folded relations to upsert.
        removed_relations: Ids; their vectors are removed with them.
        vectors: Vectors to upsert per collection.
        texts: Full text to upsert per collection.
        moments: When new entities and relations first appeared, in Unix seconds per id; those of other ids appear now.
        curations: Curations to add, or to upsert where one was undone; new ones (sequence 0) get the next sequences.
        name_rules: Rules of names that change: their counts of aliases are stored, their `curations` and `version`
            are ignored. Ids that a curation names are among them.
        kept_replies: Keys of cached replies to keep although their subject loses a mention.
        expected: Evidence version per entity or relation id that must still hold (0: must be absent).
        expected_rules: Version of the rules per id of a name that must still hold (0: there are none).
        expected_version: Data version that must still be the latest; None if anything may have changed meanwhile.
        expected_documents: Document per id that must still be stored in this version, `Document.version` (None: must
            be absent). A changeset names every document that it writes or relies on, as it was read.
    """

    documents: tuple[Document, ...] = ()
    document_texts: Mapping[str, str] = field(default_factory=dict[str, str])
    removed_texts: tuple[str, ...] = ()
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
    moments: Mapping[str, int] = field(default_factory=dict[str, int])
    curations: tuple[Curation, ...] = ()
    name_rules: tuple[NameRules, ...] = ()
    kept_replies: tuple[str, ...] = ()
    expected: Mapping[str, int] = field(default_factory=dict[str, int])
    expected_rules: Mapping[str, int] = field(default_factory=dict[str, int])
    expected_version: int | None = None
    expected_documents: Mapping[str, Document | None] = field(default_factory=dict[str, Document | None])

    @property
    def removed(self) -> Mapping[Collection, tuple[str, ...]]:
        """The removed ids, per collection."""
        return {
            Collection.CHUNKS: self.removed_chunks,
            Collection.ENTITIES: self.removed_entities,
            Collection.RELATIONS: self.removed_relations,
        }

    @property
    def removed_subjects(self) -> tuple[str, ...]:
        """Return the ids whose cached replies are dropped: removed chunks, entities and relations with new evidence."""
        if not self.removed_chunks:
            return ()
        touched = (item.id for item in (*self.entity_evidence, *self.relation_evidence))
        return (*self.removed_chunks, *touched)


class OutboxKind(StrEnum):
    """What an entry names, in the order in which entries of one version are read.

    `RESET` names nothing: the reader must rebuild everything. `SUBJECTS` are ids whose cached replies are dropped,
    except for the replies whose keys are `KEPT_REPLIES`.
    """

    RESET = "0_reset"
    DOCUMENTS = "1_documents"
    CHUNKS = "2_chunks"
    ENTITIES = "3_entities"
    RELATIONS = "4_relations"
    KEPT_REPLIES = "5_kept_replies"
    SUBJECTS = "6_subjects"


# The collection of each kind of entry that has vectors and, except for relations, full text.
COLLECTIONS = {
    OutboxKind.CHUNKS: Collection.CHUNKS,
    OutboxKind.ENTITIES: Collection.ENTITIES,
    OutboxKind.RELATIONS: Collection.RELATIONS,
}


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """An item that changed in the commit of this data version, and not since."""

    version: int
    kind: OutboxKind
    id: str


class Outbox(ABC):
    """The entries of one workspace, and their readers."""

    @abstractmethod
    async def register(self, reader: str) -> None:
        """Record entries for this reader from now on; a new reader gets a `RESET` first, a known one stays as it is."""

    @abstractmethod
    async def unregister(self, reader: str) -> None:
        """Stop recording entries for this reader; unknown ones are ignored."""

    @abstractmethod
    async def get_readers(self) -> Mapping[str, int]:
        """Return, per reader, the version it has acknowledged."""

    @abstractmethod
    async def read(self, after: int, limit: int) -> list[OutboxEntry]:
        """Return entries of later versions by (version, kind, id).

        Args:
            after: The version that was read last.
            limit: Number of entries after which no further version is begun; a version is never returned in part.
        """

    @abstractmethod
    async def acknowledge(self, reader: str, version: int) -> None:
        """Record that a reader has applied entries up to this version; drop those that all readers have applied."""

    @abstractmethod
    async def reset(self, reader: str) -> None:
        """Make a reader rebuild; the other readers may then rebuild as well."""

    @abstractmethod
    def lock(self, reader: str) -> AbstractAsyncContextManager[bool]:
        """Hold the lock to apply entries for a reader, one holder over all processes; yields whether it was acquired.

        Does not wait; if a holder dies, the lock is released.
        """


def changed_ids(changeset: Changeset) -> dict[OutboxKind, Sequence[str]]:
    """Return the ids that a changeset changes, per kind of entry."""
    found: dict[OutboxKind, Sequence[str]] = {
        OutboxKind.DOCUMENTS: [*(item.id for item in changeset.documents), *changeset.removed_documents]
    }
    put = (changeset.chunks, changeset.entities, changeset.relations)
    for (kind, collection), items in zip(COLLECTIONS.items(), put, strict=True):
        batch = changeset.vectors.get(collection)
        texts = (entry.id for entry in changeset.texts.get(collection, ()))
        ids = chain((item.id for item in items), batch.ids if batch else (), texts, changeset.removed[collection])
        found[kind] = list(dict.fromkeys(ids))
    found[OutboxKind.KEPT_REPLIES] = changeset.kept_replies if changeset.removed_subjects else ()
    found[OutboxKind.SUBJECTS] = changeset.removed_subjects
    return found
