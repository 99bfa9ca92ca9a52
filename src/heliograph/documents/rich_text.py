r"""Loads Rich Text (.rtf), as Word, LibreOffice and others write it: headings, lists and tables, notes at the end.

Rich Text is groups in braces, control words (`\par`, `\u8212`) and text in the code page of its font. A group that is a
*destination* holds no text of the document (tables of fonts and styles, pictures) unless it is one of those read here.
The result becomes HTML, and that Markdown.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.markdown import replace_surrogates, too_long
from heliograph.documents.web_page import html_to_markdown
from heliograph.errors import IngestError

_TOKEN = re.compile(
    r"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<byte>[0-9a-fA-F]{2})|\\(?P<sign>[^a-zA-Z])"
    r"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\"
)
# Destinations without text of the document. Marked ones (`\*`) that are not named here are skipped too.
_NO_TEXT = """annotation atnauthor atndate atnid atnref atnparent colortbl filetbl footer footerf footerl footerr ftncn
    ftnsep ftnsepc aftncn aftnsep aftnsepc header headerf headerl headerr listtable listoverridetable nonshppict objdata
    objclass pict revtbl rsidtbl sn sp sv tc template themedata xe upr"""
_LEFT_OUT = frozenset(_NO_TEXT.split())
# Destinations that are read, with the role of their text.
_READ = {
    "fonttbl": "fonts",
    "stylesheet": "styles",
    "info": "info",
    "fldinst": "field",
    "listtext": "mark",
    "pntext": "mark",
    "footnote": "note",
    "shpinst": "text",
    "shptxt": "text",
    "result": "text",
    "fldrslt": "text",
}
_INFO = {"title": "title", "author": "author", "subject": "subject", "keywords": "keywords", "doccomm": "description"}
_SIGNS = {
    "emdash": "—",
    "endash": "–",
    "bullet": "•",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "emspace": " ",
    "enspace": " ",
    "qmspace": " ",
    "tab": "\t",
    "line": "\n",
    "softline": "\n",
    "~": " ",
    "_": "-",
    "\\": "\\",
    "{": "{",
    "}": "}",
}
_CHARSETS = {
    77: "mac_roman",
    128: "cp932",
    129: "cp949",
    130: "johab",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
    254: "cp437",
    255: "cp850",
}
_WESTERN = "cp1252"
# Heading styles by the names that programs give them, in English or in the writer's language.
_HEADING_STYLE = re.compile(r"(?:heading|überschrift|titre|标题|標題|rubrik|título)\s*([1-9])", re.IGNORECASE)
_TITLE_STYLE = re.compile(r"title|titel|titre|标题|標題|título", re.IGNORECASE)
_CODE_STYLE = re.compile(r"(?:source|program) ?code|(?:html )?preformatted(?: text)?", re.IGNORECASE)
_DEEPEST_LIST = 8
_NUMBERED = re.compile(r"[(\[]?(?:\d+|[a-zA-Z]|[ivxlcdmIVXLCDM]+)[.)\]]")


class RichTextLoader(Loader):
    """Rich Text files."""

    suffixes = frozenset({".rtf"})
    mime_types = frozenset({"application/rtf", "text/rtf"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        if not raw.data.strip():
            return LoadedDocument(raw.name, "", "")
        if not raw.data.lstrip().startswith(b"{\\rtf"):
            raise IngestError(f"{raw.name!r} is no Rich Text: it does not begin with {{\\rtf; open and save it anew")
        reader = _Reader(raw.name, limits)
        reader.read(raw.data.decode("latin-1"))
        properties = {key: words for key, text in reader.info.items() if (words := " ".join(text.split()))}
        text = html_to_markdown("".join(_blocks(reader.paragraphs)))
        return LoadedDocument(raw.name, properties.pop("title", ""), text + "\n" if text else "", properties)


@dataclass(frozen=True, slots=True)
class _Group:
    r"""The state of a group, which ends with it.

    Attributes:
        role: The role of its text: `text`, `note`, `mark` (of an item of a list), `field`, `fonts`, `styles`, `info`,
            one of `_INFO`, or empty where it is skipped.
        skips: How many fallback characters for older readers follow `\u`.
    """

    role: str = "text"
    codec: str = _WESTERN
    skips: int = 1
    is_hidden: bool = False


@dataclass(slots=True)
class _Paragraph:
    """A paragraph or a row of a table.

    Attributes:
        tag: Its HTML tag: `p`, `h1` to `h6`, `pre`.
        mark: Its mark as an item of a list; empty if it is none.
        cells: Cells of a row; None if it is no row.
    """

    text: str = ""
    tag: str = "p"
    mark: str = ""
    depth: int = 0
    cells: list[str] | None = None


@dataclass(slots=True)
class _Reader:
    """Reads the tokens of a file into paragraphs."""

    name: str
    limits: Limits
    paragraphs: list[_Paragraph] = field(default_factory=list[_Paragraph])
    info: dict[str, str] = field(default_factory=dict[str, str])
    _group: _Group = field(default_factory=_Group)
    _outer: list[_Group] = field(default_factory=list[_Group])
    _default_codec: str = _WESTERN
    _default_font: int = -1
    _fonts: dict[int, str] = field(default_factory=dict[int, str])
    _font: int = 0
    # HTML tags of paragraph styles, other than `p`; and the style that is being read.
    _tags: dict[int, str] = field(default_factory=dict[int, str])
    _style: int = 0
    _style_name: str = ""
    # Bytes to be decoded together, words of the current paragraph, and words of other destinations.
    _bytes: bytearray = field(default_factory=bytearray)
    _words: list[str] = field(default_factory=list[str])
    _notes: list[list[str]] = field(default_factory=list[list[str]])
    _note: list[str] | None = None
    _instruction: str = ""
    _mark: str = ""
    _tag: str = "p"
    _depth: int = 0
    _in_table: bool = False
    _cells: list[str] = field(default_factory=list[str])
    _left_to_skip: int = 0
    _length: int = 0
    _is_marked: bool = False
    _is_first: bool = False

    def read(self, text: str) -> None:
        """Read all tokens of a file; raises `IngestError` if its text is too long."""
        position = 0
        while match := _TOKEN.match(text, position):
            position = match.end()
            kind = match.lastgroup
            if kind == "text":
                self._take(match["text"].encode("latin-1"))
            elif kind == "byte":
                self._take(bytes.fromhex(match["byte"]))
            elif kind == "brace":
                self._flush()
                self._left_to_skip = 0
                if match["brace"] == "{":
                    self._outer.append(self._group)
                    self._is_first = True
                    continue
                self._close()
                if not self._outer:
                    break
            elif kind == "sign":
                self._sign(match["sign"])
                if match["sign"] == "*":
                    continue
            elif kind is not None:
                number = match["number"]
                position += self._word(match["word"], None if number is None else int(number))
            if kind is not None:
                self._is_first = self._is_marked = False
        self._flush()
        self._end_paragraph()
        for number, note in enumerate(self._notes, 1):
            self.paragraphs.append(_Paragraph(f"[{number}] {' '.join(''.join(note).split())}"))

    def _take(self, data: bytes) -> None:
        skipped = min(self._left_to_skip, len(data))
        self._left_to_skip -= skipped
        self._bytes += data[skipped:]

    def _flush(self) -> None:
        if self._bytes:
            text = self._bytes.decode(self._group.codec, "replace")
            self._bytes.clear()
            self._write(text)

    def _write(self, text: str) -> None:
        group = self._group
        if group.is_hidden or not group.role:
            return
        self._length += len(text)
        if self._length > self.limits.max_characters:
            raise too_long(self.name, self.limits.max_characters, self._length)
        if group.role == "text":
            self._words.append(text)
        elif group.role == "note" and self._note is not None:
            self._note.append(text)
        elif group.role == "mark":
            self._mark += text
        elif group.role == "field":
            self._instruction += text
        elif group.role == "styles":
            self._style_name += text
        elif group.role in _INFO:
            self.info[_INFO[group.role]] = self.info.get(_INFO[group.role], "") + text

    def _sign(self, sign: str) -> None:
        self._flush()
        if self._left_to_skip:
            self._left_to_skip -= 1
        elif sign == "*":
            self._is_marked = self._is_first
        elif sign in "\r\n":
            self._end_paragraph()
        else:
            self._write(_SIGNS.get(sign, ""))

    def _close(self) -> None:
        if self._group.role == "styles" and (name := self._style_name.strip(" ;")):
            if heading := _HEADING_STYLE.match(name):
                self._tags[self._style] = _heading(int(heading[1]))
            elif _TITLE_STYLE.fullmatch(name) or _CODE_STYLE.fullmatch(name):
                self._tags[self._style] = "h1" if _TITLE_STYLE.fullmatch(name) else "pre"
            self._style_name = ""
        if self._outer:
            outer = self._outer.pop()
            if self._group.role == "note" and outer.role != "note":
                self._note = None
            self._group = outer

    def _word(self, word: str, number: int | None) -> int:
        """Execute a control word; return how many characters after it are bytes of a picture."""
        self._flush()
        if word == "bin":
            return max(0, number or 0)
        if self._left_to_skip:
            self._left_to_skip -= 1
        elif self._is_first and (self._is_marked or word in _LEFT_OUT or word in _READ or word in _INFO):
            self._enter(word)
        elif word == "u":
            self._write(chr((number or 0) % 0x10000))
            self._left_to_skip = self._group.skips
        elif word in _SIGNS:
            self._write(_SIGNS[word])
        elif not self._shape(word, number):
            self._letters(word, number)
        return 0

    def _enter(self, word: str) -> None:
        """Enter a destination."""
        role = _READ.get(word, "") if word not in _INFO else word if self._group.role == "info" else ""
        if word == "fldinst":
            self._instruction = ""
        elif word == "fldrslt" and self._instruction.split()[:1] == ["TOC"]:
            # The table of contents repeats the headings.
            role = ""
        elif role == "mark":
            self._mark = ""
        # A skipped group's children are skipped too, except for the text of a shape beside its properties.
        if not self._group.role and role != "info":
            role = ""
        if role == "note" and self._group.role == "text":
            self._note = []
            self._notes.append(self._note)
            self._words.append(f"[{len(self._notes)}]")
        elif role == "text" and self._group.role == "note":
            role = "note"
        elif role == "text" and word == "shptxt":
            # A text box is a paragraph of its own.
            self._words.append("\n")
        self._group = replace(self._group, role=role)

    def _letters(self, word: str, number: int | None) -> None:
        """Execute a control word about how to read the following characters."""
        if word == "ansicpg":
            self._default_codec = _codec(number or 0)
            self._group = replace(self._group, codec=self._default_codec)
        elif word in ("mac", "pc", "pca"):
            self._default_codec = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}[word]
            self._group = replace(self._group, codec=self._default_codec)
        elif word == "deff":
            self._default_font = number or 0
        elif word == "f":
            self._font = number or 0
            self._use_font(self._font)
        elif word == "fcharset" and self._group.role == "fonts":
            self._fonts[self._font] = _CHARSETS.get(number or 0, "")
            self._use_font(self._font)
        elif word == "plain":
            self._use_font(self._default_font)
            self._group = replace(self._group, is_hidden=False)
        elif word == "uc":
            self._group = replace(self._group, skips=max(0, number or 0))
        elif word in ("v", "deleted"):
            self._group = replace(self._group, is_hidden=number != 0)

    def _use_font(self, font: int) -> None:
        self._group = replace(self._group, codec=self._fonts.get(font) or self._default_codec)

    def _shape(self, word: str, number: int | None) -> bool:
        """Execute a control word about paragraphs, tables and styles; return whether it was one."""
        if self._group.role == "styles":
            if word == "s":
                self._style = number or 0
            elif word == "outlinelevel" and 0 <= (number or 0) < 9:
                self._tags[self._style] = _heading((number or 0) + 1)
            return True
        if word in ("par", "sect", "page", "column"):
            self._end_paragraph()
        elif word == "pard":
            self._tag, self._depth, self._in_table = "p", 0, False
        elif word == "s":
            self._tag = self._tags.get(number or 0, "p")
        elif word == "outlinelevel":
            # Nine is the level of body text.
            self._tag = _heading((number or 0) + 1) if 0 <= (number or 0) < 9 else self._tag
        elif word == "ilvl":
            self._depth = min(max(0, number or 0), _DEEPEST_LIST)
        elif word == "intbl":
            self._in_table = True
        elif word in ("cell", "nestcell"):
            self._end_cell(is_nested=word == "nestcell")
        elif word == "row":
            self.paragraphs.append(_Paragraph(cells=self._cells))
            self._cells = []
        else:
            return False
        return True

    def _end_cell(self, *, is_nested: bool) -> None:
        if self._group.role != "text":
            return
        if is_nested:
            self._words.append("\t")
            return
        self._cells.append("".join(self._words))
        self._words.clear()
        self._mark = ""

    def _end_paragraph(self) -> None:
        if self._group.role != "text":
            self._write(" ")
        elif self._in_table:
            self._words.append("\n")
        else:
            text = "".join(self._words)
            if text.strip():
                self.paragraphs.append(_Paragraph(text, self._tag, self._mark.strip(), self._depth))
            self._words.clear()
            self._mark = ""


def _codec(page: int) -> str:
    name = {936: "gb18030", 10000: "mac_roman", 65001: "utf-8"}.get(page, f"cp{page}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return _WESTERN


def _heading(level: int) -> str:
    return f"h{min(max(level, 1), 6)}"


def _html(text: str) -> str:
    # A character beyond U+FFFF is written as a surrogate pair.
    return escape(replace_surrogates(text).strip()).replace("\n", "<br>")


def _kind(item: _Paragraph) -> str:
    """Return the kind of block that a paragraph shares with its neighbours: a table, a list, code; else empty."""
    if item.cells is not None:
        return "table"
    if item.tag != "p":
        return "pre" if item.tag == "pre" else ""
    return ("ol" if _NUMBERED.fullmatch(item.mark) else "ul") if item.mark else ""


def _blocks(paragraphs: Sequence[_Paragraph]) -> Iterator[str]:
    """Yield paragraphs as HTML; neighbours of a kind are one table, list or block of code."""
    place = 0
    while place < len(paragraphs):
        item, start = paragraphs[place], place
        kind = _kind(item)
        is_list = kind in ("ol", "ul")
        place += 1
        while (
            kind
            and place < len(paragraphs)
            and (_kind(paragraphs[place]) == kind or (is_list and _is_within(paragraphs[place], item)))
        ):
            place += 1
        run = paragraphs[start:place]
        if is_list:
            yield f"<{kind}>{''.join(_items(run))}</{kind}>"
        elif kind == "table":
            rows = ("".join(f"<td>{_html(cell)}</td>" for cell in row.cells or ()) for row in run)
            yield f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
        elif kind == "pre":
            yield f"<pre>{chr(10).join(escape(replace_surrogates(line.text)) for line in run)}</pre>"
        else:
            yield f"<{item.tag}>{_html(item.text)}</{item.tag}>"


def _is_within(item: _Paragraph, outer: _Paragraph) -> bool:
    return bool(item.mark) and item.tag == "p" and item.depth > outer.depth


def _items(items: Sequence[_Paragraph]) -> Iterator[str]:
    """Yield the items of one list, with deeper lists inside the item before."""
    starts = [place for place, item in enumerate(items) if place == 0 or not _is_within(item, items[0])]
    for start, end in pairwise((*starts, len(items))):
        yield f"<li>{_html(items[start].text)}{''.join(_blocks(items[start + 1 : end]))}</li>"
