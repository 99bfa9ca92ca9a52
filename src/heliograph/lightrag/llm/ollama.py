"""Model functions for Ollama, over its HTTP API; named and called as in LightRAG.

The address is `host`, else `OLLAMA_HOST`, else that of this machine.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from heliograph.lightrag.utils import TokenTracker, get_env_value, wrap_embedding_func_with_attrs

_HOME = "http://127.0.0.1:11434"
# Ollama's own fields of a chat request; other arguments are not sent.
_FIELDS = ("format", "options", "keep_alive", "think", "tools")


async def ollama_model_complete(
    prompt: str,
    system_prompt: str | None = None,
    history_messages: Sequence[Mapping[str, Any]] | None = None,
    enable_cot: bool = False,  # noqa: ARG001 (a model's thoughts are left out of answers anyway)
    token_tracker: TokenTracker | None = None,
    **kwargs: Any,
) -> str | AsyncIterator[str]:
    """Call the model that `LightRAG(llm_model_name=...)` names; with `stream`, return the pieces of its reply.

    `enable_cot` is ignored. Further arguments are `host`, `timeout`, `api_key`, and Ollama's own: `options`, `format`,
    `keep_alive`, `think`.

    Raises:
        httpx.HTTPError: Ollama failed.
    """
    model = kwargs["hashing_kv"].global_config["llm_model_name"]
    messages: list[Any] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    messages += [*(history_messages or ()), {"role": "user", "content": prompt}]
    asked: dict[str, Any] = {name: kwargs[name] for name in _FIELDS if kwargs.get(name) is not None}
    if kwargs.get("response_format") or kwargs.get("keyword_extraction") or kwargs.get("entity_extraction"):
        asked.setdefault("format", "json")
    body = {"model": model, "messages": messages, **asked}
    if kwargs.get("stream"):
        return _pieces(body, kwargs, token_tracker)
    reply = await _post("/api/chat", body | {"stream": False}, kwargs)
    _track(token_tracker, reply)
    return reply["message"]["content"]


async def _pieces(body: dict[str, Any], kwargs: dict[str, Any], tracker: TokenTracker | None) -> AsyncIterator[str]:
    async with (
        _client(kwargs) as client,
        client.stream("POST", "/api/chat", json=body | {"stream": True}) as response,
    ):
        response.raise_for_status()
        async for line in response.aiter_lines():
            part = json.loads(line) if line.strip() else {}
            if part.get("done"):
                _track(tracker, part)
            if text := part.get("message", {}).get("content"):
                yield text


@wrap_embedding_func_with_attrs(
    embedding_dim=1024, max_token_size=8192, model_name="bge-m3:latest", supports_asymmetric=True
)
async def ollama_embed(
    texts: Sequence[str],
    embed_model: str = "bge-m3:latest",
    max_token_size: int | None = None,  # noqa: ARG001 (Ollama cuts texts itself)
    context: str = "document",
    query_prefix: str | None = None,
    document_prefix: str | None = None,
    embedding_dim: int | None = None,
    token_tracker: TokenTracker | None = None,
    **kwargs: Any,
) -> NDArray[np.float32]:
    """Return a vector for each text.

    `context` is `query` or `document`, which chooses the prefix; `max_token_size` is ignored. Further arguments are
    `host`, `timeout`, `api_key` and `options`.

    Raises:
        httpx.HTTPError: Ollama failed.
    """
    prefix = (query_prefix if context == "query" else document_prefix) or ""
    asked: dict[str, Any] = {"model": embed_model, "input": [prefix + text for text in texts]}
    asked |= {"options": kwargs["options"]} if kwargs.get("options") else {}
    asked |= {"dimensions": embedding_dim} if embedding_dim else {}
    reply = await _post("/api/embed", asked, kwargs)
    _track(token_tracker, reply)
    return np.asarray(reply["embeddings"], np.float32)


async def _post(path: str, body: dict[str, Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    async with _client(kwargs) as client:
        response = await client.post(path, json=body)
        response.raise_for_status()
        return response.json()


def _client(kwargs: Mapping[str, Any]) -> httpx.AsyncClient:
    host = str(kwargs.get("host") or get_env_value("OLLAMA_HOST", _HOME))
    key = kwargs.get("api_key") or get_env_value("OLLAMA_API_KEY", "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    address = host if "://" in host else f"http://{host}"
    return httpx.AsyncClient(base_url=address, headers=headers, timeout=kwargs.get("timeout") or None)


def _track(tracker: TokenTracker | None, reply: Mapping[str, Any]) -> None:
    if tracker is not None:
        read, written = reply.get("prompt_eval_count", 0) or 0, reply.get("eval_count", 0) or 0
        tracker.add_usage({"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written})
