"""Chooses the loader of a source: by its bytes, then by the declared type, then by the file's suffix.

Signatures go before names, so a PDF named `notes.txt` is read as a PDF. Known formats that are not supported are
refused by name. Other packages register loaders as entry points of the group `heliograph.loaders`; theirs go first.
"""

from __future__ import annotations

import codecs
import io
import re
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import PurePath

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument, packed_folder
from heliograph.documents.markdown import finish
from heliograph.errors import IngestError

_OFFICE = "application/vnd.openxmlformats-officedocument."
_ZIP = b"PK\x03\x04"
_EMPTY_ZIP = b"PK\x05\x06"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PDF_WITHIN = 1024
# Entries that identify the kind of an archive.
_BY_ENTRY = (
    ("word/document.xml", _OFFICE + "wordprocessingml.document"),
    ("ppt/presentation.xml", _OFFICE + "presentationml.presentation"),
    ("xl/workbook.xml", _OFFICE + "spreadsheetml.sheet"),
    ("xl/workbook.bin", "application/vnd.ms-excel.sheet.binary.macroenabled.12"),
    ("META-INF/container.xml", "application/epub+zip"),
)
_BY_MIMETYPE_FILE = {
    "application/epub+zip",
    "application/vnd.oasis.opendocument.presentation",
    "application/vnd.oasis.opendocument.presentation-template",
    "application/vnd.oasis.opendocument.spreadsheet",
    "application/vnd.oasis.opendocument.text",
    "application/vnd.oasis.opendocument.text-template",
}
# Signatures of single compressed files, with type and suffix.
COMPRESSED = {
    b"\x1f\x8b": ("application/gzip", ".gz"),
    b"BZh": ("application/x-bzip2", ".bz2"),
    b"\xfd7zXZ\x00": ("application/x-xz", ".xz"),
}
_SIGNATURES = {
    **{mark: mime_type for mark, (mime_type, _) in COMPRESSED.items()},
    b"{\\rtf": "application/rtf",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
}
# Streams that identify the kind of an OLE file.
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
_OLE_ROOT = 5
# The start of PostScript, alone, after printer commands, or before a preview image.
_POSTSCRIPT = re.compile(rb"(?:\x04|\x1b%-12345X(?:@PJL[^\n]*\n){0,20})?%!PS|\xc5\xd0\xd3\xc6")
_POSTSCRIPT_ENDINGS = frozenset({".ps", ".eps"})
_MARKED = frozenset({".md", ".rst", ".adoc"})
# Text files known by their conventional names.
_NOTES = re.compile(r"(?:README|(?:OLD)?NEWS|CHANGES|CHANGELOG|HISTORY|INSTALL|TODO|FAQ|BUGS|NOTES)(?:\.[A-Z]\w+)?")
_HTML = re.compile(rb"<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_HTML_WITHIN = 2048
# The start of a manual page's source: a comment or its first macro.
_ROFF = re.compile(rb"[.']\\\"|\.(?:TH|Dd)\s")
# Content that may precede a page, by its first bytes, and how it ends.
_PREAMBLES = {b"<!--": b"-->", b"<?xm": b"?>"}


def detect_mime_type(raw: RawDocument) -> str:
    """Return the content type that the bytes themselves show, or an empty string.

    Raises:
        IngestError: They are PostScript, an older Office file, an encrypted one, or an archive that is broken or of no
            known kind.
    """
    data = raw.data
    if data.startswith((_ZIP, _EMPTY_ZIP)):
        return _detect_archive(raw)
    if data.startswith(_OLE):
        streams = _ole_streams(data)
        for stream, why in _OLE_REFUSED:
            if stream in streams:
                raise IngestError(f"{raw.name!r} {why}")
        for stream, mime_type in _OLE_STREAMS:
            if stream in streams:
                return mime_type
        raise IngestError(f"{raw.name!r} is a file of an older Office kind that is not read; save it in today's format")
    for mark, mime_type in _SIGNATURES.items():
        if data.startswith(mark):
            return mime_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    # Readers accept a PDF whose header is not at its very start; text about PDF has no such line.
    if data.startswith(b"%PDF-") or b"\n%PDF-1." in data[:_PDF_WITHIN]:
        return "application/pdf"
    # A page may start after comments and an XML declaration.
    head = data[:_HTML_WITHIN].removeprefix(codecs.BOM_UTF8).lstrip()
    while (end := _PREAMBLES.get(head[:4])) is not None:
        head = head.partition(end)[2].lstrip()
    found = "text/html" if _HTML.match(head) else "text/troff" if _ROFF.match(head) else ""
    if not found and (_POSTSCRIPT.match(data) or _suffix(raw.name) in _POSTSCRIPT_ENDINGS):
        raise IngestError(f"{raw.name!r} is PostScript, a program that prints pages; convert it to PDF")
    return found


def _ole_streams(data: bytes) -> set[str]:
    """Return the stream names of an OLE file itself, without those of embedded documents.

    If its directory is broken, they are the known names that occur near its ends, in UTF-16.
    """
    try:
        size = 1 << struct.unpack_from("<H", data, 30)[0]
        tables = struct.unpack_from("<109I", data, 76)
        sector, entries = struct.unpack_from("<I", data, 48)[0], bytearray()
        # A broken file may have sector chains that loop, or that lead to nothing.
        while (sector + 1) * size < len(data) and len(entries) < _OLE_SEARCHED_BYTES:
            entries += data[(sector + 1) * size : (sector + 2) * size]
            table, place = divmod(sector, size // 4)
            sector = struct.unpack_from("<I", data, (tables[table] + 1) * size + 4 * place)[0]
        if entries[66] == _OLE_ROOT:
            names: set[str] = set()
            waiting = [struct.unpack_from("<I", entries, 76)[0]]
            # Each entry refers to its two siblings.
            for _ in range(2 + len(entries) // 64):
                if waiting and (entry := waiting.pop() * 128) < len(entries):
                    length, _kind, left, right = struct.unpack_from("<HHII", entries, entry + 64)
                    names.add(entries[entry : entry + max(0, length - 2)].decode("utf-16-le", "replace"))
                    waiting += [left, right]
            return names
    except (struct.error, IndexError, OverflowError, ZeroDivisionError):
        pass
    ends = data[:_OLE_SEARCHED_BYTES] + data[-_OLE_SEARCHED_BYTES:]
    return {name for name, _ in (*_OLE_REFUSED, *_OLE_STREAMS) if name.encode("utf-16-le") in ends}


def _detect_archive(raw: RawDocument) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(raw.data)) as archive:
            folder = packed_folder(archive.namelist())
            names = {name.removeprefix(folder) for name in archive.namelist()}
            if "mimetype" in names and archive.getinfo(f"{folder}mimetype").file_size < 200:
                declared = archive.read(f"{folder}mimetype").decode("ascii", "replace").strip()
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


_GROUP = "heliograph.loaders"
# Our loaders, in search order. The first loader that claims a suffix (or a type) reads it, and third-party loaders
# (entry points of `_GROUP`) come before ours, so that they can replace one. No two of ours may claim one suffix:
# `tests/unit/documents/test_registry.py` checks that.
#
# They are imported when the first document is loaded, so that a process that only asks questions does not wait for
# them.
_LOADERS = """text_formats.TextLoader text_formats.MarkupLoader text_formats.MarkdownLoader web_page.HtmlLoader
    pdf.PdfLoader word.DocxLoader office.PptxLoader office.SpreadsheetLoader open_document.OpenTextLoader
    open_document.OpenPresentationLoader rich_text.RichTextLoader text_formats.DelimitedLoader office.EpubLoader
    text_formats.JsonLoader notebook.NotebookLoader mail.MailLoader mail.MailboxLoader mail.SavedPageLoader
    text_formats.CodeLoader xml_document.XmlLoader man_page.ManPageLoader compressed.CompressedLoader
    pdf.PictureLoader"""
_PLAIN_TEXT = "text/plain"
# Types that only say that there are bytes, or text.
_VAGUE_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream", _PLAIN_TEXT, "application/zip"})


@cache
def _loaders() -> tuple[Loader, ...]:
    loaders: list[Loader] = [entry.load()() for entry in entry_points(group=_GROUP)]
    for path in _LOADERS.split():
        module, _, name = path.partition(".")
        loaders.append(getattr(import_module(f"heliograph.documents.{module}"), name)())
    return tuple(loaders)


@cache
def known_suffixes(*, given: bool = False) -> frozenset[str]:
    """Return the suffixes, in lower case and with the dot, of files taken from folders, or that may be given."""
    own = (loader.suffixes | loader.given_suffixes if given else loader.suffixes for loader in _loaders())
    return frozenset[str]().union(*own)


def is_read(name: str, *, given: bool = False) -> bool:
    """Return whether files of this name are read, by suffix; a compressed file counts by its inner suffix.

    `README`, `NEWS.Debian` and the like are text, too.

    Some are, if given or uploaded by themselves, that are not when found in a folder.
    """
    suffix = _suffix(name)
    if any(suffix == ending for _, ending in COMPRESSED.values()):
        name = name[: -len(suffix)]
        suffix = _suffix(name)
    return suffix in known_suffixes(given=given) or bool(_NOTES.fullmatch(PurePath(name).name))


def find_loader(raw: RawDocument) -> Loader:
    """Return the loader for a source; an unknown format is read as plain text.

    Raises:
        IngestError: The format is known but not supported; says which.
    """
    detected = detect_mime_type(raw)
    found = _by_type(detected) if detected else None
    if found is None and raw.mime_type not in _VAGUE_TYPES:
        found = _by_type(raw.mime_type)
    suffix = _suffix(raw.name)
    found = found or _first(loader for loader in _loaders() if suffix in loader.suffixes | loader.given_suffixes)
    return found or next(loader for loader in _loaders() if _PLAIN_TEXT in loader.mime_types)


def load_document(raw: RawDocument, limits: Limits) -> LoadedDocument:
    """Read a source in this process, with clean text, title and complete metadata.

    Raises:
        IngestError: It cannot be read, or is beyond a limit; says why and what to do.
        MissingDependencyError: The package that reads it is not installed.
    """
    loader = find_loader(raw)
    loaded = loader.load(raw, limits)
    # The detected or declared type if it is one of the loader's, else the loader's first.
    found = (mime_type for mime_type in (detect_mime_type(raw), raw.mime_type) if mime_type in loader.mime_types)
    mime_type = next(found, min(loader.mime_types, default=_PLAIN_TEXT))
    metadata = {"mime_type": mime_type, **loaded.metadata}
    return finish(replace(loaded, metadata=metadata), limits)


def _by_type(mime_type: str) -> Loader | None:
    return _first(loader for loader in _loaders() if mime_type in loader.mime_types)


def _first(loaders: Iterable[Loader]) -> Loader | None:
    return next(iter(loaders), None)


def _suffix(name: str) -> str:
    path = name.partition("?")[0].partition("#")[0] if "://" in name else name
    suffix = PurePath(path).suffix.lower()
    # Sphinx shows its sources as "index.rst.txt".
    before = PurePath(path).with_suffix("").suffix.lower() if suffix == ".txt" else ""
    return before if before in _MARKED else suffix
