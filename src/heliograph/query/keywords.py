"""Extracts the keywords and the understanding of a question before the search, by a chat model or by rules.

Keywords given by the caller are used unchanged. Otherwise a chat model extracts them (its wrapper caches the reply).
Without a chat model, or if its reply is unusable, rules do: names become low-level keywords, other content words
high-level ones, and an empty list is filled from the other. Empty lists are handled by LightRAG's rules.
`query.understanding` has the rules for understanding a question; they fill in what a model omits or garbles. An
unreachable model is an error, never a reason to guess.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Template
from typing import Any, Generic, TypeVar, cast

from heliograph.chat.base import ChatMessage, ChatModel, ChatRequest, Purpose
from heliograph.errors import BadModelReply
from heliograph.extraction.reply_readers import objects_in
from heliograph.models import Usage
from heliograph.prompts import load_prompt
from heliograph.query.models import Keywords
from heliograph.query.plan import Channel, Plan
from heliograph.query.understanding import MAX_PARTS, QuestionKind, Understanding, find_sides, understand_by_rules
from heliograph.text.patterns import late_pattern
from heliograph.text.phrases import read_texts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FoundIn(Generic[T]):
    """A result extracted from a question, with warnings and the tokens that a chat model spent."""

    found: T
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


async def find_in(
    question: str,
    chat: ChatModel | None,
    what: str,
    language: str,
    needed_tokens: int,
    read: Callable[[str], T],
    by_rules: Callable[[str], T],
) -> FoundIn[T]:
    """Extract something from a question by a chat model with the prompt named `what`, or by rules without a model.

    Raises:
        ModelError: The chat model failed. An unusable reply only causes a warning, and the rules are used.
    """
    usage, warnings = Usage(), ()
    if chat is not None:
        prompt = Template(load_prompt(what)).substitute(language=language or "the language of the question")
        messages = (ChatMessage("system", prompt), ChatMessage("user", f"Question: {question}"))
        try:
            request = ChatRequest(messages, Purpose.KEYWORDS, json_mode=True, needed_tokens=needed_tokens)
            reply = await chat.complete(request)
            usage = Usage() if reply.from_cache else reply.usage
            return FoundIn(read(reply.text), usage=usage)
        except BadModelReply as error:
            warnings = (f"the chat model gave no usable {what} ({error}); found by rules instead",)
    return FoundIn(await asyncio.to_thread(by_rules, question), warnings, usage)


# Keywords.

# A looping model can return thousands of keywords.
_MAX_KEYWORDS = 64
_MAX_KEYWORD_LENGTH = 512
_SHORT_QUESTION = 50
_SEPARATORS = late_pattern(r"[,;，；、\n]")
_HIGH_KEY = re.compile(r"(?:^|[^a-z])high|^hl(?![a-z])|高", re.IGNORECASE)
_LOW_KEY = re.compile(r"(?:^|[^a-z])low|^ll(?![a-z])|低", re.IGNORECASE)


async def find_keywords(plan: Plan, chat: ChatModel | None) -> FoundIn[Keywords | None]:
    """Return the keywords to search with, None for a long question without keywords; raises as `find_in` does."""
    if plan.keywords is not None:
        found = FoundIn(plan.keywords)
    else:
        # The reply consists of two short lists.
        known = plan.question, chat, "keywords", plan.settings.keyword_language, 1024
        found = await find_in(*known, parse_keywords, local_keywords)
    keywords = found.found
    warnings = list(found.warnings)
    is_empty = not (keywords.high_level or keywords.low_level)
    if is_empty and len(plan.question) < _SHORT_QUESTION:
        if Channel.ENTITY in plan.channels or Channel.RELATION in plan.channels:
            warnings.append("no keywords were found in the question: it is searched for as a whole")
        return FoundIn(Keywords(low_level=(plan.question,)), tuple(warnings), found.usage)
    if not keywords.low_level and Channel.ENTITY in plan.channels:
        warnings.append("the low-level keywords are empty: entities are not searched")
    if not keywords.high_level and Channel.RELATION in plan.channels:
        warnings.append("the high-level keywords are empty: relations are not searched")
    return FoundIn(None if is_empty else keywords, tuple(warnings), found.usage)


def local_keywords(question: str) -> Keywords:
    """Extract keywords without a model; both lists are empty if the question has no content words."""
    (sentences,) = read_texts([question])
    names = _unique(name.text for sentence in sentences for name in sentence.names)
    words = (phrase.text.casefold() for sentence in sentences for phrase in sentence.phrases)
    phrases = _unique(word for word in words if word not in names)
    return Keywords(phrases or names, names or phrases)


def parse_keywords(reply: str) -> Keywords:
    """Parse keywords from a model's reply, leniently.

    Skips thinking, code fences and text around the JSON, and repairs the JSON. Keys may be spelled differently
    (`highLevel`, `hl_keywords`, `高级关键词`) or nested one level deeper, and a list may be a string separated by
    commas, semicolons or line breaks. Keeps at most 64 keywords per list.

    Raises:
        BadModelReply: The reply has no JSON object with either list.
    """
    candidates = list(objects_in(reply))
    high, low = _find(candidates, _HIGH_KEY), _find(candidates, _LOW_KEY)
    if high is not None or low is not None:
        return Keywords(_words(high), _words(low))
    raise BadModelReply(f"the reply holds no keywords: {reply!r:.200}; try a more capable chat model")


def _find(candidates: list[Mapping[str, Any]], key: re.Pattern[str]) -> Any:
    values = (value for candidate in candidates for name, value in candidate.items() if key.search(str(name)))
    return next((value for value in values if value is not None), None)


def _words(value: Any, most: int = _MAX_KEYWORDS, *, split: bool = True) -> tuple[str, ...]:
    """Return the strings in a list or object, of an object within a list only the first; split a bare string."""
    if isinstance(value, str):
        return _unique(_SEPARATORS.split(value) if split else [value])[:most]
    if isinstance(value, Mapping):
        return _unique(str(word) for word in value.values() if isinstance(word, str))[:most]
    words: list[str] = []
    for item in cast("list[object]", value) if isinstance(value, list) else ():
        if isinstance(item, str):
            words.append(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            words.append(str(item))
        elif isinstance(item, Mapping):
            words += [word for word in item.values() if isinstance(word, str)][:1]
    return _unique(words)[:most]


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    stripped = (word.strip()[:_MAX_KEYWORD_LENGTH] for word in words)
    return tuple(dict.fromkeys(word for word in stripped if word))[:_MAX_KEYWORDS]


# Understanding of a question.

_KINDS = (
    (QuestionKind.COMPARE, late_pattern(r"compar|contrast|比较|对比")),
    (QuestionKind.HOW_TO, late_pattern(r"how|instruct|procedure|操作|步骤|方法")),
    (QuestionKind.REASON, late_pattern(r"reason|caus|why|multi-?hop|推理|原因")),
    (QuestionKind.AGGREGATE, late_pattern(r"aggreg|list|count|汇总|统计|列举")),
    (QuestionKind.GLOBAL, late_pattern(r"global|summar|theme|overview|全局|概括|总结")),
    (QuestionKind.FACT, late_pattern(r"fact|simple|single|事实")),
)
_MAX_REPLY_WORDS = 32
_MAX_EXPANSIONS = 8


def read_understanding(reply: str, question: str, by_rules: Understanding) -> Understanding:
    """Parse a model's understanding of a question leniently; gaps and the language come from `by_rules`.

    Raises:
        BadModelReply: The reply names no kind of question.
    """
    objects = list(objects_in(reply))
    said = _first(objects, ("type", "kind", "intent", "question_type", "类型"))
    said = said.casefold().replace("-", "_") if isinstance(said, str) else ""
    kind = next((kind for kind, pattern in _KINDS if pattern.search(said)), None)
    if kind is None:
        raise BadModelReply(f"the reply names no kind of question: {reply!r:.200}; try a more capable chat model")
    entities = _words(_first(objects, ("entities", "entity", "实体")), _MAX_REPLY_WORDS) or by_rules.entities
    parts = _words(_first(objects, ("parts", "sub_questions", "subquestions")), MAX_PARTS, split=False)
    sides = _words(_first(objects, ("sides", "compared")), MAX_PARTS)
    if kind is not QuestionKind.COMPARE:
        sides = ()
    elif len(sides) < 2:
        sides = by_rules.sides or find_sides(question, entities)
    return replace(
        by_rules,
        kind=kind,
        entities=entities,
        expansions=_words(_first(objects, ("expansions", "expansion", "keywords", "扩展词")), _MAX_EXPANSIONS),
        parts=parts if len(parts) >= 2 and not sides else (),
        sides=sides,
        by_model=True,
    )


def _first(objects: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Any:
    for found in objects:
        known = {str(name).casefold().replace(" ", "_"): value for name, value in found.items()}
        for name in names:
            if known.get(name) is not None:
                return known[name]
    return None


async def find_understanding(question: str, chat: ChatModel | None, language: str = "") -> FoundIn[Understanding]:
    """Return a question's understanding, by `find_in`; expansions are in `language`, or the question's if empty."""
    by_rules = await asyncio.to_thread(understand_by_rules, question)
    return await find_in(
        # The reply is a small JSON object with names, parts and words.
        *(question, chat, "understanding", language, 2048),
        lambda reply: read_understanding(reply, question, by_rules),
        lambda _: by_rules,
    )
