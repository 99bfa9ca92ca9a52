"""Small word work of the local extractor: excerpts of sentences, singulars, themes of a relation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from heliograph.text.language import is_chinese, stop_words
from heliograph.text.phrases import Phrase, SentenceReading

__all__ = ["EXCERPT_LENGTH", "HAN_EXCERPT_LENGTH", "excerpt", "keywords_between", "plain", "singular"]

EXCERPT_LENGTH = 200
# A Chinese character says, and costs, about as much as two letters.
HAN_EXCERPT_LENGTH = 100

_LINE_MARK = re.compile(r"^\s*(?:#{1,6}|[-*+•>|]|\d{1,3}[.)])\s+")
_SPACE = re.compile(r"\s+")
# What Markdown marks: code, which is taken as it stands, a link or picture, and emphasis. Only pairs of marks at the
# edges of words are marks; `*args`, `2*3*4`, `snake_case` and names such as `__init__` are text.
_MARKUP = re.compile(
    r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.{1,500}?)(?<!`)(?P=ticks)(?!`)"
    r"|(?<![A-Za-z\d_)\]])!?\[(?P<link>[^\]]{0,200})\]\([^()]{0,500}\)"
    r"|(?<![A-Za-z\d_*)\]\\])(?P<stars>\*{2,3})(?![\s*])(?P<strong>.{1,500}?)(?<![\s*])(?P=stars)(?![A-Za-z\d_*(])"
    r"|(?<![A-Za-z\d_*)\]\\])\*(?![\s*])(?P<slanted>[^*]{1,500})(?<!\s)\*(?![A-Za-z\d_*(])"
    # Those of which the other one stands in another sentence.
    r"|^\s*\*{2,3}(?=[^\sa-z*])|(?<=[^\s*])\*{2,3}$"
    r"|(?<!\w)__(?![\s_]|[a-z\d_]{1,80}__(?!\w))(?P<bold>.{1,500}?)(?<![\s_])__(?!\w)"
    r"|`"
)
_CUT = re.compile(r"[\s，、；：,;:]")
_PLURAL = re.compile(r"[a-z]{2,}(?:ches|shes|xes|sses|zes|ies|[^suiy]s|ys)", re.IGNORECASE)
_NO_PLURALS = frozenset({"series", "species", "news", "means", "always", "lens"})
_LONGEST_SENTENCE = 4000
_MOST_KEYWORDS = 3
_LONGEST_KEYWORD = 3


def excerpt(sentence: str, at: int) -> str:
    """Return a sentence on one line, without marks, cut at word bounds to 200 characters around `at` (100 in Chinese).

    Args:
        sentence: The sentence.
        at: The place in it that must be shown.
    """
    if len(sentence) > _LONGEST_SENTENCE:
        window = max(0, at - _LONGEST_SENTENCE // 2)
        sentence, at = sentence[window : window + _LONGEST_SENTENCE], at - window
    mark = _LINE_MARK.match(sentence)
    first = mark.end() if mark else 0
    text = plain(sentence[first:])
    # To within a mark whose other one stands behind it.
    place = min(len(plain(sentence[first : max(at, first)])), len(text))
    longest = HAN_EXCERPT_LENGTH if is_chinese(text) else EXCERPT_LENGTH
    if len(text) <= longest:
        return text
    # As much as possible from the start of the sentence, which is where its subject stands.
    start = 0 if place <= longest // 2 else _bound_after(text, place - longest // 4, longest // 5)
    end = _bound_before(text, start, start + longest - 2)
    return ("…" if start else "") + text[start:end].strip() + ("…" if end < len(text) else "")


def plain(text: str) -> str:
    """Return a text on one line and without Markdown's marks; what is code, or only looks like marks, stays."""
    return _without_marks(_SPACE.sub(" ", text)).strip()


def _without_marks(text: str) -> str:
    return _MARKUP.sub(_inside, text)


def _inside(match: re.Match[str]) -> str:
    if (code := match["code"]) is not None:
        # Blanks beside a tick that is part of the code.
        return code.strip(" ")
    # Marks may stand within others.
    return _without_marks(
        next((match[part] for part in ("link", "strong", "slanted", "bold") if match[part] is not None), "")
    )


def _bound_after(text: str, start: int, reach: int) -> int:
    match = _CUT.search(text, start, start + reach)
    return match.end() if match else start


def _bound_before(text: str, start: int, end: int) -> int:
    """Return the last place up to `end` where no word is cut; `end` itself if there is none near."""
    if end >= len(text):
        return len(text)
    bounds = [match.start() for match in _CUT.finditer(text, max(start + 1, end - EXCERPT_LENGTH // 5), end + 1)]
    return bounds[-1] if bounds else end


def singular(phrase: str) -> str:
    """Return an English phrase with its last word in the singular, by its ending; other words stay as they are."""
    head, space, last = phrase.rpartition(" ")
    if not last.isascii() or not _PLURAL.fullmatch(last) or last.lower() in _NO_PLURALS:
        return phrase
    if last.lower().endswith("ies"):
        return f"{head}{space}{last[:-3]}y"
    cut = 2 if last.lower().endswith(("ches", "shes", "xes", "sses", "zes")) else 1
    return f"{head}{space}{last[:-cut]}"


def keywords_between(sentence: SentenceReading, start: int, end: int) -> tuple[str, ...]:
    """Return one to three themes of a sentence: what stands between `start` and `end`, else what is nearest to it.

    A sentence of names alone has none.
    """
    phrases = sentence.phrases
    first = bisect_left(phrases, start, key=lambda phrase: phrase.start)
    after = bisect_right(phrases, end, key=lambda phrase: phrase.end)
    return _keywords(phrases[first:after]) or _keywords(phrases[max(first - 1, 0) : first + 1])


def _keywords(phrases: Sequence[Phrase]) -> tuple[str, ...]:
    words = (
        " ".join(_SPACE.split(phrase.text.casefold())[-_LONGEST_KEYWORD:])
        for phrase in phrases
        if phrase.text.casefold() not in stop_words("en")
    )
    return tuple(dict.fromkeys(singular(word) for word in words))[:_MOST_KEYWORDS]
