"""What bytes are, whatever their name says: signatures of formats, and what a ZIP archive holds.

Formats that are known and not read here are refused by name, so that no one gets their bytes as text.
"""

from __future__ import annotations

import codecs
import io
import re
import zipfile

from heliograph.documents.base import RawDocument
from heliograph.errors import IngestError

__all__ = ["detect_mime_type"]

_OFFICE = "application/vnd.openxmlformats-officedocument."
_ZIP = b"PK\x03\x04"
_EMPTY_ZIP = b"PK\x05\x06"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PDF_WITHIN = 1024
# Names inside an archive that tell what it is.
_BY_ENTRY = (
    ("word/document.xml", _OFFICE + "wordprocessingml.document"),
    ("ppt/presentation.xml", _OFFICE + "presentationml.presentation"),
    ("xl/workbook.xml", _OFFICE + "spreadsheetml.sheet"),
    ("xl/workbook.bin", "application/vnd.ms-excel.sheet.binary.macroenabled.12"),
    ("META-INF/container.xml", "application/epub+zip"),
)
_BY_MIMETYPE_FILE = {
    "application/epub+zip",
    "application/vnd.oasis.opendocument.spreadsheet",
}
# Streams of an OLE file, named in UTF-16.
_OLE_STREAMS = (
    ("Workbook", "application/vnd.ms-excel"),
    ("Book", "application/vnd.ms-excel"),
)
_OLE_REFUSED = (
    ("EncryptedPackage", "is encrypted; remove its password and try again"),
    ("WordDocument", "is a Word file of the older kind (.doc); save it as .docx"),
    ("PowerPoint Document", "is a PowerPoint file of the older kind (.ppt); save it as .pptx"),
    ("__properties_version1.0", "is an Outlook message (.msg); save it as .eml"),
)
_OLE_SEARCHED_BYTES = 4_000_000
_HTML = re.compile(rb"<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_HTML_WITHIN = 2048
# What may stand before a page, by its first bytes, and how it ends.
_PREAMBLES = {b"<!--": b"-->", b"<?xm": b"?>"}


def detect_mime_type(raw: RawDocument) -> str:
    """Return the content type that the bytes themselves show, or an empty string if they show none.

    Raises:
        IngestError: They are an older Office file, an encrypted one, or an archive that is broken or of no known kind.
    """
    data = raw.data
    if data.startswith((_ZIP, _EMPTY_ZIP)):
        return _detect_archive(raw)
    if data.startswith(_OLE):
        return _detect_ole(raw)
    # Readers accept a PDF whose header is not at its very start; text that speaks of PDF has no such line.
    if data.startswith(b"%PDF-") or b"\n%PDF-1." in data[:_PDF_WITHIN]:
        return "application/pdf"
    return "text/html" if _is_html(data[:_HTML_WITHIN]) else ""


def _is_html(head: bytes) -> bool:
    """Whether a page starts here, after comments and an XML declaration."""
    head = head.removeprefix(codecs.BOM_UTF8).lstrip()
    while (end := _PREAMBLES.get(head[:4])) is not None:
        head = head.partition(end)[2].lstrip()
    return bool(_HTML.match(head))


def _detect_archive(raw: RawDocument) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(raw.data)) as archive:
            names = set(archive.namelist())
            if "mimetype" in names and archive.getinfo("mimetype").file_size < 200:
                declared = archive.read("mimetype").decode("ascii", "replace").strip()
                if declared in _BY_MIMETYPE_FILE:
                    return declared
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, LookupError) as error:
        raise IngestError(
            f"{raw.name!r} is an archive or Office file that is cut off or broken ({error}); get it again, or open and "
            "save it anew"
        ) from error
    for name, mime_type in _BY_ENTRY:
        if name in names:
            return mime_type
    raise IngestError(f"{raw.name!r} is a ZIP archive, not a document; unpack it and give the files in it")


def _detect_ole(raw: RawDocument) -> str:
    head = raw.data[:_OLE_SEARCHED_BYTES] + raw.data[-_OLE_SEARCHED_BYTES:]
    for stream, why in _OLE_REFUSED:
        if stream.encode("utf-16-le") in head:
            raise IngestError(f"{raw.name!r} {why}")
    for stream, mime_type in _OLE_STREAMS:
        if stream.encode("utf-16-le") in head:
            return mime_type
    raise IngestError(f"{raw.name!r} is a file of an older Office kind that is not read; save it in today's format")
