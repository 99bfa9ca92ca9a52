"""Processes documents, a few at a time: chunks, extraction, commit.

`Work` comes in; a document ends up in every projection at once, as processed or partial, and a `DocumentResult` comes
out. A defect of one document makes a failed document; an outage of a model or store is raised, no further document is
begun, and the rest stay pending. Two tasks never work on one document at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from heliograph.errors import (
    CancelledIngestError,
    ClusterUnavailable,
    ConflictError,
    HeliographError,
    IngestError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    StaleChangesetError,
    StoreError,
)
from heliograph.ids import chunk_id
from heliograph.ingest.commit import Commit, Committer, JointCommits
from heliograph.ingest.models import DocumentResult, Outcome, Progress, ProgressCallback
from heliograph.ingest.reading import (
    DocumentChange,
    Reader,
    ReadingTask,
    StoredChunks,
    placed_extraction,
    replaced_chunks,
)
from heliograph.models import (
    COMMITTED_STATUSES,
    WAITING_STATUSES,
    Chunk,
    Document,
    DocumentStatus,
    Extraction,
    Usage,
    utc_now,
)
from heliograph.observing import stage
from heliograph.stores.base import DocumentQuery, RecordsStore
from heliograph.stores.changeset import Changeset, TextEntry
from heliograph.text.analysis import chunk_index_text, terms


class WorkLocks:
    """Locks documents, by id, while a task works on them; texts, by their hash, are locked alike.

    They are taken for all documents of a call together, so that no two calls wait for each other.
    """

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Future[None]] = {}

    def is_claimed(self, id_: str) -> bool:
        """Whether somebody works on this document."""
        return id_ in self._held

    @asynccontextmanager
    async def claim(self, ids: Iterable[str]) -> AsyncGenerator[Callable[[str], None]]:
        """Wait until no other task holds any of these, then hold them all until this ends.

        Yields:
            What lets others have one before that; it does nothing if that was done already.
        """
        wanted = set(ids)
        while busy := [self._held[id_] for id_ in wanted if id_ in self._held]:
            await asyncio.wait(busy)
        own = {id_: asyncio.get_running_loop().create_future() for id_ in wanted}
        self._held.update(own)

        def release(id_: str) -> None:
            if done := own.pop(id_, None):
                del self._held[id_]
                done.set_result(None)

        try:
            yield release
        finally:
            for id_ in list(own):
                release(id_)


_log = logging.getLogger(__name__)

# Errors that say nothing about the document at hand: the next one would meet them too.
OUTAGES = (StoreError, ModelUnavailable, ModelTimeout, RateLimited, ClusterUnavailable)

_SHOWN_ERRORS = 3
_MAX_ERROR_LENGTH = 2_000


class DocumentProcessor:
    """Processes documents of one store; safe to call from many tasks at once."""

    def __init__(
        self,
        records: RecordsStore,
        reader: Reader,
        committer: Committer,
        joint: JointCommits,
        max_parallel: int,
        texts: WorkLocks,
        *,
        shares_texts: bool,
    ) -> None:
        """Keep the parts.

        Args:
            records: Read only.
            reader: Reads documents.
            committer: Writes.
            joint: Writes what was read in documents.
            max_parallel: Documents read at once; more may be waiting to be committed.
            texts: Who works on documents with a text, by its hash.
            shares_texts: Whether the chunks of a text that several documents have are stored once.
        """
        self._records = records
        self._reader = reader
        self._committer = committer
        self._joint = joint
        self._reading = asyncio.Semaphore(max_parallel)
        self._texts = texts
        self._shares_texts = shares_texts

    async def process(self, task: ReadingTask, progress: DocumentProgress) -> DocumentResult:
        """Take one document in.

        Raises:
            ModelError: One of `OUTAGES`: a model cannot be used at all; the document is left as it was.
            StoreError: The store cannot be used; the document is left as it was.
        """
        document = task.document
        try:
            with stage("ingest.document"):
                result, commit = await self._process(task, progress)
        except OUTAGES:
            raise
        except ConflictError as error:
            # The document's record is no longer ours to write.
            failure: HeliographError = error
        except Exception as error:  # noqa: BLE001 (a defect fails the document that meets it, not those behind it)
            failure = as_failure(f"the document {document.source!r}", error)
            if not task.keeps_chunks:
                await self._record_failure(document, failure)
        else:
            progress.finish(result.usage, (commit.added_entities, commit.added_relations))
            return result
        progress.finish(Usage(), failed=True)
        return DocumentResult(document.id, document.source, Outcome.FAILED, failure)

    async def _process(self, task: ReadingTask, progress: DocumentProgress) -> tuple[DocumentResult, Commit]:
        document = task.document
        async with self._texts.claim([document.content_hash]):
            if task.keeps_chunks:
                (stored,) = await self._records.get_documents([document.id]) or [document]
                if stored.twin_of:
                    # Another document of this text came meanwhile and has taken the chunks.
                    result = DocumentResult(stored.id, stored.source, Outcome.PROCESSED)
                    return result, Commit(0, 0, Usage())
            elif self._shares_texts and (original := await find_original(self._records, document)) is not None:
                commit = await self._commit_twin(document, original)
                detail = f"the same text as {original.source!r}; both are cited"
                return DocumentResult(document.id, document.source, Outcome.PROCESSED, detail=detail), commit
            return await self._read(replace(task, document=replace(document, twin_of="")), progress)

    async def _commit_twin(self, document: Document, original: Document) -> Commit:
        """Store a document without chunks beside the one that holds those of its text, or let it hold them."""
        stored = await read_stored_chunks(self._records, document.id)
        if document.id < original.id:
            twins = [document, *await find_twins(self._records, original)]
            left = as_twin(original, document.id)
            return await promote_twin(self._records, self._committer, original, twins, left, known=stored)
        change = DocumentChange(
            basis=document,
            document=as_twin(document, original.id),
            removed_chunks=tuple(stored.chunks),
            replaced=tuple(stored.extractions.values()),
            dropped_texts=(document.id,),
            expected={original.id: original.content_hash},
        )
        return await self._committer.commit(change)

    async def _read(self, task: ReadingTask, progress: DocumentProgress) -> tuple[DocumentResult, Commit]:
        document = task.document

        async def find_stored(chunks: Sequence[Chunk] | None) -> StoredChunks:
            """Read the stored chunks, and the extractions of those that do not stay in place."""
            if not document.chunk_count and not task.keeps_chunks:
                return StoredChunks()
            if chunks is None or not (task.keeps_readings and task.is_read):
                return await read_stored_chunks(self._records, document.id)
            known = {chunk.id: chunk for chunk in await self._records.get_document_chunks(document.id)}
            stored = StoredChunks(known, all_read=True)
            extractions = await self._records.get_extractions(replaced_chunks(chunks, stored))
            return replace(stored, extractions={item.chunk_id: item for item in extractions})

        async with self._reading:
            text = None if task.keeps_chunks else task.text or await self._records.get_document_text(document.id)
            if text is None and not task.keeps_chunks:
                # It was refused when it was handed over, and nothing has changed since.
                raise IngestError(document.error or f"the text of the document {document.source!r} is not stored")
            reading = await self._reader.read(replace(task, text=text), find_stored, progress)
        extractions, plan = reading.extractions, reading.plan
        finished = _finished(document, plan.chunk_count, extractions)
        change = DocumentChange(
            basis=document,
            document=finished,
            chunks=plan.written,
            removed_chunks=plan.removed,
            replaced=plan.replaced,
            extractions=(*extractions, *plan.moved),
            passages=plan.passages,
            terms=plan.terms,
            vectors=reading.vectors,
        )
        commit = await self._joint.commit(change)
        result = DocumentResult(
            *(document.id, document.source, Outcome.PARTIAL if finished.error else Outcome.PROCESSED),
            detail=finished.error,
            chunk_count=plan.chunk_count,
            usage=sum((item.usage for item in extractions), commit.usage),
        )
        return result, commit

    async def _record_failure(self, document: Document, error: HeliographError) -> None:
        failed = replace(
            document, status=DocumentStatus.FAILED, error=str(error)[:_MAX_ERROR_LENGTH], updated_at=utc_now()
        )
        changeset = Changeset(documents=(failed,), expected_documents={document.id: document.content_hash})
        try:
            await self._committer.apply(changeset)
        except StaleChangesetError:
            # Replaced or deleted meanwhile: the failure is of a version that is gone.
            return
        except OUTAGES:
            raise
        except Exception:  # noqa: BLE001 (logged)
            _log.exception("that the document %r failed could not be noted; it stays pending", document.source)


def _finished(document: Document, chunk_count: int, extractions: Sequence[Extraction]) -> Document:
    failed = [item for item in extractions if item.error]
    shown = "; ".join(f"{item.chunk_id}: {item.error}" for item in failed[:_SHOWN_ERRORS])
    more = "; ..." if len(failed) > _SHOWN_ERRORS else ""
    error = f"{len(failed)} of {chunk_count} chunks could not be read ({shown}{more}); retry asks for them again"
    return replace(
        document,
        status=DocumentStatus.PARTIAL if failed else DocumentStatus.PROCESSED,
        error=error[:_MAX_ERROR_LENGTH] if failed else "",
        chunk_count=chunk_count,
        usage=sum((item.usage for item in extractions), document.usage),
        updated_at=utc_now(),
    )


def as_failure(what: str, error: Exception) -> HeliographError:
    """Return the error of a document whose work raised; logs a defect with its traceback.

    Args:
        what: What was worked on, as the start of a sentence.
        error: What was raised; to be asked of no outage.
    """
    failure = error if isinstance(error, HeliographError) else IngestError.of_defect(what, error)
    if isinstance(failure, IngestError) and failure.traceback:
        _log.error("%s\n%s", failure, failure.traceback.rstrip())
    return failure


async def read_stored_chunks(records: RecordsStore, document_id: str) -> StoredChunks:
    """Return a document's stored chunks and their extractions."""
    chunks = await records.get_document_chunks(document_id)
    extractions = await records.get_extractions([chunk.id for chunk in chunks])
    return StoredChunks({chunk.id: chunk for chunk in chunks}, {item.chunk_id: item for item in extractions})


# How far a run has come, told a few times a second at the most.

_INTERVAL_SECONDS = 0.1
# Models load and caches fill at first: of less than this no time can be told.
_LEAST_SHARE = 0.02


def expected_seconds(elapsed_seconds: float, done: float, total: float) -> float | None:
    """Return how long the rest will take at the pace so far; None while less than a fiftieth is done."""
    if done <= 0 or done < total * _LEAST_SHARE:
        return None
    return elapsed_seconds * max(0.0, total - done) / done


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
        self.add(documents_total=documents, characters_total=characters)

    def begin(self, characters: int) -> DocumentProgress:
        """Return what counts one document of this length."""
        return DocumentProgress(self, characters)

    def add(self, characters: float = 0.0, **counts: Any) -> None:
        """Add to the characters that are done, and to fields of `Progress` by name."""
        self._characters_done += characters
        self._now = replace(self._now, **{name: getattr(self._now, name) + more for name, more in counts.items()})
        # The last chunk is told however soon it comes, since embedding and committing may take long.
        self._report(must="chunks_done" in counts and self._now.chunks_done == self._now.chunks_total)

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


class DocumentProgress:
    """Counts the chunks of one document for its reporter."""

    def __init__(self, reporter: ProgressReporter, characters: int) -> None:
        self._reporter = reporter
        self._remaining = float(characters)
        self._share = 0.0

    def begin_chunks(self, count: int) -> None:
        """Say how many chunks will be read."""
        self._share = self._remaining / count if count else 0.0
        self._reporter.add(chunks_total=count)

    def finish_chunk(self) -> None:
        """Count a chunk that was read, and its share of the document's characters."""
        share = min(self._share, self._remaining)
        self._remaining -= share
        self._reporter.add(share, chunks_done=1)

    def finish(self, usage: Usage, growth: tuple[int, int] = (0, 0), *, failed: bool = False) -> None:
        """Count the document as done.

        Args:
            usage: Tokens that chat models spent on it.
            growth: How many more entities and relations there are, fewer if negative.
            failed: Whether it failed.
        """
        entities, relations = growth
        self._reporter.add(
            self._remaining, documents_done=1, failures=failed, usage=usage, entities=entities, relations=relations
        )


# One run of a pipeline: many documents, a few at a time, until done, cancelled or stopped by an outage.
#
# Each document is worked on by one task; results keep the order of the work. After an outage no further document is
# begun, those under way come to their own end, and the outage is raised. Cancelling ends those under way at once.
# What is not finished stays as it is stored, pending or failed.


class Run:
    """Processes documents once."""

    def __init__(
        self, processor: DocumentProcessor, reporter: ProgressReporter, max_tasks: int, gate: asyncio.Event
    ) -> None:
        """Keep the parts.

        Args:
            processor: Does the work.
            reporter: Is told how far it has come.
            max_tasks: Documents under way at once.
            gate: While it is not set, no further document is begun.
        """
        self._processor = processor
        self._reporter = reporter
        self._max_tasks = max_tasks
        self._gate = gate
        self._tasks: list[asyncio.Task[None]] = []
        self._results: dict[int, DocumentResult] = {}
        self._outage: HeliographError | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Begin no further document and end those under way; `process` raises `CancelledIngestError`."""
        self._is_cancelled = True
        for task in self._tasks:
            task.cancel()

    async def process(self, tasks: Sequence[ReadingTask], on_finished: Callable[[str], None]) -> list[DocumentResult]:
        """Process documents; return their results in the same order.

        Args:
            tasks: What to do; called once per run.
            on_finished: Called with a document's id as soon as nothing more will be done about it.

        Raises:
            CancelledIngestError: `cancel` was called before all were done.
            ModelError: A model cannot be used at all.
            StoreError: The store cannot be used.
        """
        self._check_cancelled(len(tasks))
        self._reporter.expect(len(tasks), sum(task.document.length for task in tasks))
        try:
            # A twin waits until what may hold its chunks is done.
            for are_twins in (False, True):
                queue = [place for place, task in enumerate(tasks) if bool(task.document.twin_of) is are_twins]
                await self._work_off({place: tasks[place] for place in queue}, on_finished)
        finally:
            self._reporter.finish()
        unfinished = len(tasks) - len(self._results)
        if unfinished:
            self._check_cancelled(unfinished)
        if self._outage:
            self._outage.add_note(
                f"{unfinished} documents are left for later; run resume (or retry) when this is mended"
            )
            raise self._outage
        return [self._results[index] for index in range(len(tasks))]

    def _check_cancelled(self, unfinished: int) -> None:
        if self._is_cancelled:
            raise CancelledIngestError(
                f"the run was cancelled: {len(self._results)} documents are done, {unfinished} are left for "
                "later; run resume (or retry) to go on"
            )

    async def _work_off(self, tasks: Mapping[int, ReadingTask], on_finished: Callable[[str], None]) -> None:
        """Process these, a few at a time; a defect of this program is raised when all are ended."""
        queue = iter(tasks.items())
        self._tasks = [
            asyncio.ensure_future(self._work(queue, on_finished)) for _ in range(min(self._max_tasks, len(tasks)))
        ]
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled() and (defect := task.exception()):
                raise defect

    async def _work(self, queue: Iterator[tuple[int, ReadingTask]], on_finished: Callable[[str], None]) -> None:
        for index, task in queue:
            await self._gate.wait()
            if self._is_cancelled or self._outage:
                return
            try:
                self._results[index] = await self._processor.process(task, self._reporter.begin(task.document.length))
            except OUTAGES as error:
                self._outage = self._outage or error
            finally:
                on_finished(task.document.id)


# Documents with the same text: its chunks are stored once, under one of them, and all sources are cited.
#
# The document whose id sorts first is the canonical one; its duplicates are rows with source and metadata that name it.
# When the canonical document goes or changes, or one with a smaller id comes, the chunks move to another in the same
# commit, with what was read in them.

_PAGE = 1_000
_HOLDING = (*COMMITTED_STATUSES, *WAITING_STATUSES)


def is_committed(document: Document) -> bool:
    """Whether a document's chunks are in every projection."""
    return document.status in COMMITTED_STATUSES


async def find_twins(records: RecordsStore, original: Document) -> list[Document]:
    """Return the committed twins of a document, by id; none of one that holds no chunks itself."""
    found: list[Document] = []
    while is_committed(original):
        query = DocumentQuery(COMMITTED_STATUSES, twin_of=original.id, sort="id", offset=len(found), limit=_PAGE)
        page = (await records.find_documents(query)).documents
        found += page
        if len(page) < _PAGE:
            break
    return found


async def find_original(records: RecordsStore, twin: Document) -> Document | None:
    """Return the committed document that holds the chunks of a twin's text; None if there is none any more."""
    query = DocumentQuery(COMMITTED_STATUSES, content_hashes=(twin.content_hash,), sort="id", limit=_PAGE)
    found = [
        item for item in (await records.find_documents(query)).documents if not item.twin_of and item.id != twin.id
    ]
    return next((item for item in found if item.id == twin.twin_of), found[0] if found else None)


async def find_originals(records: RecordsStore, hashes: Sequence[str]) -> dict[str, Document]:
    """Return, per content hash, the first document that holds or will hold its chunks."""
    originals: dict[str, Document] = {}
    distinct = tuple(dict.fromkeys(hashes))
    offset = 0
    while distinct:
        query = DocumentQuery(_HOLDING, content_hashes=distinct, offset=offset, limit=_PAGE)
        page = (await records.find_documents(query)).documents
        for document in page:
            if not document.twin_of:
                originals.setdefault(document.content_hash, document)
        offset += len(page)
        if len(page) < _PAGE:
            break
    return originals


async def promote_twin(
    records: RecordsStore,
    committer: Committer,
    original: Document,
    twins: Sequence[Document],
    left: Document | None,
    *,
    text: str | None = None,
    known: StoredChunks | None = None,
) -> Commit:
    """Promote a twin: move the chunks of a committed document to another one with the same text.

    Args:
        records: Read only.
        committer: Writes.
        original: Holds the chunks; as it is stored.
        twins: The promoted one, which shall hold them, and then further twins, as they are stored.
        left: What the original is from now on; None if it goes.
        text: The text that it has then; None if it has none of its own.
        known: Chunks that the promoted twin has itself, which go; None if it has none.

    Raises:
        ConflictError: Another process changed one of them meanwhile.
        ModelError: The passages of the promoted twin cannot be embedded.
        StoreError: The store failed.
    """
    chunks = await records.get_document_chunks(original.id)
    read = {item.chunk_id: item for item in await records.get_extractions([chunk.id for chunk in chunks])}
    promoted, known = twins[0], known or StoredChunks()
    occurrences: Counter[str] = Counter()
    ids: dict[str, str] = {}
    for chunk in chunks:
        ids[chunk.id] = chunk_id(promoted.id, chunk.text, occurrences[chunk.text])
        occurrences[chunk.text] += 1
    moved = tuple(replace(chunk, id=ids[chunk.id], document_id=promoted.id) for chunk in chunks)
    passages = {chunk.id: chunk_index_text(promoted.title, chunk) for chunk in moved}
    fields = {"status": original.status, "error": original.error, "chunk_count": len(moved)}
    change = DocumentChange(
        basis=promoted,
        document=replace(promoted, twin_of="", updated_at=utc_now(), **fields),
        chunks=moved,
        removed_chunks=(*ids, *(id_ for id_ in known.chunks if id_ not in passages)),
        replaced=(*read.values(), *known.extractions.values()),
        extractions=tuple(
            placed_extraction(read[chunk.id], ids[chunk.id], promoted.id, chunk.position)
            for chunk in chunks
            if chunk.id in read
        ),
        passages=passages,
        terms=tuple(TextEntry(id_, tuple(terms(passage))) for id_, passage in passages.items()),
        text=await records.get_document_text(original.id) or "",
        dropped_texts=(original.id,) if left is not None and text is None else (),
        others=(*((left,) if left is not None else ()), *(replace(twin, twin_of=promoted.id) for twin in twins[1:])),
        other_texts={} if text is None else {original.id: text},
        gone=() if left is not None else (original.id,),
        expected={original.id: original.content_hash},
        may_call_chat=left is not None,
    )
    return await committer.commit(change)


def as_twin(document: Document, original_id: str) -> Document:
    """Return a document as it is stored once another one holds the chunks of its text."""
    return replace(
        document,
        twin_of=original_id,
        status=DocumentStatus.PROCESSED,
        error="",
        chunk_count=0,
        updated_at=utc_now(),
    )
