"""A small knowledge base filled by name, whose every similarity is chosen by hand.

All questions and keywords embed to the first axis; a stored thing says how near to it it lies. So the order in which
a channel finds things is the order of their scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings, waits_as
from heliograph.errors import ModelError
from heliograph.ids import document_id, name_to_entity_id, names_to_relation_id
from heliograph.models import Chunk, Document, Entity, Relation, Usage
from heliograph.query.models import QueryParam
from heliograph.query.pipeline import QueryPipeline
from heliograph.query.plan import Plan, make_plan
from heliograph.rerank.base import Reranker
from heliograph.settings import QuerySettings, RerankSettings
from heliograph.stores.base import CachedReply
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.text.tokens import count_tokens, entity_row, relation_row
from tests.memory_store import MemoryStore

DIMENSION = 4


class AxisEmbedding(EmbeddingModel):
    """Embeds everything to the first axis; documents to `document_axis`."""

    def __init__(self) -> None:
        self.calls: list[tuple[EmbeddingKind, tuple[str, ...]]] = []
        self.failure: ModelError | None = None
        self.document_axis = 0
        self.waited_as: list[EmbeddingKind] = []

    @property
    def info(self) -> EmbeddingInfo:
        return EmbeddingInfo("axis", DIMENSION, 512, 0.2)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        self.calls.append((kind, tuple(texts)))
        self.waited_as.append(waits_as(kind))
        if self.failure:
            raise self.failure
        vectors = np.zeros((len(texts), DIMENSION), np.float32)
        vectors[:, self.document_axis if kind == "document" else 0] = 1.0
        return Embeddings(vectors, Usage())


@dataclass
class World:
    store: MemoryStore = field(default_factory=MemoryStore)
    embedding: AxisEmbedding = field(default_factory=AxisEmbedding)

    async def chunk(
        self, name: str, text: str = "", *, source: str = "a.md", score: float | None = 0.5, **more: Any
    ) -> None:
        """Store a chunk `chunk-<name>`; without a score it has no vector."""
        text = text or f"This is passage {name}."
        document = document_id(source)
        chunk = Chunk(f"chunk-{name}", document, 0, text, count_tokens(text), 0, len(text), **more)
        vectors = {} if score is None else {Collection.CHUNKS: _batch(chunk.id, score)}
        await self.store.apply(Changeset(documents=(Document(document, source),), chunks=(chunk,), vectors=vectors))

    async def entity(self, name: str, chunks: str = "", *, score: float = 0.5, description: str = "") -> Entity:
        """Store an entity mentioned in the chunks whose names are given, separated by spaces."""
        text = description or f"{name} is an entity."
        tokens = count_tokens(entity_row(name, "thing", text))
        entity = Entity(name_to_entity_id(name), name, "thing", text, (), _chunk_ids(chunks), tokens)
        await self.store.apply(Changeset(entities=(entity,), vectors={Collection.ENTITIES: _batch(entity.id, score)}))
        return entity

    async def relation(
        self, ends: str, chunks: str = "", *, score: float = 0.5, weight: float = 1.0, keywords: tuple[str, ...] = ()
    ) -> Relation:
        """Store a relation between two entities named `A-B`."""
        source, target = ends.split("-")
        text = f"{source} meets {target}."
        relation = Relation(
            names_to_relation_id(source, target), source, target, name_to_entity_id(source), name_to_entity_id(target),
            keywords, text, weight, _chunk_ids(chunks), count_tokens(relation_row(source, target, text)),
        )  # fmt: skip
        await self.store.apply(
            Changeset(relations=(relation,), vectors={Collection.RELATIONS: _batch(relation.id, score)})
        )
        return relation

    def kept_replies(self) -> dict[str, CachedReply]:
        return self.store._replies.replies

    def engine(self, chat: ChatModel | None = None, reranker: Reranker | None = None, **settings: Any) -> QueryPipeline:
        least = settings.pop("min_rerank_score", 0.0)
        rerank = RerankSettings(min_score=least, timeout_seconds=settings.pop("rerank_timeout_seconds", 30))
        return QueryPipeline(self.store, self.embedding, chat, reranker, QuerySettings(**settings), rerank)


def plan(question: str = "What is this?", settings: QuerySettings | None = None, **param: Any) -> Plan:
    return make_plan(question, QueryParam(**param), settings or QuerySettings())


def _chunk_ids(names: str) -> tuple[str, ...]:
    return tuple(f"chunk-{name}" for name in names.split())


def _batch(id_: str, score: float) -> VectorBatch:
    vector = np.zeros((1, DIMENSION), np.float32)
    vector[0, :2] = score, math.sqrt(1 - score**2)
    return VectorBatch((id_,), vector)
