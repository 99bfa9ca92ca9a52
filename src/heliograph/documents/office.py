"""Loads Office documents: Word, PowerPoint, Excel and OpenDocument sheets.

Word goes through mammoth's HTML; a presentation gives a section and a page per slide; a spreadsheet gives a section
with a table per sheet. Title, author, dates and keywords come from `docProps/core.xml`.
"""

from __future__ import annotations

import datetime
import io
import posixpath
import re
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from heliograph.documents.archive import Archive, local_name, open_archive, parse_xml
from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument, join_pages
from heliograph.documents.html_markdown import to_markdown
from heliograph.documents.markdown import markdown_table, name_title, too_long
from heliograph.documents.web_page import parse_html
from heliograph.errors import HeliographError, IngestError, import_optional

# What Office files say about themselves: title, author, dates, language, keywords (`docProps/core.xml`).

_ENTRY = "docProps/core.xml"
_NAMES = {
    "title": "title",
    "creator": "author",
    "created": "created_at",
    "modified": "modified_at",
    "language": "language",
    "subject": "subject",
    "keywords": "keywords",
}


def read_properties(archive: Archive, name: str) -> dict[str, str]:
    """Return the properties that are stated, `title` among them; none if they are missing or broken."""
    try:
        data = archive.read(_ENTRY)
        root = parse_xml(data, name) if data else None
    except IngestError:
        # The text is worth having without them.
        return {}
    found = {_NAMES.get(local_name(child), ""): (child.text or "").strip() for child in root or ()}
    return {key: value for key, value in found.items() if key and value}


# Word documents: headings, lists, tables, notes and text in their order, through mammoth's HTML.

_WORD_TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml."
_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name='Code'] => pre:separator('\n')
p[style-name='Source Code'] => pre:separator('\n')
p[style-name='HTML Preformatted'] => pre:separator('\n')
p[style-name='Preformatted Text'] => pre:separator('\n')
p[style-name='Macro Text'] => pre:separator('\n')
p[style-name='macro'] => pre:separator('\n')
p[style-name='Quote'] => blockquote > p:fresh
p[style-name='Intense Quote'] => blockquote > p:fresh
"""
_EXTERNAL_PART = re.compile(r"word/[^/]+\.xml|docProps/[^/]+\.xml")


class DocxLoader(Loader):
    """Word documents of today's kind."""

    suffixes = frozenset({".docx", ".docm"})
    mime_types = frozenset({_WORD_TYPES + "document", "application/vnd.ms-word.document.macroenabled.12"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        mammoth = import_optional("mammoth", "office")
        with open_archive(raw, limits) as archive:
            # mammoth parses with the standard library's DOM, which would expand entities.
            for name in archive.names:
                if _EXTERNAL_PART.fullmatch(name):
                    parse_xml(archive.read(name), raw.name)
            properties = read_properties(archive, raw.name)
            body = parse_html(_to_html(mammoth, raw)).body
        text = to_markdown(body) if body is not None else ""
        return LoadedDocument(raw.name, properties.pop("title", ""), text + "\n" if text else "", properties)


def _to_html(mammoth: Any, raw: RawDocument) -> str:
    try:
        converted = mammoth.convert_to_html(
            io.BytesIO(raw.data),
            style_map=_STYLES,
            include_embedded_style_map=False,
            convert_image=_describe_image,
            external_file_access=False,
        )
    except HeliographError:
        raise
    except Exception as error:  # mammoth raises whatever it trips over
        raise IngestError(
            f"{raw.name!r} is no Word document that can be read ({type(error).__name__}: {error}); open it and save "
            "it anew"
        ) from error
    return converted.value


def _describe_image(image: Any) -> list[Any]:
    """Return nothing in place of a picture but its description, if it has one."""
    html = import_optional("mammoth.html", "office")
    return [html.text(f" {image.alt_text} ")] if image.alt_text else []


# PowerPoint presentations: a section and a page per slide, with its lists, tables and notes.

_SLIDE_TYPES = "application/vnd.openxmlformats-officedocument.presentationml."
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_PRESENTATION = "ppt/presentation.xml"
_TITLES = frozenset({"title", "ctrTitle"})
# Date, footer and number are the same on every slide.
_FRAME = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})


class PptxLoader(Loader):
    """PowerPoint presentations of today's kind."""

    suffixes = frozenset({".pptx", ".pptm", ".ppsx"})
    mime_types = frozenset({_SLIDE_TYPES + "presentation", _SLIDE_TYPES + "slideshow"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        with open_archive(raw, limits) as archive:
            data = archive.read(_PRESENTATION)
            if not data:
                raise IngestError(f"{raw.name!r} is no PowerPoint presentation; open and save it anew")
            parts = _relations(archive, _PRESENTATION, raw.name)
            ids = (element.get(f"{_R}id", "") for element in parse_xml(data, raw.name).iter(f"{_P}sldId"))
            slides = [parts[id_][1] for id_ in ids if id_ in parts]
            if len(slides) > limits.max_pages:
                raise IngestError(
                    f"{raw.name!r} has {len(slides):,} slides, more than {limits.max_pages:,}; split it, or raise "
                    "documents.max_pages"
                )
            pages = ["\n\n".join(_slide(archive, slide, number, raw.name)) for number, slide in enumerate(slides, 1)]
            properties = read_properties(archive, raw.name)
        title = properties.pop("title", "")
        text, starts = join_pages(pages)
        # What PowerPoint writes where no one gave a title.
        title = "" if title.casefold() in ("powerpoint presentation", "powerpoint-präsentation") else title
        return LoadedDocument(raw.name, title, text, {**properties, "page_count": len(pages)}, starts)


def _relations(archive: Archive, part: str, name: str) -> dict[str, tuple[str, str]]:
    """Return kind and name of the parts that a part refers to, by the id it uses."""
    folder, _, file = part.rpartition("/")
    data = archive.read(f"{folder}/_rels/{file}.rels")
    found: dict[str, tuple[str, str]] = {}
    for element in parse_xml(data, name) if data else ():
        if element.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, element.get("Target", ""))).lstrip("/")
            found[element.get("Id", "")] = (element.get("Type", "").rpartition("/")[2], target)
    return found


def _slide(archive: Archive, slide: str, number: int, name: str) -> Iterator[str]:
    data = archive.read(slide)
    shapes = list(_shapes(parse_xml(data, name))) if data else []
    titles = [" ".join(_lines(shape, is_list=False)) for shape in shapes if _role(shape) in _TITLES]
    title = " ".join(title for title in titles if title)
    blocks = [block for shape in shapes if _role(shape) not in _TITLES | _FRAME and (block := _shape(shape))]
    if title or blocks:
        yield f"## {title or f'Slide {number}'}"
    yield from blocks
    for kind, part in _relations(archive, slide, name).values():
        notes = archive.read(part) if kind == "notesSlide" else b""
        spoken = [_shape(shape) for shape in _shapes(parse_xml(notes, name)) if _role(shape) == "body"] if notes else []
        if words := "\n".join(block for block in spoken if block):
            yield f"Notes: {words}"


def _shapes(root: Element) -> Iterator[Element]:
    """Yield shapes with text and tables in their order; what stands in a group as if it stood alone.

    Of alternatives for different versions only the first counts.
    """
    for child in root:
        kind = local_name(child)
        if kind in ("sp", "graphicFrame"):
            yield child
        elif kind == "AlternateContent":
            yield from _shapes(child[0]) if len(child) else ()
        elif kind in ("sld", "notes", "cSld", "spTree", "grpSp", "Choice", "Fallback"):
            yield from _shapes(child)


def _role(shape: Element) -> str:
    """Return the kind of placeholder that a shape fills; empty if none."""
    placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return "" if placeholder is None else placeholder.get("type", "body")


def _shape(shape: Element) -> str:
    table = shape.find(f".//{_A}tbl")
    if table is not None:
        rows = (
            [" ".join(_text(paragraph) for paragraph in cell.iter(f"{_A}p")) for cell in row.iter(f"{_A}tc")]
            for row in table.iter(f"{_A}tr")
        )
        return markdown_table(rows)
    paragraphs = [paragraph for paragraph in shape.iter(f"{_A}p") if _text(paragraph).strip()]
    return "\n".join(_lines(shape, is_list=len(paragraphs) > 1 and _role(shape) in ("body", "obj")))


def _lines(shape: Element, *, is_list: bool) -> Iterator[str]:
    for paragraph in shape.iter(f"{_A}p"):
        words = _text(paragraph).strip()
        if words:
            properties = paragraph.find(f"{_A}pPr")
            level = properties.get("lvl", "0") if properties is not None else "0"
            depth = min(int(level), 8) if level.isascii() and level.isdigit() else 0
            yield f"{'  ' * depth}- {words}" if is_list else words


def _text(paragraph: Element) -> str:
    pieces = (
        (element.text or "") if local_name(element) == "t" else " " if local_name(element) == "br" else ""
        for element in paragraph.iter()
    )
    return " ".join("".join(pieces).split())


# Spreadsheets (Excel and OpenDocument) through calamine: a section per sheet, holding its table.

_SHEET_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml."
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_ENTITIES_WITHIN = 4_096


class SpreadsheetLoader(Loader):
    """Sheets with values as they were last computed; hidden sheets and charts are left out."""

    suffixes = frozenset({".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"})
    mime_types = frozenset(
        {
            _SHEET_TYPES + "sheet",
            "application/vnd.ms-excel",
            "application/vnd.ms-excel.sheet.macroenabled.12",
            "application/vnd.ms-excel.sheet.binary.macroenabled.12",
            "application/vnd.oasis.opendocument.spreadsheet",
        }
    )
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        calamine = import_optional("python_calamine", "office")
        properties = _properties(raw, limits) if raw.data.startswith(b"PK") else {}
        try:
            blocks, count = _sections(calamine, raw, limits)
        except calamine.PasswordError as error:
            raise IngestError(f"{raw.name!r} is encrypted; remove its password and try again") from error
        except (calamine.CalamineError, calamine.ZipError, calamine.XmlError, OSError, ValueError) as error:
            raise IngestError(f"{raw.name!r} is no spreadsheet that can be read ({error}); save it anew") from error
        title = properties.pop("title", "") or name_title(raw.name)
        text = "\n\n".join(blocks) + "\n" if blocks else ""
        return LoadedDocument(raw.name, title, text, {**properties, "sheet_count": count})


def _properties(raw: RawDocument, limits: Limits) -> dict[str, str]:
    """Return what the file says about itself, having made sure that it is no bomb."""
    with open_archive(raw, limits) as archive:
        archive.verify()
        for name in archive.names:
            # Of sheets, which may be long, only the head may define entities.
            if (
                name.endswith(".xml")
                and not _SHEET.fullmatch(name)
                and b"<!ENTITY" in archive.read(name)[:_ENTITIES_WITHIN]
            ):
                parse_xml(archive.read(name), raw.name)
        return read_properties(archive, raw.name)


def _sections(calamine: Any, raw: RawDocument, limits: Limits) -> tuple[list[str], int]:
    blocks: list[str] = []
    left = limits.max_characters
    with calamine.load_workbook(io.BytesIO(raw.data)) as book:
        shown = [
            sheet.name
            for sheet in book.sheets_metadata
            if sheet.typ == calamine.SheetTypeEnum.WorkSheet and sheet.visible == calamine.SheetVisibleEnum.Visible
        ]
        if len(shown) > limits.max_pages:
            raise IngestError(
                f"{raw.name!r} has {len(shown):,} sheets, more than {limits.max_pages:,}; raise documents.max_pages"
            )
        for name in shown:
            table = markdown_table(_rows(book.get_sheet_by_name(name), left, raw.name, limits))
            left -= len(table)
            if table:
                blocks += [f"## {name}", table]
    return blocks, len(shown)


def _rows(sheet: Any, most_characters: int, name: str, limits: Limits) -> Iterator[list[str]]:
    length = 0
    for row in sheet.iter_rows():
        cells = [_sheet_cell(value) for value in row]
        length += sum(map(len, cells))
        if length > most_characters:
            raise too_long(name, limits.max_characters)
        yield cells


def _sheet_cell(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat(" ", "seconds")
    return "" if value is None else str(value)
