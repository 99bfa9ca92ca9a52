"""Reads text that was laid out for a terminal as Markdown: manual pages as `man` prints them, change logs, RFCs.

In such text a line at the left edge is a heading with indented text below, a term stands to the left of its
explanation, and lines are justified and words hyphenated at line ends. The result has headings, paragraphs on one line,
list items with terms and explanations ("- `-f`: Flush the queue.") and fenced code.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from heliograph.documents.markdown import fence, markdown_table

# "QMGR(8)          System Manager's Manual          QMGR(8)", the first line of a manual page and often the last.
_RUNNING = re.compile(r"\s*(?P<name>[\w.:+@-]+\(\d\w{0,4}\))\s{2,}(?:\S.*\s{2,})?(?P=name)\s*$")
_FOOT = re.compile(r"\S.*\s{8,}\S.*\s{8,}\S+$|\S.*\[Page \w+\]\s*$")
# Lines at the left edge of an indented text: capitals, a number, a date, a version of a Debian package.
_EDGE = re.compile(
    r"[A-Z][A-Z0-9 ,./()&'-]{2,}$|(?:\d+(?:\.\d+)*\.?|[A-Z]\.)\s+\S|\d{4}-\d\d-\d\d\b|\S+ \(\S+\) .*; urgency=\w+"
)
_LONGEST_HEADING = 80
# Least share of lines with words that are indented, and of lines at the left edge that are such headings.
_LEAST_INDENTED = 0.6
_LEAST_EDGE = 0.8
_LEAST_HEADINGS = 2
# Subsections of a manual page stand between the edge and the body, as do signatures in change logs.
_LEAST_BASE = 5
# A line at the edge that comes so often is the head of a page; but change logs name a day and a person again and again.
_REPEATS = 4
_DAY = re.compile(r"\d{4}-\d\d-\d\d\b")
_PARTED = re.compile(r"[^\W\d_][-\u2010]$")
_CODE = re.compile(r"[{}=;$<>|\\]|^\s*[-#/%]|\S {3,}\S|\w\(\)", re.MULTILINE)
_MARK = re.compile(r"([-*+•—–−]|o(?= {2})|\(?\d{1,3}[.)]) +(?=\S)")
_LIST_MARKS = ("- ", "* ", "• ")
_LONGEST_TERM = 120
_WIDE_GAP = 4
# Longer paragraphs and deeper nesting are only made to break readers.
_MOST_LINES, _MOST_DEPTH = 2000, 20
_TAGGED_LINE = re.compile(r"(-{1,2}\w\S{0,12}) +(?=\S)|(\S{0,11}[^\s.,;!?]) {2,}(?=\S)")

Line = tuple[int, str]
"""A line's indentation and its words; the words are empty if it is blank."""


# Isolated lines that recur at regular distances, page numbers aside, are page headers and footers: least occurrences,
# page lengths in lines, largest deviation, and least share of the gaps that are regular.
_LEAST_PAGES = 4
_PAGE_LENGTHS = range(30, 100)
_OFF = 3
_REGULAR = 0.8
# Alone, in brackets, or far from the rest: "Employee 12" may head a record.
_PAGE_NUMBER = re.compile(
    r"^\s*(?:[-–]\s*)?(?:\d+|[ivxlc]+)(?:\s*[-–])?\s*$|\[[Pp]age (?:\d+|[ivxlc]+)\]\s*$"
    r"|\s{3,}(?:[Pp]age )?(?:\d+|[ivxlc]+)\s*$|^\s*(?:[Pp]age )?(?:\d+|[ivxlc]+)(?=\s{3,})"
)
# A drawn table: its upper border, then lines that begin and end with strokes; and the ASCII forms of these strokes.
_STROKES = str.maketrans("│┃║─━═┌┬┐├┼┤└┴┘╔╦╗╠╬╣╚╩╝╒╤╕╞╪╡╘╧╛┏┳┓┣╋┫┗┻┛╭╮╰╯", "|||---" + "+" * 40)
_DRAWN = re.compile(
    r"^[ \t]*[+┌╔╒┏╭][-=+─━═┬╦╤┳]{2,}[+┐╗╕┓╮][ \t]*\n"
    r"(?:[ \t]*[-+|=│┃║├╠╞┣└╚╘┗╰][^\n]*[-+|=│┃║┤╣╡┫┘╝╛┛╯][ \t]*(?:\n|\Z)){3,}",
    re.MULTILINE,
)
_FEWEST_BORDERS = 3
_ENDS_PARAGRAPH = re.compile(r"[.!?:;。！？：；][\"'”’)\]]*$")
_SPLIT_WORD = re.compile(r"(?<=[^\W\d_])[-\u2010]\n[ \t]*(?=([^\W\d_]+))")


def join_pages(text: str) -> str:
    """Remove page headers and footers from a paginated text, and join the paragraphs and words that they interrupt."""
    lines = text.split("\n")
    said = [" ".join(line.split()) for line in lines]
    places: dict[str, list[int]] = {}
    for place, words in enumerate(said):
        if words and not any(said[max(0, place - 1) : place]) and not any(said[place + 1 : place + 2]):
            places.setdefault(" ".join(_PAGE_NUMBER.sub(" #", lines[place]).split()), []).append(place)
    marks = {
        place
        for line, found in places.items()
        if _is_of_pages(found) and any(character.isalnum() or character == "#" for character in line)
        for place in found
    }
    if not marks:
        return text
    joined: list[str] = []
    place = 0
    while place < len(lines):
        end = place
        while end < len(lines) and (not said[end] or end in marks):
            end += 1
        if marks.isdisjoint(range(place, end)):
            joined += lines[place : end + 1]
        else:
            # The widest lines nearby tell whether the last one was full.
            around = [*lines[max(0, place - 20) : place], *lines[end : end + 20]]
            is_over = end < len(lines) and bool(joined) and _goes_on(joined[-1], lines[end], max(map(len, around)))
            joined += [*([] if is_over else [""]), *lines[end : end + 1]]
        place = end + 1
    text = "\n".join(joined)
    within = frozenset(re.findall(r"[^\W\d_]+[-\u2010][^\W\d_]+", text))

    def whole(match: re.Match[str]) -> str:
        before = re.split(r"[\W\d_]+", text[max(0, match.start() - 40) : match.start()])[-1]
        return "-" if match[1][0].isupper() or f"{before}-{match[1]}" in within else ""

    return _SPLIT_WORD.sub(whole, text)


def _is_of_pages(places: Sequence[int]) -> bool:
    """Return whether these lines are a page apart, or several pages where left and right pages differ."""
    gaps = [after - before for before, after in pairwise(places)]
    if len(places) < _LEAST_PAGES:
        return False
    length = sorted(gaps)[len(gaps) // 2]
    regular = sum(min(gap % length, length - gap % length) <= _OFF for gap in gaps)
    return length in _PAGE_LENGTHS and regular >= _REGULAR * len(gaps)


def _goes_on(before: str, after: str, width: int) -> bool:
    """Return whether a line continues a paragraph that a page break cut."""
    if not before.strip() or _ENDS_PARAGRAPH.search(before) or _MARK.match(after.lstrip()):
        return False
    indent = len(after) - len(after.lstrip())
    is_full = len(before) >= 0.85 * width and indent <= len(before) - len(before.lstrip())
    return after.lstrip()[0].islower() or is_full


def drawn_tables(text: str) -> str:
    """Return a text with its drawn tables, of ASCII or box-drawing characters, as Markdown tables."""
    return _DRAWN.sub(_table, text)


def _table(match: re.Match[str]) -> str:
    """Return a drawn table as Markdown; unchanged if cells span columns."""
    drawn = [line.strip() for line in match[0].translate(_STROKES).strip().split("\n")]
    borders = {place for place, line in enumerate(drawn) if not line.strip("+-=|")}
    columns = drawn[0].count("+") - 1
    # Per row and cell its lines.
    rows: list[list[list[str]]] = []
    for place, line in enumerate(drawn):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if place in borders:
            continue
        if len(cells) != columns:
            return match[0]
        # Without borders between rows, a line that continues a row has an empty first cell.
        if place - 1 in borders or (len(borders) <= _FEWEST_BORDERS and cells[0]):
            rows.append([[] for _ in cells])
        for lines, cell in zip(rows[-1], cells, strict=True):
            lines.append(cell)
    if len(rows) < 2:
        return match[0]
    return f"\n{markdown_table([[' '.join(filter(None, lines)) for lines in row] for row in rows])}\n\n"


def is_manual_page(text: str) -> bool:
    """Return whether a text begins with the running head of a manual page."""
    return _RUNNING.match(text.lstrip().partition("\n")[0]) is not None


def terminal_markdown(text: str) -> str | None:
    """Return such a text as Markdown; None if it has another layout."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.expandtabs(8).split("\n")]
    if not is_manual_page(text):
        said = [line for line in lines if line[1] and not _FOOT.match(line[1])]
        edge = [words for indent, words in said if not indent]
        headings = [words for words in edge if len(words) <= _LONGEST_HEADING and _EDGE.match(words)]
        is_indented = len(said) - len(edge) >= _LEAST_INDENTED * len(said)
        if not is_indented or len(headings) < max(_LEAST_HEADINGS, _LEAST_EDGE * len(edge)):
            return None
    return "\n\n".join(_Page(lines).blocks()) + "\n"


def set_out_markdown(text: str) -> Iterator[str]:
    """Yield the blocks of a text without headings, whose paragraphs are at the left edge or indented below terms."""
    shifted = [(len(line) - len(line.lstrip()) + _LEAST_BASE, line.strip()) for line in text.expandtabs(8).split("\n")]
    yield from _Page(shifted, base=_LEAST_BASE).blocks()


class _Page:
    """One text: its lines, its name if it is a manual page, and the indentation of its body."""

    def __init__(self, lines: Sequence[Line], base: int = 0) -> None:
        head = next((match for _, words in lines if words and (match := _RUNNING.match(words))), None)
        edge = Counter(words for indent, words in lines if words and not indent and not _DAY.match(words))
        # How far the items are indented that later lines may belong to, and the one that was opened last.
        self._items: list[int] = []
        self._opened = -1
        self._title = head["name"] if head else ""
        self._name = self._title.partition("(")[0].casefold()
        self._lines = [
            (indent, "" if _FOOT.match(words) or (not indent and edge[words] >= _REPEATS) else words)
            for indent, words in lines
            if not _RUNNING.match(words)
        ]
        self._hyphenated = set(re.findall(r"\w+[-\u2010]\w+", "\n".join(words for _, words in lines)))
        indents = Counter(indent for indent, words in self._lines if words and indent)
        self._indents = indents.keys()
        most = max(indents.values(), default=0)
        self._base = base or min((indent for indent, count in indents.items() if count >= most / 4), default=0)

    def blocks(self) -> Iterator[str]:
        """Yield the blocks of Markdown."""
        if self._title:
            yield f"# {self._title.lower() if self._title.isupper() else self._title}"
        paragraph: list[Line] = []
        heading = ""
        for indent, words in (*self._lines, (0, "")):
            is_heading = bool(words) and (not indent or (not paragraph and indent < self._base >= _LEAST_BASE))
            if is_heading or not words or len(paragraph) >= _MOST_LINES:
                # Below the items that are still open at its indentation.
                while paragraph and self._items and self._items[-1] >= paragraph[0][0]:
                    self._items.pop()
                depth, self._opened = len(self._items), -1
                yield from (textwrap.indent(block, "  " * depth) for block in self._said(paragraph))
                if self._opened >= 0:
                    self._items.append(self._opened)
                paragraph = []
            if is_heading:
                self._items.clear()
                before, heading = heading, f"{'###' if indent else '##'} {' '.join(words.split())}"
                if heading != before:
                    yield heading
            elif words:
                paragraph.append((indent, words))

    def _said(self, lines: Sequence[Line], depth: int = 0) -> Iterator[str]:
        """Yield the content of lines without a blank one between: terms with explanations, code as is, paragraphs."""
        while lines:
            first, rest = lines[0], lines[1:]
            hanging = list(takewhile(lambda line: line[0] > first[0], rest))  # noqa: B023 (used within this round)
            column = min((indent for indent, _ in hanging), default=0)
            is_alone = column or not rest or rest[0][0] < first[0] or self._tag_of(rest[0], 0)
            tagged = self._tag_of(first, column) if is_alone and depth < _MOST_DEPTH else None
            if tagged is not None:
                tag, said = tagged
                below = [(column, said)] * bool(said) + hanging
                yield _led_by(tag, list(self._said(below, depth + 1)) if column else [said])
                lines, self._opened = rest[len(hanging) :], first[0]
                continue
            # Up to the next part with an indentation of its own.
            end = next(
                (
                    place
                    for place in range(1, len(lines))
                    if lines[place][0] <= first[0]
                    and (lines[place][0] < lines[place - 1][0] or lines[place][1][:2] in _LIST_MARKS)
                ),
                len(lines),
            )
            yield self._code(lines[:end]) or self._joined(lines[:end])
            lines, self._opened = lines[end:], -1

    def _tag_of(self, line: Line, column: int) -> tuple[str, str] | None:
        """Return the term or mark at the start of a line whose continuation begins at `column`, and the line's rest."""
        indent, words = line
        if match := _MARK.match(words):
            return match[1], " ".join(words[match.end() :].split())
        if not column:
            # The explanation is aligned with others, or far from the term.
            match = _TAGGED_LINE.match(words)
            is_tagged = match is not None and (
                indent + match.end() in self._indents or match.end() - len(match[0].rstrip()) >= _WIDE_GAP
            )
            return (match[1] or match[2], " ".join(words[match.end() :].split())) if match and is_tagged else None
        width = column - indent
        tag, said = words[:width].rstrip(), " ".join(words[width:].split())
        if len(words) > width and words[width - 1] == " " and "  " not in tag:
            return tag, said
        is_term = width > 1 and len(words) <= _LONGEST_TERM and words[-1] not in ".,。，"
        return (" ".join(words.split()), "") if is_term else None

    def _code(self, lines: Sequence[Line]) -> str:
        """Return lines of code or a command synopsis in a fence; empty for other lines."""
        least = min(indent for indent, _ in lines)
        is_call = bool(self._name) and all(words.casefold().startswith(self._name) for _, words in lines)
        if not is_call or " - " in lines[0][1] or not any("[" in words or " -" in words for _, words in lines):
            text = "\n".join(words for _, words in lines)
            is_ragged = max(len(words) for _, words in lines) < 60 or len({indent for indent, _ in lines}) > 1
            if least <= self._base or not is_ragged or not _CODE.search(text.rstrip(";")) or text[-1] in ".。":
                return ""
        return fence("\n".join(" " * (indent - least) + words for indent, words in lines))

    def _joined(self, lines: Sequence[Line]) -> str:
        """Join lines; a hyphen at a line end stays if the word also occurs with it within a line."""
        pieces = [""]
        for words in (" ".join(words.split()) for _, words in lines):
            before = pieces[-1]
            following = re.match(r"\w+", words)
            if not _PARTED.search(before[-2:]) or not following or not words[0].islower():
                is_han = bool(before) and before[-1] >= "\u2e80" and words[0] >= "\u2e80"
                pieces.append(words if is_han or not before else f" {words}")
                continue
            whole = re.split(r"[^\w\u2010-]+", before)[-1] + following[0]
            pieces[-1] = before if whole in self._hyphenated else before[:-1]
            pieces.append(words)
        said = "".join(pieces)
        return f"\\{said}" if said.startswith("#") else said


def _led_by(tag: str, blocks: Sequence[str]) -> str:
    """Return a term and its description as a list item, with further blocks indented below it."""
    mark = "- "
    if _MARK.match(f"{tag}  x"):
        mark, first = (f"{tag} " if tag[0].isdigit() else mark), blocks[0]
    else:
        term = tag if "`" in tag or tag[0] >= "\u2e80" else f"`{tag}`"
        is_apart = blocks[0].startswith(("```", "- "))
        first = f"{term}:" if is_apart else f"{term}: {blocks[0]}"
        blocks = ["", *blocks] if is_apart else blocks
    return "\n\n".join((mark + first, *(textwrap.indent(block, "  ") for block in blocks[1:])))
