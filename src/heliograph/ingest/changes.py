"""What one commit is about, before and while it is drafted, and the changeset that it becomes.

`DocumentChange` says what becomes of one document, `CurationChange` what people say of the graph. `DraftMemo` holds
what drafts of that change have read, folded and paid for, so that a second draft repeats only what another commit has
changed in between. `changeset` puts both together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from heliograph.ingest.folding import Folded, TouchedEntity, TouchedRelation
from heliograph.ingest.mentions import MentionDelta
from heliograph.ingest.resolution import Resolution
from heliograph.models import Chunk, Curation, Document, Entity, Extraction, Relation, Usage
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch

__all__ = ["Change", "CurationChange", "DocumentChange", "DraftMemo", "changeset"]


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

    @property
    def is_removal(self) -> bool:
        """Whether the document goes."""
        return self.document is None

    @property
    def curations(self) -> tuple[Curation, ...]:
        """None: a document is no curation."""
        return ()


@dataclass(frozen=True, slots=True)
class CurationChange:
    """What people say of the graph, or no longer say; no document is read or written.

    Attributes:
        curations: As they shall be stored: new, or undone.
        versions: Version of the rules per entity id that the curations were checked against.
    """

    curations: tuple[Curation, ...]
    versions: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def replaced(self) -> tuple[Extraction, ...]:
        """None: which mentions count otherwise is found by `heliograph.ingest.resolving`."""
        return ()

    @property
    def extractions(self) -> tuple[Extraction, ...]:
        """None, likewise."""
        return ()

    @property
    def passages(self) -> Mapping[str, str]:
        """None."""
        return {}

    @property
    def vectors(self) -> Mapping[str, NDArray[np.float32]]:
        """None."""
        return {}

    @property
    def is_removal(self) -> bool:
        """Never."""
        return False

    @property
    def may_call_chat(self) -> bool:
        """Always."""
        return True


Change = DocumentChange | CurationChange


@dataclass(slots=True)
class DraftMemo:
    """What is known of a change so far.

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
        """Begin anew with a change that is resolved otherwise; what was paid for is kept."""
        self.resolution, self.delta = resolution, delta
        for known in (self.entities, self.relations, self.folded_entities, self.folded_relations):
            known.clear()

    def forget_description(self, id_: str) -> None:
        """Have the description of an entity or relation made anew."""
        if id_ in self.entities:
            self.entities[id_] = replace(self.entities[id_], description=None)
        else:
            self.relations[id_] = replace(self.relations[id_], description=None)

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
