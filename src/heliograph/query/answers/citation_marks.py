"""Citation marks in what a chat model writes: put into one form, checked, and taken out, while the text streams.

Pieces go in, text comes out, a few characters late at the most. `[2]`, `[1, 3]`, `[1-3]`, `[^1]`, `【1】` and
`【1†source】` come out like `[1][3]`; a number that stands for no document of the context is dropped and
counted. A list of references
at the end is taken out, since ours takes its place, and so is the mark by which a model says that it found no answer.
Code, links and footnote texts stay as they are, and so does an answer that is JSON.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

NO_ANSWER_MARK = "[no-answer]"

_SEPARATOR = r"\s?[,，、;；–-]\s?"
_NUMBERS = rf"\^?\d{{1,3}}(?:{_SEPARATOR}\^?\d{{1,3}}){{0,9}}"
_MARK = re.compile(rf"[ \t]?[\[【][ ]?(?P<numbers>{_NUMBERS})[ ]?(?:†[^\]】\n]{{0,20}})?[\]】](?![(:])")
_NO_ANSWER = re.compile(rf"\s?{re.escape(NO_ANSWER_MARK)}")
# What may still become one of the two above, up to the end of what has come; the longest is some 70 characters.
_MAYBE_MARK = re.compile(
    r"\s\Z|\s?[\[【][ ]?(?:\^|\^?\d{1,3}[\d\s^,，、;；–-]{0,64})?(?:†[^\]】\n]{0,20})?[\]】]?\Z"
    + "|"
    + "|".join(rf"\s?{re.escape(NO_ANSWER_MARK[:length])}\Z" for length in range(2, len(NO_ANSWER_MARK)))
)
_RANGE = re.compile(r"(\d+)\s?[–-]\s?\^?(\d+)")
_LONGEST_RANGE = 10
_PART = 256
_NUMBER = re.compile(r"\d+")
_CITED = re.compile(r"\[(\d{1,3})\]")

_FENCE = re.compile(r"[ \t]{0,3}(`{3}|~{3})")
_MAYBE_FENCE = re.compile(r"[ \t]{0,3}(?:`{0,2}|~{0,2})\Z")
_REFERENCES_WORDS = ("references", "参考资料", "参考文献")
_HEADING = re.compile(
    rf"(?:#{{1,6}}[ \t]{{0,3}}\*{{0,2}}|\*\*)(?:{'|'.join(_REFERENCES_WORDS)})"
    r"[:：]?\*{0,2}[:：]?[ \t]{0,64}(?:\n|\Z)",
    re.IGNORECASE,
)
_HEADING_START = re.compile(
    r"(?:#{1,6}[ \t]{0,3}\*{0,2}|\*\*)(?P<word>[^\W\d_]{0,10})(?P<rest>[:：*]{0,4}[ \t]{0,64})\Z"
)
_ITEM = re.compile(r"(?:[-*+•][ \t]{1,4})?[\[【]\^?\d{1,3}[\]】]|\d{1,3}[.)][ \t]")
_MAYBE_ITEM = re.compile(r"(?:[-*+•][ \t]{0,4})?(?:[\[【]\^?\d{0,3}|\d{1,3}[.)]?)?\Z")
_DATA = re.compile(r"\s*(?:\{|\[\s{0,64}[\[{\"'])")
_MAYBE_DATA = re.compile(r"\s*(?:\[\s{0,64})?\Z")
# White space that a fence or a mark may have before it.
_SPACE_KEPT = 8


def cited_numbers(text: str) -> list[str]:
    """Return the reference ids that a filtered text cites, in order, with repeats."""
    return _CITED.findall(text)


class CitationFilter:
    """Rewrites the marks of one text that comes in pieces.

    Args:
        known: Reference ids of the context.

    Attributes:
        dropped: Citations that named no document of the context.
        says_no_answer: Whether the mark of no answer has come.
    """

    def __init__(self, known: Collection[str]) -> None:
        self.dropped = 0
        self.says_no_answer = False
        self._known = frozenset(known)
        self._pending = ""
        self._fence = ""
        self._is_inline_code = False
        self._is_line_start = True
        self._is_data: bool | None = None
        # The heading of the model's list of references and the white space after it, while inside the list.
        self._heading: list[str] | None = None
        self._has_dropped_items = False
        self._is_in_item = False
        self._has_text = False

    @property
    def is_data(self) -> bool:
        """Whether the text is JSON, which stays as it is."""
        return bool(self._is_data)

    def feed(self, piece: str) -> str:
        """Take the next piece and return what is certain by now; may be empty."""
        return "".join(self._settled(part) for part in _parts(piece))

    def finish(self) -> str:
        """Return what was held back; nothing may be fed afterwards."""
        return self._drain(is_last=True)

    def _settled(self, part: str) -> str:
        self._pending += part
        return self._drain(is_last=False)

    def _drain(self, *, is_last: bool) -> str:
        written: list[str] = []
        while self._pending:
            step = self._step(is_last)
            if step is None:
                break
            length, text = step
            consumed, self._pending = self._pending[:length], self._pending[length:]
            self._is_line_start = consumed.endswith("\n") if consumed else self._is_line_start
            self._has_text = self._has_text or bool(text.strip())
            written.append(text)
        if is_last and self._heading is not None and not self._has_dropped_items:
            written.extend(self._heading)
        return "".join(written)

    def _step(self, is_last: bool) -> tuple[int, str] | None:
        """Return how many characters are settled and what becomes of them; None to wait for more."""
        if self._is_data is None:
            blank = _leading_space(self._pending)
            if blank > _SPACE_KEPT:
                return blank - _SPACE_KEPT, self._pending[: blank - _SPACE_KEPT]
            if not is_last and _MAYBE_DATA.match(self._pending):
                return None
            self._is_data = bool(_DATA.match(self._pending))
        if self._is_data:
            return len(self._pending), self._pending
        if self._heading is not None:
            return self._reference_item(is_last)
        if self._is_line_start:
            step = self._line_start(is_last)
            if step != (0, ""):
                return step
        return self._plain(is_last)

    def _line_start(self, is_last: bool) -> tuple[int, str] | None:
        """Settle a fence or a heading of references at the start of a line; `(0, "")` where there is neither."""
        text = self._pending
        fence = _FENCE.match(text)
        if fence:
            self._fence = "" if self._fence == fence[1] else self._fence or fence[1]
            return fence.end(), fence[0]
        if not is_last and _MAYBE_FENCE.match(text):
            return None
        if self._fence or not self._has_text:
            return 0, ""
        if not is_last and _may_be_heading(text):
            return None
        heading = _HEADING.match(text)
        if heading:
            self._heading, self._has_dropped_items = [heading[0]], False
            return heading.end(), ""
        return 0, ""

    def _reference_item(self, is_last: bool) -> tuple[int, str] | None:
        """Drop a line of the model's list of references, or go on with the text where there is none."""
        text, held = self._pending, self._heading or []
        if self._is_in_item:
            # The rest of an item is dropped whatever it says.
            end = text.find("\n") + 1
            self._is_in_item = not end
            return end or len(text), ""
        if blank := _leading_space(text):
            held.append(text[:blank])
            return blank, ""
        if item := _ITEM.match(text):
            self._has_dropped_items = self._is_in_item = True
            return item.end(), ""
        if not is_last and _MAYBE_ITEM.match(text):
            return None
        self._heading = None
        return 0, "" if self._has_dropped_items else "".join(held)

    def _plain(self, is_last: bool) -> tuple[int, str] | None:
        text = self._pending
        if self._fence:
            return _line_or_all(text)
        if text[0] == "`":
            self._is_inline_code = not self._is_inline_code
            return 1, "`"
        if text[0] == "\n":
            self._is_inline_code = False
        if not self._is_inline_code and text[0] in " \t\n[【":
            if not is_last and _MAYBE_MARK.match(text):
                return None
            if no_answer := _NO_ANSWER.match(text):
                self.says_no_answer = True
                return no_answer.end(), ""
            if mark := _MARK.match(text):
                return mark.end(), self._rewritten(mark)
        return 1, text[0]

    def _rewritten(self, mark: re.Match[str]) -> str:
        numbers = list(dict.fromkeys(str(number) for number in _expanded(mark["numbers"])))
        kept = [number for number in numbers if number in self._known]
        self.dropped += len(numbers) - len(kept)
        space = mark[0][0] if kept and mark[0][0] in " \t" else ""
        return space + "".join(f"[{number}]" for number in kept)


def _parts(piece: str) -> Iterator[str]:
    """Yield a piece in parts, since each step of the filter copies all that is pending."""
    for start in range(0, len(piece), _PART):
        yield piece[start : start + _PART]


def _leading_space(text: str) -> int:
    return len(text) - len(text.lstrip())


def _expanded(numbers: str) -> list[int]:
    """Return the numbers of a mark, short ranges written out."""
    found: list[int] = []
    end = 0
    for match in _RANGE.finditer(numbers):
        found.extend(map(int, _NUMBER.findall(numbers[end : match.start()])))
        first, last = int(match[1]), int(match[2])
        found.extend(range(first, last + 1) if first <= last < first + _LONGEST_RANGE else (first, last))
        end = match.end()
    return [*found, *map(int, _NUMBER.findall(numbers[end:]))]


def _may_be_heading(text: str) -> bool:
    """Return whether a line that has only begun may become a heading of references."""
    if not text.strip("#* \t") and "\n" not in text:
        return len(text) < 12
    start = _HEADING_START.match(text)
    if not start:
        return False
    word = start["word"].casefold()
    if start["rest"]:
        return word in _REFERENCES_WORDS
    return any(known.startswith(word) for known in _REFERENCES_WORDS)


def _line_or_all(text: str) -> tuple[int, str]:
    end = text.find("\n") + 1 or len(text)
    return end, text[:end]
