"""Rerank functions as programs import them from LightRAG; each asks a service by our own client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import SecretStr

from heliograph.lightrag.utils import get_env_value, warn_once
from heliograph.rerank.wrappers import build_reranker
from heliograph.settings import RerankSettings

__all__ = ["ali_rerank", "cohere_rerank", "generic_rerank_api", "jina_rerank"]


async def generic_rerank_api(
    query: str,
    documents: Sequence[str],
    model: str,
    base_url: str,
    api_key: str | None,
    top_n: int | None = None,
    provider: Literal["", "cohere", "jina", "aliyun"] = "",
    **options: Any,
) -> list[dict[str, Any]]:
    """Return `index` and `relevance_score` of the best texts, best first.

    Args:
        query: The question.
        documents: The texts.
        model: Name of the model.
        base_url: Address of the service.
        api_key: Its key.
        top_n: Texts at the most; None returns all.
        provider: Kind of service; empty for the form that most share.
        options: LightRAG's others, which have no effect.

    Raises:
        ModelError: The service failed.
    """
    if any(options.values()):
        warn_once(f"rerank: {', '.join(sorted(options))} has no effect; long texts are scored in pieces")
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


async def cohere_rerank(
    query: str,
    documents: Sequence[str],
    top_n: int | None = None,
    api_key: str | None = None,
    model: str = "rerank-v3.5",
    base_url: str = "https://api.cohere.com/v2/rerank",
    extra_body: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Ask Cohere, or a service that speaks like it; see `generic_rerank_api`."""
    key = api_key or get_env_value("COHERE_API_KEY", None)
    return await generic_rerank_api(
        query, documents, model, base_url, key, top_n, "cohere", extra_body=extra_body, **options
    )


async def jina_rerank(
    query: str,
    documents: Sequence[str],
    top_n: int | None = None,
    api_key: str | None = None,
    model: str = "jina-reranker-v2-base-multilingual",
    base_url: str = "https://api.jina.ai/v1/rerank",
    extra_body: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Ask Jina; see `generic_rerank_api`."""
    key = api_key or get_env_value("JINA_API_KEY", None)
    return await generic_rerank_api(
        query, documents, model, base_url, key, top_n, "jina", extra_body=extra_body, **options
    )


async def ali_rerank(
    query: str,
    documents: Sequence[str],
    top_n: int | None = None,
    api_key: str | None = None,
    model: str = "gte-rerank-v2",
    base_url: str = "https://dashscope.aliyuncs.com/api/v1/services/rerank/text-rerank/text-rerank",
    extra_body: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Ask DashScope; see `generic_rerank_api`."""
    key = api_key or get_env_value("DASHSCOPE_API_KEY", None)
    return await generic_rerank_api(
        query, documents, model, base_url, key, top_n, "aliyun", extra_body=extra_body, **options
    )
