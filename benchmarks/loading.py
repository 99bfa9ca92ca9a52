"""How fast and how truly documents are read, against the libraries that could have been taken instead.

This project's own pages are set as PDF (one and two columns, with running heads and page numbers), as DOCX, and as an
HTML page amid the navigation of a site, so every word is known. Fidelity is the F1 score of sequences of three words
against these pages, in percent: it falls with what is missing, with what is out of order and with boilerplate that is
left in. Scans are the first pages of the PDFs, without tables, as pictures that were laid askew by one degree.
Structure is the share of headings and table rows that are one Markdown line each, in percent. Time is CPU time in this
process, the best of three. Libraries that are not installed are left out:
`pip install pypdf pdfminer.six trafilatura markdownify`. Arguments add documents of one's own: `FILE=TRUTH`, where
TRUTH is the same text as HTML or plain text.
"""

from __future__ import annotations

import io
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

from benchmarks.loading_samples import Block, make_docx, make_html, make_pdf, make_scan, read_blocks, words_of
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.registry import load_document
from heliograph.documents.scans import can_read_pictures

__all__ = ["TITLE", "run"]

TITLE = "Loading documents"

_WORD = re.compile(r"\w+")
_MARKUP = re.compile(r"^(?:#{1,6} |[-*] |> |```.*$|\|(?: --- \|)+$)|[|\\`*]", re.MULTILINE)

_SCANNED_BLOCKS = 60

Reader = Callable[[bytes], str]


def run(options: Options) -> Findings:
    """Measure every reader on every kind."""
    blocks = read_blocks()
    if options.quick:
        blocks = blocks[:60]
    figures: list[Figure] = []
    kinds = (
        ("PDF", "a.pdf", make_pdf(blocks, 1), _PDF_READERS),
        ("PDF in two columns", "a.pdf", make_pdf(blocks, 2), _PDF_READERS),
        ("DOCX", "a.docx", make_docx(blocks), _DOCX_READERS),
        ("HTML", "a.html", make_html(blocks), _HTML_READERS),
    )
    for kind, name, data, others in kinds:
        figures += _compare(kind, name, data, others, words_of(blocks), blocks)
    if can_read_pictures():
        scanned = [block for block in blocks if block.kind != "table"][: 10 if options.quick else _SCANNED_BLOCKS]
        for kind, columns in (("scan", 1), ("scan in two columns", 2)):
            data = make_scan(make_pdf(scanned, columns), 1.0)
            figures += _compare(kind, "a.pdf", data, {}, words_of(scanned), scanned)
    for pair in options.arguments:
        path, _, truth = pair.partition("=")
        others = _PDF_READERS if path.endswith(".pdf") else _HTML_READERS if ".htm" in path else {}
        text = _truth(Path(truth))
        figures += _compare(Path(path).name, path, Path(path).read_bytes(), others, text, ())
    return Findings(tuple(figures))


def _compare(
    kind: str, name: str, data: bytes, others: dict[str, Reader], truth: str, blocks: Sequence[Block]
) -> list[Figure]:
    figures: list[Figure] = []
    pages = max(1, len(load_document(RawDocument(name, data), Limits()).page_starts))
    own: dict[str, Reader] = {"heliograph": lambda data: load_document(RawDocument(name, data), Limits()).text}
    for reader, read in (own | others).items():
        try:
            seconds, text = _timed(read, data)
        except ImportError:
            continue
        bound = 95.0 if reader == "heliograph" and blocks and not kind.startswith("scan") else None
        figures.append(Figure(f"{kind}: fidelity, {reader}", _fidelity(text, truth), "%", at_least=bound))
        if blocks:
            figures.append(Figure(f"{kind}: structure, {reader}", _structure(text, blocks), "%"))
        speed = Figure(f"{kind}: {reader}", pages / seconds, "pages/s") if pages > 1 else None
        figures.append(speed or Figure(f"{kind}: {reader}", len(data) / seconds / 1e6, "MB/s"))
    return figures


def _timed(read: Reader, data: bytes) -> tuple[float, str]:
    best, text = float("inf"), ""
    for _ in range(3):
        start = time.process_time()
        text = read(data)
        best = min(best, time.process_time() - start)
    return max(best, 1e-6), text


def _fidelity(text: str, truth: str) -> float:
    found, wanted = _shingles(_MARKUP.sub("", text)), _shingles(truth)
    shared = sum((found & wanted).values())
    return 100 * 2 * shared / max(1, sum(found.values()) + sum(wanted.values()))


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    return Counter(zip(words, words[1:], words[2:], strict=False))


def _structure(text: str, blocks: Sequence[Block]) -> float:
    lines = Counter(_line(line) for line in text.split("\n") if line.startswith(("#", "|")))
    wanted = Counter(_line(f"# {block.text}") for block in blocks if block.kind == "heading")
    wanted += Counter(_line("| " + " | ".join(row)) for block in blocks for row in block.rows)
    return 100 * sum((lines & wanted).values()) / max(1, sum(wanted.values()))


def _line(line: str) -> str:
    return f"{line[:1]} {' '.join(_WORD.findall(line.casefold()))}"


class _Words(HTMLParser):
    """Collects what stands outside of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 (an override)
        self._hidden += tag in ("script", "style", "title")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style", "title")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data)


def _truth(path: Path) -> str:
    pages = sorted(path.glob("*.htm*")) if path.is_dir() else [path]
    words = _Words()
    for page in pages:
        words.feed(page.read_text("utf-8", "replace"))
    return "".join(words.pieces)


def _pypdf(data: bytes) -> str:
    reader = import_module("pypdf").PdfReader(io.BytesIO(data))
    return "\n".join(page.extract_text() for page in reader.pages)


def _pdfminer(data: bytes) -> str:
    return import_module("pdfminer.high_level").extract_text(io.BytesIO(data))


def _pdfium(data: bytes) -> str:
    document = import_module("pypdfium2").PdfDocument(data)
    return "\n".join(page.get_textpage().get_text_range() for page in document)


def _python_docx(data: bytes) -> str:
    document = import_module("docx").Document(io.BytesIO(data))
    return "\n".join(
        part.text
        if hasattr(part, "text")
        else "\n".join(" ".join(cell.text for cell in row.cells) for row in part.rows)
        for part in document.iter_inner_content()
    )


def _mammoth_markdown(data: bytes) -> str:
    return import_module("mammoth").convert_to_markdown(io.BytesIO(data)).value


def _trafilatura(data: bytes) -> str:
    return import_module("trafilatura").extract(data, output_format="markdown", include_tables=True) or ""


def _markdownify(data: bytes) -> str:
    return import_module("markdownify").markdownify(data.decode(), heading_style="ATX")


_PDF_READERS: dict[str, Reader] = {"PDFium alone": _pdfium, "pypdf": _pypdf, "pdfminer.six": _pdfminer}
_DOCX_READERS: dict[str, Reader] = {"python-docx": _python_docx, "mammoth's own Markdown": _mammoth_markdown}
_HTML_READERS: dict[str, Reader] = {"trafilatura": _trafilatura, "markdownify": _markdownify}
