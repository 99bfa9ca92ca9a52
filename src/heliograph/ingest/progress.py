"""Telling the caller how far an ingest has come.

Workers report what they finish; a callback gets a `Progress` a few times a second at the most, from the event loop's
thread. A callback that fails is logged and not called again: watching must not stop the work.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from heliograph.models import Usage

__all__ = ["DocumentProgress", "Progress", "ProgressCallback", "ProgressReporter", "expected_seconds"]

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


@dataclass(slots=True)
class _Tally:
    documents_done: int = 0
    documents_total: int = 0
    chunks_done: int = 0
    chunks_total: int = 0
    entities: int = 0
    relations: int = 0
    failures: int = 0
    usage: Usage = field(default_factory=Usage)


class ProgressReporter:
    """Counts for one run; used from the event loop's thread only."""

    def __init__(
        self,
        track_id: str,
        callback: ProgressCallback | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._track_id = track_id
        self._callback = callback
        self._clock = clock
        self._started = clock()
        self._reported: float | None = None
        self._tally = _Tally()
        self._characters_done = 0.0
        self._characters_total = 0

    def expect(self, documents: int, characters: int) -> None:
        """Set what is to be done."""
        self._tally.documents_total = documents
        self._characters_total = characters
        self._report()

    def begin(self, characters: int) -> DocumentProgress:
        """Return what counts one document of this length."""
        return DocumentProgress(self, characters)

    def add_chunks(self, count: int) -> None:
        """Add the chunks of a document that was begun."""
        self._tally.chunks_total += count
        self._report()

    def finish_chunk(self, characters: float) -> None:
        """Count a chunk that was read, and its share of the document's characters."""
        self._tally.chunks_done += 1
        self._characters_done += characters
        self._report()

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
        tally = self._tally
        tally.documents_done += 1
        tally.failures += failed
        tally.usage += usage
        tally.entities += growth[0]
        tally.relations += growth[1]
        self._characters_done += characters
        self._report()

    def finish(self) -> None:
        """Send the last report."""
        self._report(is_finished=True)

    def _report(self, *, is_finished: bool = False) -> None:
        if self._callback is None:
            return
        now = self._clock()
        if not is_finished and self._reported is not None and now - self._reported < _INTERVAL_SECONDS:
            return
        self._reported = now
        try:
            self._callback(self._progress(now - self._started, is_finished))
        except Exception:  # noqa: BLE001 (a caller's own code may raise anything)
            self._callback = None
            _log.exception("the progress callback failed and is not called again")

    def _progress(self, elapsed_seconds: float, is_finished: bool) -> Progress:
        tally = self._tally
        return Progress(
            self._track_id,
            *(tally.documents_done, tally.documents_total, tally.chunks_done, tally.chunks_total),
            *(tally.entities, tally.relations, tally.failures, tally.usage),
            elapsed_seconds,
            expected_seconds(elapsed_seconds, self._characters_done, self._characters_total),
            is_finished,
            round(self._characters_done),
            self._characters_total,
        )


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
