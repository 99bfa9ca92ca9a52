"""What goes into an ingest, and what it reports while it runs and at its end.

Texts with parallel lists, or ready documents, become one list of `NewDocument`; an `IngestReport` comes out. A callback
gets `Progress` a few times a second at the most, from the event loop's thread; one that fails is logged and not called
again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, cast

from heliograph.errors import HeliographError, InvalidRequestError
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


def new_documents(
    documents: str | NewDocument | Iterable[str | NewDocument],
    sources: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    metadata: Sequence[Mapping[str, Any]] | None = None,
) -> list[NewDocument]:
    """Return one `NewDocument` per text, in order.

    Args:
        documents: One or many texts or ready documents.
        sources: Source of each; None leaves them without, and a ready document as it is.
        ids: Id of each.
        metadata: Metadata of each.

    Raises:
        InvalidRequestError: A list has another length than `documents`, or a document is neither text nor ready.
    """
    if not isinstance(documents, str | NewDocument | Iterable) or isinstance(documents, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidRequestError(
            f"documents must be a text, a NewDocument or a list of them, got {type(documents).__name__}: "
            f"{documents!r:.80}"
        )
    items = [documents] if isinstance(documents, str | NewDocument) else list(documents)
    for name, values in (("sources", sources), ("ids", ids), ("metadata", metadata)):
        if isinstance(values, str | Mapping) or (values is not None and len(values) != len(items)):
            raise InvalidRequestError(
                f"{name} must be a list of {len(items)} values, one a document; got {values!r:.80}"
            )
    found: list[NewDocument] = []
    for index, item in enumerate(cast("list[object]", items)):
        source, id_ = (values[index] if values else "" for values in (sources, ids))
        given = metadata[index] if metadata else None
        if isinstance(item, NewDocument):
            merged = given if given is not None else item.metadata
            found.append(replace(item, source=source or item.source, id=id_ or item.id, metadata=merged))
        elif isinstance(item, str):
            found.append(NewDocument(item, source or "", "", id_ or "", given))
        else:
            got = f"got {type(item).__name__}: {item!r:.80}"
            raise InvalidRequestError(f"a document must be a text or a NewDocument, {got}")
    return found


_INTERVAL_SECONDS = 0.1
# Models load and caches fill at first: of less than this no time can be told.
_LEAST_SHARE = 0.02

_log = logging.getLogger(__name__)


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


class ProgressReporter:
    """Counts for one run; used from the event loop's thread only."""

    def __init__(
        self,
        track_id: str,
        callback: ProgressCallback | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._callback = callback
        self._clock = clock
        self._started = clock()
        self._reported: float | None = None
        self._characters_done = 0.0
        self._now = Progress(track_id, 0, 0, 0, 0, 0, 0, 0, Usage(), 0.0, None, is_finished=False)

    def expect(self, documents: int, characters: int) -> None:
        """Set the total of the work."""
        self._now = replace(self._now, documents_total=documents, characters_total=characters)
        self._report()

    def begin(self, characters: int) -> DocumentProgress:
        """Return what counts one document of this length."""
        return DocumentProgress(self, characters)

    def add_chunks(self, count: int) -> None:
        """Add the chunks of a document that was begun."""
        self._now = replace(self._now, chunks_total=self._now.chunks_total + count)
        self._report()

    def finish_chunk(self, characters: float) -> None:
        """Count a chunk that was read, and its share of the document's characters."""
        self._now = replace(self._now, chunks_done=self._now.chunks_done + 1)
        self._characters_done += characters
        # The last one is told however soon it comes, since embedding and committing may take long.
        self._report(must=self._now.chunks_done == self._now.chunks_total)

    def finish_document(
        self, characters: float, usage: Usage, growth: tuple[int, int] = (0, 0), *, failed: bool = False
    ) -> None:
        """Count a document that is done.

        Args:
            characters: Those that no chunk has counted.
            usage: Tokens that chat models spent on it.
            growth: How many more entities and relations there are, fewer if negative.
            failed: Whether it failed.
        """
        now = self._now
        self._now = replace(
            now,
            documents_done=now.documents_done + 1,
            failures=now.failures + failed,
            usage=now.usage + usage,
            entities=now.entities + growth[0],
            relations=now.relations + growth[1],
        )
        self._characters_done += characters
        self._report()

    def finish(self) -> None:
        """Send the last report."""
        self._report(is_finished=True)

    def _report(self, *, is_finished: bool = False, must: bool = False) -> None:
        if self._callback is None:
            return
        now = self._clock()
        if not (is_finished or must) and self._reported is not None and now - self._reported < _INTERVAL_SECONDS:
            return
        self._reported, elapsed, done = now, now - self._started, self._characters_done
        self._now = replace(
            self._now,
            elapsed_seconds=elapsed,
            eta_seconds=expected_seconds(elapsed, done, self._now.characters_total),
            is_finished=is_finished,
            characters_done=round(done),
        )
        try:
            self._callback(self._now)
        except Exception:  # noqa: BLE001 (a caller's own code may raise anything)
            self._callback = None
            _log.exception("the progress callback failed and is not called again")


def expected_seconds(elapsed_seconds: float, done: float, total: float) -> float | None:
    """Return how long the rest will take at the pace so far; None while less than a fiftieth is done."""
    if done <= 0 or done < total * _LEAST_SHARE:
        return None
    return elapsed_seconds * max(0.0, total - done) / done


class DocumentProgress:
    """Counts the chunks of one document for its reporter."""

    def __init__(self, reporter: ProgressReporter, characters: int) -> None:
        self._reporter = reporter
        self._remaining = float(characters)
        self._share = 0.0

    def begin_chunks(self, count: int) -> None:
        """Say how many chunks will be read."""
        self._share = self._remaining / count if count else 0.0
        self._reporter.add_chunks(count)

    def finish_chunk(self) -> None:
        """Count a chunk that was read."""
        share = min(self._share, self._remaining)
        self._remaining -= share
        self._reporter.finish_chunk(share)

    def finish(self, usage: Usage, growth: tuple[int, int] = (0, 0), *, failed: bool = False) -> None:
        """Count the document as done."""
        self._reporter.finish_document(self._remaining, usage, growth, failed=failed)
