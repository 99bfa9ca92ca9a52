"""The input of an ingest, its progress and its final report.

A list of `NewDocument` goes in, an `IngestReport` comes out. A callback gets `Progress` at most a few times a second,
in the event loop's thread; a callback that raises is logged and not called again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from heliograph.errors import HeliographError
from heliograph.models import Usage


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to ingest.

    Attributes:
        text: Plain text or Markdown.
        source: Path or URI that citations show; may be empty.
        title: Empty means the first heading, else the name at the end of `source`.
        id: Empty means an id derived from the source, or from the text without a source. A known id replaces that
            document.
        metadata: Free JSON; None keeps that of a known document.
        page_starts: Offsets in `text` at which pages 1, 2, ... start, never decreasing; empty without pages.
        error: Why its source could not be read, so that there is no text. The document is stored as failed unless a
            version of it is stored already.
    """

    text: str
    source: str = ""
    title: str = ""
    id: str = ""
    metadata: Mapping[str, Any] | None = None
    page_starts: tuple[int, ...] = ()
    error: HeliographError | None = None


class Outcome(StrEnum):
    """The result of ingesting one document; a `pending` one is stored and waits to be processed."""

    PENDING = "pending"
    PROCESSED = "processed"
    PARTIAL = "partial"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """The outcome of ingesting one document, and why.

    Attributes:
        id: The document's id; empty if it never got one.
        source: As given.
        outcome: The outcome.
        error: Why it failed; None otherwise.
        detail: Which chunks failed, if it is partial; which document has the same text, if one has.
        chunk_count: Chunks it has now.
        usage: Tokens that chat models spent on it in this run.
        omitted_characters: Characters of its source, without spaces, that its loader dropped as boilerplate, such as a
            web page's menus; the document's metadata has the same number.
        is_known: Whether an identical version of it was waiting to be processed already.
    """

    id: str
    source: str
    outcome: Outcome
    error: HeliographError | None = None
    detail: str = ""
    chunk_count: int = 0
    usage: Usage = field(default_factory=Usage)
    omitted_characters: int = 0
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The results of a batch: one per document, in the order given.

    Attributes:
        track_id: Id of the batch; `DocumentQuery.track_id` finds its documents.
        results: One per document.
        passed_over: Number of files in folders that were skipped as no loader reads their kind, by suffix (`.png`).
    """

    track_id: str
    results: tuple[DocumentResult, ...]
    passed_over: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def failures(self) -> tuple[DocumentResult, ...]:
        """The documents that failed."""
        return tuple(result for result in self.results if result.outcome is Outcome.FAILED)

    @property
    def usage(self) -> Usage:
        """Tokens that chat models spent on the batch."""
        return sum((result.usage for result in self.results), Usage())

    def count(self, outcome: Outcome) -> int:
        """Return how many documents have this outcome."""
        return sum(result.outcome == outcome for result in self.results)


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """The result of a deletion.

    Attributes:
        deleted: Ids of the deleted documents.
        missing: Given ids that no document had.
        removed_chunks: Number of deleted chunks.
        removed_entities: Number of deleted entities, which no other document mentions.
        removed_relations: Number of deleted relations, likewise.
        replaced: Ids of documents that were submitted with another text after the request to delete them; they stay.
    """

    deleted: tuple[str, ...]
    missing: tuple[str, ...]
    removed_chunks: int
    removed_entities: int
    removed_relations: int
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one run.

    Attributes:
        track_id: Id of the batch.
        documents_done: Documents finished, failed ones included.
        documents_total: Documents of the run.
        chunks_done: Chunks read.
        chunks_total: Chunks of the documents begun so far.
        entities: Growth of the number of entities.
        relations: Growth of the number of relations.
        failures: Documents that failed.
        usage: Tokens that chat models spent.
        elapsed_seconds: Since the run began.
        eta_seconds: Estimated time left, by the characters still to be read; None while too little is done to estimate.
        is_finished: Whether this is the last report.
        characters_done: Characters read, of the documents that need reading.
        characters_total: Characters of all these documents; in a run over files, of those opened so far.
    """

    track_id: str
    documents_done: int
    documents_total: int
    chunks_done: int
    chunks_total: int
    entities: int
    relations: int
    failures: int
    usage: Usage
    elapsed_seconds: float
    eta_seconds: float | None
    is_finished: bool
    characters_done: int = 0
    characters_total: int = 0


ProgressCallback = Callable[[Progress], None]
