"""Loads OpenDocument texts and presentations, as LibreOffice and others write them.

A text gives headings, lists, tables and notes in order; a presentation gives a section and a page per slide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from xml.etree.ElementTree import Element

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument, join_pages
from heliograph.documents.office import Archive, local_name, open_archive, parse_xml
from heliograph.documents.web_page import html_to_markdown
from heliograph.errors import IngestError

_META = {
    "title": "title",
    "initial-creator": "author",
    "creation-date": "created_at",
    "date": "modified_at",
    "language": "language",
    "description": "description",
    "subject": "subject",
    "keyword": "keywords",
}
# Generated indexes, deleted text, comments, ruby text, and content for programs only.
_LEFT_OUT = frozenset(
    {
        "table-of-content",
        "alphabetical-index",
        "illustration-index",
        "table-index",
        "object-index",
        "user-index",
        "tracked-changes",
        "annotation",
        "ruby-text",
        "note-citation",
        "forms",
        "script",
    }
)
_TITLE, _CODE, _QUOTE = "Title", "Preformatted_20_Text", "Quotations"
_MOST_LEVELS = 60
_MOST_STYLES = 30
_MOST_COLUMNS = 64


class OpenTextLoader(Loader):
    """OpenDocument texts."""

    suffixes = frozenset({".odt", ".ott"})
    mime_types = frozenset(
        {"application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text-template"}
    )
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        content, writer, properties = _read(raw, limits)
        body = next((item for item in content.iter() if local_name(item) == "text" and len(item)), None)
        text = html_to_markdown(writer.page(body)) if body is not None else ""
        return LoadedDocument(raw.name, properties.pop("title", ""), text + "\n" if text else "", properties)


# Date, footer and number are the same on every slide.
_FRAME = frozenset({"date-time", "header", "footer", "page-number", "page"})


class OpenPresentationLoader(Loader):
    """OpenDocument presentations."""

    suffixes = frozenset({".odp", ".otp"})
    mime_types = frozenset(
        {"application/vnd.oasis.opendocument.presentation", "application/vnd.oasis.opendocument.presentation-template"}
    )
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        content, writer, properties = _read(raw, limits)
        body = next((item for item in content.iter() if local_name(item) == "presentation" and len(item)), ())
        slides = [item for item in body if local_name(item) == "page"]
        limits.check_pages(raw.name, len(slides), "slides")
        text, starts = join_pages(
            ["\n\n".join(_slide(slide, number, writer)) for number, slide in enumerate(slides, 1)]
        )
        title = properties.pop("title", "")
        return LoadedDocument(raw.name, title, text, {**properties, "page_count": len(slides)}, starts)


def _slide(slide: Element, number: int, writer: _Writer) -> Iterator[str]:
    titles: list[str] = []
    blocks: list[str] = []
    spoken: list[str] = []
    for shape in slide:
        role = _attribute(shape, "class")
        if local_name(shape) == "notes":
            spoken += [writer.page(part) for part in shape if _attribute(part, "class") == "notes"]
        elif role == "title":
            titles.append(writer.line(shape))
        elif role not in _FRAME:
            blocks.append(writer.page(shape))
    title, body = html_to_markdown(f"<h2>{' '.join(filter(None, titles))}</h2>"), html_to_markdown("".join(blocks))
    if title or body:
        yield title or f"## Slide {number}"
    if body:
        yield body
    if notes := html_to_markdown("".join(spoken)):
        yield f"Notes: {notes}"


def _read(raw: RawDocument, limits: Limits) -> tuple[Element, _Writer, dict[str, str]]:
    """Return the content of a document, its writer, and its metadata."""
    with open_archive(raw, limits) as archive:
        if b"encryption-data" in archive.read("META-INF/manifest.xml"):
            raise IngestError(f"{raw.name!r} is encrypted; remove its password and try again")
        content = _part(archive, "content.xml", raw.name)
        styles = _part(archive, "styles.xml", raw.name)
        meta = _part(archive, "meta.xml", raw.name)
    return content, _Writer.of(content, styles), _properties(meta)


def _part(archive: Archive, name: str, document: str) -> Element:
    data = archive.read(name)
    return parse_xml(data, document) if data else Element(name)


def _properties(meta: Element) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for element in meta.iter():
        key = _META.get(local_name(element), "")
        if key and (words := " ".join((element.text or "").split())):
            found.setdefault(key, []).append(words)
    return {key: ", ".join(words) if key == "keywords" else words[0] for key, words in found.items()}


def _attribute(element: Element, name: str) -> str:
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


@dataclass(slots=True)
class _Writer:
    """Writes the content of a text, or of a shape of a slide, as HTML.

    Attributes:
        parents: Parent style of each style, by name.
        numbered: Names of the styles of numbered lists.
        notes: Notes so far, as HTML; they are placed at the end.
    """

    parents: Mapping[str, str]
    numbered: frozenset[str]
    notes: list[str] = field(default_factory=list[str])

    @classmethod
    def of(cls, *parts: Element) -> _Writer:
        """Return a writer with the styles of these parts."""
        parents: dict[str, str] = {}
        numbered: set[str] = set()
        for element in (element for part in parts for element in part.iter()):
            kind, name = local_name(element), _attribute(element, "name")
            if kind == "style":
                parents[name] = _attribute(element, "parent-style-name")
            elif kind == "list-style" and len(element) and local_name(element[0]) == "list-level-style-number":
                numbered.add(name)
        return cls(parents, frozenset(numbered))

    def line(self, shape: Element) -> str:
        """Return the words of a shape's paragraphs as one line."""
        paragraphs = (item for item in shape.iter() if local_name(item) in ("p", "h"))
        return " ".join(words for item in paragraphs if (words := "".join(self._words(item, 0, [])).strip()))

    def page(self, body: Element) -> str:
        """Return the whole content of a text or shape."""
        text = "".join(self._blocks(body, 0))
        return text + "".join(f"<p>[{number}] {note}</p>" for number, note in enumerate(self.notes, 1))

    def _blocks(self, parent: Element, level: int) -> Iterator[str]:
        """Yield the blocks in an element; too deep levels become plain text."""
        for element in parent:
            kind = local_name(element)
            if kind in _LEFT_OUT:
                continue
            if level > _MOST_LEVELS:
                yield f"<p>{escape(' '.join(element.itertext()))}</p>"
            elif kind == "h":
                rank = _attribute(element, "outline-level")
                number = min(int(rank), 6) if rank.isdecimal() and int(rank) else 1
                yield self._block(element, f"h{number}", level)
            elif kind == "p":
                yield self._block(element, self._tag(element), level)
            elif kind == "list":
                tag = "ol" if _attribute(element, "style-name") in self.numbered else "ul"
                items = (f"<li>{''.join(self._blocks(item, level + 1))}</li>" for item in element)
                yield f"<{tag}>{''.join(items)}</{tag}>"
            elif kind == "table":
                yield f"<table>{''.join(self._rows(element, level))}</table>"
            else:
                yield from self._blocks(element, level + 1)

    def _tag(self, paragraph: Element) -> str:
        style = _attribute(paragraph, "style-name")
        for _ in range(_MOST_STYLES):
            if style == _TITLE:
                return "h1"
            if style in (_CODE, _QUOTE):
                return "pre" if style == _CODE else "blockquote"
            style = self.parents.get(style, "")
        return "p"

    def _block(self, element: Element, tag: str, level: int) -> str:
        inside: list[str] = []
        words = "".join(self._words(element, level, inside))
        return f"<{tag}>{words}</{tag}>{''.join(inside)}"

    def _rows(self, table: Element, level: int) -> Iterator[str]:
        for element in table:
            kind = local_name(element)
            if kind in ("table-header-rows", "table-rows", "table-row-group"):
                yield from self._rows(element, level + 1) if level < _MOST_LEVELS else ()
            elif kind == "table-row":
                yield f"<tr>{''.join(self._cells(element, level))}</tr>"

    def _cells(self, row: Element, level: int) -> Iterator[str]:
        for cell in row:
            if local_name(cell) == "covered-table-cell":
                yield "<td></td>"
            elif local_name(cell) == "table-cell":
                words = "".join(self._blocks(cell, level + 1))
                repeated = _attribute(cell, "number-columns-repeated")
                # Only empty cells stand once for several.
                times = min(int(repeated), _MOST_COLUMNS) if repeated.isdecimal() and not words else 1
                yield f"<td>{words}</td>" * times

    def _words(self, element: Element, level: int, inside: list[str]) -> Iterator[str]:
        """Yield the words of a paragraph; blocks inside it, such as frames with text, are appended to `inside`."""
        yield escape(element.text or "")
        for child in element:
            kind = local_name(child)
            if kind == "s":
                yield " "
            elif kind == "tab":
                yield "\t"
            elif kind == "line-break":
                yield "<br>"
            elif kind == "note":
                self.notes.append("")
                number = len(self.notes)
                self.notes[number - 1] = escape(" ".join(_note(child)))
                yield f"[{number}]"
            elif kind in ("frame", "text-box", "custom-shape"):
                inside += self._blocks(child, level + 1)
            elif kind not in _LEFT_OUT:
                if level > _MOST_LEVELS:
                    yield escape(" ".join(child.itertext()))
                else:
                    yield from self._words(child, level + 1, inside)
            yield escape(child.tail or "")


def _note(note: Element) -> Iterator[str]:
    for element in note:
        if local_name(element) == "note-body":
            yield from (" ".join("".join(part.itertext()).split()) for part in element)
