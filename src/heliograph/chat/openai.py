"""Chat models behind an OpenAI-compatible service, by the official SDK: OpenAI, vLLM, llama.cpp, Ollama and others."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import openai

from heliograph.calls.openai import (
    describe_service,
    error_from_body,
    open_openai_client,
    translate_openai_error,
    translate_openai_errors,
)
from heliograph.chat.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    ReasoningFilter,
    ReplyBounds,
    estimate_usage,
    strip_reasoning,
    without_repeats,
)
from heliograph.documents.markdown import replace_surrogates
from heliograph.errors import BadModelReply, ModelError, ModelUnavailable
from heliograph.models import Usage
from heliograph.settings import ChatSettings

# The arguments of an OpenAI-compatible chat call, and how to learn which of them a service rejects.
#
# Services agree on the messages but not on the options: some have no JSON mode, some no usage in streams, OpenAI's
# reasoning models no temperature and another name for the length limit. Such an option is dropped after the first
# refusal, for as long as the model is open, with a warning.

_LOG = logging.getLogger(__name__)

_UNKNOWN = (
    r"(?:not|n't) (?:\w+ )?(?:support|permit|allow|recogni|implement|valid|accept|exist)"
    r"|(?:un|in)(?:support|recogni|known|expected|valid)|extra input|only the default"
)
# Error texts of a service that does not support an option, or its form. A temperature or a limit that is merely out of
# range stays an error, because the user set it.
_REFUSALS = {
    "response_format": re.compile(_UNKNOWN + "|must be|cannot", re.IGNORECASE),
    "stream_options": re.compile(_UNKNOWN + "|must be|cannot", re.IGNORECASE),
    "temperature": re.compile(r"support|only the default|extra input", re.IGNORECASE),
    "max_tokens": re.compile(r"max_completion_tokens"),
}
# Dropped on suspicion when a service refuses a request without a reason.
_SUSPECTS = frozenset({"response_format", "stream_options"})


# OpenAI says "length"; other services use other words.
_CUT_REASONS = {"length", "model_length", "max_tokens", "content_filter"}


class OpenAIChatModel(ChatModel):
    """A chat model of an OpenAI-compatible service; a `SettingsError` if address or key cannot be used."""

    def __init__(self, settings: ChatSettings) -> None:
        self._settings = settings
        self._service = describe_service("chat model", settings.model, settings.base_url)
        self._client = open_openai_client(settings.base_url, settings.api_key, settings.timeout_seconds)
        self._refused: frozenset[str] = frozenset()
        self._can_stream = True

    @property
    def name(self) -> str:
        """Model, temperature and length limit; not the address, so that moving a service keeps its cached replies."""
        limit = self._settings.max_output_tokens
        suffix = "" if limit is None else f" max_output_tokens={limit}"
        return f"{self._settings.model} temperature={self._settings.temperature:g}{suffix}"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the whole reply.

        Raises:
            BadModelReply: The reply is empty, or no chat completion.
            ModelUnavailable: The reply is a web page.
            ModelError: The call failed.
        """
        is_bounded = request.needed_tokens is not None and self._can_stream
        if is_bounded and (reply := await self._complete_bounded(request)) is not None:
            return reply
        with translate_openai_errors(self._service):
            completion = await self._create(request, is_stream=False)
        choice = _choice(completion)
        if choice is None:
            raise self._not_a_reply(completion)
        if is_bounded:
            self._can_stream = False
            _LOG.info("%s does not stream; replies that do not end cannot be stopped", self._service)
        text = strip_reasoning(_text(choice, "message")).strip()
        return await self._reply(request, text, _usage(completion), is_complete=_reason(choice) not in _CUT_REASONS)

    async def stream(self, request: ChatRequest) -> AsyncIterator[str]:
        """Yield the reply's pieces as they come.

        Raises:
            BadModelReply: There are none.
            ModelError: The call failed; perhaps after some pieces.
        """
        streamed = _StreamedReply(self._bounds(request))
        pieces = self._pieces(request, streamed)
        try:
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()
        reply = await self._reply(request, streamed.text, streamed.usage, is_complete=streamed.is_complete)
        if request.on_finish is not None:
            request.on_finish(reply)

    async def close(self) -> None:
        await self._client.close()

    async def _complete_bounded(self, request: ChatRequest) -> ChatReply | None:
        """Return the whole reply, stopped if it goes on endlessly; None if the service does not stream it."""
        streamed = _StreamedReply(self._bounds(request))
        try:
            async for _ in self._pieces(request, streamed):
                pass
        except ModelError as error:
            if "stream" not in str(error) or streamed.has_begun:
                raise
        if not streamed.has_begun:
            # It refuses, or sent something else, which the plain call will identify.
            return None
        text = without_repeats(streamed.text) if streamed.is_stopped else streamed.text
        return await self._reply(request, text.strip(), streamed.usage, is_complete=streamed.is_complete)

    def _bounds(self, request: ChatRequest) -> ReplyBounds:
        """Return the bounds of a reply; a length in the settings is intentional, and may be longer."""
        needed = request.needed_tokens
        return ReplyBounds(None if needed is None else max(needed, self._settings.max_output_tokens or 0))

    async def _pieces(self, request: ChatRequest, streamed: _StreamedReply) -> AsyncGenerator[str]:
        with translate_openai_errors(self._service):
            async with await self._create(request, is_stream=True) as chunks:
                async for chunk in chunks:
                    if piece := streamed.add(chunk):
                        yield piece
                    if streamed.is_stopped:
                        _LOG.warning("%s was stopped: its reply repeats itself or does not end", self._service)
                        break
        if piece := streamed.finish():
            yield piece

    async def _create(self, request: ChatRequest, *, is_stream: bool) -> Any:
        """Call the service; drop options that it refuses, and remember that if the call then succeeds.

        If it refuses every variant, the first error is raised: the others are about calls that no caller made.
        """
        if self._client.is_closed():
            raise ModelUnavailable(f"{self._service} is closed; open the workspace again")
        refused = self._refused
        first_error: openai.APIStatusError | None = None
        while True:
            sent = self._arguments(request, refused, is_stream=is_stream)
            try:
                result = await self._client.chat.completions.create(**sent)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                # An error with a better explanation (too long, filtered) is no refused option.
                if not isinstance(translate_openai_error(error, self._service), ModelUnavailable):
                    raise
                first_error = first_error or error
                options = _refused_by(error, sent)
                if not options:
                    raise first_error from None
                refused |= options
            else:
                if not refused <= self._refused:
                    names = ", ".join(sorted(refused - self._refused))
                    _LOG.warning("%s does not take %s as sent; going on without", self._service, names)
                    self._refused |= refused
                return result

    def _arguments(self, request: ChatRequest, refused: frozenset[str], *, is_stream: bool) -> dict[str, Any]:
        """Return the arguments of a call without the refused options."""
        # Lone surrogates cannot be sent.
        messages = [{"role": one.role, "content": replace_surrogates(one.content)} for one in request.messages]
        options: dict[str, Any] = {"temperature": self._settings.temperature}
        if is_stream:
            options["stream_options"] = {"include_usage": True}
        # OpenAI refuses JSON mode unless a message mentions JSON; that must not count as lacking JSON mode.
        if (
            request.json_mode
            and self._settings.json_mode
            and any("json" in message.content.lower() for message in request.messages)
        ):
            options["response_format"] = {"type": "json_object"}
        limit = request.max_output_tokens or self._settings.max_output_tokens
        if limit is not None:
            options["max_completion_tokens" if "max_tokens" in refused else "max_tokens"] = limit
        taken = {name: value for name, value in options.items() if name not in refused}
        return {"model": self._settings.model, "messages": messages, "stream": is_stream, **taken}

    async def _reply(self, request: ChatRequest, text: str, usage: Usage | None, *, is_complete: bool) -> ChatReply:
        if not text.strip():
            raise BadModelReply(
                f"{self._service} gave an empty reply"
                + ("; try again" if is_complete else ", which may have been cut; raise `max_output_tokens`")
            )
        return ChatReply(text, self._settings.model, usage or await estimate_usage(request, text), is_complete)

    def _not_a_reply(self, completion: object) -> ModelError:
        # Some services report a failure under status 200; others answer with a web page.
        error = (getattr(completion, "model_extra", None) or {}).get("error")
        if error:
            return error_from_body(error, self._service)
        said = (
            f"{self._service} sent no chat completion; check that `base_url` is the address of an OpenAI-compatible "
            "service (it usually ends in /v1)"
        )
        # A web page does not come from a model, so every call to this address will fail.
        is_page = isinstance(completion, str) and completion.lstrip().startswith("<")
        return ModelUnavailable(said, is_transient=True) if is_page else BadModelReply(said)


class _StreamedReply:
    """Assembles a streamed reply; it is stopped when it exceeds its bounds."""

    def __init__(self, bounds: ReplyBounds) -> None:
        self.usage: Usage | None = None
        self.has_begun = False
        self.is_stopped = False
        self._bounds = bounds
        self._reasoning = ReasoningFilter()
        self._seen: list[str] = []
        self._reason = ""

    @property
    def text(self) -> str:
        return "".join(self._seen)

    @property
    def is_complete(self) -> bool:
        # A stream without a finish reason was broken off.
        return bool(self._reason) and self._reason not in _CUT_REASONS and not self.is_stopped

    def add(self, chunk: object) -> str:
        """Return the visible text that a chunk adds; often none."""
        self.usage = _usage(chunk) or self.usage
        choice = _choice(chunk)
        if choice is None:
            return ""
        self.has_begun = True
        self._reason = _reason(choice) or self._reason
        written = _text(choice, "delta")
        shown = self._show(self._reasoning.feed(written))
        # Some services send the model's reasoning apart from the reply.
        delta = getattr(choice, "delta", None)
        thoughts = (getattr(delta, name, None) for name in ("reasoning_content", "reasoning"))
        thought = next((text for text in thoughts if isinstance(text, str)), "")
        self.is_stopped = self._bounds.passes(thought + written, shown)
        return shown

    def finish(self) -> str:
        """Return the visible text that was held back."""
        return self._show(self._reasoning.finish())

    def _show(self, piece: str) -> str:
        if piece:
            self._seen.append(piece)
        return piece


def _refused_by(error: openai.APIStatusError, sent: dict[str, Any]) -> frozenset[str]:
    """Return the options among those sent that an error is, or may be, about; none if it is about something else."""
    said = f"{error.message} {error.param} {error.body}"
    named = {name for name in _REFUSALS if name in sent and name in said}
    if named:
        return frozenset(name for name in named if _REFUSALS[name].search(said))
    return _SUSPECTS.intersection(sent)


# The SDK passes on whatever JSON a service sends without checking its types, so the following code assumes nothing.


def _choice(reply: object) -> object | None:
    """Return the first choice of a completion or chunk, or None if it has none."""
    choices = getattr(reply, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def _reason(choice: object) -> str:
    return str(getattr(choice, "finish_reason", None) or "")


def _text(choice: object, part: str) -> str:
    """Return the text in a choice's `message` or `delta`: a string, or (Mistral) a list with some text items."""
    content = getattr(getattr(choice, part, None), "content", None)
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    pieces: list[str] = []
    for item in cast("list[object]", content):
        match item:
            case {"type": "text", "text": str() as piece}:
                pieces.append(piece)
            case _:
                pass
    return "".join(pieces)


def _usage(reply: object) -> Usage | None:
    """Return the service's token count, or None if it gives no usable one."""
    usage = getattr(reply, "usage", None)
    read, written = (getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens"))
    if not isinstance(read, int) or not read:
        return None
    return Usage(read, written if isinstance(written, int) else 0)
