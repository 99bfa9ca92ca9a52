"""Reading the JSON in a reply, however broken: a lenient reader that yields objects as they close.

Text comes in; out go the values found in it with their objects, innermost first. Records of an extraction are flat,
so an object counts as soon as its own brace closes: what encloses it may be cut off, doubled or wrapped in prose. An
object that is itself cut off is left out whole, never completed by guesswork.

Repaired on the way: trailing and missing commas, single and typographic quotes, unquoted words, unescaped quotes and
line breaks in strings, strings and objects that were never closed. Every character is looked at a bounded number of
times, whatever the text (general JSON repairers take quadratic time on replies that loop).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from heliograph.ingest.extraction.replies_delimiter import DELIMITER

__all__ = ["JsonField", "JsonObject", "JsonValue", "read_json"]

JsonField = str | list[str]

_OPENERS = {
    '"': re.compile(r'\\.|"', re.DOTALL),
    "'": re.compile(r"\\.|'", re.DOTALL),
    "“": re.compile(r'\\.|["“”]', re.DOTALL),
    "”": re.compile(r'\\.|["“”]', re.DOTALL),
    "„": re.compile(r'\\.|["“”]', re.DOTALL),
}
_QUOTES = "\"'“”„"
_TOKEN = re.compile(rf"[{{}}\[\],:，：]|[{_QUOTES}]|[^\s{{}}\[\],:，：{_QUOTES}][^{{}}\[\],:，：\"“”„\n]*")
_START = re.compile(rf"(?P<line>\n)|(?P<open>[{{\[])|(?P<delimiter>{DELIMITER.pattern})")
_KEY = re.compile(r"""(["“”„])([^"“”„\n]{1,200})["“”]\s*[:：]|'([^'\n]{1,200})'\s*[:：]""")
_BARE_KEY = re.compile(r"\w{1,40}\s*:")
_VALUE_START = re.compile(rf"[{_QUOTES}{{}}\[\]\-\d]|(?:true|false|null)\b")
_NOT_SPACE = re.compile(r"\S")
_RECORD_BREAK = re.compile(r"\s*,?\s*\{\s*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"\\/bfnrt']))")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NULLS = frozenset({"null", "None"})


@dataclass(frozen=True, slots=True)
class JsonObject:
    """One object, or one list in a list.

    Attributes:
        label: Key of what holds it, such as `entities`; empty at the top.
        key: Its own key in the object that holds it; empty in a list.
        fields: Values by key as written: text, or a list of texts. Numbers and booleans are text too.
        items: For a list: its texts; then there are no fields.
    """

    label: str
    key: str
    fields: dict[str, JsonField]
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JsonValue:
    """One value at the top of a text.

    Attributes:
        start: Where it begins.
        end: One past its end.
        objects: All objects in it that were closed, in the order in which they close, and lists in lists.
        is_cut: Whether the text ended within it.
    """

    start: int
    end: int
    objects: tuple[JsonObject, ...]
    is_cut: bool


def read_json(text: str) -> list[JsonValue]:
    """Return every object and list that stands at the top of a text.

    A bracket that follows a row delimiter on its line belongs to that row's text and is not read.
    """
    values: list[JsonValue] = []
    position = 0
    is_row = False
    while match := _START.search(text, position):
        position = match.end()
        if match.lastgroup != "open":
            is_row = match.lastgroup == "delimiter"
        elif not is_row:
            values.append(_Reader(text, match.start()).read())
            position = values[-1].end
    return values


@dataclass(slots=True)
class _Frame:
    """A value that is open: an object waiting for `key`'s value (if `expects_value`), or a list."""

    is_object: bool
    own_key: str
    fields: dict[str, JsonField] = field(default_factory=dict[str, JsonField])
    items: list[str] = field(default_factory=list[str])
    key: str = ""
    expects_value: bool = False


class _Reader:
    """Reads one value, from its opening bracket to the one that closes it or to the end of the text."""

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
                self._close(is_object=mark == "}")
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

    def _close(self, *, is_object: bool) -> None:
        if not self._open_counts[is_object]:
            return
        while self._pop() is not is_object:
            pass

    def _pop(self) -> bool:
        """Close the innermost value, hand it to what holds it, and return whether it was an object."""
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
            # What stands here can only be a key; any other quote is a stray one.
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
            # Two records ran into one another: the second begins where the first key comes again.
            self._emit(top, self._stack[-2] if len(self._stack) > 1 else None)
            top.fields = {}
        top.fields.setdefault(top.key, value)
        top.key, top.expects_value = "", False


def _read_string(text: str, start: int, *, in_object: bool) -> tuple[str | None, int]:
    """Return the value of the string whose opening quote is at `start`, and where reading goes on; None if cut."""
    position = inner = start + 1
    while match := _OPENERS[text[start]].search(text, position):
        position, quote = match.end(), match.start()
        if text[quote] == "\\":
            continue
        if _is_closing(text, position, in_object=in_object):
            return _unescape(text[start + 1 : quote]), position
        if in_object and _KEY.match(text, quote):
            end = _guess_end(text, start + 1, inner, quote)
            return _unescape(text[start + 1 : end].rstrip(" ,\n\t\r" + _QUOTES)), end
        inner = quote
    return None, len(text)


def _is_closing(text: str, after: int, *, in_object: bool) -> bool:
    """Whether a quote that ends at `after` closes its string, by what follows it."""
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


def _guess_end(text: str, start: int, inner: int, key: int) -> int:
    """Return where a string without a closing quote ends, given the next key: before it, or before a new record."""
    brace = text.rfind("}", inner, key)
    if brace >= start and _RECORD_BREAK.fullmatch(text, brace + 1, key):
        return brace
    return key


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    decoded = _ESCAPE.sub(_decode_escape, text)
    # Two escapes may be the halves of one character.
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _decode_escape(match: re.Match[str]) -> str:
    if match.group(1):
        return chr(int(match.group(1), 16))
    return _ESCAPED.get(match.group(2), match.group(2))
