"""The knowledge base as a model of Ollama, for chat clients that speak its API, with LightRAG's rules.

`/api/chat` answers from the documents, as the message's command says (`heliograph.server.chat_turns`); `/api/generate`
goes straight to the chat model. The tag of the model's name gives the mode, `heliograph:naive`; any other name is
`mix`. Failures are told in Ollama's shape, by status as long as nothing was sent; a body that is not valid is 400, and
413 where it is too long.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from heliograph.errors import HeliographError, InvalidRequestError, RequestTooLargeError
from heliograph.query.answers.models import Answer
from heliograph.query.models import Mode, QueryParam
from heliograph.query.payloads import reference_data
from heliograph.server.chat_turns import Turn, TurnMessage, problem_text, read_turn
from heliograph.server.dependencies import FAILURES, Asker, CurrentAsker, Reader
from heliograph.server.openapi import never
from heliograph.server.responses import JsonBody, LineResponse, Write, failure_body, json_line
from heliograph.text.tokens import count_tokens
from heliograph.wire.chat_clients import (
    OllamaChatReply,
    OllamaChatRequest,
    OllamaFailure,
    OllamaGenerateReply,
    OllamaGenerateRequest,
    OllamaModels,
    OllamaVersion,
)
from heliograph.wire.query import LIGHTRAG_MODE, QueryFields, answer_details, answer_text

_VERSION = "0.9.3"
_NDJSON = "application/x-ndjson"
_TAGS = ("latest", *(mode.value for mode in Mode))
# Under the last name LightRAG's clients know it.
_NAMES = (*(f"heliograph:{tag}" for tag in _TAGS), "lightrag:latest")
_MODIFIED = "2025-01-01T00:00:00Z"


def render_problem(problem: dict[str, Any]) -> dict[str, Any]:
    """Return a problem in Ollama's shape, with our own fields beside it."""
    return {"error": problem_text(problem), **{key: problem[key] for key in ("type", "status", "request_id")}}


_FAILURES: dict[int | str, dict[str, Any]] = {
    status: response | {"model": OllamaFailure} for status, response in FAILURES.items()
} | never(422)
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"description": "A whole reply, or one by pieces.", "content": {_NDJSON: {"schema": {"type": "string"}}}}
}


_TOO_LONG = frozenset({"string_too_long", "too_long"})


def _refusal(error: RequestValidationError) -> HeliographError:
    problems = error.errors()
    is_too_long = any(item["type"] in _TOO_LONG for item in problems)
    return (RequestTooLargeError if is_too_long else InvalidRequestError)(problem_text({"detail": problems}))


class _JsonRoute(APIRoute):
    """Takes every body for JSON, as Ollama does: what `curl -d` sends calls itself a form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            others = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
            headers = [*others, (b"content-type", b"application/json")]
            try:
                return await handle(Request({**request.scope, "headers": headers}, request.receive))
            except RequestValidationError as error:
                raise _refusal(error) from None

        return handle_json


router = APIRouter(prefix="/api", tags=["ollama"], route_class=_JsonRoute)
_Content = Callable[[str], dict[str, Any]]


@router.get("/version", summary="Version of the emulated API", response_model=OllamaVersion, responses=_FAILURES)
async def version(_: Reader) -> dict[str, str]:
    """Return the version of Ollama whose API this is."""
    return {"version": _VERSION}


@router.get("/tags", summary="List the models", response_model=OllamaModels, responses=_FAILURES)
async def tags(_: Reader) -> dict[str, Any]:
    """Return the models: one a mode."""
    return {"models": [_card(name) | {"modified_at": _MODIFIED} for name in _NAMES]}


@router.get("/ps", summary="List the running models", response_model=OllamaModels, responses=_FAILURES)
async def running(_: Reader) -> dict[str, Any]:
    """Return the same models: all of them always run."""
    forever = {"expires_at": "2050-12-31T14:38:31Z", "size_vram": 0}
    return {"models": [_card(name) | forever for name in _NAMES]}


@router.post("/chat", summary="Answer a conversation", response_model=OllamaChatReply, responses=_STREAMED | _FAILURES)
async def chat(body: OllamaChatRequest, asker: CurrentAsker, request: Request) -> Response:
    """Answer the last message from the documents, by lines unless `stream` is false.

    Without a chat model the answer is quoted from the documents, and `/bypass` is refused.
    """
    messages = [TurnMessage(message.role, message.content or "") for message in body.messages]
    turn = read_turn(messages, _mode_of(body.model), QueryFields.model_validate({}), body.system or "")

    def content(text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text, "images": None}}

    return await _respond(body.model, turn, content, asker, request if body.stream else None)


@router.post(
    "/generate", summary="Complete a prompt", response_model=OllamaGenerateReply, responses=_STREAMED | _FAILURES
)
async def generate(body: OllamaGenerateRequest, asker: CurrentAsker, request: Request) -> Response:
    """Give a prompt to the chat model itself; nothing is searched."""
    turn = Turn(body.prompt, QueryParam(mode=Mode.BYPASS, system_prompt=body.system))

    def content(text: str) -> dict[str, Any]:
        return {"response": text}

    return await _respond(body.model, turn, content, asker, request if body.stream else None)


async def _respond(model: str, turn: Turn, content: _Content, asker: Asker, streamed: Request | None) -> Response:
    length, most = len(turn.question.strip()), asker.engine.settings.query.max_question_characters
    if length > most:
        raise RequestTooLargeError(
            f"the question has {length:,} characters; ask in at most {most:,}, or raise query.max_question_characters"
        )
    start = time.monotonic_ns()
    if streamed is None:
        answer = await asker.answer(turn.question, turn.param)
        return JsonBody(_line(model) | content(answer_text(answer)) | _ending(answer, turn, start))
    request = streamed

    async def write_lines(write: Write) -> None:
        async with asker.stream(turn.question, turn.param) as stream:
            async for piece in stream:
                write(json_line(_line(model) | content(piece) | {"done": False}))
        if (answer := stream.answer) is not None:
            if not answer.text:
                write(json_line(_line(model) | content(answer_text(answer)) | {"done": False}))
            write(json_line(_line(model) | content("") | _ending(answer, turn, start)))

    def fail(error: Exception) -> bytes:
        return json_line(render_problem(failure_body(request, error)))

    return LineResponse(write_lines, fail, _NDJSON)


def _line(model: str) -> dict[str, Any]:
    return {"model": model, "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z")}


def _ending(answer: Answer, turn: Turn, start: int) -> dict[str, Any]:
    """Return what the last line tells; tokens of what no model wrote are counted here."""
    elapsed = time.monotonic_ns() - start
    return {
        "done": True,
        "done_reason": "stop" if answer.is_complete else "length",
        "total_duration": elapsed,
        "load_duration": 0,
        "prompt_eval_count": answer.usage.input_tokens or count_tokens(turn.question),
        "prompt_eval_duration": 0,
        "eval_count": answer.usage.output_tokens or count_tokens(answer.text),
        "eval_duration": elapsed,
        "heliograph": {"references": reference_data(answer.context), **answer_details(answer, turn.param)},
    }


def _mode_of(model: str) -> Mode:
    name, _, tag = model.partition(":")
    return Mode(tag) if name == "heliograph" and tag in set(Mode) else LIGHTRAG_MODE


def _card(name: str) -> dict[str, Any]:
    family = name.partition(":")[0]
    return {
        "name": name,
        "model": name,
        "size": 0,
        "digest": f"sha256:{hashlib.sha256(name.encode()).hexdigest()}",
        "details": {
            "parent_model": "",
            "format": "",
            "family": family,
            "families": [family],
            "parameter_size": "",
            "quantization_level": "",
        },
    }
