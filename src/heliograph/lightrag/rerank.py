"""Rerank functions as programs import them from LightRAG; each calls a service through our own client."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal

from pydantic import SecretStr

from heliograph.lightrag.utils import get_env_value, warn_once
from heliograph.rerank.base import build_reranker
from heliograph.settings import RerankSettings


async def generic_rerank_api(
    query: str,
    documents: Sequence[str],
    model: str,
    base_url: str,
    api_key: str | None,
    top_n: int | None = None,
    return_documents: bool | None = None,  # noqa: ARG001 (what comes back are indexes)
    extra_body: Mapping[str, Any] | None = None,
    response_format: Literal["standard", "aliyun"] = "standard",
    request_format: Literal["standard", "aliyun"] = "standard",
    enable_chunking: bool = False,  # noqa: ARG001 (long texts are always scored in pieces)
    max_tokens_per_doc: int = 480,  # noqa: ARG001
) -> list[dict[str, Any]]:
    """Return `index` and `relevance_score` of the best texts, best first; long ones are scored in pieces.

    Without `top_n` all are returned. `request_format`, or `response_format`, is `aliyun` for DashScope and `standard`
    for the common form. `extra_body` has no effect, and warns; `return_documents`, `enable_chunking` and
    `max_tokens_per_doc` are ignored.

    Raises:
        ModelError: The service failed.
        ValueError: There is no address.
    """
    if not base_url:
        raise ValueError("base_url is empty; give the address of the rerank service")
    is_aliyun = "aliyun" in (request_format, response_format)
    return await _rerank(query, documents, model, base_url, api_key, top_n, extra_body, "aliyun" if is_aliyun else "")


async def _rerank(
    query: str,
    documents: Sequence[str],
    model: str,
    base_url: str,
    api_key: str | None,
    top_n: int | None,
    extra_body: Mapping[str, Any] | None,
    provider: Literal["", "cohere", "jina", "aliyun"],
) -> list[dict[str, Any]]:
    if extra_body:
        warn_once("rerank: extra_body has no effect")
    key = api_key or str(get_env_value("RERANK_BINDING_API_KEY", ""))
    reranker = await build_reranker(
        RerankSettings(provider=provider, model=model, base_url=base_url, api_key=SecretStr(key))  # pyright: ignore[reportCallIssue]
    )
    if reranker is None or not documents:
        return []
    try:
        hits = await reranker.rerank(query, documents, top_n or len(documents))
    finally:
        await reranker.close()
    return [{"index": hit.index, "relevance_score": hit.score} for hit in hits]


def _rerank_by(
    service: str, provider: Literal["cohere", "jina", "aliyun"], model: str, base_url: str, variable: str
) -> Callable[..., Coroutine[Any, Any, list[dict[str, Any]]]]:
    """Return a function that calls one service, with its default model and address, and the variable with its key."""

    async def rerank(
        query: str,
        documents: Sequence[str],
        top_n: int | None = None,
        api_key: str | None = None,
        model: str = model,
        base_url: str = base_url,
        extra_body: Mapping[str, Any] | None = None,
        enable_chunking: bool = False,  # noqa: ARG001 (long texts are always scored in pieces)
        max_tokens_per_doc: int = 4096,  # noqa: ARG001
    ) -> list[dict[str, Any]]:
        key = api_key or get_env_value(variable, None)
        return await _rerank(query, documents, model, base_url, key, top_n, extra_body, provider)

    rerank.__name__ = rerank.__qualname__ = f"{'ali' if provider == 'aliyun' else provider}_rerank"
    rerank.__doc__ = f"""Ask {service}; see `generic_rerank_api`."""
    return rerank


cohere_rerank = _rerank_by(
    *("Cohere, or a service that speaks like it", "cohere", "rerank-v3.5"),
    *("https://api.cohere.com/v2/rerank", "COHERE_API_KEY"),
)
jina_rerank = _rerank_by(
    "Jina", "jina", "jina-reranker-v2-base-multilingual", "https://api.jina.ai/v1/rerank", "JINA_API_KEY"
)
ali_rerank = _rerank_by(
    *("DashScope", "aliyun", "gte-rerank-v2"),
    *("https://dashscope.aliyuncs.com/api/v1/services/rerank/text-rerank/text-rerank", "DASHSCOPE_API_KEY"),
)
