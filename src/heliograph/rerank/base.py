"""The contract of a reranker: a question and passages in, passages by relevance out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RerankHit:
    """`index` into the given documents, and the relevance `score`, higher is better."""

    index: int
    score: float


class Reranker(ABC):
    """Orders passages by how well they answer a question."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Identity of the model, part of the answer cache's key."""

    @abstractmethod
    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return up to `top_n` hits, best first, each index at most once; no documents give an empty list.

        Raises:
            ModelError: The model failed; its subclass says how.
        """

    async def close(self) -> None:  # noqa: B027 (most rerankers hold nothing)
        """Let go of connections; closing twice does nothing."""
