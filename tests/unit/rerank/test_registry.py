"""The settings decide whether there is a reranker, and which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heliograph.calls.limit import CallGuard, RetryPolicy
from heliograph.errors import ModelUnavailable, RateLimited, SettingsError
from heliograph.rerank.base import GuardedReranker, build_reranker
from heliograph.settings import RerankSettings
from heliograph.testing.fakes import FakeReranker


async def test_nothing_configured_gives_none() -> None:
    assert await build_reranker(RerankSettings()) is None
    assert await build_reranker(RerankSettings(model="bge-reranker-v2-m3")) is None


async def test_address_alone_turns_it_on(server: Any) -> None:
    model = await build_reranker(RerankSettings(base_url=server.url, max_document_tokens=16, max_batch_documents=2))
    assert model is not None
    assert model.name == "http:bge-reranker-v2-m3/16"
    hits = await model.rerank("q", ["x", "nothing " * 30 + "xx", "xxx", "none"], 3)
    await model.close()
    assert [hit.index for hit in hits] == [2, 1, 0]
    assert all(len(call.texts) <= 2 for call in server.calls)
    assert len(server.calls) > 2


async def test_missing_folder_of_the_local_model_is_refused(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "none"):
        with pytest.raises(SettingsError, match="model_dir"):
            await build_reranker(RerankSettings(provider="onnx", model_dir=folder))


async def test_wait_longer_than_allowed_is_not_waited_for() -> None:
    inner = FakeReranker()
    inner.fail_next(RateLimited("busy", 60))
    guard = CallGuard(retries=RetryPolicy(3, max_retry_after_seconds=30))
    with pytest.raises(ModelUnavailable, match="wait 60 seconds"):
        await GuardedReranker(inner, guard).rerank("q", ["a"], 1)
    assert len(inner.calls) == 1
