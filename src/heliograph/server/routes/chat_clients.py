"""The knowledge base as a model of Ollama and of OpenAI's chat completions, so that any chat client can talk to it.

A conversation becomes a question as in LightRAG's emulation of Ollama. The last message, or the user's last if a tool
spoke after it, is the question. It may begin with a command: `/local`, `/global`, `/hybrid`, `/mix`, `/fusion`,
`/auto`, `/naive`, `/bypass`, the same with `context` (`/naivecontext`), or `/context`; `[...]` after it is an
instruction for this answer (`/mix[in one sentence] ...`, `/[in one sentence] ...`). A message without a command is
taken as the question. System messages are further instructions; in mode bypass they are the system prompt. Messages of
other roles, and messages without text, are left out.

Failures have the shape of the emulated service, and its status as long as nothing was sent.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

import heliograph.wire.chat_clients as wire
from heliograph.errors import InvalidRequestError, NotFoundError, RequestTooLargeError
from heliograph.models import DEFAULT_MODE, Mode
from heliograph.query.answers.models import Answer
from heliograph.query.models import QueryParam
from heliograph.query.payloads import reference_data
from heliograph.server.openapi import never
from heliograph.server.requests import FAILURES, Asker, CurrentAsker, Reader
from heliograph.server.responses import JsonBody, LineResponse, Write, failure_body, json_line
from heliograph.text.tokens import count_tokens
from heliograph.wire.query import LIGHTRAG_MODE, SPEAKERS, QueryFields, answer_details, answer_text

_MODES = "|".join(mode.value for mode in Mode)
_COMMAND = re.compile(
    rf"/(?P<mode>{_MODES})?(?P<context>(?<!bypass)context)?(?P<prompt>\[[^\]]*\])?(?(prompt)\s*|(?:\s+|$))",
)
# How Open WebUI requests titles, tags and follow-up questions; these are not questions about the documents.
_CLIENT_TASK = "\n<chat_history>\nUSER:"


@dataclass(frozen=True, slots=True)
class Command:
    """The command at the beginning of a message: a mode, the context alone, or how to answer."""

    question: str
    mode: Mode | None = None
    only_context: bool = False
    instruction: str = ""


def read_command(text: str) -> Command:
    """Return the command and the rest of a message; without a command it is all question."""
    text = text.strip()
    found = _COMMAND.match(text)
    if found is None or not any(found.groups()):
        return Command(text)
    mode = Mode(found["mode"]) if found["mode"] else None
    return Command(text[found.end() :].strip(), mode, bool(found["context"]), (found["prompt"] or "")[1:-1].strip())


def read_turn(
    messages: Sequence[tuple[str, str]], mode: Mode, options: QueryFields, system: str = ""
) -> tuple[str, QueryParam]:
    """Return the question of a conversation, and the parameters to answer it.

    Messages are roles and texts, the oldest first; the roles `system`, `user` and `assistant` count. `mode` counts if
    neither the question nor the options name one.

    Raises:
        InvalidRequestError: There is no question of the user's at the end.
    """
    place = len(messages) - 1
    if messages and messages[-1][0] not in SPEAKERS:
        place = max((place for place, (role, _) in enumerate(messages) if role == "user"), default=place)
    role, asked = messages[place] if messages else ("", "")
    if role != "user":
        found = repr(role) if messages else "missing"
        raise InvalidRequestError(f"the last message is {found}; it must have the role 'user'")
    command = Command(asked, Mode.BYPASS) if _CLIENT_TASK in asked else read_command(asked)
    chosen = command.mode or (Mode(options.mode) if "mode" in options.model_fields_set else mode)
    texts = [system, *(text for role, text in messages if role == "system")]
    said = SPEAKERS - {"system"}
    history = [{"role": role, "content": text} for role, text in messages[:place] if role in said and text]
    fields: dict[str, Any] = {"mode": chosen, "conversation_history": history, "include_references": True}
    if command.only_context:
        fields["only_need_context"] = True
    if chosen is Mode.BYPASS:
        fields["system_prompt"] = _joined(texts)
    else:
        fields["user_prompt"] = _joined([*texts, options.user_prompt, command.instruction])
    return command.question, options.to_param(**fields)


def problem_text(problem: Mapping[str, Any]) -> str:
    """Return the detail of a problem in one string; for an invalid request, all its errors."""
    detail = problem["detail"]
    if isinstance(detail, str):
        return detail
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in detail)


def _joined(texts: Sequence[str | None]) -> str | None:
    return "\n\n".join(text for text in texts if text) or None


# The API of Ollama, with LightRAG's rules.
#
# `/api/chat` answers from the documents, as the message's command says; `/api/generate` sends the prompt directly to
# the chat model. The tag of the model's name gives the mode, `heliograph:naive`; any other name is `mix`. An invalid
# body is 400, and 413 if it is too long.

_OLLAMA_VERSION = "0.9.3"
_NDJSON = "application/x-ndjson"
_TAGS = ("latest", *(mode.value for mode in Mode))
# LightRAG's clients know it under the last name.
_NAMES = (*(f"heliograph:{tag}" for tag in _TAGS), "lightrag:latest")
_MODIFIED = "2025-01-01T00:00:00Z"


def render_ollama_problem(problem: dict[str, Any]) -> dict[str, Any]:
    """Return a problem in Ollama's shape, with LightRAG's `detail` and our own fields beside it."""
    text = problem_text(problem)
    return {"error": text, "detail": text, **{key: problem[key] for key in ("type", "status", "request_id")}}


_OLLAMA_FAILURES: dict[int | str, dict[str, Any]] = {
    status: response | {"model": wire.OllamaFailure} for status, response in FAILURES.items()
} | never(422)
_OLLAMA_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"description": "A whole reply, or one by pieces.", "content": {_NDJSON: {"schema": {"type": "string"}}}}
}


class _JsonRoute(APIRoute):
    """Parses every body as JSON, as Ollama does: `curl -d` labels it as a form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            others = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
            headers = [*others, (b"content-type", b"application/json")]
            try:
                return await handle(Request({**request.scope, "headers": headers}, request.receive))
            except RequestValidationError as error:
                problems = error.errors()
                is_too_long = any(item["type"] in ("string_too_long", "too_long") for item in problems)
                refusal = RequestTooLargeError if is_too_long else InvalidRequestError
                raise refusal(problem_text({"detail": problems})) from None

        return handle_json


ollama_router = APIRouter(prefix="/api", tags=["ollama"], route_class=_JsonRoute)
_Content = Callable[[str], dict[str, Any]]


@ollama_router.get(
    "/version", summary="Version of the emulated API", response_model=wire.OllamaVersion, responses=_OLLAMA_FAILURES
)
async def version(_: Reader) -> dict[str, str]:
    """Return the version of Ollama whose API this is."""
    return {"version": _OLLAMA_VERSION}


@ollama_router.get("/tags", summary="List the models", response_model=wire.OllamaModels, responses=_OLLAMA_FAILURES)
async def tags(_: Reader) -> dict[str, Any]:
    """Return the models: one per mode."""
    return {"models": [_tag_card(name) | {"modified_at": _MODIFIED} for name in _NAMES]}


@ollama_router.get(
    "/ps", summary="List the running models", response_model=wire.OllamaModels, responses=_OLLAMA_FAILURES
)
async def running(_: Reader) -> dict[str, Any]:
    """Return the same models: all of them are always loaded."""
    forever = {"expires_at": "2050-12-31T14:38:31Z", "size_vram": 0}
    return {"models": [_tag_card(name) | forever for name in _NAMES]}


@ollama_router.post(
    "/chat",
    summary="Answer a conversation",
    response_model=wire.OllamaChatReply,
    responses=_OLLAMA_STREAMED | _OLLAMA_FAILURES,
)
async def chat(body: wire.OllamaChatRequest, asker: CurrentAsker, request: Request) -> Response:
    """Answer the last message from the documents, by lines unless `stream` is false.

    Without a chat model the answer is quoted from the documents, and `/bypass` is refused.
    """
    messages = [(message.role, message.content or "") for message in body.messages]
    name, _, tag = body.model.partition(":")
    mode = Mode(tag) if name == "heliograph" and tag in set(Mode) else LIGHTRAG_MODE
    turn = read_turn(messages, mode, QueryFields.model_validate({}), body.system or "")

    def content(text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text, "images": None}}

    return await _respond(body.model, turn, content, asker, request if body.stream else None, {})


@ollama_router.post(
    "/generate",
    summary="Complete a prompt",
    response_model=wire.OllamaGenerateReply,
    responses=_OLLAMA_STREAMED | _OLLAMA_FAILURES,
)
async def generate(body: wire.OllamaGenerateRequest, asker: CurrentAsker, request: Request) -> Response:
    """Send a prompt directly to the chat model; nothing is searched. The last line's `context` is always empty."""
    turn = body.prompt, QueryParam(mode=Mode.BYPASS, system_prompt=body.system)
    streamed = request if body.stream else None
    return await _respond(body.model, turn, lambda text: {"response": text}, asker, streamed, {"context": []})


async def _respond(
    model: str,
    turn: tuple[str, QueryParam],
    content: _Content,
    asker: Asker,
    streamed: Request | None,
    last: dict[str, Any],
) -> Response:
    """Reply whole, or by lines to a request that is `streamed`; `last` is sent at the end of the answer."""
    question, param = turn
    length, most = len(question.strip()), asker.engine.settings.query.max_question_characters
    if length > most:
        raise RequestTooLargeError(
            f"the question has {length:,} characters; ask in at most {most:,}, or raise query.max_question_characters"
        )
    start = time.monotonic_ns()
    if streamed is None:
        answer = await asker.ask(lambda kb: kb.query(question, param))
        return JsonBody(_line(model) | content(answer_text(answer)) | _ending(answer, question, param, start) | last)
    request = streamed

    async def write_lines(write: Write) -> None:
        async with asker.stream(question, param) as stream:
            async for piece in stream:
                write(json_line(_line(model) | content(piece) | {"done": False}))
        if (answer := stream.answer) is not None:
            if not answer.text:
                write(json_line(_line(model) | content(answer_text(answer)) | {"done": False}))
            write(json_line(_line(model) | content("") | _ending(answer, question, param, start) | last))

    def fail(error: Exception) -> bytes:
        return json_line(render_ollama_problem(failure_body(request, error)))

    return LineResponse(write_lines, fail, _NDJSON)


def _line(model: str) -> dict[str, Any]:
    return {"model": model, "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z")}


def _ending(answer: Answer, question: str, param: QueryParam, start: int) -> dict[str, Any]:
    """Return the fields of the last line; if no model wrote the answer, its tokens are counted here."""
    elapsed = time.monotonic_ns() - start
    return {
        "done": True,
        "done_reason": "stop" if answer.is_complete else "length",
        "total_duration": elapsed,
        "load_duration": 0,
        "prompt_eval_count": answer.usage.input_tokens or count_tokens(question),
        "prompt_eval_duration": 0,
        "eval_count": answer.usage.output_tokens or count_tokens(answer.text),
        "eval_duration": elapsed,
        "heliograph": {"references": reference_data(answer.context), **answer_details(answer, param)},
    }


def _tag_card(name: str) -> dict[str, Any]:
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


# The API of OpenAI's chat completions.
#
# There is one model per mode, such as `heliograph:naive`, and `heliograph`, which is `auto`; a message's command
# overrides it. Citations are in the text, as `annotations` of the message, and in full in the field `heliograph`.

_MODELS = {"heliograph": DEFAULT_MODE, **{f"heliograph:{mode.value}": mode for mode in Mode}}
_CREATED = 1_735_689_600
_DONE = b"data: [DONE]\n\n"
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def render_openai_problem(problem: dict[str, Any]) -> dict[str, Any]:
    """Return a problem in OpenAI's shape; its code is the class of the error."""
    status = problem["status"]
    fallback = "server_error" if status >= 500 else "invalid_request_error"
    # The class of the error; without one, the status in words.
    known = problem["type"].removeprefix("urn:heliograph:error:")
    return {
        "error": {
            "message": problem_text(problem),
            "type": _ERROR_TYPES.get(status, fallback),
            "param": None,
            "code": HTTPStatus(status).name.lower() if known == "about:blank" else known,
            "request_id": problem["request_id"],
        }
    }


_OPENAI_FAILURES: dict[int | str, dict[str, Any]] = {
    status: response | {"model": wire.CompletionFailure} for status, response in FAILURES.items()
}
_ABOUT_MODELS = _OPENAI_FAILURES | never(422)
# The schema of one event, for a media type that is a sequence of them (OpenAPI 3.2).
_EVENT = {
    "type": "object",
    "properties": {"data": {"type": "string", "description": "A piece as JSON, or `[DONE]`."}},
    "required": ["data"],
}
_OPENAI_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A whole reply, or one by pieces.",
        "content": {"text/event-stream": {"itemSchema": _EVENT}},
    }
}


openai_router = APIRouter(prefix="/v1", tags=["openai"])


@openai_router.get("/models", summary="List the models", response_model=wire.ModelList, responses=_ABOUT_MODELS)
async def models(_: Reader) -> wire.ModelList:
    """Return the models: one per mode."""
    return wire.ModelList(data=[_model_card(name) for name in _MODELS])


@openai_router.get("/models/{name}", summary="Show a model", response_model=wire.ModelCard, responses=_ABOUT_MODELS)
async def model(name: str, _: Reader) -> wire.ModelCard:
    """Return one model."""
    _known_mode(name)
    return _model_card(name)


@openai_router.post(
    "/chat/completions",
    summary="Answer a conversation",
    response_model=wire.ChatCompletion,
    responses=_OPENAI_STREAMED | _OPENAI_FAILURES,
)
async def complete(body: wire.CompletionRequest, asker: CurrentAsker, request: Request) -> Response:
    """Answer the last message from the documents; with `stream` by server-sent events, `[DONE]` last."""
    messages = [("system" if item.role == "developer" else item.role, item.text) for item in body.messages]
    question, param = read_turn(messages, _known_mode(body.model), body.heliograph)
    completion = _Completion(body, question, param)
    if body.stream:
        return _stream(completion, asker, request)
    answer = await asker.ask(lambda kb: kb.query(question, param))
    return JsonBody(completion.whole(answer))


class _Completion:
    """Renders one answer."""

    def __init__(self, body: wire.CompletionRequest, question: str, param: QueryParam) -> None:
        self.question = question
        self.param = param
        self.includes_usage = bool(body.stream_options and body.stream_options.include_usage)
        self._head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return a complete reply."""
        message = {
            "role": "assistant",
            "content": answer_text(answer),
            "refusal": None,
            "annotations": _annotations(answer),
        }
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": "stop" if answer.is_complete else "length",
        }
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
        """Return the last events: citations and the finish reason, the usage on request, and the end mark."""
        choice = {
            "index": 0,
            "delta": {"annotations": _annotations(answer)},
            "logprobs": None,
            "finish_reason": "stop" if answer.is_complete else "length",
        }
        usage = self._event([], usage=self._usage(answer)) if self.includes_usage else b""
        return self._event([choice], heliograph=self._details(answer)) + usage + _DONE

    def _event(self, choices: list[dict[str, Any]], **others: Any) -> bytes:
        chunk = self._head | {"object": "chat.completion.chunk", "choices": choices}
        return _event(chunk | ({"usage": None} if self.includes_usage else {}) | others)

    def _usage(self, answer: Answer) -> dict[str, int]:
        read = answer.usage.input_tokens or count_tokens(self.question)
        written = answer.usage.output_tokens or count_tokens(answer.text)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def _details(self, answer: Answer) -> dict[str, Any]:
        return {"references": reference_data(answer.context), **answer_details(answer, self.param)}


def _stream(completion: _Completion, asker: Asker, request: Request) -> Response:
    async def write_events(write: Write) -> None:
        beginning = completion.piece({"role": "assistant", "content": ""})
        async with asker.stream(completion.question, completion.param) as stream:
            async for piece in stream:
                write(beginning + completion.piece({"content": piece}))
                beginning = b""
        if (answer := stream.answer) is not None:
            if not answer.text:
                beginning += completion.piece({"content": answer_text(answer)})
            write(beginning + completion.ending(answer))

    def fail(error: Exception) -> bytes:
        return _event(render_openai_problem(failure_body(request, error)))

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


def _known_mode(name: str) -> Mode:
    if name not in _MODELS:
        raise NotFoundError(f"there is no model {name!r:.200}; use one of {', '.join(_MODELS)}")
    return _MODELS[name]


def _model_card(name: str) -> wire.ModelCard:
    return wire.ModelCard(id=name, created=_CREATED, owned_by="heliograph")
