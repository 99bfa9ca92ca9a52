"""Documents of every kind, made by the libraries that people use to write them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import docx
import openpyxl
import pptx
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from heliograph.documents.base import Limits, LoadedDocument, RawDocument
from heliograph.documents.registry import load_document

LIMITS = Limits()
SENTENCE = "The gateway keeps every message until the broker has confirmed it and only then forgets it."


def load(name: str, data: bytes | str, limits: Limits = LIMITS, **fields: str) -> LoadedDocument:
    return load_document(RawDocument(name, data.encode() if isinstance(data, str) else data, **fields), limits)


def zip_bytes(entries: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def docx_bytes() -> bytes:
    document = docx.Document()
    document.core_properties.title = "Gateway manual"
    document.core_properties.author = "Ada Noll"
    document.add_heading("Install", 1)
    document.add_paragraph("Plug it in.")
    for text in ("Cable", "Antenna"):
        document.add_paragraph(text, style="List Bullet")
    table = document.add_table(2, 2)
    for row, cells in enumerate((("Name", "Value"), ("Port", "a|b"))):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    document.add_heading("After", 2)
    document.add_paragraph("Done.")
    return _saved(document)


def pptx_bytes() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Plan"
    frame = slide.placeholders[1].text_frame
    frame.text = "One"
    deeper = frame.add_paragraph()
    deeper.text, deeper.level = "Deeper", 1
    slide.notes_slide.notes_text_frame.text = "Say hello"
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Numbers"
    table = slide.shapes.add_table(2, 2, 0, 0, 1000, 1000).table
    for index in range(4):
        table.cell(index // 2, index % 2).text = f"c{index}"
    presentation.slides.add_slide(presentation.slide_layouts[6])
    return _saved(presentation)


def xlsx_bytes(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return _saved(book)


def epub_bytes(
    chapters: Mapping[str, str], spine: Sequence[str], aside: Sequence[str] = (), **more: str | bytes
) -> bytes:
    """Return a book; what stands `aside` is in the spine, and not read from front to back."""
    items = "".join(f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>' for name in chapters)
    order = "".join(f'<itemref idref="{name}"/>' for name in spine)
    order += "".join(f'<itemref idref="{name}" linear="no"/>' for name in aside)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<dc:title>Lamps</dc:title><dc:creator>Ada</dc:creator><dc:language>en</dc:language></metadata>"
        f"<manifest>{items}</manifest><spine>{order}</spine></package>"
    )
    container = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    return zip_bytes(
        {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OEBPS/book.opf": package}
        | {f"OEBPS/{name}.xhtml": f"<html><body>{body}</body></html>" for name, body in chapters.items()}
        | {name.replace("__", "/"): data for name, data in more.items()}
    )


class PdfPages:
    """Draws lines onto pages; places are points from the upper left corner."""

    def __init__(self, title: str = "", password: str | None = None) -> None:
        self._buffer = io.BytesIO()
        self._canvas = Canvas(self._buffer, pagesize=A4, encrypt=password)
        if title:
            self._canvas.setTitle(title)

    def line(self, left: float, top: float, text: str, size: float = 10, font: str = "Helvetica") -> PdfPages:
        self._canvas.setFont(font, size)
        self._canvas.drawString(left, A4[1] - top, text)
        return self

    def lines(self, left: float, top: float, texts: Sequence[str], pitch: float = 12, **style: Any) -> PdfPages:
        for index, text in enumerate(texts):
            self.line(left, top + index * pitch, text, **style)
        return self

    def picture(self, image: Any) -> PdfPages:
        """Cover the page."""
        self._canvas.drawImage(ImageReader(image), 0, 0, *A4)
        return self

    def strip(self, width: float, height: float) -> PdfPages:
        """Make the page so small, and fill it."""
        self._canvas.setPageSize((width, height))
        self._canvas.rect(0, 0, width, height, fill=1)
        return self

    def mark(self, title: str, level: int) -> PdfPages:
        """Add a bookmark that leads to this page."""
        self._canvas.bookmarkPage(title)
        self._canvas.addOutlineEntry(title, title, level)
        return self

    def next(self) -> PdfPages:
        self._canvas.showPage()
        return self

    def data(self) -> bytes:
        self._canvas.save()
        return self._buffer.getvalue()


def _saved(document: Any) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()
