"""Processes documents, a few at a time: chunks, extraction, commit.

`Work` comes in; a document ends up in every projection at once, as processed or partial, and a `DocumentResult` comes
out. A defect of one document makes a failed document; an outage of a model or store is raised, no further document is
begun, and the rest stay pending. Two tasks never work on one document at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

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
from heliograph.ingest.models import DocumentProgress, DocumentResult, Outcome, ProgressReporter
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

# Locks are taken for all documents of a call together, so that no two calls wait for each other.


class Claim:
    """Documents that one task works on."""

    def __init__(self, held: dict[str, asyncio.Future[None]], ids: Iterable[str]) -> None:
        self._held = held
        self._done = {id_: asyncio.get_running_loop().create_future() for id_ in ids}
        held.update(self._done)

    def release(self, id_: str) -> None:
        """Let others have a document; does nothing if it was released already."""
        done = self._done.pop(id_, None)
        if done is not None:
            del self._held[id_]
            done.set_result(None)

    def release_all(self) -> None:
        """Let others have all that is left."""
        for id_ in list(self._done):
            self.release(id_)


class WorkLocks:
    """Locks documents, by id, while a task works on them; texts, by their hash, are locked alike."""

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Future[None]] = {}

    def is_claimed(self, id_: str) -> bool:
        """Whether somebody works on this document."""
        return id_ in self._held

    @asynccontextmanager
    async def claim(self, ids: Iterable[str]) -> AsyncGenerator[Claim]:
        """Wait until no other task holds any of these, then hold them all until they are released or this ends."""
        wanted = set(ids)
        while busy := [self._held[id_] for id_ in wanted if id_ in self._held]:
            await asyncio.wait(busy)
        claim = Claim(self._held, wanted)
        try:
            yield claim
        finally:
            claim.release_all()


_log = logging.getLogger(__name__)

# Errors that say nothing about the document at hand: the next one would meet them too.
OUTAGES = (StoreError, ModelUnavailable, ModelTimeout, RateLimited, ClusterUnavailable)

_SHOWN_ERRORS = 3
_MAX_ERROR_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class Work:
    """A document to process.

    Attributes:
        document: As it is stored.
        text: Its text; None if it must be read from the store.
        keeps_readings: Whether chunks that stay keep what was read in them; False if the title may have changed.
        keeps_chunks: Whether only chunks that could not be read are read again, and the text is left as it was cut.
        is_read: Whether all its stored chunks are known to have been read.
    """

    document: Document
    text: str | None = None
    keeps_readings: bool = False
    keeps_chunks: bool = False
    is_read: bool = False


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

    async def process(self, work: Work, progress: DocumentProgress) -> DocumentResult:
        """Take one document in.

        Raises:
            ModelError: One of `OUTAGES`: a model cannot be used at all; the document is left as it was.
            StoreError: The store cannot be used; the document is left as it was.
        """
        document = work.document
        try:
            with stage("ingest.document"):
                result, commit = await self._process(work, progress)
        except OUTAGES:
            raise
        except ConflictError as error:
            # The document's record is no longer ours to write.
            result = DocumentResult(document.id, document.source, Outcome.FAILED, error)
        except Exception as error:  # noqa: BLE001 (a defect fails the document that meets it, not those behind it)
            failure = as_failure(f"the document {document.source!r}", error)
            if not work.keeps_chunks:
                await self._record_failure(document, failure)
            result = DocumentResult(document.id, document.source, Outcome.FAILED, failure)
        else:
            progress.finish(result.usage, (commit.added_entities, commit.added_relations))
            return result
        progress.finish(Usage(), failed=True)
        return result

    async def _process(self, work: Work, progress: DocumentProgress) -> tuple[DocumentResult, Commit]:
        async with self._texts.claim([work.document.content_hash]):
            if work.keeps_chunks:
                (stored,) = await self._records.get_documents([work.document.id]) or [work.document]
                if stored.twin_of:
                    # Another document of this text came meanwhile and has taken the chunks.
                    result = DocumentResult(stored.id, stored.source, Outcome.PROCESSED)
                    return result, Commit(0, 0, Usage())
            elif self._shares_texts and (original := await find_original(self._records, work.document)) is not None:
                document = work.document
                stored = await read_stored_chunks(self._records, document.id)
                if document.id < original.id:
                    twins = [document, *await find_twins(self._records, original)]
                    left = as_twin(original, document.id)
                    commit = await promote_twin(self._records, self._committer, original, twins, left, known=stored)
                else:
                    change = DocumentChange(
                        basis=document,
                        document=as_twin(document, original.id),
                        removed_chunks=tuple(stored.chunks),
                        replaced=tuple(stored.extractions.values()),
                        dropped_texts=(document.id,),
                        expected={original.id: original.content_hash},
                    )
                    commit = await self._committer.commit(change)
                detail = f"the same text as {original.source!r}; both are cited"
                return DocumentResult(document.id, document.source, Outcome.PROCESSED, detail=detail), commit
            return await self._read(replace(work, document=replace(work.document, twin_of="")), progress)

    async def _read(self, work: Work, progress: DocumentProgress) -> tuple[DocumentResult, Commit]:
        async with self._reading:
            text = work.text
            if work.keeps_chunks:
                text = None
            elif text is None and (text := await self._records.get_document_text(work.document.id)) is None:
                # It was refused when it was handed over, and nothing has changed since.
                error = work.document.error or f"the text of the document {work.document.source!r} is not stored"
                raise IngestError(error)
            reading = await self._reader.read(
                ReadingTask(work.document, text, work.keeps_readings),
                lambda chunks: self._read_stored(work, chunks),
                progress,
            )
        extractions, plan = reading.extractions, reading.plan
        document = _finished(work.document, plan.chunk_count, extractions)
        change = DocumentChange(
            basis=work.document,
            document=document,
            chunks=plan.written,
            removed_chunks=plan.removed,
            replaced=plan.replaced,
            extractions=(*extractions, *plan.moved),
            passages=plan.passages,
            terms=plan.terms,
            vectors=reading.vectors,
        )
        commit = await self._joint.commit(change)
        usage = sum((item.usage for item in extractions), commit.usage)
        outcome = Outcome.PARTIAL if document.error else Outcome.PROCESSED
        result = DocumentResult(
            *(document.id, document.source, outcome),
            detail=document.error,
            chunk_count=plan.chunk_count,
            usage=usage,
        )
        return result, commit

    async def _read_stored(self, work: Work, chunks: Sequence[Chunk] | None) -> StoredChunks:
        """Read the stored chunks of a document, and the extractions of those that do not stay in place."""
        document = work.document
        if not document.chunk_count and not work.keeps_chunks:
            return StoredChunks()
        if chunks is None or not (work.keeps_readings and work.is_read):
            return await read_stored_chunks(self._records, document.id)
        known = {chunk.id: chunk for chunk in await self._records.get_document_chunks(document.id)}
        stored = StoredChunks(known, all_read=True)
        extractions = await self._records.get_extractions(replaced_chunks(chunks, stored))
        return replace(stored, extractions={item.chunk_id: item for item in extractions})

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
        self._originals_left = 0
        self._originals_done = asyncio.Event()

    def cancel(self) -> None:
        """Begin no further document and end those under way; `process` raises `CancelledIngestError`."""
        self._is_cancelled = True
        for task in self._tasks:
            task.cancel()

    def check_cancelled(self, unfinished: int) -> None:
        """Raise if the run was cancelled.

        Raises:
            CancelledIngestError: It was.
        """
        if self._is_cancelled:
            raise CancelledIngestError(
                f"the run was cancelled: {len(self._results)} documents are done, {unfinished} are left for "
                "later; run resume (or retry) to go on"
            )

    async def process(self, works: Sequence[Work], on_finished: Callable[[str], None]) -> list[DocumentResult]:
        """Process documents; return their results in the same order.

        Args:
            works: What to do; called once per run.
            on_finished: Called with a document's id as soon as nothing more will be done about it.

        Raises:
            CancelledIngestError: `cancel` was called before all were done.
            ModelError: A model cannot be used at all.
            StoreError: The store cannot be used.
        """
        self.check_cancelled(len(works))
        self._reporter.expect(len(works), sum(work.document.length for work in works))
        # A twin waits until what may hold its chunks is done.
        queue = iter(sorted(enumerate(works), key=lambda item: bool(item[1].document.twin_of)))
        self._originals_left = sum(not work.document.twin_of for work in works)
        self._release_twins()
        count = min(self._max_tasks, len(works))
        self._tasks = [asyncio.ensure_future(self._work(queue, on_finished)) for _ in range(count)]
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            self._reporter.finish()
        unfinished = len(works) - len(self._results)
        for task in self._tasks:
            if not task.cancelled() and (defect := task.exception()):
                raise defect
        if unfinished:
            self.check_cancelled(unfinished)
        if self._outage:
            self._outage.add_note(
                f"{unfinished} documents are left for later; run resume (or retry) when this is mended"
            )
            raise self._outage
        return [self._results[index] for index in range(len(works))]

    async def _work(self, queue: Iterator[tuple[int, Work]], on_finished: Callable[[str], None]) -> None:
        for index, work in queue:
            await self._gate.wait()
            if work.document.twin_of:
                await self._originals_done.wait()
            if self._is_cancelled or self._outage:
                return
            try:
                progress = self._reporter.begin(work.document.length)
                self._results[index] = await self._processor.process(work, progress)
            except OUTAGES as error:
                self._outage = self._outage or error
            finally:
                on_finished(work.document.id)
                self._originals_left -= not work.document.twin_of
                self._release_twins()

    def _release_twins(self) -> None:
        if self._originals_left <= 0 or self._outage:
            self._originals_done.set()


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
