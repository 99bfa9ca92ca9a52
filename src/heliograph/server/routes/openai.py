"""The knowledge base as a model of OpenAI's chat completions, so that any chat client can talk to it.

There is one model a mode, `heliograph:naive`, and `heliograph`, which is `auto`; a message's command goes before it
(`heliograph.server.chat_turns`). Citations stand in the text, as `annotations` of the message, and in full in the field
`heliograph`. Failures are told in OpenAI's shape, by status as long as nothing was sent.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request, Response

from heliograph.errors import NotFoundError
from heliograph.models import DEFAULT_MODE
from heliograph.query.answers.models import Answer
from heliograph.query.models import Mode
from heliograph.query.payloads import reference_data
from heliograph.server.chat_turns import Turn, TurnMessage, problem_text, read_turn
from heliograph.server.dependencies import FAILURES, Asker, CurrentAsker, Reader
from heliograph.server.openapi import never
from heliograph.server.responses import JsonBody, LineResponse, Write, failure_body, json_line
from heliograph.text.tokens import count_tokens
from heliograph.wire.chat_clients import ChatCompletion, CompletionFailure, CompletionRequest, ModelCard, ModelList
from heliograph.wire.query import answer_details, answer_text

_MODELS = {"heliograph": DEFAULT_MODE, **{f"heliograph:{mode.value}": mode for mode in Mode}}
_CREATED = 1_735_689_600
_DONE = b"data: [DONE]\n\n"
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def render_problem(problem: dict[str, Any]) -> dict[str, Any]:
    """Return a problem in OpenAI's shape; its code is the class of the error."""
    status = problem["status"]
    fallback = "server_error" if status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": problem_text(problem),
            "type": _ERROR_TYPES.get(status, fallback),
            "param": None,
            "code": _code(problem),
            "request_id": problem["request_id"],
        }
    }


_FAILURES: dict[int | str, dict[str, Any]] = {
    status: response | {"model": CompletionFailure} for status, response in FAILURES.items()
}
_ABOUT_MODELS = _FAILURES | never(422)
# The schema of one event, of a media type that is a sequence of them (OpenAPI 3.2).
_EVENT = {
    "type": "object",
    "properties": {"data": {"type": "string", "description": "A piece as JSON, or `[DONE]`."}},
    "required": ["data"],
}
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A whole reply, or one by pieces.",
        "content": {"text/event-stream": {"itemSchema": _EVENT}},
    }
}


def _code(problem: dict[str, Any]) -> str:
    """Return the class of the error, or of what has none the status in words."""
    known = problem["type"].removeprefix("urn:heliograph:error:")
    return HTTPStatus(problem["status"]).name.lower() if known == "about:blank" else known


router = APIRouter(prefix="/v1", tags=["openai"])


@router.get("/models", summary="List the models", response_model=ModelList, responses=_ABOUT_MODELS)
async def models(_: Reader) -> ModelList:
    """Return the models: one a mode."""
    return ModelList(data=[_card(name) for name in _MODELS])


@router.get("/models/{name}", summary="Show a model", response_model=ModelCard, responses=_ABOUT_MODELS)
async def model(name: str, _: Reader) -> ModelCard:
    """Return one model."""
    _mode_of(name)
    return _card(name)


@router.post(
    "/chat/completions", summary="Answer a conversation", response_model=ChatCompletion, responses=_STREAMED | _FAILURES
)
async def complete(body: CompletionRequest, asker: CurrentAsker, request: Request) -> Response:
    """Answer the last message from the documents; with `stream` by server-sent events, `[DONE]` last."""
    messages = [
        TurnMessage("system" if message.role == "developer" else message.role, message.text)
        for message in body.messages
    ]
    turn = read_turn(messages, _mode_of(body.model), body.heliograph)
    completion = _Completion(body, turn)
    if body.stream:
        return _stream(completion, asker, request)
    answer = await asker.answer(turn.question, turn.param)
    return JsonBody(completion.whole(answer))


class _Completion:
    """Renders one answer."""

    def __init__(self, body: CompletionRequest, turn: Turn) -> None:
        self.turn = turn
        self.includes_usage = bool(body.stream_options and body.stream_options.include_usage)
        self._head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return a reply in one piece."""
        message = {
            "role": "assistant",
            "content": answer_text(answer),
            "refusal": None,
            "annotations": _annotations(answer),
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
        return self._head | {
            "object": "chat.completion",
            "choices": [choice],
            "usage": self._usage(answer),
            "heliograph": self._details(answer),
        }

    def piece(self, delta: dict[str, Any]) -> bytes:
        """Return an event with a piece of the message."""
        return self._event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])

    def ending(self, answer: Answer) -> bytes:
        """Return the last events: citations and why it ended, the usage on request, and the mark of the end."""
        choice = {
            "index": 0,
            "delta": {"annotations": _annotations(answer)},
            "logprobs": None,
            "finish_reason": _reason(answer),
        }
        usage = self._event([], usage=self._usage(answer)) if self.includes_usage else b""
        return self._event([choice], heliograph=self._details(answer)) + usage + _DONE

    def _event(self, choices: list[dict[str, Any]], **others: Any) -> bytes:
        chunk = self._head | {"object": "chat.completion.chunk", "choices": choices}
        return _event(chunk | ({"usage": None} if self.includes_usage else {}) | others)

    def _usage(self, answer: Answer) -> dict[str, int]:
        read = answer.usage.input_tokens or count_tokens(self.turn.question)
        written = answer.usage.output_tokens or count_tokens(answer.text)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def _details(self, answer: Answer) -> dict[str, Any]:
        return {"references": reference_data(answer.context), **answer_details(answer, self.turn.param)}


def _stream(completion: _Completion, asker: Asker, request: Request) -> Response:
    async def write_events(write: Write) -> None:
        beginning = completion.piece({"role": "assistant", "content": ""})
        async with asker.stream(completion.turn.question, completion.turn.param) as stream:
            async for piece in stream:
                write(beginning + completion.piece({"content": piece}))
                beginning = b""
        if (answer := stream.answer) is not None:
            if not answer.text:
                beginning += completion.piece({"content": answer_text(answer)})
            write(beginning + completion.ending(answer))

    def fail(error: Exception) -> bytes:
        return _event(render_problem(failure_body(request, error)))

    return LineResponse(write_events, fail, "text/event-stream")


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + json_line(content) + b"\n"


def _annotations(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": citation.answer_start,
                "end_index": citation.answer_end,
                "title": citation.source,
                "url": citation.source,
            },
        }
        for citation in answer.citations
    ]


def _reason(answer: Answer) -> str:
    return "stop" if answer.is_complete else "length"


def _mode_of(name: str) -> Mode:
    if name not in _MODELS:
        raise NotFoundError(f"there is no model {name!r:.200}; use one of {', '.join(_MODELS)}")
    return _MODELS[name]


def _card(name: str) -> ModelCard:
    return ModelCard(id=name, created=_CREATED, owned_by="heliograph")
