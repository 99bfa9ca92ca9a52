"""PowerPoint presentations: a section and a page per slide, with its lists, tables and notes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from heliograph.documents.archive import Archive, open_archive
from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.office_properties import read_properties
from heliograph.documents.pages import join_pages
from heliograph.documents.tables import markdown_table
from heliograph.documents.xml_tree import local_name, parse_xml
from heliograph.errors import IngestError

__all__ = ["PptxLoader"]

_OFFICE = "application/vnd.openxmlformats-officedocument.presentationml."
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
    mime_types = frozenset({_OFFICE + "presentation", _OFFICE + "slideshow"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        """See `Loader.load`."""
        with open_archive(raw, limits) as archive:
            slides = _slide_names(archive, raw.name)
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


def _slide_names(archive: Archive, name: str) -> list[str]:
    data = archive.read(_PRESENTATION)
    if not data:
        raise IngestError(f"{name!r} is no PowerPoint presentation; open and save it anew")
    parts = _relations(archive, _PRESENTATION, name)
    ids = (element.get(f"{_R}id", "") for element in parse_xml(data, name).iter(f"{_P}sldId"))
    return [parts[id_][1] for id_ in ids if id_ in parts]


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
        rows = ([_cell(cell) for cell in row.iter(f"{_A}tc")] for row in table.iter(f"{_A}tr"))
        return markdown_table(rows)
    paragraphs = [paragraph for paragraph in shape.iter(f"{_A}p") if _text(paragraph).strip()]
    return "\n".join(_lines(shape, is_list=len(paragraphs) > 1 and _role(shape) in ("body", "obj")))


def _cell(cell: Element) -> str:
    return " ".join(_text(paragraph) for paragraph in cell.iter(f"{_A}p"))


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
