"""Which loader reads which source: by what the bytes are, then by what a server said, then by the file's ending.

Signatures go before names, so a PDF named `notes.txt` is read as a PDF. Packages outside Heliograph register loaders
as entry points of the group `heliograph.loaders`, each a `Loader` class; theirs go before the built-in ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import PurePath

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.delimited import DelimitedLoader
from heliograph.documents.detection import detect_mime_type
from heliograph.documents.docx import DocxLoader
from heliograph.documents.epub import EpubLoader
from heliograph.documents.finishing import finish
from heliograph.documents.json_records import JsonLoader
from heliograph.documents.mail import MailLoader
from heliograph.documents.pdf import PdfLoader
from heliograph.documents.plain import MarkdownLoader, TextLoader
from heliograph.documents.pptx import PptxLoader
from heliograph.documents.source_code import CodeLoader
from heliograph.documents.spreadsheet import SpreadsheetLoader
from heliograph.documents.web_page import HtmlLoader

__all__ = ["find_loader", "known_suffixes", "load_document"]

_GROUP = "heliograph.loaders"
# What says no more than that there are bytes, or text.
_VAGUE_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream", "text/plain", "application/zip"})


@cache
def _loaders() -> tuple[Loader, ...]:
    others: list[Loader] = [entry.load()() for entry in entry_points(group=_GROUP)]
    return (
        *others,
        TextLoader(),
        MarkdownLoader(),
        HtmlLoader(),
        PdfLoader(),
        DocxLoader(),
        PptxLoader(),
        SpreadsheetLoader(),
        DelimitedLoader(),
        EpubLoader(),
        JsonLoader(),
        MailLoader(),
        CodeLoader(),
    )


@cache
def known_suffixes() -> frozenset[str]:
    """Return the endings, in lower case and with the dot, of all files that can be read."""
    return frozenset[str]().union(*(loader.suffixes for loader in _loaders()))


def find_loader(raw: RawDocument) -> Loader:
    """Return what reads a source; plain text is read where nothing else is known.

    Raises:
        IngestError: The bytes are of a kind that is known and not read here; says which.
    """
    detected = detect_mime_type(raw)
    found = _by_type(detected) if detected else None
    if found is None and raw.mime_type not in _VAGUE_TYPES:
        found = _by_type(raw.mime_type)
    return found or _by_suffix(_suffix(raw.name)) or _loaders_of(TextLoader)


def load_document(raw: RawDocument, limits: Limits) -> LoadedDocument:
    """Read a source in this process: its text clean, its title and metadata completed.

    Raises:
        IngestError: It cannot be read, or is beyond a limit; says why and what to do.
        MissingDependencyError: The package that reads it is not installed.
    """
    loader = find_loader(raw)
    loaded = loader.load(raw, limits)
    metadata = {"mime_type": _mime_type(loader, raw), **loaded.metadata}
    return finish(replace(loaded, metadata=metadata), limits)


def _mime_type(loader: Loader, raw: RawDocument) -> str:
    """Return the type of what was read: as detected or declared if that is one of the loader's, else its first."""
    for mime_type in (detect_mime_type(raw), raw.mime_type):
        if mime_type in loader.mime_types:
            return mime_type
    return min(loader.mime_types, default="text/plain")


def _by_type(mime_type: str) -> Loader | None:
    return _first(loader for loader in _loaders() if mime_type in loader.mime_types)


def _by_suffix(suffix: str) -> Loader | None:
    return _first(loader for loader in _loaders() if suffix in loader.suffixes)


def _loaders_of(kind: type[Loader]) -> Loader:
    return next(loader for loader in _loaders() if isinstance(loader, kind))


def _first(loaders: Iterable[Loader]) -> Loader | None:
    return next(iter(loaders), None)


def _suffix(name: str) -> str:
    path = name.partition("?")[0].partition("#")[0] if "://" in name else name
    return PurePath(path).suffix.lower()
