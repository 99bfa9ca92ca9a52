"""Reads a single compressed file (gzip, bzip2, xz) as the file inside it."""

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
from heliograph.documents.registry import COMPRESSED, load_document
from heliograph.errors import IngestError

_OPENERS: dict[str, Callable[[io.BytesIO], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BROKEN = (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error)
# Position of the magic bytes of a tar archive.
_TAR = slice(257, 262)


class CompressedLoader(Loader):
    """A single compressed file; the suffix before that of the compression decides its format, if its bytes do not."""

    suffixes = frozenset(suffix for _, suffix in COMPRESSED.values())
    mime_types = frozenset(mime_type for mime_type, _ in COMPRESSED.values()) | {"application/x-gzip"}
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        return replace(load_document(unpack(raw, limits), limits), source=raw.name)


def unpack(raw: RawDocument, limits: Limits) -> RawDocument:
    """Return the file inside a compressed one; a file that is not compressed is returned unchanged.

    Raises:
        IngestError: It is broken, unpacks to too much, or holds an archive or another compressed file.
    """
    kind = next((suffix for mark, (_, suffix) in COMPRESSED.items() if raw.data.startswith(mark)), None)
    if kind is None:
        return raw
    most = limits.most_unpacked(len(raw.data))
    try:
        with _OPENERS[kind](io.BytesIO(raw.data)) as file:
            data = file.read(most + 1)
    except _BROKEN as error:
        raise IngestError(f"{raw.name!r} is cut off or broken ({error}); get it again") from error
    limits.check_unpacked(raw.name, len(raw.data), len(data))
    if data[_TAR] == b"ustar" or data.startswith(tuple(COMPRESSED)):
        raise IngestError(f"{raw.name!r} is an archive, not a document; unpack it and give the files in it")
    return replace(raw, name=raw.name.rpartition(".")[0] or raw.name, data=data, mime_type="")
