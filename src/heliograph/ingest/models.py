"""What goes into an ingest, and what it reports while it runs and at its end.

A list of `NewDocument` goes in, an `IngestReport` comes out. A callback gets `Progress` a few times a second at the
most, from the event loop's thread; one that fails is logged and not called again.
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
        is_known: Whether it waited already to be processed, just as it was handed over now.
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
    """What became of a batch: one result per document, in the order given.

    Attributes:
        track_id: The batch; `DocumentQuery.track_id` finds its documents.
        results: One per document.
        passed_over: How many files of folders were left out as nothing reads their kind, by ending (`.png`).
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
        """Return how many documents came to this."""
        return sum(result.outcome == outcome for result in self.results)


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """What a deletion did.

    Attributes:
        deleted: Ids of the documents that are gone.
        missing: Ids given that no document had.
        removed_chunks: Chunks that went with them.
        removed_entities: How many fewer entities there are, since no other document mentions them.
        removed_relations: How many fewer relations there are, likewise.
        replaced: Ids of documents that were handed over with another text after it was asked to delete them; they stay.
    """

    deleted: tuple[str, ...]
    missing: tuple[str, ...]
    removed_chunks: int
    removed_entities: int
    removed_relations: int
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one run has come.

    Attributes:
        track_id: The batch.
        documents_done: Documents finished, failed ones included.
        documents_total: Documents of the run.
        chunks_done: Chunks read.
        chunks_total: Chunks of the documents begun so far.
        entities: How many more entities there are than before.
        relations: How many more relations there are than before.
        failures: Documents that failed.
        usage: Tokens that chat models spent.
        elapsed_seconds: Since the run began.
        eta_seconds: Expected until its end, by the characters still to be read; None while too little is done to tell.
        is_finished: Whether this is the last report.
        characters_done: Characters read, of the documents that have to be.
        characters_total: Characters of all these documents; of a run over files, as far as they are opened.
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
