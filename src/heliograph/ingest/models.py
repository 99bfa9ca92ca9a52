"""What goes into an ingest and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from heliograph.errors import HeliographError
from heliograph.models import Usage

__all__ = ["DeleteReport", "DocumentResult", "IngestReport", "NewDocument", "Outcome"]


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to take in.

    Attributes:
        text: What it says; plain text or Markdown.
        source: Path or URI that citations show; may be empty.
        title: Empty means the first heading, else the name at the end of `source`.
        id: Empty means one that follows from the source, or from the text where there is no source. A known id
            replaces that document.
        metadata: Free JSON; None keeps that of a known document.
        page_starts: Offsets in `text` at which pages 1, 2, ... start, never going down; empty where it has none.
        error: Why there is no text: its source could not be read. It is kept as failed, if nothing is stored of it.
    """

    text: str
    source: str = ""
    title: str = ""
    id: str = ""
    metadata: Mapping[str, Any] | None = None
    page_starts: tuple[int, ...] = ()
    error: HeliographError | None = None


class Outcome(StrEnum):
    """What became of one document; `pending` is stored and waits to be processed."""

    PENDING = "pending"
    PROCESSED = "processed"
    PARTIAL = "partial"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """What became of one document, and why.

    Attributes:
        id: The document's id; empty when it never had one.
        source: As given.
        outcome: What became of it.
        error: Why it failed; None otherwise.
        detail: Which chunks failed, if it is partial; which document has the same text, if one has.
        chunk_count: Chunks it has now.
        usage: Tokens that chat models spent on it in this run.
        omitted_characters: Characters of its source, spaces not counted, that its loader left out as no content, such
            as a web page's menus; the document's metadata has the same number.
    """

    id: str
    source: str
    outcome: Outcome
    error: HeliographError | None = None
    detail: str = ""
    chunk_count: int = 0
    usage: Usage = field(default_factory=Usage)
    omitted_characters: int = 0


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of a batch: one result per document, in the order given.

    Attributes:
        track_id: The batch; `DocumentQuery.track_id` finds its documents.
        results: One per document.
    """

    track_id: str
    results: tuple[DocumentResult, ...]

    @property
    def failures(self) -> tuple[DocumentResult, ...]:
        """The documents that failed."""
        return tuple(result for result in self.results if result.outcome is Outcome.FAILED)

    @property
    def usage(self) -> Usage:
        """Tokens that chat models spent on the batch."""
        return sum((result.usage for result in self.results), Usage())

    def count(self, outcome: Outcome) -> int:
        """Return how many documents came to this."""
        return sum(result.outcome == outcome for result in self.results)


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """What a deletion did.

    Attributes:
        deleted: Ids of the documents that are gone.
        missing: Ids given that no document had.
        removed_chunks: Chunks that went with them.
        removed_entities: Entities that no other document mentions.
        removed_relations: Relations that no other document mentions.
    """

    deleted: tuple[str, ...]
    missing: tuple[str, ...]
    removed_chunks: int
    removed_entities: int
    removed_relations: int
