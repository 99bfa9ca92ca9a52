"""The questions that one question is made of.

Split where one question ends and another begins: after a question mark, and at a conjunction or comma with an
interrogative behind it, if there is one before it too. A part that points back ("when did it close?", "他是谁？") gets
the names before it put behind it, so that it can be searched on its own. One that says too little for that ("what about
the next one?") leaves the question whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from heliograph.text.language import is_chinese

_MAX_PARTS = 4
_LEAST_WORDS = 2
_LEAST_HAN = 3

_ASKING = r"(?:who|whom|whose|what|when|where|why|which|how)"
_INTERROGATIVE = re.compile(rf"\b{_ASKING}\b", re.IGNORECASE)
_ASKS_FROM_START = re.compile(r"(?:is|are|was|were|do|does|did|can|could|should|will|has|have)\b", re.IGNORECASE)
_BREAK = re.compile(
    r"(?<=[?？])\s*(?=\S)"
    rf"|\s*[,;]?\s+(?:and|but|or)\s+(?:also\s+|then\s+|if so,?\s+)?(?={_ASKING}\s+(?:is|are|was|were|do|does|did"
    rf"|can|could|should"
    r"|will|would|has|have|had|to|many|much|long|often|old|far|[a-z]+ed|[a-z]+s)\b)"
    rf"|;\s+(?={_ASKING}\b)",
    re.IGNORECASE,
)
_BREAK_ZH = re.compile(
    r"(?<=[?？])\s*(?=\S)|[，,；;]\s*(?:并且|而且|以及|还有|同时|另外|此外|又|并)?|(?:以及|还有|并且)(?=.*(?:谁|什么|哪|几|多少|如何|怎|何))"
)
_ASKING_ZH = r"谁|什么|哪|几(?!乎)|多少|如何|怎|为何|何时|何地|何处|多(?:大|长|高|深|久|远|重)|吗"
_INTERROGATIVE_ZH = re.compile(_ASKING_ZH)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|this|that one|there)\b"
    r"|[他她它其]|该|这(?:个|家|部|位|种)|那里",
    re.IGNORECASE,
)
# What such a part asks is said by the one before it.
_ELLIPSIS = re.compile(r"^(?:and )?(?:what|how) (?:about|else)\b|^那?.{0,12}呢[?？]?$", re.IGNORECASE)
_LEAD = re.compile(r"^(?:and|but|or|also|then)\s+|^(?:并且|而且|以及|还有|同时|另外|此外|又|并)", re.IGNORECASE)


def find_parts(question: str, entities: Sequence[str]) -> tuple[str, ...]:
    """Return two to four questions, or none for a single one.

    Args:
        question: The question.
        entities: The names in it, in order.
    """
    text = " ".join(question.split())
    chinese = is_chinese(text)
    pieces = [_LEAD.sub("", piece.strip(" ,，;；")) for piece in (_BREAK_ZH if chinese else _BREAK).split(text)]
    merged = _merge([piece for piece in pieces if any(map(str.isalnum, piece))], chinese)
    if len(merged) < 2 or any(_ELLIPSIS.search(part) for part in merged):
        return ()
    asked = merged[:_MAX_PARTS]
    return tuple(_standing_alone(part, asked[:place], entities) for place, part in enumerate(asked))


def _merge(pieces: Sequence[str], chinese: bool) -> list[str]:
    """Return the pieces that ask something, each with what stands before it and asks nothing."""
    merged: list[str] = []
    waiting: list[str] = []
    has_asked, comma = False, "，" if chinese else ", "
    for piece in pieces:
        has_asked = has_asked or _has_interrogative(piece, chinese, is_first=not waiting)
        waiting.append(piece)
        # Joined only where something is asked, so that many pieces that ask nothing cost no more than their length.
        if has_asked and _is_long_enough(whole := comma.join(waiting), chinese):
            merged.append(whole)
            waiting, has_asked = [], False
    if waiting and merged:
        merged[-1] = f"{merged[-1]}{'，' if chinese else ' '}{comma.join(waiting)}"
    return merged


def _has_interrogative(piece: str, chinese: bool, *, is_first: bool) -> bool:
    if chinese:
        return _INTERROGATIVE_ZH.search(piece) is not None
    return _INTERROGATIVE.search(piece) is not None or (is_first and _ASKS_FROM_START.match(piece) is not None)


def _is_long_enough(whole: str, chinese: bool) -> bool:
    return len(whole) >= _LEAST_HAN if chinese else len(whole.split()) >= _LEAST_WORDS


def _standing_alone(part: str, before: Sequence[str], entities: Sequence[str]) -> str:
    """Return a part that needs nothing before it: one that points back, or names nothing, gets the first name there."""
    if not before or any(name in part for name in entities):
        return part
    named = [name for name in entities if any(name in earlier for earlier in before)]
    if not named or not (_POINTS_BACK.search(part) or is_chinese(part)):
        return part
    return f"{part.rstrip('?？ ')} ({named[0]})?"
