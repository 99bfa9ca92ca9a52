"""Question and passage as one row of tokens, by the package `tokenizers` (extra `rerank`).

A pair that is too long loses the end of its passage; a question may fill half of the window and is cut before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from heliograph.errors import MissingDependencyError, ModelUnavailable


@dataclass(frozen=True, slots=True)
class TokenRow:
    """Token ids of one pair, and per token whether it belongs to the question (0) or the passage (1)."""

    ids: Sequence[int]
    type_ids: Sequence[int]


def require_tokenizers() -> Any:
    """Return the package.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        return import_module("tokenizers")
    except ImportError:
        raise MissingDependencyError("tokenizers", "rerank") from None


class PairTokenizer:
    """A loaded `tokenizer.json`. Safe to use from several threads.

    Args:
        path: The file.
        max_tokens: The longest row.

    Raises:
        MissingDependencyError: The package is not installed.
        ModelUnavailable: The file cannot be read.
    """

    def __init__(self, path: Path, max_tokens: int) -> None:
        package = require_tokenizers()
        try:
            # The library raises bare `Exception`s.
            self._tokenizer = package.Tokenizer.from_file(str(path))
        except Exception as error:
            raise ModelUnavailable(
                f"{str(path)!r} is not a tokenizer that can be loaded: {error}; put the model's own file there"
            ) from error
        self._tokenizer.no_padding()
        self._max_query_tokens = max(max_tokens // 2 - self._tokenizer.num_special_tokens_to_add(True), 1)
        self._tokenizer.no_truncation()
        self._whole = package.Tokenizer.from_str(self._tokenizer.to_str())
        self._tokenizer.enable_truncation(max_tokens, strategy="only_second")

    def rows(self, query: str, documents: Sequence[str]) -> list[TokenRow]:
        """Return one row a document."""
        question = self._cut(query)
        encodings = self._tokenizer.encode_batch([(question, document) for document in documents])
        return [TokenRow(encoding.ids, encoding.type_ids) for encoding in encodings]

    def _cut(self, query: str) -> str:
        ends = self._whole.encode(query, add_special_tokens=False).offsets
        return query if len(ends) <= self._max_query_tokens else query[: ends[self._max_query_tokens - 1][1]]
