"""Model functions for OpenAI and compatible services, by OpenAI's SDK; named and called as in LightRAG.

Keys and addresses come from arguments, else from `OPENAI_API_KEY` and `OPENAI_API_BASE`; those of Azure from
`AZURE_OPENAI_*` and `AZURE_EMBEDDING_*`, or from the variables of LightRAG's service.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, cast

import numpy as np
import openai
from numpy.typing import NDArray

from heliograph.lightrag.utils import TiktokenTokenizer, TokenTracker, get_env_value, wrap_embedding_func_with_attrs

# Arguments that LightRAG passes to its functions and that no service knows.
_OWN = ("hashing_kv", "keyword_extraction", "entity_extraction", "enable_cot", "image_inputs")
_TOKENIZER = TiktokenTokenizer()
_AZURE_VERSION = "2024-08-01-preview"


def create_openai_async_client(
    api_key: str | None = None,
    base_url: str | None = None,
    use_azure: bool = False,
    azure_deployment: str | None = None,
    api_version: str | None = None,
    timeout: float | None = None,
    client_configs: Mapping[str, Any] | None = None,
) -> openai.AsyncOpenAI:
    """Return a client of OpenAI's SDK; `client_configs` goes to its constructor, overridden by the other arguments."""
    options = dict(client_configs or {})
    if use_azure:
        given: dict[str, Any] = {
            "api_key": api_key or _first_variable("AZURE_OPENAI_API_KEY", "LLM_BINDING_API_KEY"),
            "azure_endpoint": base_url,
            "azure_deployment": azure_deployment,
            "api_version": api_version,
            "timeout": timeout,
        }
        return openai.AsyncAzureOpenAI(**options | {name: value for name, value in given.items() if value is not None})
    options["api_key"] = api_key or options.get("api_key") or str(get_env_value("OPENAI_API_KEY", "")) or "none"
    if address := base_url or options.get("base_url") or get_env_value("OPENAI_API_BASE", ""):
        options["base_url"] = address
    if timeout is not None:
        options["timeout"] = timeout
    return openai.AsyncOpenAI(**options)


def _first_variable(*names: str) -> str | None:
    """Return the first of several environment variables that is set."""
    return next((value for name in names if (value := str(get_env_value(name, "")))), None)


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
    use_azure: bool = False,
    azure_deployment: str | None = None,
    api_version: str | None = None,
    **kwargs: Any,
) -> str | AsyncIterator[str]:
    """Return a chat model's reply, or with `stream` its pieces.

    With Azure, `azure_deployment` and `api_version` select the model. `enable_cot` is ignored, `timeout` is in seconds.
    `kwargs` go to the service, such as `temperature` or `response_format`; `openai_client_configs` to the client.

    Raises:
        openai.OpenAIError: The service failed.
    """
    configs = kwargs.pop("openai_client_configs", None)
    asked = {name: value for name, value in kwargs.items() if name not in _OWN}
    messages: list[Any] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    messages += [*(history_messages or ()), {"role": "user", "content": prompt}]
    client = create_openai_async_client(api_key, base_url, use_azure, azure_deployment, api_version, timeout, configs)
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


def _complete_by(
    name: str, whom: str, choose: Callable[[Mapping[str, Any]], str], ask: Callable[..., Any] = openai_complete_if_cache
) -> Callable[..., Coroutine[Any, Any, str | AsyncIterator[str]]]:
    """Return a function that calls the model that `choose` selects from LightRAG's arguments besides the messages."""

    async def complete(
        prompt: str,
        system_prompt: str | None = None,
        history_messages: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> str | AsyncIterator[str]:
        return await ask(choose(kwargs), prompt, system_prompt, history_messages, **kwargs)

    complete.__name__ = complete.__qualname__ = name
    complete.__doc__ = f"""Ask {whom}; see `{ask.__name__}`."""
    return complete


openai_complete = _complete_by(
    *("openai_complete", "the model that `LightRAG(llm_model_name=...)` names"),
    lambda kwargs: kwargs["hashing_kv"].global_config["llm_model_name"],
)
gpt_4o_complete = _complete_by("gpt_4o_complete", "`gpt-4o`", lambda _: "gpt-4o")
gpt_4o_mini_complete = _complete_by("gpt_4o_mini_complete", "`gpt-4o-mini`", lambda _: "gpt-4o-mini")


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
    use_azure: bool = False,
    azure_deployment: str | None = None,
    api_version: str | None = None,
    context: str = "document",
    query_prefix: str | None = None,
    document_prefix: str | None = None,
) -> NDArray[np.float32]:
    """Return a vector for each text.

    Texts longer than `max_token_size` tokens are cut, 0 cuts none. `context` is `query` or `document`, which chooses
    the prefix.

    Raises:
        openai.OpenAIError: The service failed.
    """
    prefix = (query_prefix if context == "query" else document_prefix) or ""
    given = [_cut(prefix + text, max_token_size or 0) for text in texts]
    asked: dict[str, Any] = {"model": model, "input": given, "encoding_format": "base64"}
    if embedding_dim:
        asked["dimensions"] = embedding_dim
    azure = (use_azure, azure_deployment, api_version)
    async with create_openai_async_client(api_key, base_url, *azure, None, client_configs) as client:
        reply = await client.embeddings.create(**asked)
    _track(token_tracker, reply.usage)
    return np.stack([_vector(item.embedding) for item in reply.data])


async def azure_openai_complete_if_cache(
    model: str | None,
    prompt: str,
    system_prompt: str | None = None,
    history_messages: Sequence[Mapping[str, Any]] | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    api_version: str | None = None,
    **kwargs: Any,
) -> str | AsyncIterator[str]:
    """Call a deployment on Azure; `AZURE_OPENAI_DEPLOYMENT` overrides `model`, see `openai_complete_if_cache`."""
    deployment = _first_variable("AZURE_OPENAI_DEPLOYMENT") or model or _first_variable("LLM_MODEL")
    return await openai_complete_if_cache(
        deployment or "",
        prompt,
        system_prompt,
        history_messages,
        base_url=base_url or _first_variable("AZURE_OPENAI_ENDPOINT", "LLM_BINDING_HOST"),
        api_key=api_key,
        use_azure=True,
        azure_deployment=deployment,
        api_version=api_version or _first_variable("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION") or _AZURE_VERSION,
        **kwargs,
    )


azure_openai_complete = _complete_by(
    *("azure_openai_complete", "the deployment that the environment names"),
    lambda _: _first_variable("LLM_MODEL") or "gpt-4o-mini",
    azure_openai_complete_if_cache,
)


@wrap_embedding_func_with_attrs(
    embedding_dim=1536,
    max_token_size=8192,
    model_name="my-text-embedding-3-large-deployment",
    supports_asymmetric=True,
)
async def azure_openai_embed(
    texts: Sequence[str],
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    api_version: str | None = None,
    **kwargs: Any,
) -> NDArray[np.float32]:
    """Return a vector for each text from a deployment on Azure; see `openai_embed`."""
    deployment = _first_variable("AZURE_EMBEDDING_DEPLOYMENT") or model or _first_variable("EMBEDDING_MODEL")
    versions = ("AZURE_EMBEDDING_API_VERSION", "AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")
    return await openai_embed.func(
        texts,
        model=deployment or "text-embedding-3-small",
        base_url=base_url or _first_variable("AZURE_EMBEDDING_ENDPOINT", "EMBEDDING_BINDING_HOST"),
        api_key=api_key or _first_variable("AZURE_EMBEDDING_API_KEY", "EMBEDDING_BINDING_API_KEY"),
        use_azure=True,
        azure_deployment=deployment,
        api_version=api_version or _first_variable(*versions) or _AZURE_VERSION,
        **kwargs,
    )


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
