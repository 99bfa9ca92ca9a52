"""Which words a question is searched with.

Keywords that the caller gives are used as they are. Otherwise a chat model names them (its wrapper keeps the reply);
without one, or when its reply is unusable, they are found locally: names are low-level, other content words
high-level, and a side that would be empty borrows the other's. What follows from empty lists are the rules of
LightRAG. A model that is out of reach is an error, never a reason to guess.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from string import Template
from typing import Any

from heliograph.chat.base import ChatMessage, ChatModel, ChatRequest, Purpose
from heliograph.errors import BadModelReply
from heliograph.models import Usage
from heliograph.prompts import load_prompt
from heliograph.query.json_replies import objects_in
from heliograph.query.plan import Channel, Plan
from heliograph.query.retrieved import Keywords
from heliograph.text.phrases import read_texts

# A model that loops can name thousands.
_MAX_KEYWORDS = 64
_MAX_KEYWORD_LENGTH = 512
_SHORT_QUESTION = 50
# Of the reply: two short lists.
_NEEDED_TOKENS = 1024

_SEPARATORS = re.compile(r"[,;，；、\n]")
_HIGH_KEY = re.compile(r"(?:^|[^a-z])high|^hl(?![a-z])|高", re.IGNORECASE)
_LOW_KEY = re.compile(r"(?:^|[^a-z])low|^ll(?![a-z])|低", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundKeywords:
    """Keywords, or None when a long question has none; warnings, and what a chat model spent."""

    keywords: Keywords | None
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


async def find_keywords(plan: Plan, chat: ChatModel | None) -> FoundKeywords:
    """Return what to search with.

    Raises:
        ModelError: The chat model failed; an unusable reply is not a failure but a warning.
    """
    if plan.keywords is not None:
        found = FoundKeywords(plan.keywords)
    elif chat is not None:
        found = await _ask(plan, chat)
    else:
        found = FoundKeywords(await asyncio.to_thread(local_keywords, plan.question))
    return _mend_empty(plan, found)


async def _ask(plan: Plan, chat: ChatModel) -> FoundKeywords:
    language = plan.keyword_language or "the language of the question"
    prompt = Template(load_prompt("keywords")).substitute(language=language)
    messages = (ChatMessage("system", prompt), ChatMessage("user", f"Question: {plan.question}"))
    usage = Usage()
    try:
        request = ChatRequest(messages, Purpose.KEYWORDS, json_mode=True, needed_tokens=_NEEDED_TOKENS)
        reply = await chat.complete(request)
        usage = Usage() if reply.from_cache else reply.usage
        return FoundKeywords(parse_keywords(reply.text), usage=usage)
    except BadModelReply as error:
        warning = f"the chat model gave no usable keywords ({error}); they were found locally"
        return FoundKeywords(await asyncio.to_thread(local_keywords, plan.question), (warning,), usage)


def _mend_empty(plan: Plan, found: FoundKeywords) -> FoundKeywords:
    keywords = found.keywords or Keywords()
    warnings = list(found.warnings)
    if not keywords.high_level and not keywords.low_level and len(plan.question) < _SHORT_QUESTION:
        if Channel.ENTITY in plan.channels or Channel.RELATION in plan.channels:
            warnings.append("no keywords were found in the question: it is searched for as a whole")
        return FoundKeywords(Keywords(low_level=(plan.question,)), tuple(warnings), found.usage)
    if not keywords.low_level and Channel.ENTITY in plan.channels:
        warnings.append("the low-level keywords are empty: entities are not searched")
    if not keywords.high_level and Channel.RELATION in plan.channels:
        warnings.append("the high-level keywords are empty: relations are not searched")
    if not keywords.high_level and not keywords.low_level:
        return FoundKeywords(None, tuple(warnings), found.usage)
    return FoundKeywords(keywords, tuple(warnings), found.usage)


def local_keywords(question: str) -> Keywords:
    """Return keywords found without a model; both lists are empty when the question has no content words."""
    (sentences,) = read_texts([question])
    names = _unique(name.text for sentence in sentences for name in sentence.names)
    words = (phrase.text.casefold() for sentence in sentences for phrase in sentence.phrases)
    phrases = _unique(word for word in words if word not in names)
    return Keywords(phrases or names, names or phrases)


def parse_keywords(reply: str) -> Keywords:
    """Read keywords from a model's reply, however it is dressed.

    Thinking, code fences and text around the JSON are skipped, JSON is repaired, keys may be spelled differently
    (`highLevel`, `hl_keywords`, `高级关键词`) or lie one level deeper, and lists may be strings split by commas,
    semicolons or lines. At most 64 keywords a list are kept.

    Raises:
        BadModelReply: There is no JSON object with either list in it.
    """
    candidates = list(objects_in(reply))
    high, low = _find(candidates, _HIGH_KEY), _find(candidates, _LOW_KEY)
    if high is not None or low is not None:
        return Keywords(_words(high), _words(low))
    raise BadModelReply(f"the reply holds no keywords: {reply!r:.200}; try a more capable chat model")


def _find(candidates: list[Mapping[str, Any]], key: re.Pattern[str]) -> Any:
    values = (value for candidate in candidates for name, value in candidate.items() if key.search(str(name)))
    return next((value for value in values if value is not None), None)


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return _unique(_SEPARATORS.split(value))
    if isinstance(value, Mapping):
        return _unique(str(word) for word in value.values() if isinstance(word, str))
    if not isinstance(value, list):
        return ()
    return _unique(word for item in value for word in ([item] if isinstance(item, str) else _inner(item)))


def _inner(item: Any) -> list[str]:
    """Return what one element of a list says: a number itself, an object its first string."""
    if isinstance(item, int | float) and not isinstance(item, bool):
        return [str(item)]
    if isinstance(item, Mapping):
        return [word for word in item.values() if isinstance(word, str)][:1]
    return []


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    stripped = (word.strip()[:_MAX_KEYWORD_LENGTH] for word in words)
    return tuple(dict.fromkeys(word for word in stripped if word))[:_MAX_KEYWORDS]
