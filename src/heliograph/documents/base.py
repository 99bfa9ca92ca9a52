"""The contract of loaders: the bytes of one source come in, clean text and metadata go out.

A loader is a pure function of its bytes: it opens no file, no socket and no other source, so it can run in a process of
its own and gives the same document every time. What it cannot read is an `IngestError` that names the source and says
what to do. Packages that read formats are imported when the first document needs them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from heliograph.errors import IngestError

# What stands right in an archive that is a document, whatever else does.
_AT_THE_TOP = ("META-INF/container.xml", "[Content_Types].xml", "mimetype")
# Below, how much something shrank when it was packed says nothing.
_RATIO_FROM_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may cost.

    Attributes:
        max_pages: Pages, slides, sheets or chapters at the most.
        max_unpacked_bytes: What an archive (DOCX, XLSX, PPTX, EPUB ...) may unpack to, all entries together.
        max_compression_ratio: Unpacked by packed size of an archive at the most, from a megabyte on.
        max_memory_bytes: Memory that parsing may take where it runs in a process of its own; 0 is no limit.
        timeout_seconds: How long parsing may take where it runs in a process of its own; of a scan, each page.
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
        """Refuse, by an `IngestError`, what has too many pages, slides, sheets or chapters."""
        if count > self.max_pages:
            raise IngestError(
                f"{name!r} has {count:,} {what}, more than {self.max_pages:,}; split it, or raise documents.max_pages"
            )

    def most_unpacked(self, packed_bytes: int) -> int:
        """Return to how many bytes so many packed ones may unpack."""
        return min(self.max_unpacked_bytes, max(_RATIO_FROM_BYTES, int(packed_bytes * self.max_compression_ratio)))

    def check_unpacked(self, name: str, packed_bytes: int, unpacked_bytes: int) -> None:
        """Refuse, by an `IngestError`, what unpacks to too much."""
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
        name: Path or URL; named in errors, and its ending tells the format where the bytes do not.
        mime_type: As a server declared it, in lower case and without parameters; empty if nobody did.
        charset: As a server declared it; empty if nobody did.
    """

    name: str
    data: bytes = field(repr=False)
    mime_type: str = ""
    charset: str = ""


# The field of metadata in which a document says when it was written (`Document.created_at` is when it was first seen).
WRITTEN_AT: Final = "created_at"


def read_date(value: object) -> datetime | None:
    """Return a date of metadata, ISO 8601, in UTC unless it says otherwise; None if it is none."""
    try:
        read = datetime.fromisoformat(str(value))
        return read if read.tzinfo else read.replace(tzinfo=UTC)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """One source, read.

    Attributes:
        source: Path or URL as given.
        title: As the document states it, else its first heading, else the file's name; never empty.
        text: Clean Markdown; may be empty.
        metadata: What the document says about itself, as JSON values: `mime_type` and `language` (stated, else
            detected) always; `author`, `created_at`, `modified_at` (ISO 8601), `page_count` and others where it does;
            for Markdown the fields of the front matter.
        page_starts: Offsets in `text` at which pages (slides) 1, 2 ... start, in order and from 0; a page without
            text starts where the next one does. Empty where the source has no pages.
    """

    source: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    page_starts: tuple[int, ...] = ()


class Loader(ABC):
    """Reads one kind of document.

    Attributes:
        suffixes: Endings of file names, in lower case and with the dot.
        given_suffixes: Endings of files that are read too where they are given or uploaded, but not taken from folders.
        mime_types: Content types, in lower case.
        runs_isolated: Whether it goes through code that hostile input may crash, hang or bloat, so that it belongs
            into a process of its own.
    """

    suffixes: frozenset[str] = frozenset()
    given_suffixes: frozenset[str] = frozenset()
    mime_types: frozenset[str] = frozenset()
    runs_isolated: bool = False

    @abstractmethod
    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        """Return what the bytes say.

        A title may be left empty, and text need not be clean or short: `registry.load_document` sees to both, and
        adds `mime_type` and `language`.

        Raises:
            IngestError: They are broken, encrypted, of another kind or beyond a limit.
            MissingDependencyError: The package that reads them is not installed.
        """


def join_pages(pages: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return the text of all pages, blank lines between them, and the offset at which each starts.

    A page without text starts where the next begins, or at the end. No page gives an empty text and no offset.
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
    """Return the folder, with its slash, that an archive of a document was packed with; empty if it has none."""
    names = set(names)
    first, slash, _ = next(iter(names), "").partition("/")
    folder = first + slash
    is_document = any(f"{folder}{entry}" in names for entry in _AT_THE_TOP)
    return folder if slash and is_document and all(name.startswith(folder) for name in names) else ""
