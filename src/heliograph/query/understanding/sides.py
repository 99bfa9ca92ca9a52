"""What a comparison compares.

Forms that say it outright come first ("X vs Y", "between X and Y", "X和Y的区别", "..., X or Y?"), since a name may be
read in part only; then names joined by "and", "or", a comma or a Chinese conjunction. Sides are given as the question
writes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MAX_SIDES = 4
_LONGEST = 120

# What a side is made of: anything up to a sign that ends it.
_SIDE = r"[^,;?!]{1,120}?"
_FORMS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?P<a>{_SIDE})\s+(?:vs\.?|versus)\s+(?P<b>{_SIDE})(?:[,;?!]|\s+(?:for|in|on|with|when)\s|$)",
        rf"\b(?:between|compare|comparing|comparison of)\s+(?P<a>{_SIDE})\s+(?:and|with|to|against)\s+"
        rf"(?P<b>{_SIDE})(?:[,;?!.]|\s+(?:in|for|on|when|regarding|with respect)\s|$)",
        rf"\badvantages?\s+of\s+(?P<a>{_SIDE})\s+over\s+(?P<b>{_SIDE})[?.!]*$",
        r",\s*(?P<a>[^?!]{1,120}?)\s+or\s+(?P<b>[^?!]{1,120}?)\s*[?.!]*$",
        rf"\bboth\s+(?P<a>{_SIDE})\s+and\s+(?P<b>{_SIDE})(?:[?.!]|\s+(?:have|has|are|is|was|were|come|share"
        rf"|located|born"
        rf"|directed|(?:from|in|of|on|at) (?:the )?same)\b|$)",
        rf"\bwhat\s+(?:do|does|did)\s+(?P<a>{_SIDE})\s+and\s+(?P<b>{_SIDE})\s+(?:have|share)\b",
        rf"^how\s+(?:do|does|did)\s+(?P<a>{_SIDE})\s+and\s+(?P<b>{_SIDE})\s+(?:differ|compare)\b",
        rf"\bhow\s+(?:do|does|is|are)\s+(?P<a>{_SIDE})\s+(?:differ(?:ent)?|compare[ds]?)\s+(?:from|to|with)\s+"
        rf"(?P<b>{_SIDE})[?.!]*$",
        rf"^(?:is|are|was|were|do|does|did|has|have)\s+(?P<a>{_SIDE})\s+(?:and|or)\s+(?P<b>{_SIDE})\s+(?:both\b"
        rf"|the same\b|"
        rf"located\b|from\b|in\b|of\b|born\b|have\b|directed\b|share\b|equally\b|either\b|(?:more|less|older"
        rf"|younger)\b|"
        rf"[a-z]+ier\b)",
        rf"^(?:is|are|was|were|does|do|did)\s+(?P<a>{_SIDE})\s+[\w-]+er\s+than\s+(?P<b>{_SIDE})[?.!]*$",
        r"(?:比较|对比)(?:一下)?(?P<a>[^，。？?]{1,40}?)[和与跟同及、](?P<b>[^，。？?]{1,40}?)(?:的|[，。？?]|$)",
        r"(?P<a>[^，。？?]{1,40}?)\s*(?:对比|vs\.?|VS)\s*(?P<b>[^，。？?]{1,40}?)(?:的|[，。？?]|$)",
        r"(?:相比|相比于|相较于|较之|与)?(?P<a>[^，。？?]{1,40}?)相(?:对于|较于|比于)(?P<b>[^，。？?]{1,40}?)(?:的|有|，|[。？?])",
        r"^(?:与|和)?相比(?:于)?(?P<a>[^，。？?]{1,40}?)，(?P<b>[^，。？?]{1,40}?)(?:的|有|更)",
        r"(?P<a>[^，。？?]{1,40}?)\s*(?:和|与|跟|同|及|、)\s*(?P<b>[^，。？?]{1,40}?)\s*(?:的|之间|有|哪|谁|都|在|流经|是|属于|相比|来自)",
        r"(?P<a>[^，。？?]{1,40}?)是?(?:，)?还是(?P<b>[^，。？?]{1,40}?)(?:更|先|早|晚|好|[，。？?]|$)",
        r"(?P<a>[^，。？?]{1,40}?)比(?P<b>[^，。？?]{1,40}?)(?:更|重|轻|大|小|长|短|高|低|快|慢|早|晚|多|少|好|贵|便宜)",
    )
)
_LEAD = re.compile(
    r"^(?:the\s+)?(?:differences?|similarit(?:y|ies))\s+(?:between|of)\s+|^(?:both|either|whether)\s+"
    r"|^the (?:films?|movies?|songs?"
    r"|bands?|people|directors?)\s+(?=[A-Z\"“])|^(?:请)?(?:比较|对比)(?:一下)?|^请问",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"\s*(?:,\s*(?:and|or)\s|,|\band\b|\bor\b|\bvs\.?|\bversus\b|和|与|跟|同|或|、|还是)\s*(?:the\s+|an?\s+)?"
)

_BEFORE_SIDE = r"(?:\s*(?:,|\band\b|\bor\b|\bvs\b\.?|\bversus\b|和|与|跟|同|、|还是|对比))?\s*"
_AFTER_SIDE = r"(?:\s*,?\s*\b(?:and|or|vs|versus)\b|\s*(?:和|与|跟|同|、|还是|对比))?"


def find_sides(question: str, entities: Sequence[str]) -> tuple[str, ...]:
    """Return two to four sides, or none where the question does not name them.

    Args:
        question: A question that compares.
        entities: The names in it, in order.
    """
    text = " ".join(question.split())
    for form in _FORMS:
        match = form.search(text)
        sides = _cleaned([*match["a"].split(", "), match["b"]]) if match else ()
        if len(sides) >= 2:
            return sides
    named = _joined_names(text, entities)
    if len(named) >= 2:
        return named
    return tuple(entities[:_MAX_SIDES]) if 2 <= len(entities) <= _MAX_SIDES else ()


def _joined_names(text: str, entities: Sequence[str]) -> tuple[str, ...]:
    """Return the first run of names with nothing but conjunctions between them."""
    run: list[str] = []
    end = -1
    for name in entities:
        start = text.find(name, max(end, 0))
        if start < 0:
            continue
        if not run or not _JOINED.fullmatch(text[end:start]):
            if len(run) >= 2:
                break
            run = []
        run.append(name)
        end = start + len(name)
    return _cleaned(run)[:_MAX_SIDES]


def _cleaned(sides: Sequence[str]) -> tuple[str, ...]:
    cut = (_LEAD.sub("", side.strip(" \"'“”‘’")).strip() for side in sides)
    return tuple(dict.fromkeys(side[:_LONGEST] for side in cut if side))[:_MAX_SIDES]


def side_question(question: str, sides: Sequence[str], side: str) -> str:
    """Return the question with the other sides left out, to be searched with.

    Args:
        question: The question.
        sides: All sides; one that a chat model named and the question does not write cannot be left out.
        side: The one that stays; it is put behind the question if that does not name it.
    """
    text = question
    for other in sides:
        if other != side and other not in side:
            text = re.sub(_BEFORE_SIDE + re.escape(other) + _AFTER_SIDE, " ", text, count=1, flags=re.IGNORECASE)
    text = re.sub(r"\s+(?=[,.?!，。？！])", "", " ".join(text.split()))
    return text if side.casefold() in text.casefold() else f"{text} {side}"
