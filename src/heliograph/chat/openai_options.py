"""The arguments of an OpenAI-compatible chat call, and learning which of them a service does not take.

Services agree on the messages but not on the options: some know no JSON mode, some no usage in streams, OpenAI's
reasoning models no temperature and another name for the length limit. Such an option is left out after the first
refusal, for as long as the model is open, and a warning says so.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import openai

from heliograph.chat.base import ChatRequest
from heliograph.settings import ChatSettings

_LOG = logging.getLogger(__name__)

_UNKNOWN = (
    r"(?:not|n't) (?:\w+ )?(?:support|permit|allow|recogni|implement|valid|accept|exist)"
    r"|(?:un|in)(?:support|recogni|known|expected|valid)|extra input|only the default"
)
# What a service says of an option that it does not take at all, or not as it is sent. A temperature or a limit that
# is merely out of range stays an error: the user asked for it.
_REFUSALS = {
    "response_format": re.compile(_UNKNOWN + "|must be|cannot", re.IGNORECASE),
    "stream_options": re.compile(_UNKNOWN + "|must be|cannot", re.IGNORECASE),
    "temperature": re.compile(r"support|only the default|extra input", re.IGNORECASE),
    "max_tokens": re.compile(r"max_completion_tokens"),
}
# Left out on suspicion when a service refuses a request without saying why.
_SUSPECTS = frozenset({"response_format", "stream_options"})


class CallOptions:
    """Makes the arguments of each call, less what the service has refused.

    Args:
        settings: The model and how to sample from it.
    """

    def __init__(self, settings: ChatSettings) -> None:
        self._settings = settings
        self._refused: frozenset[str] = frozenset()

    def arguments(self, request: ChatRequest, *, is_stream: bool, without: frozenset[str]) -> dict[str, Any]:
        """Return the arguments of a call.

        Args:
            request: What to ask.
            is_stream: Whether the reply is to be streamed.
            without: Options to leave out besides those known to be refused.
        """
        refused = self._refused | without
        messages = [{"role": message.role, "content": _valid(message.content)} for message in request.messages]
        options: dict[str, Any] = {"temperature": self._settings.temperature}
        if is_stream:
            options["stream_options"] = {"include_usage": True}
        if request.json_mode and self._settings.json_mode and _mentions_json(request):
            options["response_format"] = {"type": "json_object"}
        limit = request.max_output_tokens or self._settings.max_output_tokens
        if limit is not None:
            options["max_completion_tokens" if "max_tokens" in refused else "max_tokens"] = limit
        taken = {name: value for name, value in options.items() if name not in refused}
        return {"model": self._settings.model, "messages": messages, "stream": is_stream, **taken}

    def refused_by(self, error: openai.APIStatusError, sent: dict[str, Any]) -> frozenset[str]:
        """Return the options among those sent that an error is, or may be, about; none if it is about something else.

        Args:
            error: What the service answered, under status 400 or 422.
            sent: The arguments of the call.
        """
        said = f"{error.message} {error.param} {error.body}"
        named = {name for name in _REFUSALS if name in sent and name in said}
        if named:
            return frozenset(name for name in named if _REFUSALS[name].search(said))
        return _SUSPECTS.intersection(sent)

    def remember(self, refused: frozenset[str], service: str) -> None:
        """Leave these options out of all further calls.

        Args:
            refused: Options without which a call has just succeeded.
            service: Who was called, for the log.
        """
        if not refused <= self._refused:
            _LOG.warning("%s does not take %s as sent; going on without", service, ", ".join(sorted(refused)))
            self._refused |= refused


def _mentions_json(request: ChatRequest) -> bool:
    # OpenAI refuses JSON mode unless a message speaks of JSON; that must not pass for a service that has none.
    return any("json" in message.content.lower() for message in request.messages)


def _valid(text: str) -> str:
    """Return a text that can be sent: halves of surrogate pairs are joined where they meet, else become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
