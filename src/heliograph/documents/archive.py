"""Opens ZIP archives of documents and the XML in them, safely.

The declared sizes of an archive are added up before anything is unpacked, and an entry is never read beyond its
declared size, so a bomb is refused by arithmetic. XML may define no entities and fetches nothing.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from xml.etree import ElementTree as ET

from heliograph.documents.base import Limits, RawDocument
from heliograph.errors import IngestError

# Small archives may compress well without being a danger.
_RATIO_FROM_BYTES = 1_000_000
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
    """The entries of one archive by name."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive = archive
        self._name = name
        self._names = frozenset(archive.namelist())

    def __contains__(self, entry: str) -> bool:
        return entry in self._names

    @property
    def names(self) -> frozenset[str]:
        """Names of all entries."""
        return self._names

    def read(self, entry: str) -> bytes:
        """Return an entry unpacked; empty if there is none.

        Raises:
            IngestError: It is broken.
        """
        if entry not in self._names:
            return b""
        try:
            return self._archive.read(entry)
        except _BROKEN as error:
            raise _broken(self._name, error) from error

    def verify(self) -> None:
        """Unpack every entry once and forget it, so that none holds more than it declares; for readers of their own.

        Raises:
            IngestError: One is broken, or lies about its size.
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
    """Open an archive whose declared sizes are within the limits.

    Raises:
        IngestError: It is broken, encrypted, or would unpack to too much.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(raw.data))
    except _BROKEN as error:
        raise _broken(raw.name, error) from error
    with archive:
        _check(archive.infolist(), raw, limits)
        yield Archive(archive, raw.name)


def _check(entries: list[zipfile.ZipInfo], raw: RawDocument, limits: Limits) -> None:
    unpacked = sum(entry.file_size for entry in entries)
    if len(entries) > limits.max_archive_entries:
        raise IngestError(
            f"{raw.name!r} holds {len(entries):,} files, more than {limits.max_archive_entries:,}; if it is to be "
            "trusted, raise documents.max_archive_entries"
        )
    if unpacked > limits.max_unpacked_bytes:
        raise IngestError(
            f"{raw.name!r} unpacks to {unpacked:,} bytes, more than {limits.max_unpacked_bytes:,}; if it is to be "
            "trusted, raise documents.max_unpacked_bytes"
        )
    ratio = unpacked / max(1, len(raw.data))
    if unpacked > _RATIO_FROM_BYTES and ratio > limits.max_compression_ratio:
        raise IngestError(
            f"{raw.name!r} unpacks to {ratio:,.0f} times its size, as an archive made to exhaust memory does; if it is "
            "to be trusted, raise documents.max_compression_ratio"
        )
    if any(entry.flag_bits & _ENCRYPTED for entry in entries):
        raise IngestError(f"{raw.name!r} is encrypted; remove its password and try again")


def _broken(name: str, error: Exception) -> IngestError:
    return IngestError(f"{name!r} is cut off or broken ({error}); get it again, or open and save it anew")


# XML from untrusted documents: no entities of its own, nothing fetched.

# UTF-16 keeps ASCII letters apart by a zero byte, on either side.
_ENTITY = re.compile(rb"<\0?!\0?E\0?N\0?T\0?I\0?T\0?Y")


def parse_xml(data: bytes, name: str) -> ET.Element:
    """Return the root of an XML document.

    Args:
        data: The document; in the encoding that it declares.
        name: Named in errors.

    Raises:
        IngestError: It defines entities, which documents have no need of and bombs are made of, or is broken.
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
