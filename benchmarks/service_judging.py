"""Asks a service by every route that asks, and judges each response: right, a typed error, or neither.

Right is the answer that the model was to give, whole. A typed error is a problem body, the shape of the interface that
was asked (Ollama's, OpenAI's), or a last line of a stream that names the failure. Anything else is wrong: another
status, an apology under 200, a stream that ends without a word.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

__all__ = ["MODES", "ROUTES", "Verdict", "ask"]

MODES = ("naive", "local", "global", "hybrid", "mix", "fusion", "auto", "bypass")
_TYPED = {429, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one request.

    Attributes:
        outcome: "right", "cut, and said so", "error 504", "error line 502", or "wrong".
        detail: For what is wrong: what came.
    """

    outcome: str
    detail: str = ""


async def ask(client: httpx.AsyncClient, route: str, question: str, mode: str, answer: str) -> Verdict:
    """Send one question and judge what comes.

    Args:
        client: Of the service.
        route: One of `ROUTES`.
        question: Its text.
        mode: One of `MODES`.
        answer: What the model says when it is well.
    """
    path, body, judge = ROUTES[route]
    try:
        response = await client.post(path, json=body(question, mode))
    except httpx.TransportError as error:
        return Verdict("wrong", f"{route}: {error!r}")
    if response.status_code == 200:
        return judge(response, answer)
    return _judge_failure(route, response)


def _judge_failure(route: str, response: httpx.Response) -> Verdict:
    status = response.status_code
    try:
        body = response.json()
        is_typed = "error" in body if route.startswith(("ollama", "openai")) else _is_problem(body, status)
    except ValueError:
        is_typed = False
    if status in _TYPED and is_typed:
        return Verdict(f"error {status}")
    return Verdict("wrong", f"{route}: {status} {response.text[:300]}")


def _is_problem(body: dict[str, Any], status: int) -> bool:
    return body["status"] == status and all(isinstance(body[name], str) for name in ("type", "title", "detail"))


def _judge_answer(response: httpx.Response, answer: str) -> Verdict:
    body = response.json()
    return _judge_text(body["response"], answer, body["is_complete"])


def _judge_text(text: str, answer: str, is_complete: bool) -> Verdict:
    if is_complete and text.startswith(answer):
        return Verdict("right")
    if not is_complete and answer.startswith(text.strip()):
        return Verdict("cut, and said so")
    return Verdict("wrong", f"{is_complete} {text[:300]!r}")


def _judge_lines(response: httpx.Response, answer: str) -> Verdict:
    lines = [json.loads(line) for line in response.text.splitlines()]
    if "error" in lines[-1]:
        status = lines[-1]["status"]
        return Verdict(f"error line {status}" if status in _TYPED else "wrong", str(lines[-1]))
    # On one line, the details are in it.
    details = next((line.get("details", line) for line in lines if "details" in line or "is_complete" in line), None)
    if details is None:
        return Verdict("wrong", f"a stream without an end: {lines[-2:]}")
    return _judge_text("".join(line.get("response", "") for line in lines), answer, details["is_complete"])


def _judge_data(response: httpx.Response, answer: str) -> Verdict:  # noqa: ARG001
    body = response.json()
    return Verdict("right") if body["status"] == "success" and body["data"] else Verdict("wrong", str(body)[:300])


def _judge_context(response: httpx.Response, answer: str) -> Verdict:  # noqa: ARG001
    body = response.json()
    return Verdict("right") if "chunks" in body and "references" in body else Verdict("wrong", str(body)[:300])


def _judge_ollama(response: httpx.Response, answer: str) -> Verdict:
    lines = [json.loads(line) for line in response.text.splitlines()]
    if "error" in lines[-1]:
        return Verdict("error line")
    text = "".join(line["message"]["content"] for line in lines if "message" in line)
    return _judge_text(text, answer, lines[-1].get("done_reason") == "stop")


def _judge_openai(response: httpx.Response, answer: str) -> Verdict:
    (choice,) = response.json()["choices"]
    return _judge_text(choice["message"]["content"], answer, choice["finish_reason"] == "stop")


def _judge_events(response: httpx.Response, answer: str) -> Verdict:
    events = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    chunks = [json.loads(event) for event in events if event != "[DONE]"]
    if any("error" in chunk for chunk in chunks):
        return Verdict("error line")
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return _judge_text(text, answer, reasons == ["stop"])


def _plain(**more: Any) -> Callable[[str, str], dict[str, Any]]:
    return lambda question, mode: {"query": question, "mode": mode, **more}


def _chat(**more: Any) -> Callable[[str, str], dict[str, Any]]:
    def body(question: str, mode: str) -> dict[str, Any]:
        return {"model": f"heliograph:{mode}", "messages": [{"role": "user", "content": question}], **more}

    return body


_Judge = Callable[[httpx.Response, str], Verdict]
ROUTES: dict[str, tuple[str, Callable[[str, str], dict[str, Any]], _Judge]] = {
    "query": ("/query", _plain(), _judge_answer),
    "stream": ("/query/stream", _plain(), _judge_lines),
    "stream with progress": ("/query/stream", _plain(include_progress=True), _judge_lines),
    "stream on one line": ("/query/stream", _plain(stream=False), _judge_lines),
    "data": ("/query/data", _plain(), _judge_data),
    "retrieve": ("/api/v1/retrieve", _plain(), _judge_context),
    "ollama": ("/api/chat", _chat(), _judge_ollama),
    "ollama whole": ("/api/chat", _chat(stream=False), _judge_ollama),
    "openai": ("/v1/chat/completions", _chat(), _judge_openai),
    "openai stream": ("/v1/chat/completions", _chat(stream=True), _judge_events),
}
