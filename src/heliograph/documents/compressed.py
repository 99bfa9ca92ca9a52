"""Reads a file that was compressed by itself (gzip, bzip2, xz) as the file that it holds."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.registry import load_document
from heliograph.errors import IngestError

_OPENERS: dict[bytes, Callable[[io.BytesIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_BROKEN = (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error)
# What a tar archive has here.
_TAR = slice(257, 262)


class CompressedLoader(Loader):
    """One compressed file; the ending below that of the compression says what it is, if its bytes do not."""

    suffixes = frozenset({".gz", ".bz2", ".xz"})
    mime_types = frozenset({"application/gzip", "application/x-gzip", "application/x-bzip2", "application/x-xz"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        return replace(load_document(unpack(raw, limits), limits), source=raw.name)


def unpack(raw: RawDocument, limits: Limits) -> RawDocument:
    """Return the file that a compressed one holds, and what is not compressed as it is.

    Raises:
        IngestError: It is broken, unpacks to too much, or holds an archive or another compressed file.
    """
    opener = next((opener for mark, opener in _OPENERS.items() if raw.data.startswith(mark)), None)
    if opener is None:
        return raw
    most = limits.most_unpacked(len(raw.data))
    try:
        with opener(io.BytesIO(raw.data)) as file:
            data = file.read(most + 1)
    except _BROKEN as error:
        raise IngestError(f"{raw.name!r} is cut off or broken ({error}); get it again") from error
    limits.check_unpacked(raw.name, len(raw.data), len(data))
    if data[_TAR] == b"ustar" or data.startswith(tuple(_OPENERS)):
        raise IngestError(f"{raw.name!r} is an archive, not a document; unpack it and give the files in it")
    return replace(raw, name=raw.name.rpartition(".")[0] or raw.name, data=data, mime_type="")
