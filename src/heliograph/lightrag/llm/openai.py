"""Model functions for OpenAI and services that speak like it, by OpenAI's SDK; named and called as in LightRAG.

Keys and addresses come from arguments, else from `OPENAI_API_KEY` and `OPENAI_API_BASE`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import openai
from numpy.typing import NDArray

from heliograph.lightrag.utils import TiktokenTokenizer, TokenTracker, get_env_value, wrap_embedding_func_with_attrs

__all__ = [
    "create_openai_async_client",
    "gpt_4o_complete",
    "gpt_4o_mini_complete",
    "openai_complete",
    "openai_complete_if_cache",
    "openai_embed",
]

# What LightRAG hands its functions that no service knows.
_OWN = ("hashing_kv", "keyword_extraction", "entity_extraction", "enable_cot", "image_inputs")
_TOKENIZER = TiktokenTokenizer()


def create_openai_async_client(
    api_key: str | None = None,
    base_url: str | None = None,
    timeout: float | None = None,
    client_configs: Mapping[str, Any] | None = None,
) -> openai.AsyncOpenAI:
    """Return a client of OpenAI's SDK; `client_configs` goes to its constructor beneath the other arguments."""
    options = dict(client_configs or {})
    options["api_key"] = api_key or options.get("api_key") or str(get_env_value("OPENAI_API_KEY", "")) or "none"
    if address := base_url or options.get("base_url") or get_env_value("OPENAI_API_BASE", ""):
        options["base_url"] = address
    if timeout is not None:
        options["timeout"] = timeout
    return openai.AsyncOpenAI(**options)


async def openai_complete_if_cache(
    model: str,
    prompt: str,
    system_prompt: str | None = None,
    history_messages: Sequence[Mapping[str, Any]] | None = None,
    enable_cot: bool = False,  # noqa: ARG001 (a model's thoughts are left out of answers anyway)
    base_url: str | None = None,
    api_key: str | None = None,
    token_tracker: TokenTracker | None = None,
    stream: bool | None = None,
    timeout: float | None = None,
    **kwargs: Any,
) -> str | AsyncIterator[str]:
    """Return a chat model's reply, or with `stream` its pieces.

    Args:
        model: Its name.
        prompt: The last message.
        system_prompt: Comes before all others.
        history_messages: Earlier ones, `{"role": ..., "content": ...}`.
        enable_cot: Ignored.
        base_url: Address of the service.
        api_key: Its key.
        token_tracker: Told what the call costs.
        stream: Whether the reply comes in pieces.
        timeout: Seconds.
        kwargs: What else the service is asked with, such as `temperature` or `response_format`; and
            `openai_client_configs`, for the client.

    Raises:
        openai.OpenAIError: The service failed.
    """
    configs = kwargs.pop("openai_client_configs", None)
    asked = {name: value for name, value in kwargs.items() if name not in _OWN}
    messages: list[Any] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    messages += [*(history_messages or ()), {"role": "user", "content": prompt}]
    client = create_openai_async_client(api_key, base_url, timeout, configs)
    if stream:
        options: Any = {"stream_options": {"include_usage": True}} if token_tracker is not None else {}
        return _pieces(client, {"model": model, "messages": messages, **asked, **options}, token_tracker)
    async with client:
        reply = await client.chat.completions.create(model=model, messages=messages, **asked)
    _track(token_tracker, reply.usage)
    return reply.choices[0].message.content or ""


async def _pieces(
    client: openai.AsyncOpenAI, asked: dict[str, Any], tracker: TokenTracker | None
) -> AsyncIterator[str]:
    async with client:
        stream: Any = await client.chat.completions.create(**asked, stream=True)
        async for part in stream:
            _track(tracker, part.usage)
            if part.choices and (text := part.choices[0].delta.content):
                yield text


def _track(tracker: TokenTracker | None, usage: Any) -> None:
    if tracker is not None and usage is not None:
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        tracker.add_usage({name: getattr(usage, name, 0) or 0 for name in names})


async def openai_complete(
    prompt: str,
    system_prompt: str | None = None,
    history_messages: Sequence[Mapping[str, Any]] | None = None,
    **kwargs: Any,
) -> str | AsyncIterator[str]:
    """Ask the model that `LightRAG(llm_model_name=...)` names; see `openai_complete_if_cache`."""
    model = kwargs["hashing_kv"].global_config["llm_model_name"]
    return await openai_complete_if_cache(model, prompt, system_prompt, history_messages, **kwargs)


async def gpt_4o_complete(
    prompt: str,
    system_prompt: str | None = None,
    history_messages: Sequence[Mapping[str, Any]] | None = None,
    **kwargs: Any,
) -> str | AsyncIterator[str]:
    """Ask `gpt-4o`; see `openai_complete_if_cache`."""
    return await openai_complete_if_cache("gpt-4o", prompt, system_prompt, history_messages, **kwargs)


async def gpt_4o_mini_complete(
    prompt: str,
    system_prompt: str | None = None,
    history_messages: Sequence[Mapping[str, Any]] | None = None,
    **kwargs: Any,
) -> str | AsyncIterator[str]:
    """Ask `gpt-4o-mini`; see `openai_complete_if_cache`."""
    return await openai_complete_if_cache("gpt-4o-mini", prompt, system_prompt, history_messages, **kwargs)


@wrap_embedding_func_with_attrs(
    embedding_dim=1536, max_token_size=8192, model_name="text-embedding-3-small", supports_asymmetric=True
)
async def openai_embed(
    texts: Sequence[str],
    model: str = "text-embedding-3-small",
    base_url: str | None = None,
    api_key: str | None = None,
    embedding_dim: int | None = None,
    max_token_size: int | None = None,
    client_configs: Mapping[str, Any] | None = None,
    token_tracker: TokenTracker | None = None,
    context: str = "document",
    query_prefix: str | None = None,
    document_prefix: str | None = None,
) -> NDArray[np.float32]:
    """Return a vector for each text.

    Args:
        texts: The texts; longer ones than `max_token_size` tokens are cut.
        model: Name of the model.
        base_url: Address of the service.
        api_key: Its key.
        embedding_dim: Length that the service is asked for.
        max_token_size: Longest text; 0 cuts none.
        client_configs: For the client.
        token_tracker: Told what the call costs.
        context: `query` or `document`, which chooses the prefix.
        query_prefix: Put before questions.
        document_prefix: Put before texts.

    Raises:
        openai.OpenAIError: The service failed.
    """
    prefix = (query_prefix if context == "query" else document_prefix) or ""
    given = [_cut(prefix + text, max_token_size or 0) for text in texts]
    asked: dict[str, Any] = {"model": model, "input": given, "encoding_format": "base64"}
    if embedding_dim:
        asked["dimensions"] = embedding_dim
    async with create_openai_async_client(api_key, base_url, None, client_configs) as client:
        reply = await client.embeddings.create(**asked)
    _track(token_tracker, reply.usage)
    return np.stack([_vector(item.embedding) for item in reply.data])


def _cut(text: str, most: int) -> str:
    # A token has at least one byte, so a short text need not be counted.
    if not most or len(text.encode("utf-8", "replace")) <= most:
        return text
    tokens = _TOKENIZER.encode(text)
    return text if len(tokens) <= most else _TOKENIZER.decode(tokens[:most])


def _vector(given: Any) -> NDArray[np.float32]:
    """Return a vector as the service sent it: base64 of little-endian floats, or numbers."""
    if isinstance(given, str):
        return np.frombuffer(b64decode(given), "<f4").astype(np.float32)
    return np.asarray(cast("Sequence[float]", given), np.float32)
