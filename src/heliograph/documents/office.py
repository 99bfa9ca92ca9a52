"""Loads ZIP archives of documents, opened safely: PowerPoint, Excel, OpenDocument sheets, EPUB books.

A presentation gives a section and a page per slide; a spreadsheet gives a section
with a table per sheet. Title, author, dates and keywords come from `docProps/core.xml`.
"""

from __future__ import annotations

import datetime
import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from html import unescape
from itertools import chain
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument, join_pages, packed_folder
from heliograph.documents.encoding import decode_text
from heliograph.documents.html_markdown import to_markdown
from heliograph.documents.markdown import markdown_table, name_title, too_long
from heliograph.documents.web_page import parse_html
from heliograph.errors import IngestError, import_optional

# Opens ZIP archives of documents and the XML in them, safely.
#
# The declared sizes of an archive are added up before anything is unpacked, and an entry is never read beyond its
# declared size, so a zip bomb is refused before unpacking. XML may define no entities and fetches nothing.

_ENCRYPTED = 0x1
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    LookupError,
)


class Archive:
    """The entries of one archive by name, without a top folder that contains them all."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive = archive
        self._name = name
        self._folder = packed_folder(archive.namelist())
        self._names = frozenset(name.removeprefix(self._folder) for name in archive.namelist())

    def __contains__(self, entry: str) -> bool:
        return entry in self._names

    @property
    def names(self) -> frozenset[str]:
        """Names of all entries."""
        return self._names

    def read(self, entry: str) -> bytes:
        """Unpack an entry, empty if there is none; raises `IngestError` if it is broken."""
        if entry not in self._names:
            return b""
        try:
            return self._archive.read(self._folder + entry)
        except _BROKEN as error:
            raise _broken(self._name, error) from error

    def verify(self) -> None:
        """Unpack every entry once and discard it, to check declared sizes before another library reads the archive.

        Raises:
            IngestError: An entry is broken, or its declared size is wrong.
        """
        try:
            for entry in self._archive.infolist():
                with self._archive.open(entry) as file:
                    while file.read(1 << 20):
                        pass
        except _BROKEN as error:
            raise _broken(self._name, error) from error


@contextmanager
def open_archive(raw: RawDocument, limits: Limits) -> Generator[Archive]:
    """Open an archive within the limits; raises `IngestError` if it is broken, encrypted, or too large."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(raw.data))
    except _BROKEN as error:
        raise _broken(raw.name, error) from error
    with archive:
        entries = archive.infolist()
        if len(entries) > limits.max_archive_entries:
            raise IngestError(
                f"{raw.name!r} holds {len(entries):,} files, more than {limits.max_archive_entries:,}; if it is to be "
                "trusted, raise documents.max_archive_entries"
            )
        limits.check_unpacked(raw.name, len(raw.data), sum(entry.file_size for entry in entries))
        if any(entry.flag_bits & _ENCRYPTED for entry in entries):
            raise IngestError(f"{raw.name!r} is encrypted; remove its password and try again")
        yield Archive(archive, raw.name)


def _broken(name: str, error: Exception) -> IngestError:
    return IngestError(f"{name!r} is cut off or broken ({error}); get it again, or open and save it anew")


# UTF-16 puts a zero byte before or after each ASCII letter.
_ENTITY = re.compile(rb"<\0?!\0?E\0?N\0?T\0?I\0?T\0?Y")


def parse_xml(data: bytes, name: str) -> ET.Element:
    """Return the root of an XML document.

    Raises:
        IngestError: It is broken, or defines entities, which documents do not need and bombs are made of.
    """
    if _ENTITY.search(data):
        raise IngestError(f"{name!r} defines XML entities, which are not expanded; save it anew without them")
    try:
        return ET.fromstring(data)  # noqa: S314
    except (ET.ParseError, ValueError, LookupError, RecursionError) as error:
        raise IngestError(f"{name!r} holds broken XML ({error}); get it again, or open and save it anew") from error


def local_name(element: ET.Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2]


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
    """Return the stated properties, `title` among them; empty if they are missing or broken."""
    try:
        data = archive.read(_ENTRY)
        root = parse_xml(data, name) if data else None
    except IngestError:
        # The text is useful without them.
        return {}
    found = {_NAMES.get(local_name(child), ""): (child.text or "").strip() for child in root or ()}
    return {key: value for key, value in found.items() if key and value}


def relations(archive: Archive, part: str, name: str) -> dict[str, tuple[str, str]]:
    """Return kind and name of the parts that a part refers to, by relationship id."""
    folder, _, file = part.rpartition("/")
    data = archive.read(f"{folder}/_rels/{file}.rels")
    found: dict[str, tuple[str, str]] = {}
    for element in parse_xml(data, name) if data else ():
        if element.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, element.get("Target", ""))).lstrip("/")
            found[element.get("Id", "")] = (element.get("Type", "").rpartition("/")[2], target)
    return found


_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_EPOCH = datetime.datetime(1899, 12, 30)
_MOST_DEPTH = 8


def chart_rows(
    drawing: Element, archive: Archive, parts: dict[str, tuple[str, str]], name: str
) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the title of each chart in a drawing, and its values: a row per category, a column per series."""
    for reference in drawing.iter():
        if local_name(reference) != "chart" or (part := parts.get(reference.get(f"{_R}id", ""))) is None:
            continue
        data = archive.read(part[1])
        chart = parse_xml(data, name) if data else Element("none")
        titles = (element for element in chart.iter() if local_name(element) == "title")
        series = [element for element in chart.iter() if local_name(element) == "ser"]
        columns = [_points(element, "val", "yVal") for element in series]
        categories: dict[int, str] = {}
        for element in series:
            categories = {**_points(element, "cat", "xVal"), **categories}
        head = ["", *(" ".join(_points(element, "tx").values()) for element in series)]
        numbers = sorted({number for column in columns for number in column})
        rows = [[categories.get(number, ""), *(column.get(number, "") for column in columns)] for number in numbers]
        if rows:
            yield " ".join("".join(next(titles, Element("none")).itertext()).split()), [head, *rows]


def _points(series: Element, *kinds: str) -> dict[int, str]:
    """Return the stored values of one kind in a series, by index; of several levels the innermost."""
    found: dict[int, str] = {}
    values = next((child for child in series if local_name(child) in kinds), Element("none"))
    formats = "".join(form.text or "" for form in values.iter() if local_name(form) == "formatCode").casefold()
    is_date = "y" in formats and "m" in formats
    for point in values.iter():
        number = point.get("idx", "")
        if local_name(point) == "pt" and number.isdecimal():
            text = "".join(point.itertext()).strip()
            try:
                # As it was typed: 8.2, not 8.1999999999999993.
                value = float(text)
                text = (_EPOCH + datetime.timedelta(value)).date().isoformat() if is_date else f"{value:.12g}"
            except (ValueError, OverflowError):
                text = " ".join(text.split())
            found.setdefault(int(number), text)
    return found


def diagram_lines(
    drawing: Element, archive: Archive, parts: dict[str, tuple[str, str]], name: str
) -> Iterator[tuple[int, str]]:
    """Yield depth and text of each shape in the diagrams (SmartArt) of a drawing, from the top down."""
    for reference in drawing.iter():
        part = parts.get(reference.get(f"{_R}dm", ""))
        data = archive.read(part[1]) if part else b""
        model = parse_xml(data, name) if data else Element("none")
        shapes = {shape.get("modelId", ""): shape for shape in model.iter() if local_name(shape) == "pt"}
        below: dict[str, list[str]] = {}
        links = [link for link in model.iter() if local_name(link) == "cxn" and link.get("type", "parOf") == "parOf"]
        for link in sorted(links, key=lambda link: int(link.get("srcOrd", "0"))):
            below.setdefault(link.get("srcId", ""), []).append(link.get("destId", ""))
        tops = [key for key, shape in shapes.items() if shape.get("type") == "doc"]
        waiting = [(child, 0) for top in reversed(tops) for child in reversed(below.pop(top, []))]
        while waiting:
            key, depth = waiting.pop()
            if key in shapes and (words := " ".join(map(_text, shapes[key].iter(f"{_A}p"))).strip()):
                yield depth, words
            waiting += [(child, min(depth + 1, _MOST_DEPTH)) for child in reversed(below.pop(key, []))]


_SLIDE_TYPES = "application/vnd.openxmlformats-officedocument.presentationml."
_PRESENTATION = "ppt/presentation.xml"
_TITLES = frozenset({"title", "ctrTitle"})
# Date, footer and number are the same on every slide.
_FRAME = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})


class PptxLoader(Loader):
    """PowerPoint presentations in the current format (.pptx)."""

    suffixes = frozenset({".pptx", ".pptm", ".ppsx"})
    mime_types = frozenset({_SLIDE_TYPES + "presentation", _SLIDE_TYPES + "slideshow"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        with open_archive(raw, limits) as archive:
            data = archive.read(_PRESENTATION)
            if not data:
                raise IngestError(f"{raw.name!r} is no PowerPoint presentation; open and save it anew")
            parts = relations(archive, _PRESENTATION, raw.name)
            ids = (element.get(f"{_R}id", "") for element in parse_xml(data, raw.name).iter(f"{_P}sldId"))
            slides = [parts[id_][1] for id_ in ids if id_ in parts]
            limits.check_pages(raw.name, len(slides), "slides")
            pages = ["\n\n".join(_slide(archive, slide, number, raw.name)) for number, slide in enumerate(slides, 1)]
            properties = read_properties(archive, raw.name)
        title = properties.pop("title", "")
        text, starts = join_pages(pages)
        # PowerPoint's default title.
        title = "" if title.casefold() in ("powerpoint presentation", "powerpoint-präsentation") else title
        return LoadedDocument(raw.name, title, text, {**properties, "page_count": len(pages)}, starts)


def _slide(archive: Archive, slide: str, number: int, name: str) -> Iterator[str]:
    data = archive.read(slide)
    shapes = list(_shapes(parse_xml(data, name))) if data else []
    parts = relations(archive, slide, name)
    titles = [" ".join(_lines(shape, is_list=False)) for shape in shapes if _role(shape) in _TITLES]
    title = " ".join(title for title in titles if title)
    told = (shape for shape in shapes if _role(shape) not in _TITLES | _FRAME)
    blocks = [block for shape in told if (block := _shape(shape) or _graphic(shape, archive, parts, name))]
    if title or blocks:
        yield f"## {title or f'Slide {number}'}"
    yield from blocks
    for kind, part in parts.values():
        notes = archive.read(part) if kind == "notesSlide" else b""
        spoken = [_shape(shape) for shape in _shapes(parse_xml(notes, name)) if _role(shape) == "body"] if notes else []
        if words := "\n".join(block for block in spoken if block):
            yield f"Notes: {words}"


def _shapes(root: Element) -> Iterator[Element]:
    """Yield shapes with text and tables in order, including those within groups.

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


def _graphic(shape: Element, archive: Archive, parts: dict[str, tuple[str, str]], name: str) -> str:
    charts = ((title, markdown_table(rows)) for title, rows in chart_rows(shape, archive, parts, name))
    lines = (f"{'  ' * depth}- {line}" for depth, line in diagram_lines(shape, archive, parts, name))
    return "\n\n".join(filter(None, (*chain.from_iterable(charts), "\n".join(lines))))


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


_SHEET_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml."
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_ENTITIES_WITHIN = 4_096
_NUMBER = re.compile(rb"<v>\s*([-+.\dEe]{1,40})\s*</v>")


class SpreadsheetLoader(Loader):
    """Sheets with values as they were last computed, without hidden sheets and charts."""

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
            try:
                sheets = _sheets(calamine, raw.data, raw.name, limits)
            except calamine.CalamineError:
                if (mended := _with_plain_numbers(raw.data)) is None:
                    raise
                sheets = _sheets(calamine, mended, raw.name, limits)
        except calamine.PasswordError as error:
            raise IngestError(f"{raw.name!r} is encrypted; remove its password and try again") from error
        except (calamine.CalamineError, calamine.ZipError, calamine.XmlError, OSError, ValueError) as error:
            raise IngestError(f"{raw.name!r} is no spreadsheet that can be read ({error}); save it anew") from error
        blocks = [block for name, table in sheets if table for block in (f"## {name}", table)]
        title = properties.pop("title", "") or name_title(raw.name)
        text = "\n\n".join(blocks) + "\n" if blocks else ""
        return LoadedDocument(raw.name, title, text, {**properties, "sheet_count": len(sheets)})


def _properties(raw: RawDocument, limits: Limits) -> dict[str, str]:
    """Return a file's own metadata, after checking that it is no zip bomb."""
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


def _sheets(calamine: Any, data: bytes, name: str, limits: Limits) -> list[tuple[str, str]]:
    """Return the name and the table of each visible sheet."""
    sheets: list[tuple[str, str]] = []
    left = limits.max_characters
    with calamine.load_workbook(io.BytesIO(data)) as book:
        shown = [
            sheet.name
            for sheet in book.sheets_metadata
            if sheet.typ == calamine.SheetTypeEnum.WorkSheet and sheet.visible == calamine.SheetVisibleEnum.Visible
        ]
        limits.check_pages(name, len(shown), "sheets")
        for title in shown:
            table = markdown_table(_rows(book.get_sheet_by_name(title), left, name, limits))
            left -= len(table)
            sheets.append((title, table))
    return sheets


def _with_plain_numbers(data: bytes) -> bytes | None:
    """Return an Excel file without blanks around its numbers, which calamine refuses; None if there are none."""
    if not data.startswith(b"PK"):
        return None
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    plain = {name: _NUMBER.sub(rb"<v>\1</v>", content) for name, content in entries.items() if _SHEET.fullmatch(name)}
    if all(entries[name] == content for name, content in plain.items()):
        return None
    mended = io.BytesIO()
    with zipfile.ZipFile(mended, "w") as archive:
        for name, content in (entries | plain).items():
            archive.writestr(name, content)
    return mended.getvalue()


def _rows(sheet: Any, most_characters: int, name: str, limits: Limits) -> Iterator[list[str]]:
    length = limits.max_characters - most_characters
    for number, row in enumerate(sheet.iter_rows(), 1):
        cells = [_sheet_cell(value) for value in row]
        length += sum(map(len, cells))
        if length > limits.max_characters:
            raise too_long(name, limits.max_characters, length, f"row {number:,} of sheet {sheet.name!r}")
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


_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_CHAPTERS = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
_FONTS = (".ttf", ".otf", ".woff", ".woff2")
_HREF = re.compile(r"""\bhref\s*=\s*["']([^"'#:]+)""", re.IGNORECASE)


class EpubLoader(Loader):
    """EPUB books without copy protection."""

    suffixes = frozenset({".epub"})
    mime_types = frozenset({"application/epub+zip"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        with open_archive(raw, limits) as archive:
            data = archive.read(_ENCRYPTION)
            entries = parse_xml(data, raw.name).iter() if data else ()
            hidden = (entry.get("URI", "") for entry in entries if local_name(entry) == "CipherReference")
            # Fonts are often obfuscated, which hides no text.
            if any(not uri.lower().endswith(_FONTS) for uri in hidden):
                raise IngestError(f"{raw.name!r} is copy-protected; give a copy without protection")
            data = archive.read(_CONTAINER)
            roots = (
                [element for element in parse_xml(data, raw.name).iter() if local_name(element) == "rootfile"]
                if data
                else []
            )
            package_name = next((path for root in roots if (path := root.get("full-path", "")) in archive), "")
            if not package_name:
                raise IngestError(f"{raw.name!r} is no EPUB book: its package is missing; get it again")
            package = parse_xml(archive.read(package_name), raw.name)
            spine = dict(_spine(package, posixpath.dirname(package_name)))
            names = [name for name, is_linear in spine.items() if is_linear]
            if len(names) < len(spine):
                # Files outside the reading order are read if the book links to them, as it does to notes; a reader of
                # the book never sees the others, such as the same book in other languages.
                linked = {
                    posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(unescape(href))))
                    for name in names
                    for href in _HREF.findall(decode_text(archive.read(name), name))
                }
                names = [name for name, is_linear in spine.items() if is_linear or name in linked or not names]
            limits.check_pages(raw.name, len(names), "chapters")
            chapters: list[str] = []
            length = 0
            for number, chapter in enumerate(names, 1):
                page = parse_html(decode_text(archive.read(chapter), f"{chapter} in {raw.name}"))
                for bar in page.css("nav, [role=navigation], [role=doc-toc]"):
                    bar.decompose()
                text = to_markdown(page.body) if page.body is not None else ""
                length += len(text)
                if length > limits.max_characters:
                    where = f"chapter {number} of {len(names)}"
                    raise too_long(raw.name, limits.max_characters, length, where)
                chapters += [text] if text else []
        metadata = _metadata(package)
        text = "\n\n".join(chapters) + "\n" if chapters else ""
        return LoadedDocument(raw.name, metadata.pop("title", ""), text, {**metadata, "chapter_count": len(chapters)})


def _spine(package: Element, folder: str) -> Iterator[tuple[str, bool]]:
    """Yield the files of a book in order, and whether each is part of the linear reading order."""
    items = {
        element.get("id", ""): element
        for element in package.iter()
        if local_name(element) == "item" and element.get("media-type") in _CHAPTERS
    }
    for reference in package.iter():
        item = items.get(reference.get("idref", "")) if local_name(reference) == "itemref" else None
        # The table of contents repeats the headings.
        if item is not None and "nav" not in item.get("properties", "").split():
            name = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
            yield name, reference.get("linear") != "no"


def _metadata(package: Element) -> dict[str, str]:
    wanted = {
        "title": "title",
        "creator": "author",
        "language": "language",
        "date": "created_at",
        "publisher": "publisher",
    }
    found: dict[str, list[str]] = {}
    for element in package.iter():
        key = wanted.get(local_name(element)) if element.tag.startswith("{http://purl.org/dc/") else None
        if key and element.text and element.text.strip():
            found.setdefault(key, []).append(" ".join(element.text.split()))
    return {key: ", ".join(values) if key == "author" else values[0] for key, values in found.items()}
