"""The offline embedding behind the contract, its vectors spread and freed of which language a text is in."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.tasks import plan_runs
from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.e5.artefacts import ArtefactCache
from heliograph.embedding.e5.encoder import E5Encoder, InferenceQueue
from heliograph.embedding.e5.tokenizer import MAX_TEXT_TOKENS, E5Tokenizer, make_tokenizer_model
from heliograph.embedding.e5.weights import E5Weights, find_weights, verify_weights
from heliograph.embedding.scale import USUAL_SCALE
from heliograph.errors import ModelUnavailable
from heliograph.models import Usage

# Spreads the model's vectors, and takes out of them which language a text is in.
#
# The raw cosines of multilingual-e5 crowd between 0.69 and 0.84, whatever the texts: all vectors share one large
# direction. Taking it out makes cosines comparable with those of other models, so that one set of thresholds and
# weights serves them all, and improves ranking (Mu and Viswanath, "All-but-the-Top", 2018). The next largest thing
# that vectors share is the language: a question finds nearly every passage of its own language before the right one
# in another.
#
# Three details were decided by measurement, on seven retrieval sets (English and Chinese), each ranked with constants
# that were measured on the others:
#
# - Only three quarters of the mean are taken out. With all of it, texts that say little (which lie close to the mean)
#   are blown up when they are brought to length 1 again, and long, general passages lose: mean R@5 raw 74.7, all 75.0,
#   three quarters 75.8; the set that suffers most, of long handbook pages, 63.9, 61.0, 65.5.
# - Queries and documents have means of their own (mean R@5 with one for both: 75.2).
# - The component between English and Chinese is set to the middle. Within a language little changes (mean R@5 75.9); of
#   15 Chinese questions about one English passage each, among 1250 others, 12 now find it first instead of none.
#
# The constants belong to the model, measured once on general text by `benchmarks/embedding_mean.py`: if they came
# from the texts at hand, every new text would move them.

CONSTANTS_PATH = Path(__file__).parent / "centring.npy"
"""Three rows of float32: the mean of queries, the mean of documents, the unit direction of language."""

_SHARE = 0.75
_MEANS: dict[EmbeddingKind, int] = {"query": 0, "document": 1}
_LANGUAGE = 2


def centre(vectors: NDArray[np.float32], kind: EmbeddingKind) -> NDArray[np.float32]:
    """Return unit vectors `(n, hidden)` without most of what all texts share, as unit vectors."""
    constants = _constants()
    mean, language = constants[_MEANS[kind]], constants[_LANGUAGE]
    return normalise(vectors - _SHARE * mean - np.outer((vectors - mean) @ language, language))


def normalise(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row at length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@cache
def _constants() -> NDArray[np.float32]:
    return np.load(CONSTANTS_PATH)


# In seven retrieval sets, 1 of 3044 pairs of a question and a passage that answers it lies below, and 8 to 30 of 100
# pairs at random.
_MIN_SCORE = 0.15
# From about 100 tokens on a run costs the same a token; longer ones only make questions wait and keep more in memory.
_MAX_RUN_TOKENS = 256
_INFO = EmbeddingInfo("multilingual-e5-small/int8/centred-1", 384, MAX_TEXT_TOKENS, _MIN_SCORE, USUAL_SCALE)
_RAW_INFO = EmbeddingInfo("multilingual-e5-small/int8", 384, MAX_TEXT_TOKENS, -1.0)
# Some 200 us of tokenizing.
_MAX_INLINE_CHARACTERS = 2000
# Each more takes 60 to 80 MB, and Python around the model seldom keeps more of them busy.
_MOST_THREADS_UNASKED = 4
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Loaded:
    tokenizer: E5Tokenizer
    encoder: E5Encoder


@dataclass(frozen=True, slots=True)
class _Plan:
    """The windows of all texts (`owners` says whose), and which of them run together."""

    windows: list[NDArray[np.int32]]
    owners: list[int]
    runs: list[list[int]]

    @property
    def tokens(self) -> int:
        return sum(map(len, self.windows))


class E5EmbeddingModel(EmbeddingModel):
    """multilingual-e5-small (Wang et al. 2024) in eight bits on the CPU, no network.

    A text longer than the model's window is embedded in windows, and gets the mean over all their tokens; of texts
    above some 30,000 tokens the end does not count. The same text gives the same vector whatever it is embedded with,
    but for the last float32 digits.

    Args:
        cache_folder: Where what is made from the weights is kept; None makes it anew at every start.
        threads: How many runs of the model go side by side, each on a thread; 0 means one a core, four at the most.
        is_centred: Whether vectors are centred; raw ones, whose cosines crowd together, are for measuring.
    """

    def __init__(self, cache_folder: Path | None, *, threads: int = 0, is_centred: bool = True) -> None:
        self._cache = ArtefactCache(cache_folder)
        self._is_centred = is_centred
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None
        self._is_closed = False
        self._queue = InferenceQueue("heliograph-embedding", threads or min(_cores(), _MOST_THREADS_UNASKED))

    @property
    def info(self) -> EmbeddingInfo:
        return _INFO if self._is_centred else _RAW_INFO

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        if not texts:
            return Embeddings(np.zeros((0, _INFO.dimension), np.float32), Usage())
        are_short = self._loaded is not None and sum(map(len, texts)) <= _MAX_INLINE_CHARACTERS
        call = _call_here if are_short else asyncio.to_thread
        loaded, plan = await call(self._prepare, tuple(texts), kind)
        batches = [[plan.windows[index] for index in run] for run in plan.runs]
        futures = self._queue.submit([partial(loaded.encoder.encode, batch) for batch in batches], kind)
        means = await _results(futures)
        vectors = await call(self._assemble, plan, means, len(texts), kind)
        return Embeddings(vectors, Usage(plan.tokens))

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _prepare(self, texts: Sequence[str], kind: EmbeddingKind) -> tuple[_Loaded, _Plan]:
        loaded = self._load()
        windows: list[NDArray[np.int32]] = []
        owners: list[int] = []
        for number, text in enumerate(texts):
            cut = loaded.tokenizer.windows(text, kind)
            windows += cut
            owners += [number] * len(cut)
        return loaded, _Plan(windows, owners, plan_runs([len(window) for window in windows], _MAX_RUN_TOKENS))

    def _close(self) -> None:
        self._queue.close()
        with self._loading:
            self._is_closed = True
            self._loaded = None

    def _load(self) -> _Loaded:
        with self._loading:
            if self._is_closed:
                raise ModelUnavailable("the offline embedding is closed; open the workspace again")
            if self._loaded is None:
                path = find_weights()
                verify_weights(path, self._cache)
                weights = E5Weights(path)
                tokenizer = E5Tokenizer(self._cache.get("tokenizer", partial(make_tokenizer_model, weights)))
                graph = self._cache.get("graph", partial(_make_graph, weights))
                self._loaded = _Loaded(tokenizer, E5Encoder(graph, weights))
            return self._loaded

    def _assemble(
        self, plan: _Plan, means: list[NDArray[np.float32]], count: int, kind: EmbeddingKind
    ) -> NDArray[np.float32]:
        """Return one vector per text from the means of all runs' windows."""
        order = [index for run in plan.runs for index in run]
        lengths = np.array([len(plan.windows[index]) for index in order], np.float32)
        sums = np.zeros((count, _INFO.dimension), np.float32)
        np.add.at(sums, np.array(plan.owners)[order], np.concatenate(means) * lengths[:, None])
        return centre(normalise(sums), kind) if self._is_centred else normalise(sums)


def _make_graph(weights: E5Weights) -> bytes:
    # Imported on use: only the first start on a machine needs `onnx`, and importing it takes as long as all the rest.
    return import_module("heliograph.embedding.e5.graph").make_graph(weights)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


async def _call_here(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)


async def _results(futures: Sequence[Future[NDArray[np.float32]]]) -> list[NDArray[np.float32]]:
    """Wait for all; on a failure or when cancelled, let the rest not run."""
    try:
        return await asyncio.gather(*map(asyncio.wrap_future, futures))
    finally:
        for future in futures:
            future.cancel()
