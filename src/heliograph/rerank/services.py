"""Rerank services by name: address, default model, and the form of request and reply.

Three forms are spoken. Cohere, Jina, SiliconFlow, vLLM, Xinference, Infinity, llama.cpp and most others share one
(`documents` in, `results` with `index` and `relevance_score` out); text-embeddings-inference and DashScope have their
own. A service that is not named here is called in the shared form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_DEFAULT_MODEL = "bge-reranker-v2-m3"


@dataclass(frozen=True, slots=True)
class Service:
    """How one kind of service is called.

    Attributes:
        address: Its own address; empty for what people run themselves.
        path: What is put behind an address that does not end in a rerank path yet.
        model: What is asked for when no model is named.
        body: Makes the request from model, question and texts.
        results_path: Keys that lead to the list of results in the reply; none if the reply is the list.
        score_key: Name of the score in a result.
    """

    address: str
    path: str
    model: str
    body: Callable[[str, str, Sequence[str]], Mapping[str, Any]]
    results_path: tuple[str, ...] = ("results",)
    score_key: str = "relevance_score"

    def url(self, base_url: str) -> str:
        """Return where to post: the address itself if its path ends in `rerank`, or `reranks`, else the path below it.

        Args:
            base_url: As in the settings; empty means the service's own.
        """
        parts = urlsplit(base_url or self.address)
        path = parts.path.rstrip("/")
        if not path.endswith(("rerank", "reranks")):
            path += self.path
        return parts._replace(path=path, fragment="").geturl()


def _plain_body(model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
    # All scores are wanted, since a text may be one piece of a document.
    return {"model": model, "query": query, "documents": list(texts), "top_n": len(texts)}


def _jina_body(model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
    return {**_plain_body(model, query, texts), "return_documents": False}


def _vllm_body(model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
    # Without it a text beyond the window is refused; -1 stands for the window.
    return {**_plain_body(model, query, texts), "truncate_prompt_tokens": -1}


def _tei_body(model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:  # noqa: ARG001 (it serves one model)
    return {"query": query, "texts": list(texts), "raw_scores": False, "return_text": False, "truncate": True}


def _dashscope_body(model: str, query: str, texts: Sequence[str]) -> Mapping[str, Any]:
    return {
        "model": model,
        "input": {"query": query, "documents": list(texts)},
        "parameters": {"top_n": len(texts), "return_documents": False},
    }


_DASHSCOPE = Service(
    "https://dashscope.aliyuncs.com/api/v1",
    "/services/rerank/text-rerank/text-rerank",
    "gte-rerank-v2",
    _dashscope_body,
    ("output", "results"),
)
_SERVICES: Mapping[str, Service] = {
    "": Service("", "/rerank", _DEFAULT_MODEL, _plain_body),
    "cohere": Service("https://api.cohere.com/v2", "/rerank", "rerank-v3.5", _plain_body),
    "jina": Service("https://api.jina.ai/v1", "/rerank", "jina-reranker-v2-base-multilingual", _jina_body),
    "siliconflow": Service("https://api.siliconflow.cn/v1", "/rerank", f"BAAI/{_DEFAULT_MODEL}", _jina_body),
    "vllm": Service("", "/rerank", _DEFAULT_MODEL, _vllm_body),
    "xinference": Service("", "/rerank", _DEFAULT_MODEL, _jina_body),
    "infinity": Service("", "/rerank", _DEFAULT_MODEL, _jina_body),
    "tei": Service("", "/rerank", _DEFAULT_MODEL, _tei_body, (), "score"),
    "dashscope": _DASHSCOPE,
    "aliyun": _DASHSCOPE,
}


def find_service(provider: str) -> Service:
    """Return how a provider of the settings is called; raises `KeyError` for `onnx`, which is no service."""
    return _SERVICES[provider]
