"""Rerankers that are services over HTTP: the table of services, requests, and replies read strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from heliograph._version import __version__
from heliograph.calls.service_errors import (
    checked_address,
    checked_key,
    clean_detail,
    error_from_response,
    error_message,
    shown_address,
    translate_httpx_errors,
)
from heliograph.errors import BadModelReply, ModelUnavailable, SettingsError
from heliograph.rerank.base import Reranker, RerankHit
from heliograph.settings import RerankSettings

# Reading the reply of a rerank service, strictly: an invalid score must not order anybody's chunks.
#
# Everything that is not a list of results, each with an index that was sent, once, and a finite number as score, is a
# `BadModelReply`; the search then keeps its own order. Results may be fewer than texts, and in any order.


def read_results(body: object, form: Form, sent: int, service: str) -> list[RerankHit]:
    """Return the hits of a reply to `sent` texts, best first; of equals, the one that was sent first.

    Raises:
        BadModelReply: It is not a valid reply; says what is wrong with it.
    """
    found = body
    for key in form.results_path:
        found = _field(found, key)
    if not isinstance(found, list):
        detail = clean_detail(error_message(body))
        raise _bad(service, f"no list of results (it said: {detail})" if detail else "no list of results")
    scores: dict[int, float] = {}
    for result in cast("list[object]", found):
        index, score = _field(result, form.index_key), _field(result, form.score_key)
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < sent:
            raise _bad(service, f"the index {index!r:.80}, where 0 to {sent - 1} were sent")
        if index in scores:
            raise _bad(service, f"the index {index} twice")
        # An integer of hundreds of digits is JSON, but no float.
        is_number = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < 1e300
        if not is_number or not math.isfinite(score):
            raise _bad(service, f"the score {score!r:.80} for index {index}, which is not a finite number")
        scores[index] = float(score)
    return sorted((RerankHit(index, score) for index, score in scores.items()), key=lambda hit: (-hit.score, hit.index))


def _field(value: object, key: str) -> Any:
    return cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None


def _bad(service: str, what: str) -> BadModelReply:
    return BadModelReply(f"{service} sent {what}; check `provider` and `base_url`, and the service's log")


# Rerank services by name: address, default model, and the form of request and reply.
#
# There are three forms. Cohere, Jina, SiliconFlow, vLLM, Xinference, Infinity, llama.cpp and most others share one
# (`documents` in, `results` with `index` and `relevance_score` out); text-embeddings-inference and DashScope have their
# own. A service that is not named here is called in the shared form.

_DEFAULT_MODEL = "bge-reranker-v2-m3"


@dataclass(frozen=True, slots=True)
class Form:
    """The request and reply format of one kind of service.

    Attributes:
        address: Its own address; empty for self-hosted services.
        path: Appended to an address that does not end in a rerank path yet.
        model: The default model.
        body: Builds the request from model, question and texts.
        results_path: Keys that lead to the list of results in the reply; none if the reply is the list.
        index_key: Key, in a result, of its text's index in the request, from 0.
        score_key: Key of the score in a result.
    """

    address: str
    path: str
    model: str
    body: Callable[[str, str, Sequence[str]], Mapping[str, Any]]
    results_path: tuple[str, ...] = ("results",)
    index_key: str = "index"
    score_key: str = "relevance_score"

    def url(self, base_url: str) -> str:
        """Return the URL to post to: the address if its path ends in `rerank` or `reranks`, else the path below it.

        An empty address means the service's own.
        """
        parts = urlsplit(base_url or self.address)
        path = parts.path.rstrip("/")
        if not path.endswith(("rerank", "reranks")):
            path += self.path
        return parts._replace(path=path, fragment="").geturl()


def _plain_body(model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
    # Request all scores, since a text may be one piece of a document.
    return {"model": model, "query": query, "documents": list(texts), "top_n": len(texts)}


def _jina_body(model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
    return {**_plain_body(model, query, texts), "return_documents": False}


_DASHSCOPE = Form(
    "https://dashscope.aliyuncs.com/api/v1",
    "/services/rerank/text-rerank/text-rerank",
    "gte-rerank-v2",
    lambda model, query, texts: {
        "model": model,
        "input": {"query": query, "documents": list(texts)},
        "parameters": {"top_n": len(texts), "return_documents": False},
    },
    ("output", "results"),
)
_SERVICES: Mapping[str, Form] = {
    "": Form("", "/rerank", _DEFAULT_MODEL, _plain_body),
    "cohere": Form("https://api.cohere.com/v2", "/rerank", "rerank-v3.5", _plain_body),
    "jina": Form("https://api.jina.ai/v1", "/rerank", "jina-reranker-v2-base-multilingual", _jina_body),
    "siliconflow": Form("https://api.siliconflow.cn/v1", "/rerank", f"BAAI/{_DEFAULT_MODEL}", _jina_body),
    # Without the last field, a text beyond the window is refused; -1 stands for the window.
    "vllm": Form(
        "",
        "/rerank",
        _DEFAULT_MODEL,
        lambda model, query, texts: {**_plain_body(model, query, texts), "truncate_prompt_tokens": -1},
    ),
    "xinference": Form("", "/rerank", _DEFAULT_MODEL, _jina_body),
    "infinity": Form("", "/rerank", _DEFAULT_MODEL, _jina_body),
    # A server of it has a single model.
    "tei": Form(
        "",
        "/rerank",
        _DEFAULT_MODEL,
        lambda _, query, texts: {
            "query": query,
            "texts": list(texts),
            "raw_scores": False,
            "return_text": False,
            "truncate": True,
        },
        (),
        score_key="score",
    ),
    "dashscope": _DASHSCOPE,
    "aliyun": _DASHSCOPE,
}


# Sent instead of an empty text, which services refuse.
_EMPTY = "."


class HttpReranker(Reranker):
    """A rerank service; a `SettingsError` if the address is missing, or it or the key cannot be used."""

    def __init__(self, settings: RerankSettings) -> None:
        self._form = _SERVICES[settings.provider]
        base_url = settings.base_url.strip()
        if not (base_url or self._form.address):
            raise SettingsError(
                f"`rerank.base_url` is empty; {settings.provider!r} is a service that you run, so say where"
            )
        self._model = settings.model.strip() or self._form.model
        self._url = checked_address(self._form.url(checked_address(base_url) if base_url else ""))
        self._key = checked_key(settings.api_key)
        self._name = f"{settings.provider or 'http'}:{self._model}"
        self._service = f"reranker {self._model!r} at {shown_address(self._url)!r}"
        headers = {"User-Agent": f"heliograph/{__version__}"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._client = httpx.AsyncClient(headers=headers, timeout=settings.timeout_seconds)

    @property
    def name(self) -> str:
        return self._name

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return the service's hits, by one request.

        Raises:
            BadModelReply: The reply cannot be read, or refers to texts that were not sent.
            ModelError: The request failed.
        """
        if not documents or top_n < 1:
            return []
        if self._client.is_closed:
            raise ModelUnavailable(f"{self._service} is closed; open the workspace again")
        body = self._form.body(self._model, _sendable(query), [_sendable(text) for text in documents])
        with translate_httpx_errors(self._service):
            response = await self._client.post(self._url, json=body)
        if response.status_code >= 300:
            # The service's message may contain the key, so the exception is not chained.
            raise error_from_response(response, self._service, self._key) from None
        try:
            found = response.json()
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            kind = response.headers.get("content-type", "no type")
            raise BadModelReply(
                f"{self._service} sent what is not JSON ({kind!r:.80}, {type(error).__name__}); check that `base_url` "
                "is the address of a rerank service"
            ) from None
        return read_results(found, self._form, len(documents), self._service)[:top_n]

    async def close(self) -> None:
        await self._client.aclose()


def _sendable(text: str) -> str:
    """Return a text without lone surrogates, which cannot be sent, and NUL, which ends a text for some services."""
    clean = text.encode("utf-8", "replace").decode().replace("\0", " ")
    return clean if clean.strip() else _EMPTY
