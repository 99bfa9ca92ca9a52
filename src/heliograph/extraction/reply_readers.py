"""Reads damaged JSON and damaged rows of delimited fields in a chat model's reply.

Text comes in; JSON objects or rows of fields go out, in order. Both readers are lenient: they skip prose, fences and
cut ends around records, and leave out a cut-off record entirely. No text raises an error, and time is linear in its
length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from heliograph.text.patterns import late_pattern

# Reading the rows in a reply: fields separated by a delimiter such as `<|#|>` or `<|>`, however damaged.
#
# Rows with their kind and fields are returned in order. Three dialects are in use; the delimiter that most of a reply
# uses tells which:
#
# - `entity<|#|>name<|#|>type<|#|>description` and `relation<|#|>source<|#|>target<|#|>keywords<|#|>description`,
# - `("entity"<|>"name"<|>"type"<|>"description")##` with
#   `("relationship"<|>"source"<|>"target"<|>"description"<|>"keywords"<|>strength)##`,
# - the same without keywords.
#
# A row begins where a kind stands before a delimiter: at a line's start, after `##`, or right after another row whose
# separator is missing. A last row that breaks off is left out. Every character is read a bounded number of times.

RowKind = Literal["entity", "relation", "keywords", ""]

# An angle bracket and a bar, or a bar and another part of a delimiter; a lone bar, and `a || b`, belong to the text.
# The `#` of `C#` and the `>` of `list<int>` before a delimiter belong to the name.
DELIMITER = late_pattern(
    r"<#>|<\|#(?![|#<>])"
    r"|(?<!<)<{1,8}#?\|(?:[|<>#\\]*[|>])?"
    r"|\|(?=[|\\]{0,4}[#<>])[|<>#\\]*[|>]"
    r"|(?<![\s|])\|\|(?![\s|])"
)
_FULL_WIDTH = str.maketrans("｜＜＞＃", "|<>#")
_TERMINATOR = late_pattern(r"<\|?\s?COMPLETE\s?\|?>|<\|[a-z][a-z_]{1,24}\|>", re.IGNORECASE)
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
_ROW_START = late_pattern(
    rf"(?<![\w])({'|'.join(KINDS)})[\"'”’*`)]{{0,4}}\s?(?:{DELIMITER.pattern}|(\|))", re.IGNORECASE
)
_LEAD = " \t\"'“‘(`*[{-"
_MAX_LEAD = 12
_MAX_ROW_LINES = 12
_ROW_END = " \t\r)]}>,.;#*`\\"
_STRENGTH = late_pattern(
    r"[\"'(\s]{0,4}(?:[a-z_ ]{1,24}[:=]\s?)?-?\d{1,6}(?:\.\d{1,6})?\s?(?:/\s?10)?[\"')\s.,;`*]{0,4}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        kind: The kind that it states; empty for a row that states none.
        fields: Its fields after the kind, without quotes and brackets; none of the last ones is empty.
    """

    kind: RowKind
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowReading:
    """The result of `read_rows`.

    Attributes:
        says_empty: Whether there is a terminator and no other word.
        is_cut: Whether a last row was left out because it breaks off.
    """

    rows: tuple[Row, ...]
    has_keywords_first: bool
    says_empty: bool
    is_cut: bool


def read_rows(text: str, *, is_complete: bool = True) -> RowReading:
    """Return every row of a reply, or of its remaining text after JSON was read.

    The last line of a reply that was cut at a length limit (`is_complete` False) is not trusted.
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
    """Return whether a field holds only a number."""
    return len(field) <= 48 and _STRENGTH.fullmatch(field) is not None


def _find_starts(text: str) -> list[re.Match[str]]:
    starts: list[re.Match[str]] = []
    for match in _ROW_START.finditer(text):
        at = match.start()
        lead = text[max(at - _MAX_LEAD, 0) : at]
        # The character before bullets, brackets and quotes.
        before = next((character for character in reversed(lead) if character not in _LEAD), "\n")
        if before.isalpha():
            continue  # "... is an entity<|>8": the end of a sentence
        _, line_end, decoration = lead.rpartition("\n")
        # A table may begin rows with a bar.
        if match.group(2) and (decoration.strip(_LEAD + "|") or not (line_end or at <= _MAX_LEAD)):
            continue
        if starts and before in "<>|":
            between = text[starts[-1].end() : match.start()]
            wanted = 2 if KINDS[starts[-1].group(1).lower()] == "entity" else 3
            if "\n" not in between and len(DELIMITER.findall(between)) < wanted:
                continue  # `entity<|#|>name<|#|>entity<|#|>...`: a field of the current row
        starts.append(match)
    return starts


def _row_start(text: str, kind: int) -> int:
    """Return where the row whose kind is at `kind` starts: before its bracket and quote, if it has them."""
    start = kind
    for index in range(kind - 1, max(kind - 4, 0) - 1, -1):
        if text[index] not in "\"'“‘( ":
            break
        if text[index] != " ":
            start = index
    return start


def _count_lines(lines: list[str]) -> int:
    """Return how many of the lines from a row's start belong to it: one, unless a field spans lines."""
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
    """Return whether the last row of a reply breaks off; only a closing bracket or `##` proves that it does not."""
    is_open = _has_open_quote(DELIMITER.split(row)[-1])
    is_closed = row.rstrip().endswith((")", "##"))
    if is_complete:
        return is_open and not is_closed
    is_tuple = row.lstrip().startswith(('"', "“"))
    return is_open or not (is_tuple and is_closed)


def _bare_rows(lines: list[str]) -> list[Row]:
    """Return the lines that are rows without a stated kind."""
    return [_make_row("", line.lstrip(_LEAD)) for line in lines if len(DELIMITER.findall(line)) >= 2]


def _make_row(kind: RowKind, text: str, *, is_plain: bool = False) -> Row:
    parts = text.split("|") if is_plain else DELIMITER.split(text)
    last = parts[-1] = _strip_row_end(parts[-1].strip())
    head = last.rstrip("0123456789. ")
    # A strength may be attached to the quoted field before it: `"..."8`.
    if head.endswith('"') and head != last.rstrip():
        parts[-1:] = [head, last[len(head) :]]
    fields: list[str] = []
    for said in (part.strip().replace('\\"', '"') for part in parts):
        is_odd = said.count('"') % 2 == 1
        if said.startswith('"') and (said.endswith('"') or is_odd):
            said, is_odd = said[1:], not is_odd
            if said.endswith('"'):
                said, is_odd = said[:-1].rstrip(), not is_odd
        fields.append((said[:-1] if is_odd and said.endswith('"') else said).strip())
    while fields and not fields[-1].strip(_ROW_END + "\"'"):
        fields.pop()
    return Row(kind, tuple(fields))


def _strip_row_end(text: str) -> str:
    """Remove a row's closing characters: `##`, commas after it, and brackets that were not opened in this field."""
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


# Reading the JSON in a reply, however broken: a lenient reader that yields objects as they close.
#
# The values found are returned with their objects, innermost first. Records of an extraction are flat, so an object
# counts as soon as its own brace closes: the values around it may be cut off, doubled or wrapped in prose. An object
# that is itself cut off is left out entirely, never completed by guesswork.
#
# Repairs: trailing and missing commas, single and typographic quotes, unquoted words, unescaped quotes and line breaks
# in strings, strings and objects that were never closed. Every character is read a bounded number of times, whatever
# the text (general JSON repairers take quadratic time on replies that loop).

JsonField = str | list[str]

_OPENERS = {
    '"': late_pattern(r'\\.|"', re.DOTALL),
    "'": late_pattern(r"\\.|'", re.DOTALL),
    "“": late_pattern(r'\\.|["“”]', re.DOTALL),
    "”": late_pattern(r'\\.|["“”]', re.DOTALL),
    "„": late_pattern(r'\\.|["“”]', re.DOTALL),
}
_QUOTES = "\"'“”„"
_TOKEN = late_pattern(rf"[{{}}\[\],:，：]|[{_QUOTES}]|[^\s{{}}\[\],:，：{_QUOTES}][^{{}}\[\],:，：\"“”„\n]*")
_JSON_MARK = late_pattern(rf"(?P<line>\n)|(?P<open>[{{\[])|(?P<delimiter>{DELIMITER.pattern})")
_KEY = late_pattern(r"""(["“”„])([^"“”„\n]{1,200})["“”]\s*[:：]|'([^'\n]{1,200})'\s*[:：]""")
_BARE_KEY = late_pattern(r"\w{1,40}\s*:")
_VALUE_START = late_pattern(rf"[{_QUOTES}{{}}\[\]\-\d]|(?:true|false|null)\b")
_NOT_SPACE = late_pattern(r"\S")
_RECORD_BREAK = late_pattern(r"\s*,?\s*\{\s*")
_ESCAPE = late_pattern(r"\\(?:u([0-9a-fA-F]{4})|([\"\\/bfnrt']))")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NULLS = frozenset({"null", "None"})


@dataclass(frozen=True, slots=True)
class JsonObject:
    """One object, or one list in a list.

    Attributes:
        label: Key of its container, such as `entities`; empty at the top.
        key: Its own key in the object that contains it; empty in a list.
        fields: Values by key as written: text, or a list of texts. Numbers and booleans are text too.
        items: For a list: its texts; then there are no fields.
    """

    label: str
    key: str
    fields: dict[str, JsonField]
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JsonValue:
    """One value at the top level of a text.

    Attributes:
        objects: All closed objects in it, in the order in which they close, and lists in lists.
        is_cut: Whether the text ended within it.
    """

    start: int
    end: int
    objects: tuple[JsonObject, ...]
    is_cut: bool


def read_json(text: str) -> list[JsonValue]:
    """Return every object and list at the top level of a text.

    A bracket that follows a row delimiter on its line belongs to that row's text and is not read.
    """
    values: list[JsonValue] = []
    position = 0
    is_row = False
    while match := _JSON_MARK.search(text, position):
        position = match.end()
        if match.lastgroup != "open":
            is_row = match.lastgroup == "delimiter"
        elif not is_row:
            values.append(_Reader(text, match.start()).read())
            position = values[-1].end
    return values


@dataclass(slots=True)
class _Frame:
    """An open value: an object waiting for the value of `key` (if `expects_value`), or a list."""

    is_object: bool
    own_key: str
    fields: dict[str, JsonField] = field(default_factory=dict[str, JsonField])
    items: list[str] = field(default_factory=list[str])
    key: str = ""
    expects_value: bool = False


class _Reader:
    """Reads one value, from its opening bracket to its closing one or to the end of the text."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = self._position = start
        self._stack: list[_Frame] = []
        self._open_counts = {True: 0, False: 0}
        self._objects: list[JsonObject] = []

    def read(self) -> JsonValue:
        while match := _TOKEN.search(self._text, self._position):
            self._position = match.end()
            mark = match.group()
            if mark in "{[":
                self._open(is_object=mark == "{")
            elif mark in "}]":
                is_object = mark == "}"
                while self._open_counts[is_object] and self._pop() is not is_object:
                    pass
            elif mark in _QUOTES:
                self._take_quoted(match.start())
            else:
                self._take_bare(mark)
            if not self._stack:
                return JsonValue(self._start, self._position, tuple(self._objects), is_cut=False)
        return JsonValue(self._start, len(self._text), tuple(self._objects), is_cut=True)

    def _open(self, *, is_object: bool) -> None:
        key = ""
        if self._stack:
            top = self._stack[-1]
            if is_object and top.is_object and top.fields and not top.expects_value:
                self._pop()  # a record that was never closed
                top = self._stack[-1] if self._stack else top
            key, top.key, top.expects_value = top.key, "", False
        self._stack.append(_Frame(is_object, key))
        self._open_counts[is_object] += 1

    def _pop(self) -> bool:
        """Close the innermost value, add it to its container, and return whether it was an object."""
        frame = self._stack.pop()
        self._open_counts[frame.is_object] -= 1
        holder = self._stack[-1] if self._stack else None
        if frame.is_object:
            self._emit(frame, holder)
        elif holder and holder.is_object:
            holder.fields.setdefault(frame.own_key, frame.items)
        elif frame.items:
            self._objects.append(JsonObject(holder.own_key if holder else "", "", {}, tuple(frame.items)))
        return frame.is_object

    def _emit(self, frame: _Frame, holder: _Frame | None) -> None:
        if not frame.fields:
            return
        self._objects.append(JsonObject(holder.own_key if holder else "", frame.own_key, frame.fields))
        name = frame.fields.get("name")
        if holder and holder.is_object and isinstance(name, str):
            holder.fields.setdefault(frame.own_key, name)  # `"source": {"name": ...}`

    def _take_quoted(self, start: int) -> None:
        top = self._stack[-1]
        if top.is_object and not top.expects_value:
            # Only a key can stand here; any other quote is a stray one.
            if key := _KEY.match(self._text, start):
                top.key, top.expects_value = key.group(2) or key.group(3), True
                self._position = key.end()
            return
        value, self._position = _read_string(self._text, start, in_object=top.is_object)
        if value is not None:
            self._put(value)

    def _take_bare(self, mark: str) -> None:
        top = self._stack[-1]
        if mark in ",，":
            top.expects_value = False
        elif mark in ":：":
            top.expects_value = top.is_object and bool(top.key)
        elif top.is_object and not top.expects_value:
            top.key = mark.strip()
        else:
            self._put("" if mark.strip() in _NULLS else mark.strip())

    def _put(self, value: str) -> None:
        top = self._stack[-1]
        if not top.is_object:
            top.items.append(value)
            return
        if top.fields and next(iter(top.fields)) == top.key:
            # Two records ran together: the second begins where the first key recurs.
            self._emit(top, self._stack[-2] if len(self._stack) > 1 else None)
            top.fields = {}
        top.fields.setdefault(top.key, value)
        top.key, top.expects_value = "", False


def _read_string(text: str, start: int, *, in_object: bool) -> tuple[str | None, int]:
    """Return the value of the string whose opening quote is at `start`, and where to read on; None if cut."""
    position = inner = start + 1
    while match := _OPENERS[text[start]].search(text, position):
        position, quote = match.end(), match.start()
        if text[quote] == "\\":
            continue
        if _is_closing(text, position, in_object=in_object):
            return _unescape(text[start + 1 : quote]), position
        if in_object and _KEY.match(text, quote):
            # The closing quote is missing: the string ends before the next key, or before a new record.
            brace = text.rfind("}", inner, quote)
            end = brace if brace > start and _RECORD_BREAK.fullmatch(text, brace + 1, quote) else quote
            return _unescape(text[start + 1 : end].rstrip(" ,\n\t\r" + _QUOTES)), end
        inner = quote
    return None, len(text)


def _is_closing(text: str, after: int, *, in_object: bool) -> bool:
    """Return whether the quote that ends at `after` closes its string, judged by the text after it."""
    match = _NOT_SPACE.search(text, after)
    if match is None or match.group() in "}]":
        return True
    if match.group() in ",，":
        following = _NOT_SPACE.search(text, match.end())
        if following is None or following.group() in "{}[]":
            return True
        start = following.start()
        pattern = _KEY if in_object else _VALUE_START
        return bool(pattern.match(text, start) or (in_object and _BARE_KEY.match(text, start)))
    if match.group() in _QUOTES:
        return not in_object or bool(_KEY.match(text, match.start()))
    return False


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    decoded = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2], match[2]), text)
    # Two escapes may be the surrogate halves of one character.
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# JSON objects in a reply: reasoning, code fences and text around the JSON are skipped, and slightly broken JSON is
# repaired. Replies with keywords and with the understanding of a question are read this way.

_THINKING = late_pattern(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_UNOPENED_THINKING = late_pattern(r"\A.*</think>", re.DOTALL | re.IGNORECASE)
_FENCE = late_pattern(r"```[a-zA-Z]*\s*(.*?)(?:```|\Z)", re.DOTALL)
_TYPOGRAPHY = str.maketrans({"“": '"', "”": '"', "：": ":"})


def objects_in(reply: str) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a model's reply, each followed by the objects that are its values.

    Yields nothing for a reply without an object.
    """
    text = _UNOPENED_THINKING.sub("", _THINKING.sub("", reply))
    parts = [match[1] for match in _FENCE.finditer(text)] or [text]
    for part in parts:
        value = _load(part)
        found: list[Any] = value if isinstance(value, list) else [value]
        for item in found:
            if isinstance(item, Mapping):
                yield item
                yield from (inner for inner in item.values() if isinstance(inner, Mapping))


def _load(text: str) -> Any:
    start, end = text.find("{"), text.rfind("}")
    body = text[start : end + 1] if 0 <= start < end else text
    with suppress(ValueError, RecursionError):
        return json.loads(body)
    damaged = text[max(start, 0) :].translate(_TYPOGRAPHY)
    # The reader leaves out an object that breaks off, but a question's words before the break are useful.
    for end in ("", "}", "]}", '"}', '"]}'):
        if found := [item.fields for value in read_json(damaged + end) for item in reversed(value.objects)]:
            return found
    return None
