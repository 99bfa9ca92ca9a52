"""Finds the bounds of lines, paragraphs and sentences in English, Chinese and Markdown; defines spans of names in them.

Spans are character offsets: in order, without overlap, without white space at their edges. Sentences together cover
everything that is not white space. Blocks come first: a heading, a table row and a line of code are one span each. A
heading belongs to the paragraph below it.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from heliograph.text.analysis import HAN, stop_words, word_list
from heliograph.text.patterns import late_pattern

# After these, a capital may only mark the start of a sentence, a list item, a quotation or a cell.
OPENERS = frozenset('"“„‚‘«»([*-•·|>#:—–…!?;_`~/=@')

# Line ends on purpose: a title above a paragraph ends early, while a wrapped line ends when it is full.

_LONGEST_TITLE = 60
_HAN = late_pattern(rf"[《“]?[{HAN}]")
_ENDS = frozenset(".,;:!?。，；：！？、")


# Chinese and Japanese have no spaces and break lines anywhere, so their line breaks mean nothing.
_UNSPACED = rf"{HAN}\u3001-\u303f\u3041-\u30ff\uff00-\uff65"
# A vertical tab is a line end on purpose.
_UNSPACED_BREAK = late_pattern(rf"\n(?<=[{_UNSPACED}]\n)[^\S\v]*(?=[{_UNSPACED}])")
# In plain text, a line that is broken because it is full is as wide as the lines around it.
_FULL_BREAK = late_pattern(rf"\n(?<=[{_UNSPACED}]\n)(?<![。！？：；]\n)[ \t]*(?=[{_UNSPACED}])")
_WIDE = late_pattern(rf"[{_UNSPACED}]")
_LEAST_FULL, _RAGGED = 36, 6
_LAID_OUT = late_pattern(r"\S(?: {3,}|\t)\S")


def without_breaks(text: str) -> str:
    """Return a text without the line ends between Chinese or Japanese characters, which would read as spaces."""
    return text if text.isascii() or "\n" not in text else _UNSPACED_BREAK.sub("", text)


def on_one_line(text: str) -> str:
    """Return a text with each run of white space as one space; none between broken lines of Chinese or Japanese."""
    return " ".join(without_breaks(text).split())


_CELL_ENDS = late_pattern(r"(?<!\\)\|")


def row_cells(row: str) -> list[str]:
    """Return the cells of a Markdown table row, empty ones included; any other line is one cell."""
    *cells, last = _CELL_ENDS.split(row.strip().removeprefix("|"))
    cells = cells if cells and not last else [*cells, last]
    return [cell.strip().replace("\\|", "|") for cell in cells]


def table_head(columns: Sequence[str]) -> str:
    """Return the first two lines of a Markdown table with these columns; empty for no columns."""
    names = " | ".join(name.replace("|", "\\|") for name in columns)
    return f"| {names} |\n|{'---|' * len(columns)}\n" if columns else ""


def join_full_lines(text: str) -> str:
    """Join the lines of Chinese or Japanese that end because they are full, in Markdown or plain text.

    Lines that are narrow or end with a sentence stay separate, as do headings, table rows, code, and the line before a
    list item. A paragraph whose last line is as wide as the others may be a list, and stays as it is.
    """
    pieces: list[str] = []
    position = 0
    # The current paragraph: its end, and the width of its widest line.
    paragraph_end, widest, is_list = -1, 0, False
    fences: list[int] | None = None
    for match in _FULL_BREAK.finditer(text):
        line_start, line_end = text.rfind("\n", 0, match.start()) + 1, match.start()
        if line_end >= paragraph_end:
            start = text.rfind("\n\n", 0, line_end) + 1
            paragraph_end = end if (end := text.find("\n\n", line_end)) >= 0 else len(text)
            paragraph = text[start:paragraph_end].rstrip()
            widths = [_columns(line.strip()) for line in paragraph.split("\n")]
            widest = max(widths)
            is_list = widths[-1] >= widest - _RAGGED and paragraph[-1] not in _ENDS
        if fences is None:
            fences = [fence.start() for fence in re.finditer(r"^[ \t>]{0,12}(?:```|~~~)", text, re.MULTILINE)]
        line = text[line_start:line_end]
        if (
            _columns(line.strip()) >= max(_LEAST_FULL, widest - _RAGGED)
            and not _WHOLE_LINE.match(text, line_start, line_end)
            and not (is_list or line.startswith("    ") or _BLOCK_START.match(text, line_end + 1))
            and not _LAID_OUT.search(line)
            and bisect(fences, line_end) % 2 == 0
        ):
            pieces.append(text[position:line_end])
            position = match.end()
    return "".join((*pieces, text[position:]))


def _columns(line: str) -> int:
    return len(line) + len(_WIDE.findall(line))


def is_own_line(text: str, line_end: int) -> bool:
    """Return whether the line that ends here was ended on purpose.

    It was if the next word would still have fitted, that is, if the next line is longer than this one with that word.
    Chinese lines are filled to the last character.

    Args:
        text: The text.
        line_end: Index of a line feed in it.
    """
    start = text.rfind("\n", 0, line_end) + 1
    line = text[start:line_end].strip()
    after = text[line_end + 1 : line_end + 3 * _LONGEST_TITLE].partition("\n")[0].strip()
    if not line or len(line) > _LONGEST_TITLE or line[-1] in _ENDS or not after or after[0].islower():
        return False
    first = after[0] if _HAN.match(after) else after.split(maxsplit=1)[0]
    return len(line) + 1 + len(first) < len(after)


# Where a text may change its topic: at its paragraphs.
#
# A heading belongs to the paragraph below it; lists, tables, quotations and code belong to the paragraph before them.

_START = late_pattern(r"(?:\A|\n[ \t]*\n|\n(?=#{1,6}[ \t]))\s*(?=\S)")
_HEADING_ALONE = late_pattern(r"#{1,6}[ \t][^\n]*\s*")
_NO_START = late_pattern(r"[-*+•·][ \t]|\d{1,3}(?:[.)][ \t]|、)|[|>]|```|~~~")


def paragraph_starts(text: str) -> list[int]:
    """Return the index of the first character of each paragraph; the first is the start of the text in any case."""
    starts: list[int] = []
    before = 0
    for match in _START.finditer(text):
        start = match.end()
        stands_below = _HEADING_ALONE.fullmatch(text, before, start) is not None
        if not starts or not (stands_below or _NO_START.match(text, start)):
            starts.append(start)
        before = start
    return starts


_LINE = late_pattern(r"[^\n]+")
_FENCE = late_pattern(r"[ \t>]{0,12}(```|~~~)")
# Headings, table rows and rules.
_WHOLE_LINE = late_pattern(r"[ \t]{0,12}(?:#{1,6}[ \t]|\||(?:[-=*_][ \t]?){3,}$)")
_BLOCK_START = re.compile(
    r"[ \t]{0,24}(?:[-*+•·][ \t]|(?:\d{1,3}|[A-Za-z])[.)][ \t]|[（(]?[一二三四五六七八九十\d]{1,3}[)）、]|>"
    r"|\[\^?\w{1,20}\]:"
    # The time of a chat message: "[2024-03-04 09:13] anna: Hi".
    r"|[\[(]?(?:\d{1,4}[-/.年]\d{1,2}[-/.月]\d{1,4}日?,? ?)?\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?[\])]?[ \t]*(?:-[ \t])?\S"
    rf"|[^\W\d_][\w.'’-]{{0,20}}(?: [\w.'’-]{{1,20}}){{0,2}}(?:: |：)|[{HAN}\w·]{{1,12}}：)"
)
_LIST_NUMBER = late_pattern(r"\s*(?:\d{1,3}|[A-Za-z])[.)](?=\s)")

_CLOSERS = "\"'”’»)\\]）】」』》〉*_`"
# French puts a space before a closing quotation mark; in German the same mark opens a quotation.
_END = late_pattern(
    rf"(?:[。！？｡]+|[!?؟।]+|\.+|…+|(?<=[\u3041-\u3096])．)[!?。！？؟]*[{_CLOSERS}]*(?:[ \u00a0\u202f]»(?=[\s.,;:)]))?"
)
# "「...？」と言った": the quotation belongs to the sentence that names the speaker.
_GOES_ON_IN_JAPANESE = late_pattern(r"[」』）)][とのはがをにへでもや]")
_CJK = late_pattern(rf"[{HAN}\u3041-\u30ff\uac00-\ud7af]")
_CONTINUES = frozenset("，、；：,;:）)】」』》〉")
_WORD_BEFORE = late_pattern(rf"[^\W_{HAN}](?:[^\W{HAN}]|[.&’'-])*$")
_DOTTED = late_pattern(r"(?:[^\W\d_]\.)*[^\W\d_]")
_LOOK_BACK = 24

_NEVER_AT_END = word_list("abbreviations_inside")
_ABBREVIATIONS = word_list("abbreviations")
_BEFORE_NUMBER = word_list("abbreviations_before_number")
_BEFORE_ORDINAL = word_list("de_before_ordinals")
_MONTHS = word_list("de_months")
_LONGEST_ORDINAL = 3


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the `(start, end)` of every sentence, heading, list item, table row and line of code.

    A text of white space gives none; a text without end marks gives one span per block, of any length.
    """
    spans: list[tuple[int, int]] = []
    for start, end, is_whole in _blocks(text):
        if is_whole:
            spans.extend(_trimmed(text, start, end))
        else:
            spans.extend(_sentences(text, start, end))
    return spans


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield `(start, end, is_whole)`; a whole block is one sentence, whatever marks it contains."""
    fence = ""
    start = end = -1
    for match in _LINE.finditer(text):
        line_start, line_end = match.span()
        opened = _FENCE.match(text, line_start, line_end)
        is_whole = bool(fence or opened or _WHOLE_LINE.match(text, line_start, line_end))
        if opened:
            mark = opened.group(1)
            fence = "" if fence == mark else fence or mark
        is_apart = line_start != end + 1 or _BLOCK_START.match(text, line_start, line_end)
        if start >= 0 and (is_whole or is_apart):
            yield start, end, False
            start = -1
        if is_whole:
            yield line_start, line_end, True
            continue
        if start < 0:
            start = line_start
        end = line_end
    if start >= 0:
        yield start, end, False


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    number = _LIST_NUMBER.match(text, start, end)
    search_from = number.end() if number else start
    for match in _END.finditer(text, search_from, end):
        if match.end() < end and _is_end(text, start, match, end):
            # A backtick after the mark may open the code that begins the next sentence: "。`nosuid` 选项".
            opens = text[match.end() - 1] == "`" and text.count("`", start, match.end()) % 2
            stop = match.end() - 1 if opens else match.end()
            yield from _trimmed(text, start, stop)
            start = stop
    yield from _trimmed(text, start, end)


def _is_end(text: str, start: int, match: re.Match[str], end: int) -> bool:
    mark, after = match.group()[0], text[match.end()]
    if mark in "。！？｡．":
        return after not in _CONTINUES and _GOES_ON_IN_JAPANESE.match(text, match.end() - 1) is None
    if _CJK.match(after):
        # Half-width marks in Chinese; a dot between Latin and Chinese ("v1.中") also ends a sentence.
        return mark in "!?" or (mark == "." and match.end() - match.start() == 1)
    if not after.isspace():
        return False
    word = _NEXT_WORD.match(text, match.end(), end)
    following = (word.group(1) or "") if word else ""
    if following[:1].islower():
        return False
    return mark != "." or match.group().startswith("..") or not _is_abbreviation(text, start, match.start(), following)


def _is_abbreviation(text: str, start: int, dot: int, following: str) -> bool:
    """Return whether the dot belongs to the word before it and does not end a sentence."""
    before = _WORD_BEFORE.search(text[max(start, dot - _LOOK_BACK) : dot])
    if not before:
        return False
    word = before.group().lower()
    # "l'art. 5" is elided; a short rest as in "John's" is no abbreviation.
    elided = word.replace("’", "'").rpartition("'")[2]
    word = elided if len(elided) > 2 else word
    if word.isdigit() and len(word) <= _LONGEST_ORDINAL:
        # An ordinal, as in German: "am 3. Mai", "die 2. Sitzung".
        words = text[max(start, dot - _LOOK_BACK) : dot - len(word)].split()
        is_counted = bool(words) and words[-1].lower() in _BEFORE_ORDINAL and following.lower() not in stop_words("de")
        return is_counted or following.lower() in _MONTHS
    if word in _NEVER_AT_END:
        return True
    if word in _BEFORE_NUMBER and following[:1].isdigit():
        return True
    if word in _ABBREVIATIONS or _DOTTED.fullmatch(before.group()):
        # "Acme Inc. The", "the U.S. It": a capitalised function word begins a sentence; "J. Smith" does not.
        return following.lower() not in stop_words("en")
    return False


_NEXT_WORD = late_pattern(r"\s*[\"'“‘«(\[*_`#]*([\w’']{1,40})?")


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        start += len(piece) - len(piece.lstrip())
        yield start, start + len(stripped)


# Names found in a text, and the sentence that each stands in.


@dataclass(frozen=True, slots=True)
class NameSpan:
    """A name and its position.

    Attributes:
        text: The name as written, inner white space included.
        start: Index of the first character.
        end: One past the last character.
        type: `person`, `organization`, `location`, `event`, `content` (titles of works), `artifact` (products,
            technology, identifiers), `concept` (quoted and stressed terms), or `unknown`.
    """

    text: str
    start: int
    end: int
    type: str


def without_overlaps(spans: Iterable[NameSpan]) -> list[NameSpan]:
    """Return the spans in text order; of two that overlap, the earlier in the input wins."""
    kept: list[NameSpan] = []
    taken: set[int] = set()
    for span in spans:
        places = range(span.start, span.end)
        if taken.isdisjoint(places):
            taken.update(places)
            kept.append(span)
    return sorted(kept, key=lambda span: span.start)


def spans_within(spans: Iterable[NameSpan], bounds: Sequence[tuple[int, int]]) -> Iterator[list[NameSpan]]:
    """Yield, for each `(start, end)`, the spans that lie within it; a span across a bound is in none.

    Args:
        spans: Spans in any order.
        bounds: Stretches of text in order, without overlap.
    """
    ordered = sorted(spans, key=lambda span: span.start)
    index = 0
    for start, end in bounds:
        while index < len(ordered) and ordered[index].start < start:
            index += 1
        first = index
        while index < len(ordered) and ordered[index].start < end:
            index += 1
        yield [span for span in ordered[first:index] if span.end <= end]
