"""The local cross-encoder as a `Reranker`: loaded when first asked, run batch by batch in a thread.

Between two batches a question that is given up (its time is over, its caller gone) stops the rest.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from heliograph.calls.runs import plan_runs
from heliograph.errors import ModelUnavailable
from heliograph.rerank.base import Reranker, RerankHit
from heliograph.rerank.onnx.folder import find_files
from heliograph.rerank.onnx.scorer import CrossEncoderScorer
from heliograph.rerank.onnx.tokenizer import PairTokenizer, TokenRow, require_tokenizers
from heliograph.settings import RerankSettings

# With padding. Small enough that a question which is given up does not keep the processor busy for long.
_MAX_BATCH_TOKENS = 2048


class OnnxReranker(Reranker):
    """A cross-encoder from a folder.

    Args:
        settings: Folder, file and threads.

    Raises:
        SettingsError: The folder does not hold what is needed.
        MissingDependencyError: The extra `rerank` is not installed.
    """

    def __init__(self, settings: RerankSettings) -> None:
        self._files = find_files(settings.model_dir, settings.model_file)
        require_tokenizers()
        folder = self._files.tokenizer.parent
        self._name = f"onnx:{folder.name}/{self._files.graph.relative_to(folder)}"
        self._threads = settings.threads
        self._lock = threading.Lock()
        self._loaded: tuple[PairTokenizer, CrossEncoderScorer] | None = None
        self._is_closed = False

    @property
    def name(self) -> str:
        """Folder and file."""
        return self._name

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return the hits, scores from 0 to 1.

        Raises:
            ModelError: The model cannot be loaded or run, or is closed.
        """
        if not documents or top_n < 1:
            return []
        rows, scorer = await asyncio.to_thread(self._prepare, query, documents)
        scores = [0.0] * len(rows)
        for batch in plan_runs([len(row.ids) for row in rows], _MAX_BATCH_TOKENS):
            found = await asyncio.to_thread(scorer.score, [rows[index] for index in batch])
            for index, score in zip(batch, found, strict=True):
                scores[index] = score
        order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
        return [RerankHit(index, scores[index]) for index in order[:top_n]]

    async def close(self) -> None:
        """Let go of the model."""
        self._is_closed = True
        self._loaded = None

    def _prepare(self, query: str, documents: Sequence[str]) -> tuple[list[TokenRow], CrossEncoderScorer]:
        with self._lock:
            if self._is_closed:
                raise ModelUnavailable(f"the reranker {self._name!r} is closed; open the workspace again")
            if self._loaded is None:
                files = self._files
                tokenizer = PairTokenizer(files.tokenizer, files.max_tokens)
                self._loaded = tokenizer, CrossEncoderScorer(files.graph, files.pad_id, self._threads)
            tokenizer, scorer = self._loaded
        return tokenizer.rows(_clean(query), [_clean(document) for document in documents]), scorer


def _clean(text: str) -> str:
    """Return a text that the tokenizer, written in Rust, can read: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode()
