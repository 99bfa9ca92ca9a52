"""A reranker that scores by shared words, or as it is told, for tests."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence

from heliograph.errors import ModelError
from heliograph.rerank.base import Reranker, RerankHit

__all__ = ["FakeReranker"]

# Chinese is written without spaces, so each of its characters counts as a word.
_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")


class FakeReranker(Reranker):
    """Scores each document on its own; equal scores keep the order given.

    Args:
        score: Score of a document for a question; by default the share of the question's words found in it.
        name: Name of the model.

    Attributes:
        calls: All calls in order of arrival, as question, documents and `top_n`.
        is_closed: Whether `close` was called.
    """

    def __init__(self, score: Callable[[str, str], float] | None = None, *, name: str = "fake") -> None:
        self._score = score or _shared_words
        self._name = name
        self._failures: deque[ModelError] = deque()
        self.calls: list[tuple[str, tuple[str, ...], int]] = []
        self.is_closed = False

    @property
    def name(self) -> str:
        return self._name

    def fail_next(self, *errors: ModelError) -> None:
        """Let the next calls fail, one with each of these errors."""
        self._failures.extend(errors)

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        self.calls.append((query, tuple(documents), top_n))
        if self._failures:
            raise self._failures.popleft()
        hits = [RerankHit(index, self._score(query, text)) for index, text in enumerate(documents)]
        return sorted(hits, key=lambda hit: -hit.score)[: max(top_n, 0)]

    async def close(self) -> None:
        self.is_closed = True


def _shared_words(query: str, document: str) -> float:
    wanted = set(_WORD.findall(query.casefold()))
    return len(wanted.intersection(_WORD.findall(document.casefold()))) / len(wanted) if wanted else 0.0
