"""Reading the rows in a reply: fields parted by a delimiter such as `<|#|>` or `<|>`, however damaged.

Text comes in; out go rows with their kind and fields, in order. Three dialects are in use, told apart by the
delimiter that most of a reply uses:

- `entity<|#|>name<|#|>type<|#|>description` and `relation<|#|>source<|#|>target<|#|>keywords<|#|>description`,
- `("entity"<|>"name"<|>"type"<|>"description")##` with
  `("relationship"<|>"source"<|>"target"<|>"description"<|>"keywords"<|>strength)##`,
- the same without keywords.

A row begins where a kind stands before a delimiter, be it at a line's start, after `##`, or right after another row
whose separator was forgotten. A last row that breaks off is left out. Every character is looked at a bounded number
of times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["DELIMITER", "KINDS", "Row", "RowKind", "RowReading", "is_strength", "read_rows"]

RowKind = Literal["entity", "relation", "keywords", ""]

# An angle bracket and a bar, or a bar and something of a delimiter; a lone bar, and `a || b`, belong to the text. The
# `#` of `C#` and the `>` of `list<int>` before a delimiter are left to the name.
DELIMITER = re.compile(
    r"<#>|<\|#(?![|#<>])"
    r"|(?<!<)<{1,8}#?\|(?:[|<>#\\]*[|>])?"
    r"|\|(?=[|\\]{0,4}[#<>])[|<>#\\]*[|>]"
    r"|(?<![\s|])\|\|(?![\s|])"
)
_FULL_WIDTH = str.maketrans("｜＜＞＃", "|<>#")
_TERMINATOR = re.compile(r"<\|?\s?COMPLETE\s?\|?>|<\|[a-z][a-z_]{1,24}\|>", re.IGNORECASE)
KINDS: dict[str, RowKind] = {
    "entity": "entity",
    "entities": "entity",
    "source_entity": "entity",
    "target_entity": "entity",
    "实体": "entity",
    "實體": "entity",
    "relation": "relation",
    "relations": "relation",
    "relationship": "relation",
    "relationships": "relation",
    "关系": "relation",
    "關係": "relation",
    "content_keywords": "keywords",
    "high_level_keywords": "keywords",
}
_START = re.compile(rf"(?<![\w])({'|'.join(KINDS)})[\"'”’*`)]{{0,4}}\s?(?:{DELIMITER.pattern}|(\|))", re.IGNORECASE)
_LEAD = " \t\"'“‘(`*[{-"
_MAX_LEAD = 12
_MAX_ROW_LINES = 12
_ROW_END = " \t\r)]}>,.;#*`\\"
_STRENGTH = re.compile(
    r"[\"'(\s]{0,4}(?:[a-z_ ]{1,24}[:=]\s?)?-?\d{1,6}(?:\.\d{1,6})?\s?(?:/\s?10)?[\"')\s.,;`*]{0,4}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        kind: What it calls itself; empty for a row that does not say.
        fields: Its fields after the kind, cleaned of quotes and brackets; none of the last ones is empty.
    """

    kind: RowKind
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowReading:
    """What `read_rows` found.

    Attributes:
        rows: In order.
        has_keywords_first: Whether relations give keywords before the description.
        says_empty: Whether there is a terminator and no other word.
        is_cut: Whether a last row was left out because it breaks off.
    """

    rows: tuple[Row, ...]
    has_keywords_first: bool
    says_empty: bool
    is_cut: bool


def read_rows(text: str, *, is_complete: bool = True) -> RowReading:
    """Return every row of a text.

    Args:
        text: A reply, or what is left of it after other forms were read.
        is_complete: False when the reply was cut at a length limit, so that its last line cannot be trusted.
    """
    plain = _TERMINATOR.sub("\n", text.translate(_FULL_WIDTH))
    starts = _find_starts(plain)
    bounds = [*(_row_start(plain, match.start()) for match in starts), len(plain)]
    rows = _bare_rows(plain[: bounds[0]].split("\n"))
    is_cut = False
    for start, end in zip(starts, bounds[1:], strict=True):
        lines = plain[start.end() : end].split("\n")
        count = _count_lines(lines)
        row = "\n".join(lines[:count])
        is_cut = end == len(plain) and count == len(lines) and _breaks_off(row, is_complete=is_complete)
        if not is_cut:
            rows.append(_make_row(KINDS[start.group(1).lower()], row, is_plain=bool(start.group(2))))
        rows += _bare_rows(lines[count:])
    hashes = sum(1 if "#" in match.group() else -1 for match in DELIMITER.finditer(plain))
    says_empty = _TERMINATOR.search(text) is not None and not any(character.isalnum() for character in plain)
    return RowReading(tuple(rows), hashes > 0, says_empty, is_cut)


def is_strength(field: str) -> bool:
    """Whether a field holds a number and nothing else that says anything."""
    return len(field) <= 48 and _STRENGTH.fullmatch(field) is not None


def _find_starts(text: str) -> list[re.Match[str]]:
    starts: list[re.Match[str]] = []
    for match in _START.finditer(text):
        before = _last_before(text, match.start())
        if before.isalpha() or (match.group(2) and not _opens_line(text, match.start())):
            continue  # "... is an entity<|>8": the end of a sentence
        if starts and before in "<>|" and not _is_row_over(text, starts[-1], match.start()):
            continue  # `entity<|#|>name<|#|>entity<|#|>...`: a field of the row under way
        starts.append(match)
    return starts


def _row_start(text: str, kind: int) -> int:
    """Return where the row whose kind stands at `kind` starts: before its bracket and quote, if it has them."""
    start = kind
    for index in range(kind - 1, max(kind - 4, 0) - 1, -1):
        if text[index] not in "\"'“‘( ":
            break
        if text[index] != " ":
            start = index
    return start


def _opens_line(text: str, position: int) -> bool:
    """Whether nothing but decoration stands before a position on its line; a table may begin rows with a bar."""
    before = text[max(position - _MAX_LEAD, 0) : position].rpartition("\n")
    return not before[2].strip(_LEAD + "|") and (bool(before[1]) or position <= _MAX_LEAD)


def _last_before(text: str, position: int) -> str:
    """Return the character before a row's decoration (bullets, brackets, quotes); a line break at the start."""
    for index in range(position - 1, max(position - _MAX_LEAD, 0) - 1, -1):
        if text[index] not in _LEAD:
            return text[index]
    return "\n"


def _is_row_over(text: str, start: re.Match[str], position: int) -> bool:
    between = text[start.end() : position]
    wanted = 2 if KINDS[start.group(1).lower()] == "entity" else 3
    return "\n" in between or len(DELIMITER.findall(between)) >= wanted


def _count_lines(lines: list[str]) -> int:
    """Return how many of the lines from a row's start on belong to it: one, unless a field goes on."""
    delimiters = opened_at = 0
    is_open = False
    for count, line in enumerate(lines[:_MAX_ROW_LINES], start=1):
        parts = DELIMITER.split(line)
        delimiters += len(parts) - 1
        if count == 1 or len(parts) > 1:
            is_open, opened_at = _has_open_quote(parts[-1]), count
        elif is_open:
            is_open = not _is_quote_end(line)
        following = lines[count] if count < len(lines) else ""
        if not is_open and not (delimiters < 2 and DELIMITER.search(following)):
            return count
        if not following.strip():
            break
    return opened_at  # a quote that never closes ends with its line


def _has_open_quote(field: str) -> bool:
    field = field.strip()
    return field.startswith(('"', "“")) and (len(field) == 1 or not _is_quote_end(field))


def _is_quote_end(text: str) -> bool:
    return text.rstrip(_ROW_END).endswith(('"', "”"))


def _breaks_off(row: str, *, is_complete: bool) -> bool:
    """Whether the row at the very end of a reply lacks its end; only a closing bracket or `##` shows for certain."""
    is_open = _has_open_quote(DELIMITER.split(row)[-1])
    is_closed = row.rstrip().endswith((")", "##"))
    if is_complete:
        return is_open and not is_closed
    is_tuple = row.lstrip().startswith(('"', "“"))
    return is_open or not (is_tuple and is_closed)


def _bare_rows(lines: list[str]) -> list[Row]:
    """Return the lines that are rows but do not say of what kind."""
    return [_make_row("", line.lstrip(_LEAD)) for line in lines if len(DELIMITER.findall(line)) >= 2]


def _make_row(kind: RowKind, text: str, *, is_plain: bool = False) -> Row:
    parts = text.split("|") if is_plain else DELIMITER.split(text)
    parts[-1:] = _split_strength(_strip_row_end(parts[-1].strip()))
    fields = [_unquote(part.strip()) for part in parts]
    while fields and not fields[-1].strip(_ROW_END + "\"'"):
        fields.pop()
    return Row(kind, tuple(fields))


def _strip_row_end(text: str) -> str:
    """Remove what closes a row: `##`, commas after it, and brackets that were not opened in this field."""
    surplus = {closing: text.count(closing) - text.count(opening) for opening, closing in ("()", "[]", "{}")}
    while text:
        if text.endswith("##"):
            text = text.rstrip("# \t")
        elif surplus.get(text[-1], 0) > 0:
            surplus[text[-1]] -= 1
            text = text[:-1].rstrip()
        elif text.endswith(('",', "),", '";', "`")) or (text.startswith('"') and text.endswith(('")', '" )'))):
            text = text[:-1].rstrip()
        else:
            break
    return text


def _split_strength(text: str) -> list[str]:
    """Part a strength from the quoted field that it clings to: `"..."8`."""
    head = text.rstrip("0123456789. ")
    return [head, text[len(head) :]] if head.endswith('"') and head != text.rstrip() else [text]


def _unquote(text: str) -> str:
    text = text.replace('\\"', '"')
    is_odd = text.count('"') % 2 == 1
    if text.startswith('"') and (text.endswith('"') or is_odd):
        text, is_odd = text[1:], not is_odd
        if text.endswith('"'):
            text, is_odd = text[:-1].rstrip(), not is_odd
    return (text[:-1] if is_odd and text.endswith('"') else text).strip()
