"""What is sent for each thing a client can do, and how its reply is read; the same for both faces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from heliograph.client.answers import ClientAnswer, ClientRetrieval, QueryOptions
from heliograph.client.reading import read_as

__all__ = [
    "Call",
    "answer_from",
    "get",
    "path_of",
    "query_call",
    "query_data_call",
    "retrieve_call",
    "send",
    "stream_call",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and how to read its reply.

    Attributes:
        method: HTTP method.
        path: Path below the service's address.
        read: Makes a result of the reply's JSON.
        query: Parameters in the URL.
        json: Body, None for none.
        form: Fields of a form.
        file: A file to upload: name and content.
        is_safe: Whether sending it twice does what sending it once does.
        is_login: Whether it needs no credentials, as it brings them.
    """

    method: str
    path: str
    read: Callable[[Any], T]
    query: Mapping[str, str | int | bool] = field(default_factory=dict[str, "str | int | bool"])
    json: Any = None
    form: Mapping[str, str] = field(default_factory=dict[str, str])
    file: tuple[str, bytes] | None = None
    is_safe: bool = False
    is_login: bool = False


def get(path: str, kind: type[T], **query: str | int | bool | None) -> Call[T]:
    """Return a call that reads; parameters that are None are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return Call("GET", path, lambda body: read_as(kind, body), query=given, is_safe=True)


def send(method: str, path: str, kind: type[T], body: Any = None) -> Call[T]:
    """Return a call that changes something."""
    return Call(method, path, lambda reply: read_as(kind, reply), json=body)


def path_of(*parts: str) -> str:
    """Return a path of parts, each as one segment whatever is in it."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def query_call(question: str, mode: str, options: QueryOptions | None) -> Call[ClientAnswer]:
    """Return the call for an answer."""
    body = _question(question, mode, options) | {"include_references": True}
    return Call("POST", "/query", answer_from, json=body, is_safe=True)


def retrieve_call(
    question: str, mode: str, options: QueryOptions | None, *, include_context: bool
) -> Call[ClientRetrieval]:
    """Return the call for what an answer would be made from."""
    body = _question(question, mode, options) | {"include_context": include_context}
    return Call("POST", "/api/v1/retrieve", lambda reply: read_as(ClientRetrieval, reply), json=body, is_safe=True)


def query_data_call(question: str, mode: str, options: QueryOptions | None) -> Call[Mapping[str, Any]]:
    """Return the call for `/query/data`, whose reply is left as it is."""
    body = _question(question, mode, options)
    return Call("POST", "/query/data", lambda reply: read_as(Mapping[str, Any], reply), json=body, is_safe=True)


def stream_call(question: str, mode: str, options: QueryOptions | None) -> Call[Any]:
    """Return the call for an answer in pieces; progress is asked for, as references then come before the first."""
    call = query_call(question, mode, options)
    return replace(call, path="/query/stream", json=call.json | {"include_progress": True})


def answer_from(body: Any) -> ClientAnswer:
    """Return an answer from the JSON of `/query`, or from the details of a stream with its text."""
    told = read_as(Mapping[str, Any], body)
    return read_as(ClientAnswer, {**told, "text": told.get("response"), "references": told.get("references") or []})


def _question(question: str, mode: str, options: QueryOptions | None) -> dict[str, Any]:
    return {"query": question, "mode": mode} | (options.to_json() if options else {})
