"""What a question asks for, by a chat model where there is one and by rules where there is none.

The model's wrapper keeps its reply among those for keywords. An unusable reply is a warning and the rules decide; a
model that is out of reach is an error, never a reason to guess.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from string import Template

from heliograph.chat.base import ChatMessage, ChatModel, ChatRequest, Purpose
from heliograph.errors import BadModelReply
from heliograph.models import Usage
from heliograph.prompts import load_prompt
from heliograph.query.understanding.models import Understanding
from heliograph.query.understanding.replies import read_understanding
from heliograph.query.understanding.rules import understand_by_rules

# Of the reply: a small object with names, parts and words.
_NEEDED_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class FoundUnderstanding:
    """What is understood, warnings, and what a chat model spent."""

    understanding: Understanding
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


async def find_understanding(question: str, chat: ChatModel | None, language: str = "") -> FoundUnderstanding:
    """Return what a question asks for.

    Args:
        question: The question, stripped.
        chat: Says so; None leaves it to rules.
        language: Language of expansions; empty for the question's.

    Raises:
        ModelError: The chat model failed; an unusable reply is not a failure but a warning.
    """
    by_rules = await asyncio.to_thread(understand_by_rules, question)
    if chat is None:
        return FoundUnderstanding(by_rules)
    prompt = Template(load_prompt("understanding")).substitute(language=language or "the language of the question")
    messages = (ChatMessage("system", prompt), ChatMessage("user", f"Question: {question}"))
    usage = Usage()
    try:
        request = ChatRequest(messages, Purpose.KEYWORDS, json_mode=True, needed_tokens=_NEEDED_TOKENS)
        reply = await chat.complete(request)
        usage = Usage() if reply.from_cache else reply.usage
        return FoundUnderstanding(read_understanding(reply.text, question, by_rules), usage=usage)
    except BadModelReply as error:
        warning = f"the chat model gave no usable understanding of the question ({error}); rules found it"
        return FoundUnderstanding(by_rules, (warning,), usage)
