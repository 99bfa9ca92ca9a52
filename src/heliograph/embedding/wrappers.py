"""Builds the embedding model of the settings: batches, requests within bounds, a count of costs, kept vectors."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from heliograph.calls.limit import CallGuard, RetryPolicy, call_with_retry
from heliograph.calls.tasks import run_together
from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings, waits_as
from heliograph.errors import ModelError, SettingsError, import_optional
from heliograph.models import Usage
from heliograph.observing import OBSERVER, CallCount, ModelCalls
from heliograph.settings import EmbeddingSettings, user_cache_dir


class WrapperEmbeddingModel(EmbeddingModel):
    """Passes everything to the model inside, closed with it; subclasses change what they are about and nothing else."""

    def __init__(self, inner: EmbeddingModel) -> None:
        self.inner = inner

    @property
    def info(self) -> EmbeddingInfo:
        return self.inner.info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        return await self.inner.embed(texts, kind)

    async def close(self) -> None:
        await self.inner.close()


# English has 4 to 5 bytes of UTF-8 a token, Chinese 3 to 4, so this is seldom too few.
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
    """Splits a call into requests, which run at once as far as a limit inside lets them.

    Tokens of one are estimated; a longer text goes alone.
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

    Tokens are estimated by the length in UTF-8; a text with more than `max_tokens` gets its own batch.
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
    """Sends requests within bounds."""

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
        """The counts so far, by kind; later calls do not change it."""
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


# Keeps the vectors of recent questions and keywords in memory.
#
# The same question comes again with another mode, another page or after a follow-up, and several channels embed the
# same keywords. Documents pass through: they are embedded once and stored.

# Longer texts are no questions that come again, and would hold on to their megabytes.
_MAX_TEXT_CHARACTERS = 2048


class QueryCachedEmbeddingModel(WrapperEmbeddingModel):
    """Caches the vectors of query texts, the last used `max_entries`; a cached one costs no tokens."""

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
        """Drop all that is kept, so that what comes next is paid for; for measuring."""
        self._vectors.clear()


# Builds the embedding model that the settings ask for, with its wrappers in the one order that works.
#
# From the outside in, and why there:
#
# 1. meter: counts what callers asked for and what that cost;
# 2. query cache: what is kept costs nothing and waits for nobody;
# 3. deduplication: before texts are shared out to requests;
# 4. batching: its requests are retried, queued and timed one by one;
# 5. retry: outside the limit, so that a request which waits to be tried again holds no slot meanwhile;
# 6. limit: outside the timeout, so that waiting in line does not count as time of the model;
# 7. timeout;
# 8. the provider.
#
# The local model has no network to guard against and orders its own work, so 4 to 7 are left out for it. Providers are
# imported on use: each brings a large library.


async def build_embedding_model(settings: EmbeddingSettings) -> EmbeddingMeter:
    """Return the embedding model of the settings.

    The local model is loaded when the first text comes. A service is only called here if its dimension is not set.

    Raises:
        SettingsError: A setting that the provider needs is missing or wrong.
        ModelError: The service was asked for its dimension and failed.
    """
    if settings.provider == "openai":
        module = await asyncio.to_thread(import_optional, "heliograph.embedding.openai", "openai")
        model = await call_with_retry(
            lambda: module.OpenAIEmbeddingModel.connect(settings), RetryPolicy(settings.max_retries)
        )
        return wrap_embedding_model(model, settings)
    for name in ("model", "base_url"):
        if getattr(settings, name).strip():
            # Whoever names a service means to use it; the local model in its place would not be noticed for long.
            raise SettingsError(
                f"embedding.{name} is set, but embedding.provider is 'e5', the local model; "
                "set embedding.provider to 'openai' for a service, or leave both out"
            )
    module = await asyncio.to_thread(import_module, "heliograph.embedding.e5.model")
    folder = settings.cache_dir or user_cache_dir()
    return _shared_wrappers(module.E5EmbeddingModel(folder, threads=settings.threads))


def wrap_embedding_model(model: EmbeddingModel, settings: EmbeddingSettings) -> EmbeddingMeter:
    """Return a model that calls a service (a caller's own, for example) within all wrappers."""
    guard = CallGuard(settings.max_concurrency, settings.timeout_seconds, RetryPolicy(settings.max_retries))
    guarded = GuardedEmbeddingModel(model, guard)
    return _shared_wrappers(BatchingEmbeddingModel(guarded, settings.max_batch_tokens, settings.max_batch_texts))


def _shared_wrappers(model: EmbeddingModel) -> EmbeddingMeter:
    return EmbeddingMeter(QueryCachedEmbeddingModel(DeduplicatingEmbeddingModel(model)))
