"""Builds the reranker that the settings ask for, with its wrappers in the one order that works.

From the outside in: pieces, so that batches are made of pieces; batches, so that each request is retried, queued and
timed on its own; then what `wrap_reranker` puts on. The local cross-encoder makes its own batches and has no network to
guard against, so it gets pieces, and a limit of one question at a time, since each uses all cores. Providers are
imported on use.
"""

from __future__ import annotations

import asyncio
from importlib import import_module

from heliograph.calls.limit import CallGuard, RetryPolicy
from heliograph.rerank.base import Reranker
from heliograph.rerank.wrappers import BatchingReranker, GuardedReranker, SplittingReranker
from heliograph.settings import RerankSettings


async def build_reranker(settings: RerankSettings) -> Reranker | None:
    """Return the reranker of the settings, or None when they name neither a provider nor an address, or the chat model.

    Nothing is called or loaded yet.

    Args:
        settings: What to call and how.

    Raises:
        SettingsError: A setting that the provider needs is missing or wrong.
        MissingDependencyError: The extra that the provider needs is not installed.
    """
    if settings.provider == "chat" or (not settings.provider and not settings.base_url.strip()):
        return None
    if settings.provider == "onnx":
        module = await asyncio.to_thread(import_module, "heliograph.rerank.onnx")
        local = await asyncio.to_thread(module.OnnxReranker, settings)
        return SplittingReranker(GuardedReranker(local, CallGuard(1)), settings.max_document_tokens)
    module = await asyncio.to_thread(import_module, "heliograph.rerank.http")
    model = module.HttpReranker(settings)
    policy = RetryPolicy(settings.max_retries, max_retry_after_seconds=settings.timeout_seconds)
    guarded = GuardedReranker(model, CallGuard(settings.max_concurrency, settings.timeout_seconds, policy))
    return SplittingReranker(BatchingReranker(guarded, settings.max_batch_documents), settings.max_document_tokens)
