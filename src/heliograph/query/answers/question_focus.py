"""Where a question asks: its question word, and how near to it the other words stand.

What stands near the question word says what is asked for ("who is the mother of", "的官方语言是什么"); what stands far
from it says of what ("the director of the film X"). English and Chinese question words are known; in a question without
one all words are as near.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.text.analysis import terms
from heliograph.text.language import is_chinese

_COURTESY = re.compile(
    r"^(?:你好|您好|请问|请教|请|谁能|谁可以|有谁|有人|谁|你们|你|您|大家|能不能|能否|可不可以|可以|麻烦|帮忙|告诉|说说|讲讲|知道|了解|晓得"
    r"|一下|我想|想|问|吗|我|，|,|\s){0,6}(?:告诉我|知道|请问|了解|晓得|请教|说说|想问|问一下)[，,\s]*(?=.{4})"
    r"|^(?:please\s|can|could|would|will|do)\s*(?:you\s+)?(?:please\s+)?(?:tell me|know|say|explain)\b[,:\s]*(?=.{8})",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"[吗呢呀啊吧嘛\s？?。.!！]|(?<![什怎那这多])么")
_ENGLISH = re.compile(r"\b(?:who|whose|whom|when|where|what|which|how|why)\b", re.IGNORECASE)
# A question word behind these still opens the question: "in which city", "and to what extent".
_OPENING = re.compile(
    r"\W*(?:(?:in|on|at|of|for|from|by|to|with|during|under|after|before|and|so|but|about|as|near|since|until)\s+)*",
    re.IGNORECASE,
)
# Within a sentence these are mostly relative pronouns.
_RELATIVE = frozenset({"who", "where", "when", "whose", "why"})
_CHINESE = re.compile(r"什么|谁|哪[里儿个些位年天一部家种]?|何[时处地人]?|多少|几|怎[么样]|多[大长远高久重]|如何")
# What each further word, and each further pair of Chinese characters, is worth of the one before.
_FADING = 0.7
_FADING_PAIR = 0.84


@dataclass(frozen=True, slots=True)
class Focus:
    """A question and its question word.

    Attributes:
        text: The question without what is only courtesy around it.
        start: First character of the question word in `text`; the end of the text where a Chinese question has none.
        end: One past the last; equal to `start` where there is none.
        is_chinese: Whether the question is Chinese.
    """

    text: str
    start: int
    end: int
    is_chinese: bool


def find_focus(question: str) -> Focus:
    """Return the word that asks: in Chinese the last question word, in English the one that opens the question.

    Where none opens it, it is the last that is no relative pronoun, or else the last one.
    """
    text = _without_closing(_COURTESY.sub("", question.strip()))
    if is_chinese(text):
        found = list(_CHINESE.finditer(text))
        start, end = found[-1].span() if found else (len(text), len(text))
        return Focus(text, start, end, True)
    found = list(_ENGLISH.finditer(text))
    if not found:
        return Focus(text, 0, 0, False)
    if _OPENING.fullmatch(text, 0, found[0].start()):
        return Focus(text, *found[0].span(), False)
    asking = [match for match in found if match[0].lower() not in _RELATIVE]
    return Focus(text, *(asking or found)[-1].span(), False)


def _without_closing(text: str) -> str:
    end = len(text)
    while end and _CLOSING.match(text, end - 1):
        end -= 1
    return text[:end]


def nearness(focus: Focus) -> Mapping[str, float]:
    """Return how near each term of a question stands to its question word, from 1 down to 0."""
    if focus.start == focus.end and not focus.is_chinese:
        return dict.fromkeys(terms(focus.text), 1.0)
    fading = _FADING_PAIR if focus.is_chinese else _FADING
    near: dict[str, float] = {}
    for side in (terms(focus.text[focus.end :]), terms(focus.text[: focus.start])[::-1]):
        for distance, term in enumerate(side):
            near[term] = max(near.get(term, 0.0), fading**distance)
    return near
