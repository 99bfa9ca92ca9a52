"""Embedding models: the contract (texts in, unit vectors out), their wrappers, and the model of the settings.

Vectors have length 1, ready to compare by cosine. The meaning of a cosine differs from model to model;
`EmbeddingModel.scale` states it, so that weights and thresholds mean about the same for every model.

Wrappers split calls into requests, limit and count them, and cache the vectors of questions.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.limit import CallGuard, RetryPolicy, call_with_retry
from heliograph.calls.tasks import run_together
from heliograph.errors import ModelError, SettingsError, import_optional
from heliograph.models import Usage
from heliograph.observing import OBSERVER, CallCount, ModelCalls
from heliograph.settings import EmbeddingSettings, user_cache_dir

# The meaning of a model's cosines: each model crowds them into a range of its own.
#
# One model gives 0.05 to unrelated texts and 0.5 to a question and its answer; another 0.74 and 0.88 to the same texts.
# Fused retrieval adds cosines to other scores and weighs differences between them, so it converts them to one usual
# scale, which is that of the embedding inside this package. Two points define the conversion: the model's cosine for
# some questions with the passages that answer them, and for questions with passages that do not. They belong to the
# model, not to a corpus, so a growing index keeps its scores.

_T = TypeVar("_T", float, NDArray[np.float32])

# If answers score less than this above other texts, the model's cosines carry no information.
_LEAST_RANGE = 0.02

# Pairs of a question and the passage that answers it, per language.
_PAIRS: dict[str, list[tuple[str, str]]] = json.loads(Path(__file__).with_name("calibration.json").read_text("utf-8"))

QUESTIONS, PASSAGES = zip(*chain.from_iterable(_PAIRS.values()), strict=True)
"""Texts that calibrate a model, as queries and as documents; the n-th passage answers the n-th question."""


@dataclass(frozen=True, slots=True)
class CosineScale:
    """The meaning of a model's cosines.

    Attributes:
        unrelated: Cosine of a question and a passage unrelated to it.
        related: Cosine of a question and the passage that answers it; above `unrelated`.
    """

    unrelated: float
    related: float

    def usual(self, cosine: _T) -> _T:
        """Return the equivalent cosine in the usual scale; may lie outside of [-1, 1]."""
        if self == USUAL_SCALE:
            return cosine
        usual = USUAL_SCALE
        factor = (usual.related - usual.unrelated) / (self.related - self.unrelated)
        return (cosine - self.unrelated) * factor + usual.unrelated


USUAL_SCALE = CosineScale(0.15, 0.61)
"""The scale of the embedding inside the package."""


def cosines(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the dot products of rows and a vector; equal rows get equal results, unlike with a matrix product.

    Nor does this wake the threads of a linear algebra library, which spin on for longer than the product takes.

    Args:
        vectors: `(n, dimension)`.
        vector: `(dimension,)`.
    """
    return np.einsum("ij,j->i", vectors, vector)


def scale_between(questions: NDArray[np.float32], passages: NDArray[np.float32]) -> CosineScale:
    """Return a model's scale, from its vectors of `QUESTIONS` and `PASSAGES`.

    The language that the model discriminates best counts, since some models know only one. A model whose cosines carry
    no information gets the usual scale.

    Args:
        questions: `(n, dimension)`, unit rows.
        passages: The same.
    """
    scales: list[CosineScale] = []
    size = len(questions) // len(_PAIRS)
    for start in range(0, len(questions), size):
        cosines = questions[start : start + size] @ passages[start : start + size].T
        is_pair = np.eye(len(cosines), dtype=bool)
        scales.append(CosineScale(float(np.median(cosines[~is_pair])), float(np.median(cosines[is_pair]))))
    widest = max(scales, key=lambda scale: scale.related - scale.unrelated)
    return widest if widest.related - widest.unrelated >= _LEAST_RANGE else USUAL_SCALE


EmbeddingKind = Literal["query", "document"]

_FOR_QUESTION: ContextVar[bool] = ContextVar("for_question", default=False)


@contextmanager
def for_question() -> Generator[None]:
    """Give all embedding calls within the block the priority of questions, even those of documents.

    A caller waits for these, as for the sentences of an answer, while documents being indexed queue by the thousand.
    """
    token = _FOR_QUESTION.set(True)
    try:
        yield
    finally:
        _FOR_QUESTION.reset(token)


def waits_as(kind: EmbeddingKind) -> EmbeddingKind:
    """Return the kind whose queue priority a text of this kind gets."""
    return "query" if _FOR_QUESTION.get() else kind


@dataclass(frozen=True, slots=True)
class EmbeddingInfo:
    """The properties of a model that a store records.

    Attributes:
        name: Identity of model and post-processing; another name means vectors that cannot be compared.
        dimension: Length of each vector.
        max_input_tokens: Longest text, in the model's own tokens; longer ones are cut or windowed by the model.
        min_score: Cosine below which two texts have nothing to do with each other; `query.min_cosine` goes over it.
        scale: What its cosines mean; None if that is not known and must be measured.
    """

    name: str
    dimension: int
    max_input_tokens: int
    min_score: float = 0.2
    scale: CosineScale | None = None


@dataclass(frozen=True, slots=True)
class Embeddings:
    """`vectors`: `(n, dimension)` float32, rows of length 1 in the order of the texts; `usage`: their cost."""

    vectors: NDArray[np.float32]
    usage: Usage


class EmbeddingModel(ABC):
    """Turns texts into vectors. Implementations are safe to call from many tasks at once."""

    _measured: CosineScale | None = None

    @property
    @abstractmethod
    def info(self) -> EmbeddingInfo:
        """The model's properties; available without a network call."""

    @abstractmethod
    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Embed texts; no texts give a `(0, dimension)` array, an empty text a vector like any other.

        Args:
            texts: The texts; any length, any Unicode, lone surrogates included.
            kind: `query` for questions and keywords, `document` for stored texts.

        Raises:
            ModelError: The model failed; its subclass says how.
        """

    async def scale(self) -> CosineScale:
        """Return the meaning of the model's cosines. If `info` lacks it, the first call measures it with a few texts.

        Raises:
            ModelError: The model failed; the next call tries again.
        """
        known = self.info.scale or self._measured
        if known is None:
            questions = await self.embed(QUESTIONS, "query")
            passages = await self.embed(PASSAGES, "document")
            known = self._measured = scale_between(questions.vectors, passages.vectors)
        return known

    async def close(self) -> None:  # noqa: B027 (most models hold nothing)
        """Release connections and threads; closing twice does nothing."""


class WrapperEmbeddingModel(EmbeddingModel):
    """Passes everything to the model inside, which is closed with it; subclasses change one aspect each."""

    def __init__(self, inner: EmbeddingModel) -> None:
        self.inner = inner

    @property
    def info(self) -> EmbeddingInfo:
        return self.inner.info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        return await self.inner.embed(texts, kind)

    async def close(self) -> None:
        await self.inner.close()


# English has 4 to 5 bytes of UTF-8 per token, Chinese 3 to 4, so this seldom underestimates.
_BYTES_PER_TOKEN = 3


class DeduplicatingEmbeddingModel(WrapperEmbeddingModel):
    """Embeds equal texts of one call once."""

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        if len(rows) == len(texts):
            return await self.inner.embed(texts, kind)
        embeddings = await self.inner.embed(tuple(rows), kind)
        return Embeddings(embeddings.vectors[[rows[text] for text in texts]], embeddings.usage)


class BatchingEmbeddingModel(WrapperEmbeddingModel):
    """Splits a call into requests, which run concurrently as far as an inner limit allows.

    Token counts are estimated; a text that is too long is a request of its own.
    """

    def __init__(self, inner: EmbeddingModel, max_batch_tokens: int, max_batch_texts: int) -> None:
        super().__init__(inner)
        self._max_batch_tokens = max_batch_tokens
        self._max_batch_texts = max_batch_texts

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Return the vectors of all requests in the order of the texts; the first failure ends all of them."""
        batches = plan_batches(texts, self._max_batch_tokens, self._max_batch_texts)
        if len(batches) <= 1:
            return await self.inner.embed(texts, kind)
        parts = await run_together(*(self.inner.embed(batch, kind) for batch in batches))
        return Embeddings(np.concatenate([part.vectors for part in parts]), sum((p.usage for p in parts), Usage()))


def plan_batches(texts: Sequence[str], max_tokens: int, max_texts: int) -> list[list[str]]:
    """Cut a sequence of texts into batches, in order.

    Tokens are estimated from the length in UTF-8; a text with more than `max_tokens` gets its own batch.
    """
    batches: list[list[str]] = []
    tokens = 0
    for text in texts:
        more = len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN + 1
        if batches and len(batches[-1]) < max_texts and tokens + more <= max_tokens:
            batches[-1].append(text)
            tokens += more
        else:
            batches.append([text])
            tokens = more
    return batches


_PRIORITIES: dict[EmbeddingKind, int] = {"query": 0, "document": 10}


class GuardedEmbeddingModel(WrapperEmbeddingModel):
    """Sends requests within the limits of a guard."""

    def __init__(self, inner: EmbeddingModel, guard: CallGuard) -> None:
        super().__init__(inner)
        self._guard = guard

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        failure = f"embedding model {self.info.name!r} gave no vectors for {len(texts)} texts"
        return await self._guard.call(lambda: self.inner.embed(texts, kind), failure, _PRIORITIES[waits_as(kind)])


class EmbeddingMeter(WrapperEmbeddingModel):
    """Counts the calls to a model within one event loop."""

    def __init__(self, inner: EmbeddingModel) -> None:
        super().__init__(inner)
        self._counts: dict[EmbeddingKind, CallCount] = {"query": CallCount(), "document": CallCount()}

    @property
    def usage(self) -> Mapping[EmbeddingKind, CallCount]:
        """The counts so far, by kind; a snapshot."""
        return MappingProxyType(dict(self._counts))

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        if not texts:
            return await self.inner.embed(texts, kind)
        self._count(kind, CallCount(calls=1))
        try:
            embeddings = await self.inner.embed(texts, kind)
        except ModelError:
            self._count(kind, CallCount(failures=1))
            raise
        self._count(kind, CallCount(texts=len(texts), usage=embeddings.usage))
        return embeddings

    def _count(self, kind: EmbeddingKind, counted: CallCount) -> None:
        self._counts[kind] += counted
        OBSERVER.get().tell_model_calls(ModelCalls("embedding", kind, counted.calls, counted.failures, counted.usage))


# Caches the vectors of recent questions and keywords in memory.
#
# The same question comes again in another mode, for another page or after a follow-up, and several channels embed the
# same keywords. Documents pass through: they are embedded once and stored.

# Longer texts are not recurring questions, and would occupy megabytes.
_MAX_TEXT_CHARACTERS = 2048


class QueryCachedEmbeddingModel(WrapperEmbeddingModel):
    """Caches the vectors of the `max_entries` query texts used last; a cached one costs no tokens."""

    def __init__(self, inner: EmbeddingModel, max_entries: int = 512) -> None:
        super().__init__(inner)
        self._max_entries = max_entries
        self._vectors: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        if kind != "query" or not texts:
            return await self.inner.embed(texts, kind)
        found = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        for text in dict.fromkeys(texts):
            OBSERVER.get().tell_lookup("query_embeddings", is_hit=text in found)
        usage = Usage()
        if missing:
            embeddings = await self.inner.embed(missing, kind)
            usage = embeddings.usage
            found.update(zip(missing, embeddings.vectors, strict=True))
        for text, vector in found.items():
            if len(text) <= _MAX_TEXT_CHARACTERS:
                # A copy: a row of the reply would keep all its rows in memory.
                self._vectors.setdefault(text, vector.copy())
                self._vectors.move_to_end(text)
        while len(self._vectors) > self._max_entries:
            self._vectors.popitem(last=False)
        return Embeddings(np.stack([found[text] for text in texts]), usage)

    def clear(self) -> None:
        """Empty the cache, so that later calls are paid for; for measuring."""
        self._vectors.clear()


# Builds the embedding model of the settings, with its wrappers in the one order that works.
#
# From the outside in, with the reason:
#
# 1. meter: counts what callers asked for and what that cost;
# 2. query cache: a cached vector costs nothing and waits for nothing;
# 3. deduplication: before texts are distributed over requests;
# 4. batching: its requests are retried, queued and timed one by one;
# 5. retry: outside the limit, so that a request holds no slot while it waits for its next try;
# 6. limit: outside the timeout, so that waiting in the queue does not count as the model's time;
# 7. timeout;
# 8. the provider.
#
# The local model has no network to guard against and orders its own work, so 4 to 7 are left out for it. Providers are
# imported on use: each brings a large library.


async def build_embedding_model(settings: EmbeddingSettings) -> EmbeddingMeter:
    """Return the embedding model of the settings.

    The local model is loaded with the first text. A service is called here only if its dimension is not set.

    Raises:
        SettingsError: A setting that the provider needs is missing or wrong.
        ModelError: The service failed when called for its dimension.
    """
    if settings.provider == "openai":
        module = await asyncio.to_thread(import_optional, "heliograph.embedding.openai", "openai")
        model = await call_with_retry(
            lambda: module.OpenAIEmbeddingModel.connect(settings), RetryPolicy(settings.max_retries)
        )
        return wrap_embedding_model(model, settings)
    for name in ("model", "base_url"):
        if getattr(settings, name).strip():
            # A configured service is meant to be used; silently using the local model instead would go unnoticed for
            # long.
            raise SettingsError(
                f"embedding.{name} is set, but embedding.provider is 'e5', the local model; "
                "set embedding.provider to 'openai' for a service, or leave both out"
            )
    module = await asyncio.to_thread(import_module, "heliograph.embedding.e5.model")
    folder = settings.cache_dir or user_cache_dir()
    return _shared_wrappers(module.E5EmbeddingModel(folder, threads=settings.threads))


def wrap_embedding_model(model: EmbeddingModel, settings: EmbeddingSettings) -> EmbeddingMeter:
    """Wrap a model that calls a service (a caller's own, for example) in all wrappers."""
    guard = CallGuard(settings.max_concurrency, settings.timeout_seconds, RetryPolicy(settings.max_retries))
    guarded = GuardedEmbeddingModel(model, guard)
    return _shared_wrappers(BatchingEmbeddingModel(guarded, settings.max_batch_tokens, settings.max_batch_texts))


def _shared_wrappers(model: EmbeddingModel) -> EmbeddingMeter:
    return EmbeddingMeter(QueryCachedEmbeddingModel(DeduplicatingEmbeddingModel(model)))
