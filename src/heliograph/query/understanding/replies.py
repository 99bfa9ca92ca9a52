"""Reading what a chat model says about a question; what it leaves out or garbles is filled in from the rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from heliograph.errors import BadModelReply
from heliograph.query.json_replies import objects_in
from heliograph.query.understanding.models import QuestionKind, Understanding
from heliograph.query.understanding.sides import find_sides

_KINDS = (
    (QuestionKind.COMPARE, re.compile(r"compar|contrast|比较|对比")),
    (QuestionKind.HOW_TO, re.compile(r"how|instruct|procedure|操作|步骤|方法")),
    (QuestionKind.REASON, re.compile(r"reason|caus|why|multi-?hop|推理|原因")),
    (QuestionKind.AGGREGATE, re.compile(r"aggreg|list|count|汇总|统计|列举")),
    (QuestionKind.GLOBAL, re.compile(r"global|summar|theme|overview|全局|概括|总结")),
    (QuestionKind.FACT, re.compile(r"fact|simple|single|事实")),
)
_MAX_WORDS = 32
_MAX_EXPANSIONS = 8
_MAX_PARTS = 4
_LONGEST = 512
_SEPARATORS = re.compile(r"[,;，；、\n]")


def read_understanding(reply: str, question: str, by_rules: Understanding) -> Understanding:
    """Return a model's understanding, completed from the rules'.

    Args:
        reply: What the model wrote, however it is dressed.
        question: The question.
        by_rules: What rules found; its language is kept, and whatever the reply does not say.

    Raises:
        BadModelReply: The reply names no kind of question.
    """
    objects = list(objects_in(reply))
    kind = _kind(_first(objects, ("type", "kind", "intent", "question_type", "类型")))
    if kind is None:
        raise BadModelReply(f"the reply names no kind of question: {reply!r:.200}; try a more capable chat model")
    entities = _words(_first(objects, ("entities", "entity", "实体")), _MAX_WORDS) or by_rules.entities
    parts = _words(_first(objects, ("parts", "sub_questions", "subquestions")), _MAX_PARTS, split=False)
    sides = _words(_first(objects, ("sides", "compared")), _MAX_PARTS)
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


def _kind(value: object) -> QuestionKind | None:
    text = str(value).casefold().replace("-", "_") if isinstance(value, str) else ""
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), None)


def _first(objects: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Any:
    for found in objects:
        known = {str(name).casefold().replace(" ", "_"): value for name, value in found.items()}
        for name in names:
            if known.get(name) is not None:
                return known[name]
    return None


def _words(value: Any, most: int, *, split: bool = True) -> tuple[str, ...]:
    """Return strings of a list, or of one string, each once; those that are no text are left out."""
    if isinstance(value, str):
        value = _SEPARATORS.split(value) if split else [value]
    items: Iterable[object] = cast("list[object]", value) if isinstance(value, list) else ()
    words = (item.strip()[:_LONGEST] for item in items if isinstance(item, str))
    return tuple(dict.fromkeys(word for word in words if word))[:most]
