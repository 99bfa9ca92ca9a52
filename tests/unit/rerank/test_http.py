"""Rerank services are called in their own form, and what they reply is believed only if it can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from heliograph.calls.limit import CallGuard, RetryPolicy
from heliograph.errors import (
    BadModelReply,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    SettingsError,
)
from heliograph.rerank.base import GuardedReranker, RerankHit
from heliograph.rerank.http import HttpReranker
from heliograph.settings import RerankSettings

TEXTS = ("x", "none", "xxx", "xx")
KEY = "jina_0123456789abcdef"


def reranker(server: Any, provider: str = "", **changes: Any) -> HttpReranker:
    given = {"provider": provider, "base_url": server.url, "api_key": KEY, "timeout_seconds": 5.0}
    return HttpReranker(RerankSettings.model_validate(given | changes))


async def ask(model: HttpReranker, top_n: int = 9) -> list[RerankHit]:
    try:
        return await model.rerank("how many?", TEXTS, top_n)
    finally:
        await model.close()


@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("", "/rerank"),
        ("cohere", "/rerank"),
        ("jina", "/rerank"),
        ("siliconflow", "/rerank"),
        ("vllm", "/rerank"),
        ("xinference", "/rerank"),
        ("infinity", "/rerank"),
        ("tei", "/rerank"),
        ("dashscope", "/services/rerank/text-rerank/text-rerank"),
        ("aliyun", "/services/rerank/text-rerank/text-rerank"),
    ],
)
async def test_every_service_is_called_in_its_form(server: Any, provider: str, path: str) -> None:
    hits = await ask(reranker(server, provider), top_n=3)
    assert hits == [RerankHit(2, 0.3), RerankHit(3, 0.2), RerankHit(0, 0.1)]
    call = server.calls[0]
    assert call.path == path
    assert call.headers["Authorization"] == f"Bearer {KEY}"
    assert call.texts == list(TEXTS)


@pytest.mark.parametrize(
    ("provider", "model", "sent"),
    [
        ("", "", "bge-reranker-v2-m3"),
        ("vllm", "", "bge-reranker-v2-m3"),
        ("siliconflow", "", "BAAI/bge-reranker-v2-m3"),
        ("cohere", "", "rerank-v3.5"),
        ("dashscope", "qwen3-rerank", "qwen3-rerank"),
    ],
)
async def test_model_is_sent_as_named_or_usual(server: Any, provider: str, model: str, sent: str) -> None:
    await ask(reranker(server, provider, model=model))
    assert server.calls[0].body["model"] == sent


@pytest.mark.parametrize("ending", ["/v1", "/v1/", "/v1/rerank", "/v1/rerank/", "/compatible-api/v1/reranks"])
async def test_address_may_end_in_the_path_or_before_it(server: Any, ending: str) -> None:
    await ask(reranker(server, base_url=server.url + ending))
    assert server.calls[0].path.rstrip("/").endswith(("/v1/rerank", "/v1/reranks"))


async def test_no_key_sends_none_and_bad_characters_are_replaced(server: Any) -> None:
    model = reranker(server, api_key="")
    await model.rerank("a\udc00b", ["x\0y", " ", "好"], 3)
    await model.close()
    assert "Authorization" not in server.calls[0].headers
    assert server.calls[0].body["query"] == "a?b"
    assert server.calls[0].texts == ["x y", ".", "好"]


@pytest.mark.parametrize(("texts", "top_n"), [((), 3), (TEXTS, 0)])
async def test_nothing_to_rank_calls_nobody(server: Any, texts: tuple[str, ...], top_n: int) -> None:
    model = reranker(server)
    assert await model.rerank("q", texts, top_n) == []
    await model.close()
    assert not server.calls


GARBAGE: list[tuple[str, object]] = [
    ("", {}),
    ("", []),
    ("", None),
    ("", "fine"),
    ("", {"results": None}),
    ("", {"results": {"0": 0.3}}),
    ("", {"results": [0.3, 0.2]}),
    ("", {"results": [{"relevance_score": 0.3}]}),
    ("", {"results": [{"index": 0}]}),
    ("", {"results": [{"index": 0, "relevance_score": "0.3"}]}),
    ("", {"results": [{"index": 0, "relevance_score": True}]}),
    ("", {"results": [{"index": 0, "relevance_score": None}]}),
    ("", {"results": [{"index": "0", "relevance_score": 0.3}]}),
    ("", {"results": [{"index": True, "relevance_score": 0.3}]}),
    ("", {"results": [{"index": 0.0, "relevance_score": 0.3}]}),
    ("", {"results": [{"index": 4, "relevance_score": 0.3}]}),
    ("", {"results": [{"index": -1, "relevance_score": 0.3}]}),
    ("", {"results": [{"index": 1, "relevance_score": 0.3}, {"index": 1, "relevance_score": 0.2}]}),
    ("", b'{"results": [{"index": 0, "relevance_score": NaN}]}'),
    ("", b'{"results": [{"index": 0, "relevance_score": Infinity}]}'),
    ("", b'{"results": [{"index": 0, "relevance_score": 1e999}]}'),
    ("", b'{"results": [{"index": 0, "relevance_score": ' + b"9" * 400 + b"}]}"),
    ("", b'{"results": [{"index": 0, "relevance_score": ' + b"9" * 9000 + b"}]}"),
    ("", b"<html><body>Welcome</body></html>"),
    ("", b""),
    ("", b'{"results": [{"index": 0, "relevance_'),
    ("", b"\xff\xfe\x00"),
    ("", b"[" * 100_000),
    ("tei", {"results": []}),
    ("tei", [{"index": 0, "relevance_score": 0.3}]),
    ("dashscope", {"code": "InternalError", "message": "no"}),
    ("dashscope", {"output": None}),
]


@pytest.mark.parametrize(("provider", "body"), GARBAGE, ids=[repr(body)[:60] for _, body in GARBAGE])
async def test_reply_that_cannot_be_believed_is_refused(
    server: Any, fault: Callable[..., Any], provider: str, body: object
) -> None:
    server.faults.append(fault(body=body))
    with pytest.raises(BadModelReply, match="reranker") as caught:
        await ask(reranker(server, provider))
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("results", [[], [{"index": 3, "relevance_score": -7}]])
async def test_fewer_results_and_other_scales_are_fine(
    server: Any, fault: Callable[..., Any], results: list[dict[str, float]]
) -> None:
    server.faults.append(fault(body={"results": results}))
    assert len(await ask(reranker(server))) == len(results)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (307, ModelUnavailable),
        (401, ModelUnavailable),
        (404, ModelUnavailable),
        (413, ContextTooLong),
        (429, RateLimited),
        (500, ModelUnavailable),
        (503, ModelUnavailable),
    ],
)
async def test_refusal_is_ours_and_repeats_no_key(
    server: Any, fault: Callable[..., Any], status: int, kind: type[ModelError]
) -> None:
    server.faults.append(fault(status=status, body={"message": f"the key {KEY} may not"}))
    with pytest.raises(kind) as caught:
        await ask(reranker(server))
    assert KEY not in str(caught.value)


async def test_slow_service_times_out(server: Any, fault: Callable[..., Any]) -> None:
    server.faults.append(fault(wait_seconds=0.3))
    with pytest.raises(ModelTimeout, match="timeout_seconds"):
        await ask(reranker(server, timeout_seconds=0.05))


async def test_service_that_is_away_cannot_be_reached(server: Any) -> None:
    server.close()
    with pytest.raises(ModelUnavailable, match="cannot be reached") as caught:
        await ask(reranker(server))
    assert caught.value.is_transient


async def test_busy_service_is_asked_again_after_the_wait_it_names(server: Any, fault: Callable[..., Any]) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    server.faults.append(fault(status=429, body={}, headers={"retry-after": "3"}))
    server.faults.append(fault(status=500, body={}))
    model = GuardedReranker(reranker(server), CallGuard(retries=RetryPolicy(2), sleep=sleep))
    assert (await model.rerank("q", TEXTS, 1))[0].index == 2
    await model.close()
    assert waits[0] >= 3
    assert len(waits) == 2


async def test_closed_reranker_says_so(server: Any) -> None:
    model = reranker(server)
    await model.close()
    await model.close()
    with pytest.raises(ModelUnavailable, match="is closed"):
        await model.rerank("q", TEXTS, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"provider": "vllm"},
        {"provider": "tei"},
        {"base_url": "localhost:80"},
        {"provider": "jina", "api_key": "schlüssel"},
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        HttpReranker(RerankSettings.model_validate(changes))
    assert "schlüssel" not in str(caught.value)
