"""PDF through PDFium: text in reading order, page by page, with headings, lists and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.cleaning import clean_text
from heliograph.documents.finishing import too_long
from heliograph.documents.optional import import_package
from heliograph.documents.pages import join_pages
from heliograph.documents.pdf_flow import read_flow
from heliograph.documents.pdf_margins import PageSpans, remove_margins
from heliograph.documents.pdf_spans import read_spans
from heliograph.documents.pdf_text import measure_style, render_page
from heliograph.errors import IngestError

__all__ = ["PdfLoader"]

_PASSWORD_ERROR = 4
_DATE = re.compile(r"D?:?(\d{4})(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{2})?")
# What programs write where nobody gave a title.
_NO_TITLE = re.compile(
    r"(?:microsoft (?:word|powerpoint|excel) - .*|untitled.*|.*\.(?:docx?|pptx?|xlsx?|tex|dvi|indd|qxd|pdf)|\W*)",
    re.IGNORECASE,
)


class PdfLoader(Loader):
    """PDF files with text; scans need a reader of images first."""

    suffixes = frozenset({".pdf"})
    mime_types = frozenset({"application/pdf"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        """See `Loader.load`."""
        pdfium = import_package("pypdfium2", "pypdfium2")
        document = _open(pdfium, raw)
        try:
            count = len(document)
            if count > limits.max_pages:
                raise IngestError(
                    f"{raw.name!r} has {count:,} pages, more than {limits.max_pages:,}; split it, or raise "
                    "documents.max_pages"
                )
            pages = _read_pages(pdfium, document, raw, limits)
            metadata = _metadata(document)
        finally:
            document.close()
        text, starts = join_pages(_render(pages))
        if not text and count:
            raise IngestError(
                f"{raw.name!r} has {count:,} pages without text, as scans have; run it through text recognition "
                "(OCR) first"
            )
        title = metadata.pop("title", "")
        return LoadedDocument(raw.name, title, text, {**metadata, "page_count": count}, starts)


def _open(pdfium: Any, raw: RawDocument) -> Any:
    try:
        return pdfium.PdfDocument(raw.data)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            raise IngestError(f"{raw.name!r} is encrypted; remove its password and try again") from error
        raise IngestError(
            f"{raw.name!r} is no PDF that can be read ({error}); get it again, or save it anew"
        ) from error


def _read_pages(pdfium: Any, document: Any, raw: RawDocument, limits: Limits) -> list[PageSpans]:
    pages: list[PageSpans] = []
    left = limits.max_characters
    for index in range(len(document)):
        try:
            page = document[index]
        except pdfium.PdfiumError as error:
            raise IngestError(f"page {index + 1} of {raw.name!r} is broken ({error}); save the file anew") from error
        try:
            # One more than allowed, to tell a text that is too long from one that just fits.
            spans = tuple(read_spans(page, left + 1))
            height = page.get_height()
        except pdfium.PdfiumError as error:
            raise IngestError(f"page {index + 1} of {raw.name!r} is broken ({error}); save the file anew") from error
        finally:
            page.close()
        left -= sum(len(span.text) for span in spans)
        if left < 0:
            raise too_long(raw.name, limits.max_characters)
        pages.append(PageSpans(spans, height))
    return pages


def _render(pages: Sequence[PageSpans]) -> list[str]:
    columns = [read_flow(spans) for spans in remove_margins(pages)]
    style = measure_style(columns)
    return [clean_text(render_page(page, style)) for page in columns]


def _metadata(document: Any) -> dict[str, Any]:
    stated = {key: " ".join(clean_text(value).split()) for key, value in document.get_metadata_dict().items() if value}
    title = stated.get("Title", "")
    return {
        "title": "" if _NO_TITLE.fullmatch(title) else title,
        "author": stated.get("Author", ""),
        "subject": stated.get("Subject", ""),
        "keywords": stated.get("Keywords", ""),
        "created_at": _date(stated.get("CreationDate", "")),
        "modified_at": _date(stated.get("ModDate", "")),
    }


def _date(stated: str) -> str:
    """Return a date such as `D:20240131120000+01'00'` in ISO 8601, as far as it is given; empty if it is none."""
    match = _DATE.match(stated)
    if not match:
        return ""
    day = "-".join(part for part in match.groups()[:3] if part)
    clock = [part for part in match.groups()[3:] if part]
    return f"{day}T{':'.join(clock)}" if len(clock) == 3 else day
