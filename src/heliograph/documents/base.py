"""The contract of loaders: the bytes of one source come in, clean text and metadata go out.

A loader is a pure function of its bytes: it opens no file, no socket and no other source, so it can run in a separate
process and gives the same document every time. If it cannot read a source, it raises an `IngestError` that names the
source and says what to do. Packages that read formats are imported when the first document needs them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from heliograph.errors import IngestError

# Entries at the top level of an archive that is a document.
_AT_THE_TOP = ("META-INF/container.xml", "[Content_Types].xml", "mimetype")
# Below this size, the compression ratio proves nothing.
_RATIO_FROM_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the cost of one document.

    Attributes:
        max_pages: Most pages, slides, sheets or chapters.
        max_unpacked_bytes: Most bytes that an archive (DOCX, XLSX, PPTX, EPUB ...) may unpack to, over all entries.
        max_compression_ratio: Largest ratio of unpacked to packed size of an archive, from a megabyte on.
        max_memory_bytes: Memory that parsing may take in a separate process; 0 is no limit.
        timeout_seconds: How long parsing may take in a separate process; for a scan, per page.
    """

    max_bytes: int = 100_000_000
    max_characters: int = 100_000_000
    max_pages: int = 5_000
    max_unpacked_bytes: int = 500_000_000
    max_archive_entries: int = 20_000
    max_compression_ratio: float = 200.0
    max_memory_bytes: int = 2_000_000_000
    timeout_seconds: float = 120.0

    def check_pages(self, name: str, count: int, what: str = "pages") -> None:
        """Raise an `IngestError` for too many pages, slides, sheets or chapters."""
        if count > self.max_pages:
            raise IngestError(
                f"{name!r} has {count:,} {what}, more than {self.max_pages:,}; split it, or raise documents.max_pages"
            )

    def most_unpacked(self, packed_bytes: int) -> int:
        """Return how many bytes an archive of this packed size may unpack to."""
        return min(self.max_unpacked_bytes, max(_RATIO_FROM_BYTES, int(packed_bytes * self.max_compression_ratio)))

    def check_unpacked(self, name: str, packed_bytes: int, unpacked_bytes: int) -> None:
        """Raise an `IngestError` for an archive that unpacks to too much."""
        if unpacked_bytes > self.max_unpacked_bytes:
            raise IngestError(
                f"{name!r} unpacks to {unpacked_bytes:,} bytes or more, beyond {self.max_unpacked_bytes:,}; if it is "
                "to be trusted, raise documents.max_unpacked_bytes"
            )
        if unpacked_bytes > self.most_unpacked(packed_bytes):
            raise IngestError(
                f"{name!r} unpacks to {unpacked_bytes / max(1, packed_bytes):,.0f} times its size or more, beyond "
                f"{self.max_compression_ratio:g}, as an archive made to exhaust memory does; if it is to be trusted, "
                "raise documents.max_compression_ratio"
            )


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One source as it was read or fetched.

    Attributes:
        name: Path or URL; used in errors, and its suffix decides the format where the bytes do not.
        mime_type: As a server declared it, in lower case and without parameters; empty if undeclared.
        charset: As a server declared it; empty if undeclared.
    """

    name: str
    data: bytes = field(repr=False)
    mime_type: str = ""
    charset: str = ""


# The metadata field with a document's own date (`Document.created_at` is when the document was first seen).
WRITTEN_AT: Final = "created_at"


def read_date(value: object) -> datetime | None:
    """Parse a metadata date, ISO 8601, in UTC unless it says otherwise; None if it is no date."""
    try:
        read = datetime.fromisoformat(str(value))
        return read if read.tzinfo else read.replace(tzinfo=UTC)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """One source after loading.

    Attributes:
        source: Path or URL as given.
        title: As the document states it, else its first heading, else the file's name; never empty.
        text: Clean Markdown; may be empty.
        metadata: What the document says about itself, as JSON values: `mime_type` and `language` (stated, else
            detected) always; `author`, `created_at`, `modified_at` (ISO 8601), `page_count` and others if stated; for
            Markdown the fields of the front matter.
        page_starts: Offsets in `text` at which pages (slides) 1, 2 ... start, in order and from 0; a page without text
            starts where the next one does. Empty where the source has no pages.
    """

    source: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    page_starts: tuple[int, ...] = ()


class Loader(ABC):
    """Reads one kind of document.

    Attributes:
        suffixes: File suffixes, in lower case and with the dot.
        given_suffixes: Suffixes that are also read when a file is named or uploaded, but not taken from folders.
        mime_types: Content types, in lower case.
        runs_isolated: Whether hostile input may crash, hang or bloat its code, so that it belongs into a separate
            process.
    """

    suffixes: frozenset[str] = frozenset()
    given_suffixes: frozenset[str] = frozenset()
    mime_types: frozenset[str] = frozenset()
    runs_isolated: bool = False

    @abstractmethod
    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        """Return the document that the bytes encode.

        A title may be left empty, and text need not be clean or short: `registry.load_document` cleans it, checks its
        length, and adds title, `mime_type` and `language`.

        Raises:
            IngestError: The bytes are broken, encrypted, of another kind or beyond a limit.
            MissingDependencyError: The package that reads them is not installed.
        """


def join_pages(pages: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return the text of all pages, separated by blank lines, and the offset at which each starts.

    A page without text starts where the next begins, or at the end. No pages give an empty text and no offsets.
    """
    starts: list[int] = []
    pieces: list[str] = []
    position = 0
    for page in pages:
        body = page.strip("\n")
        starts.append(position)
        if body:
            pieces += [body, "\n\n"]
            position += len(body) + 2
    text = "".join(pieces)[:-1]
    return text, tuple(min(start, len(text)) for start in starts)


def packed_folder(names: Iterable[str]) -> str:
    """Return the top folder, with its slash, that contains all entries of a document archive; empty if none."""
    names = set(names)
    first, slash, _ = next(iter(names), "").partition("/")
    folder = first + slash
    is_document = any(f"{folder}{entry}" in names for entry in _AT_THE_TOP)
    return folder if slash and is_document and all(name.startswith(folder) for name in names) else ""
