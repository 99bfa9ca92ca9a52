"""An embedding of hashed words, for tests and for measuring what everything but the model costs.

Each word has one row of a fixed random table, a text is the normalised sum of its words' rows: texts that share words
are near, equal texts are equal, and a thousand short texts take about ten milliseconds.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import deque
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.scale import USUAL_SCALE
from heliograph.errors import ModelError
from heliograph.models import Usage

__all__ = ["FakeEmbeddingModel"]

# Chinese is written without spaces, so each of its characters counts as a word.
_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+")
_TABLE_ROWS = 1 << 14
# Every text begins with this row, so that a text without words has a vector as well.
_START_ROW = 0


class FakeEmbeddingModel(EmbeddingModel):
    """Embeds by shared words, or fails and waits as told.

    Args:
        dimension: Length of the vectors.
        name: Name of the model.
        max_input_tokens: What `info` says; longer texts are embedded whole.
        min_score: What `info` says.
        delay_seconds: How long each call takes; may be changed at any time.
        record: Whether to keep what was asked in `calls`.

    Attributes:
        calls: All calls in order of arrival, as kind and texts.
        is_closed: Whether `close` was called.
    """

    def __init__(
        self,
        dimension: int = 64,
        *,
        name: str = "fake",
        max_input_tokens: int = 512,
        min_score: float = 0.0,
        delay_seconds: float = 0.0,
        record: bool = True,
    ) -> None:
        self._info = EmbeddingInfo(name, dimension, max_input_tokens, min_score, USUAL_SCALE)
        self._record = record
        self._failures: deque[ModelError] = deque()
        self.delay_seconds = delay_seconds
        self.calls: list[tuple[EmbeddingKind, tuple[str, ...]]] = []
        self.is_closed = False

    @property
    def info(self) -> EmbeddingInfo:
        return self._info

    def fail_next(self, *errors: ModelError) -> None:
        """Let the next calls fail, one with each of these errors."""
        self._failures.extend(errors)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        if self._record:
            self.calls.append((kind, tuple(texts)))
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        if self._failures:
            raise self._failures.popleft()
        words = [_rows(text) for text in texts]
        return Embeddings(_sum_of_words(words, self._info.dimension), Usage(sum(map(len, words))))

    async def close(self) -> None:
        self.is_closed = True


def _rows(text: str) -> list[int]:
    words = _WORD.findall(text.casefold())
    return [_START_ROW, *(zlib.crc32(word.encode("utf-8", "surrogatepass")) % _TABLE_ROWS for word in words)]


def _sum_of_words(words: list[list[int]], dimension: int) -> NDArray[np.float32]:
    if not words:
        return np.zeros((0, dimension), np.float32)
    rows = np.fromiter((row for text in words for row in text), np.intp)
    starts = np.cumsum([0, *(len(text) for text in words[:-1])])
    sums = np.add.reduceat(_table(dimension)[rows], starts, axis=0)
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)


@cache
def _table(dimension: int) -> NDArray[np.float32]:
    table = np.random.default_rng(0).standard_normal((_TABLE_ROWS, dimension), dtype=np.float32)
    # Half as long as a word, so that texts without a word in common stay far apart.
    table[_START_ROW] *= 0.5
    return table
