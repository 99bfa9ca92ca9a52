"""From the messages of a chat client to a question and how it is to be answered, as LightRAG's emulation reads them.

The last message, or the user's last where a tool spoke after it, is the question. It may begin with a command:
`/local`, `/global`, `/hybrid`, `/mix`, `/fusion`, `/auto`, `/naive`, `/bypass`, the same with `context`
(`/naivecontext`), or `/context`; `[...]` after it is an instruction for this answer (`/mix[in one sentence] ...`,
`/[in one sentence] ...`). What has no such command is a question as it stands. System messages are further
instructions; in mode bypass they are the system prompt. What other roles say, and messages without text, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heliograph.errors import InvalidRequestError
from heliograph.query.models import Mode, QueryParam
from heliograph.wire.query import SPEAKERS, QueryFields

_MODES = "|".join(mode.value for mode in Mode)
_COMMAND = re.compile(
    rf"/(?P<mode>{_MODES})?(?P<context>(?<!bypass)context)?(?P<prompt>\[[^\]]*\])?(?(prompt)\s*|(?:\s+|$))",
)
# How Open WebUI asks for titles, tags and follow-up questions; these are no questions to the documents.
_CLIENT_TASK = "\n<chat_history>\nUSER:"


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """One message of a client; of its roles `system`, `user` and `assistant` count."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Command:
    """What the beginning of a message asks for.

    Attributes:
        question: The message without it.
        mode: The mode it names, or None.
        only_context: Whether the context is wanted in place of an answer.
        instruction: How to answer; may be empty.
    """

    question: str
    mode: Mode | None = None
    only_context: bool = False
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question, and how it is to be answered."""

    question: str
    param: QueryParam


def read_command(text: str) -> Command:
    """Return what the beginning of a message asks for; without a command it is a question as it stands."""
    text = text.strip()
    found = _COMMAND.match(text)
    if found is None or not any(found.groups()):
        return Command(text)
    mode = Mode(found["mode"]) if found["mode"] else None
    return Command(text[found.end() :].strip(), mode, bool(found["context"]), (found["prompt"] or "")[1:-1].strip())


def read_turn(messages: Sequence[TurnMessage], mode: Mode, options: QueryFields, system: str = "") -> Turn:
    """Return the question of a conversation.

    Args:
        messages: Oldest first.
        mode: The mode if the question names none.
        options: What else the client asks for; its mode counts if it was given.
        system: A system prompt beside those among the messages.

    Raises:
        InvalidRequestError: There is no question of the user's at the end.
    """
    place = len(messages) - 1
    if messages and messages[-1].role not in SPEAKERS:
        place = max((place for place, item in enumerate(messages) if item.role == "user"), default=place)
    if not messages or messages[place].role != "user":
        found = repr(messages[place].role) if messages else "missing"
        raise InvalidRequestError(f"the last message is {found}; it must have the role 'user'")
    asked = messages[place].content
    command = Command(asked, Mode.BYPASS) if _CLIENT_TASK in asked else read_command(asked)
    chosen = command.mode or (Mode(options.mode) if "mode" in options.model_fields_set else mode)
    texts = [system, *(message.content for message in messages if message.role == "system")]
    said = [item for item in messages[:place] if item.role in SPEAKERS - {"system"} and item.content]
    history = [{"role": item.role, "content": item.content} for item in said]
    fields: dict[str, Any] = {"mode": chosen, "conversation_history": history, "include_references": True}
    if command.only_context:
        fields["only_need_context"] = True
    if chosen is Mode.BYPASS:
        fields["system_prompt"] = _joined(texts)
    else:
        fields["user_prompt"] = _joined([*texts, options.user_prompt, command.instruction])
    return Turn(command.question, options.to_param(**fields))


def problem_text(problem: Mapping[str, Any]) -> str:
    """Return the detail of a problem in one string; of a request that is not valid, all that is wrong with it."""
    detail = problem["detail"]
    if isinstance(detail, str):
        return detail
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in detail)


def _joined(texts: Sequence[str | None]) -> str | None:
    return "\n\n".join(text for text in texts if text) or None
