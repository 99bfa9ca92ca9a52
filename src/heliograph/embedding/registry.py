"""Builds the embedding model that the settings ask for, with its wrappers in the one order that works.

From the outside in, and why there:

1. meter: counts what callers asked for and what that cost;
2. query cache: what is kept costs nothing and waits for nobody;
3. deduplication: before texts are shared out to requests;
4. batching: its requests are retried, queued and timed one by one;
5. retry: outside the limit, so that a request which waits to be tried again holds no slot meanwhile;
6. limit: outside the timeout, so that waiting in line does not count as time of the model;
7. timeout;
8. the provider.

The local model has no network to guard against and orders its own work, so 4 to 7 are left out for it. Providers are
imported on use: each brings a large library.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module

from heliograph.calls.limit import CallGuard, RetryPolicy, call_with_retry
from heliograph.embedding.base import EmbeddingModel
from heliograph.embedding.wrappers import (
    BatchingEmbeddingModel,
    DeduplicatingEmbeddingModel,
    EmbeddingMeter,
    GuardedEmbeddingModel,
    QueryCachedEmbeddingModel,
)
from heliograph.errors import SettingsError, import_optional
from heliograph.settings import EmbeddingSettings, user_cache_dir


async def build_embedding_model(settings: EmbeddingSettings) -> EmbeddingMeter:
    """Return the embedding model of the settings.

    The local model is loaded when the first text comes. A service is only called here if its dimension is not set.

    Args:
        settings: What to call and how.

    Raises:
        SettingsError: A setting that the provider needs is missing or wrong.
        ModelError: The service was asked for its dimension and failed.
    """
    return await _PROVIDERS[settings.provider](settings)


def wrap_embedding_model(model: EmbeddingModel, settings: EmbeddingSettings) -> EmbeddingMeter:
    """Return a model that calls a service (a caller's own, for example) within all wrappers.

    Args:
        model: The model to wrap.
        settings: Batches, concurrency, retries and timeout.
    """
    guard = CallGuard(settings.max_concurrency, settings.timeout_seconds, RetryPolicy(settings.max_retries))
    guarded = GuardedEmbeddingModel(model, guard)
    return _shared_wrappers(BatchingEmbeddingModel(guarded, settings.max_batch_tokens, settings.max_batch_texts))


def _shared_wrappers(model: EmbeddingModel) -> EmbeddingMeter:
    return EmbeddingMeter(QueryCachedEmbeddingModel(DeduplicatingEmbeddingModel(model)))


async def _build_e5(settings: EmbeddingSettings) -> EmbeddingMeter:
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


async def _build_openai(settings: EmbeddingSettings) -> EmbeddingMeter:
    module = await asyncio.to_thread(import_optional, "heliograph.embedding.openai", "openai")
    model = await call_with_retry(
        lambda: module.OpenAIEmbeddingModel.connect(settings), RetryPolicy(settings.max_retries)
    )
    return wrap_embedding_model(model, settings)


_PROVIDERS: dict[str, Callable[[EmbeddingSettings], Awaitable[EmbeddingMeter]]] = {
    "e5": _build_e5,
    "openai": _build_openai,
}
