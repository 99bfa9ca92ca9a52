"""Counting what embedding costs, for queries and for documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from heliograph.embedding.base import EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.wrapper import WrapperEmbeddingModel
from heliograph.errors import ModelError
from heliograph.models import Usage
from heliograph.observing import ModelCalls, tell_model_calls


@dataclass(frozen=True, slots=True)
class EmbeddingCount:
    """Embedding of one kind so far.

    Attributes:
        calls: Calls of `embed` that had texts.
        failures: How many of them failed.
        texts: Texts of the calls that did not.
        usage: Tokens that the model read for them; what a cache or another call gave costs none.
    """

    calls: int = 0
    failures: int = 0
    texts: int = 0
    usage: Usage = field(default_factory=Usage)

    def __add__(self, other: EmbeddingCount) -> EmbeddingCount:
        return EmbeddingCount(
            self.calls + other.calls,
            self.failures + other.failures,
            self.texts + other.texts,
            self.usage + other.usage,
        )


class EmbeddingMeter(WrapperEmbeddingModel):
    """Counts the calls to a model within one event loop."""

    def __init__(self, inner: EmbeddingModel) -> None:
        super().__init__(inner)
        self._counts: dict[EmbeddingKind, EmbeddingCount] = {"query": EmbeddingCount(), "document": EmbeddingCount()}

    @property
    def usage(self) -> Mapping[EmbeddingKind, EmbeddingCount]:
        """The counts so far, by kind; later calls do not change it."""
        return MappingProxyType(dict(self._counts))

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Return the inner model's vectors."""
        if not texts:
            return await self.inner.embed(texts, kind)
        self._count(kind, EmbeddingCount(calls=1))
        try:
            embeddings = await self.inner.embed(texts, kind)
        except ModelError:
            self._count(kind, EmbeddingCount(failures=1))
            raise
        self._count(kind, EmbeddingCount(texts=len(texts), usage=embeddings.usage))
        return embeddings

    def _count(self, kind: EmbeddingKind, counted: EmbeddingCount) -> None:
        self._counts[kind] += counted
        tell_model_calls(ModelCalls("embedding", kind, counted.calls, counted.failures, counted.usage))
