"""The ingest of one workspace: insert, resume, retry, delete, cancel.

Documents come in, or ids of stored ones; they end up in every projection, each in one transaction, and a report comes
out. Every document is stored as pending before any is processed, so a crash, a cancel or an outage loses none, and
`resume` repeats no model call whose reply is cached. Runs of one process share one entry into the section that a
single process may be in.

A `Run` works off documents, a few at a time; the `DocumentProcessor` has each read and committed, as processed or
partial. A defect of one document makes a failed document; an outage of a model or store is raised, no further document
is begun, and the rest stay pending. Two tasks never work on one document at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import CancelledIngestError, ConflictError, HeliographError, IngestError, StaleChangesetError
from heliograph.extraction.base import Extractor
from heliograph.ids import is_storable
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.chunking import Chunker, make_chunker
from heliograph.ingest.commit import Commit, Committer, JointCommits, document_conflict
from heliograph.ingest.intake import (
    OUTAGES,
    Candidate,
    Intake,
    SharedEntry,
    WorkLocks,
    as_failure,
    as_twin,
    find_original,
    find_twins,
    identify_texts,
    prepare,
    promote_twin,
)
from heliograph.ingest.merging import Merger
from heliograph.ingest.models import (
    DeleteReport,
    DocumentResult,
    IngestReport,
    NewDocument,
    Outcome,
    Progress,
    ProgressCallback,
)
from heliograph.ingest.reading import (
    DocumentChange,
    InProcessReader,
    Reader,
    ReadingScope,
    ReadingTask,
    StoredChunks,
    plan_chunks,
    removal_of,
    replaced_chunks,
)
from heliograph.ingest.summary import DescriptionSummarizer
from heliograph.models import (
    RETRIED_STATUSES,
    WAITING_STATUSES,
    Chunk,
    Document,
    DocumentStatus,
    Extraction,
    Usage,
    revised,
)
from heliograph.observing import stage
from heliograph.settings import IngestSettings
from heliograph.stores.base import DocumentQuery, RecordsStore, Store
from heliograph.stores.changeset import Changeset

_log = logging.getLogger(__name__)

_SHOWN_ERRORS = 3
# So many may be in vain because other processes change the documents with the same text.
_MOST_JOINS = 20
_MAX_ERROR_LENGTH = 2_000
_PAGE = 10_000
# Length of the queue for joint commits, per document read at once: committed together, short ones cost a third.
_WAITING_PER_READ = 4
# Entries of `_pending_updates`; where one is dropped, or stale, the document is read as a whole, nothing else.
_MOST_UPDATES = 10_000
# Checking less than this takes well below a millisecond and is not worth a thread.
_THREAD_FROM_DOCUMENTS = 16
_THREAD_FROM_CHARACTERS = 50_000


class IngestPipeline:
    """Takes documents into one store; its methods may be called from many tasks at once."""

    def __init__(
        self,
        store: Store,
        embedding: EmbeddingModel,
        extractor: Extractor | Callable[[], Extractor],
        chat: ChatModel | None,
        settings: IngestSettings,
        *,
        chunker: Chunker | None = None,
        reader: Reader | None = None,
        sources_at_once: int = 1,
        exclusive: Callable[[], AbstractAsyncContextManager[None]] | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            store: The workspace.
            embedding: Embeds chunks, entities and relations.
            extractor: Reads chunks, or makes what does, when a document is first read.
            chat: Summarises descriptions; None joins them.
            settings: Sizes and limits.
            chunker: Cuts texts; None makes the one that the settings ask for.
            reader: Reads documents; None reads in this process, with `chunker` and `extractor`.
            sources_at_once: How many sources are loaded at once for it.
            exclusive: Opens what one ingest at a time may be in; None means the store's own lock.

        Raises:
            SettingsError: The sizes of chunks do not go together.
        """
        self.sources_at_once = sources_at_once
        extracts_by_chat = chat is not None and settings.extractor in ("auto", "chat")
        # Made whoever reads, so that sizes which do not go together are told of at once.
        chunker = chunker or make_chunker(settings, embedding.info, extracts_by_chat=extracts_by_chat)
        merger = Merger(settings, embedding.info, has_chat=chat is not None)
        summarizer = None if chat is None else DescriptionSummarizer(chat, settings)
        self._store = store
        self._settings = settings
        self._committer = Committer(store, embedding, summarizer, merger)
        parallel = settings.max_parallel_documents
        # Who asks for one document at a time gets no commit of several.
        self._most_waiting = 1 if parallel == 1 else _WAITING_PER_READ * parallel
        self._claims = WorkLocks()
        self._intake = Intake(store, self._committer, settings.duplicates, self._claims)
        self._processor = DocumentProcessor(
            store.records,
            reader or InProcessReader(chunker, extractor),
            self._committer,
            # What a chat model writes takes long and is paid for by document, so each is committed by itself.
            JointCommits(self._committer, 1 if chat is not None else self._most_waiting),
            parallel,
            self._claims,
            shares_texts=settings.duplicates != "separate",
        )
        self._document_locks = WorkLocks()
        # Per document the task that `enqueue` made, by which `resume` knows which of its chunks stay.
        self._pending_updates: dict[str, ReadingTask] = {}
        self._entry = SharedEntry(exclusive or store.ingest_lock)
        self._runs: set[Run] = set()
        self._after_processing: Callable[[Sequence[str]], Awaitable[object]] | None = None
        self._gate = asyncio.Event()
        self._gate.set()

    def call_after_processing(self, work: Callable[[Sequence[str]], Awaitable[object]]) -> None:
        """Have something done after every `insert`, `resume` and `retry`, given the ids of processed documents."""
        self._after_processing = work

    @property
    def committer(self) -> Committer:
        """The committer of its changes; all other changes to the graph in this process go through it, too."""
        return self._committer

    async def insert(
        self,
        documents: Sequence[NewDocument],
        track_id: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> IngestReport:
        """Take documents in: new ones are added, changed ones replaced, unchanged ones left alone.

        A document that cannot be taken in is reported as failed and stops no other. Those of one call should have
        different ids; without a `track_id` one is made.

        Returns:
            One result per document, in order.

        Raises:
            CancelledIngestError: `cancel` was called; what was not finished stays pending.
            ModelError: A model cannot be used at all; what was not finished stays pending.
            StoreError: The store cannot be used.
        """
        batch = track_id or new_track_id("insert")
        candidates = await self._prepare(documents, batch)
        async with self._run(batch, progress) as run:
            entries = await self._intake.enqueue(candidates)
            tasks = {index: entry for index, entry in enumerate(entries) if isinstance(entry, ReadingTask)}
            results = {index: entry for index, entry in enumerate(entries) if isinstance(entry, DocumentResult)}
            ids = [task.document.id for task in tasks.values()]
            are_busy = any(map(self._document_locks.is_claimed, ids))
            async with self._document_locks.claim(ids) as release:
                if are_busy:
                    # Who worked on them has done this work, or they were handed over anew.
                    stored = {document.id: document for document in await self._documents(ids)}
                    for index, task in list(tasks.items()):
                        found = stored.get(task.document.id)
                        if found is None or found.version != task.document.version:
                            results[index] = _overtaken(tasks.pop(index), found)
                async with self._entry.enter() if tasks else nullcontext():
                    results.update(zip(tasks, await run.process(list(tasks.values()), release), strict=True))
        return await self._report(batch, [results[index] for index in range(len(entries))])

    async def enqueue(self, documents: Sequence[NewDocument], track_id: str | None = None) -> IngestReport:
        """Store documents as pending, for `resume` to process, and return at once.

        Results are `pending`, or what `insert` says of documents that need no processing or cannot be taken in. A
        document under way is replaced: what is being made of its old text is given up. One that waits, just as it is
        handed over now, stays as it is, and is `pending` as well.

        Raises:
            StoreError: The store cannot be used.
        """
        batch = track_id or new_track_id("insert")
        entries = await self._intake.enqueue(await self._prepare(documents, batch))
        results: list[DocumentResult] = []
        for entry in entries:
            if isinstance(entry, DocumentResult):
                results.append(entry)
                continue
            id_, source, count = entry.document.id, entry.document.source, entry.document.chunk_count
            result = DocumentResult(id_, source, Outcome.PENDING, chunk_count=count, is_known=entry.is_known)
            results.append(result)
            if entry.scope is ReadingScope.CHANGES:
                self._pending_updates.pop(id_, None)
                self._pending_updates[id_] = replace(entry, text=None)
                if len(self._pending_updates) > _MOST_UPDATES:
                    del self._pending_updates[next(iter(self._pending_updates))]
        return IngestReport(batch, tuple(results))

    async def abandon(self, reason: str) -> int:
        """Mark what waits as failed, for `retry` to take up, and return how many documents that are.

        What is under way in this process is left alone, and a text that is handed over anew meanwhile.

        Raises:
            StoreError: The store cannot be used.
        """
        count = 0
        for document in await self._find(DocumentQuery(WAITING_STATUSES)):
            async with self._document_locks.claim([document.id]):
                failed = revised(document, status=DocumentStatus.FAILED, error=reason)
                expected = {document.id: document}
                # What has been committed, or was handed over anew, since it was found is not what was to be stopped.
                with suppress(StaleChangesetError):
                    await self._committer.apply(Changeset(documents=(failed,), expected_documents=expected))
                    count += 1
        return count

    async def identify(self, source: str, text: str) -> str:
        """Return the id of the document that a clean text of a clean source stands for; raises `StoreError`."""
        return (await identify_texts(self._store.records, [(source, text)]))[0]

    async def insert_whole(
        self,
        document: Document,
        text: str | None,
        chunks: Sequence[Chunk],
        extractions: Sequence[Extraction],
        *,
        may_call_chat: bool = True,
    ) -> DocumentResult:
        """Store a document of which all is given, in one commit; it is never pending unless it is given so.

        One of the same id is replaced. The text is None if it has none of its own; chunks are all, in order, with one
        canonical extraction each.

        Raises:
            ConflictError: Another process changed the document meanwhile.
            ModelError: It cannot be embedded; nothing was written.
            StoreError: The store cannot be used; nothing was written.
        """
        async with self._document_locks.claim([document.id]):
            async with self._intake.admit([Candidate(document)]) as already:
                known = already.known.get(document.id)
                if known is not None and known.content_hash != document.content_hash:
                    known = await self._intake.let_go(known)
            stored = await read_stored_chunks(self._store.records, document.id)
            change = DocumentChange(
                basis=known or replace(document, content_hash="", chunk_count=0),
                document=document,
                plan=plan_chunks(document.title, chunks, stored, keeps_readings=False),
                extractions=tuple(extractions),
                texts={document.id: text} if text is not None else {},
                dropped_texts=() if text is not None else (document.id,),
                is_new=known is None,
                may_call_chat=may_call_chat,
            )
            commit = await self._committer.commit(change)
        return DocumentResult(
            document.id, document.source, Outcome.PROCESSED, chunk_count=len(chunks), usage=commit.usage
        )

    async def resume(self, progress: ProgressCallback | None = None) -> IngestReport:
        """Process what a crash, a cancel or an outage left pending; raises as `insert`."""
        return await self._process_stored(new_track_id("resume"), WAITING_STATUSES, progress)

    async def retry(self, document_ids: Collection[str] = (), progress: ProgressCallback | None = None) -> IngestReport:
        """Process failed documents again, and read again the chunks of partial ones that could not be read.

        Only these, or all if none is named; those that are unknown, or did not fail, are left alone. Raises as
        `insert`.
        """
        return await self._process_stored(new_track_id("retry"), RETRIED_STATUSES, progress, document_ids)

    def pause(self) -> None:
        """Begin no further document until `unpause`; those under way come to their end, and calls wait."""
        self._gate.clear()

    def unpause(self) -> None:
        """Go on after a pause."""
        self._gate.set()

    def cancel(self) -> None:
        """End all runs of this pipeline; each raises `CancelledIngestError` to its caller.

        Calls to models are cancelled, commits under way are completed. To be called from the event loop's thread.
        """
        for run in self._runs:
            run.cancel()

    async def delete(
        self, document_ids: Iterable[str], content_hashes: Mapping[str, str] | None = None
    ) -> DeleteReport:
        """Delete documents and all that only they said, each in one transaction.

        Entities and relations that others mention too are folded again from what is left. No chat model is called: a
        long description is what it was before the document came, if that is still kept, else its fragments joined.

        A deletion may wait until its document is read. What is handed over meanwhile with another text is a new
        version, which nobody asked to delete.

        Args:
            document_ids: Which.
            content_hashes: What each had when it was asked to delete it, by id; as they are now, for others.

        Raises:
            ConflictError: Another process replaced a document meanwhile; those before it are deleted.
            ModelError: What is left cannot be embedded; that document is not deleted, those before it are.
            StoreError: The store cannot be used; likewise.
        """
        wanted = list(dict.fromkeys(document_ids))
        asked = {document.id: document.content_hash for document in await self._documents(wanted)}
        asked.update(content_hashes or {})
        deleted: list[str] = []
        replaced: list[str] = []
        chunks = entities = relations = 0
        async with self._document_locks.claim(wanted):
            # Twins first, so that none is made an original only to go as well.
            for document in sorted(await self._documents(wanted), key=lambda item: not item.twin_of):
                id_, records = document.id, self._store.records
                async with self._claims.claim([id_, document.content_hash]):
                    found = await self._documents([id_])
                    if not found:
                        raise ConflictError(
                            f"the document {id_!r} went while it was to be deleted; look again, or check the store"
                        )
                    if found[0].content_hash != asked.get(id_, found[0].content_hash):
                        replaced.append(id_)
                        continue
                    if twins := await find_twins(records, found[0]):
                        # The chunks go to another document with the same text.
                        commit = await promote_twin(records, self._committer, found[0], twins, None)
                    else:
                        stored = await read_stored_chunks(records, id_)
                        commit = await self._committer.commit(DocumentChange(found[0], plan=removal_of(stored)))
                        chunks += len(stored.chunks)
                self._pending_updates.pop(id_, None)
                deleted.append(id_)
                entities -= commit.entity_growth
                relations -= commit.relation_growth
        missing = tuple(id_ for id_ in wanted if id_ not in {*deleted, *replaced})
        return DeleteReport(tuple(deleted), missing, chunks, entities, relations, tuple(replaced))

    async def delete_matching(self, query: DocumentQuery) -> DeleteReport:
        """Delete all documents that a query finds, whatever its limits; raises as `delete`."""
        found = await self._find(query)
        return await self.delete([item.id for item in found], {item.id: item.content_hash for item in found})

    async def _prepare(self, documents: Sequence[NewDocument], batch: str) -> list[Candidate]:
        limit = self._settings.max_document_characters
        characters = sum(len(document.text) for document in documents if isinstance(document.text, str))  # pyright: ignore[reportUnnecessaryIsInstance]
        if len(documents) <= _THREAD_FROM_DOCUMENTS and characters < _THREAD_FROM_CHARACTERS:
            return await self._intake.identify(prepare(documents, limit, batch))
        return await self._intake.identify(await asyncio.to_thread(prepare, documents, limit, batch))

    async def _process_stored(
        self,
        batch: str,
        statuses: tuple[DocumentStatus, ...],
        progress: ProgressCallback | None,
        only: Collection[str] = (),
    ) -> IngestReport:
        async with self._run(batch, progress) as run, self._entry.enter():
            ids = only or [document.id for document in await self._find(DocumentQuery(statuses))]
            found = [id_ for id_ in dict.fromkeys(ids) if not self._document_locks.is_claimed(id_)]
            async with self._document_locks.claim(found) as release:
                # What another task finished since it was found is left alone.
                tasks = [
                    self._stored_task(document)
                    for document in await self._documents(found)
                    if document.status in statuses
                ]
                results = await run.process(tasks, release)
        return await self._report(batch, results)

    async def _report(self, batch: str, results: Sequence[DocumentResult]) -> IngestReport:
        """Return the report of documents that came to their end, after what is to be done with those taken in."""
        taken_in = [result.id for result in results if result.outcome in (Outcome.PROCESSED, Outcome.PARTIAL)]
        if self._after_processing is not None and taken_in:
            try:
                await self._after_processing(taken_in)
            except HeliographError:
                raise
            except Exception:  # noqa: BLE001 (logged)
                # The documents are in, and others may wait behind them.
                _log.exception("what is done after processing failed because of a defect; please report it")
        return IngestReport(batch, tuple(results))

    def forget_updates(self) -> None:
        """Forget which chunks of waiting updates stay, once the documents are deleted; texts are then read whole."""
        self._pending_updates.clear()

    def _stored_task(self, document: Document) -> ReadingTask:
        known = self._pending_updates.pop(document.id, None)
        if known is not None and known.document.version == document.version:
            return replace(known, document=document)
        is_partial = document.status is DocumentStatus.PARTIAL
        return ReadingTask(document, scope=ReadingScope.FAILED_CHUNKS if is_partial else ReadingScope.WHOLE)

    async def _find(self, query: DocumentQuery) -> list[Document]:
        return [document async for document in self._store.records.all_documents(query)]

    async def _documents(self, ids: Sequence[str]) -> list[Document]:
        documents: list[Document] = []
        ids = [id_ for id_ in ids if is_storable(id_)]
        for start in range(0, len(ids), _PAGE):
            documents += await self._store.records.get_documents(ids[start : start + _PAGE])
        return documents

    @asynccontextmanager
    async def _run(self, batch: str, progress: ProgressCallback | None) -> AsyncGenerator[Run]:
        # More tasks than documents are read at once: while some wait to be committed, others keep models busy.
        run = Run(
            self._processor,
            ProgressReporter(batch, progress),
            self._settings.max_parallel_documents + self._most_waiting,
            self._gate,
        )
        self._runs.add(run)
        try:
            yield run
        finally:
            self._runs.discard(run)


class DocumentProcessor:
    """Processes documents of one store; safe to call from many tasks at once."""

    def __init__(
        self,
        records: RecordsStore,
        reader: Reader,
        committer: Committer,
        joint: JointCommits,
        max_parallel: int,
        claims: WorkLocks,
        *,
        shares_texts: bool,
    ) -> None:
        """Keep the parts; `claims` are of documents and texts, held for moments."""
        self._records = records
        self._reader = reader
        self._committer = committer
        self._joint = joint
        self._reading = asyncio.Semaphore(max_parallel)
        self._claims = claims
        # Held while a text is read, so that two documents do not read it side by side.
        self._texts = WorkLocks()
        self._shares_texts = shares_texts

    async def process(self, task: ReadingTask, progress: DocumentProgress) -> DocumentResult:
        """Take one document in.

        Of one that is handed over anew meanwhile nothing is committed; the result is then what is stored of it.

        Raises:
            ModelError: One of `OUTAGES`: a model cannot be used at all; the document is left as it was.
            StoreError: The store cannot be used; the document is left as it was.
        """
        document = task.document
        try:
            with stage("ingest.document"):
                result = await self._process(task, progress)
        except OUTAGES:
            raise
        except ConflictError as error:
            stored = await self._find(document.id)
            is_ours = stored is not None and stored.version == document.version
            if (
                stored is not None
                and not is_ours
                and task.scope is ReadingScope.FAILED_CHUNKS
                and stored.status is DocumentStatus.PARTIAL
                and stored.content_hash == document.content_hash
            ):
                # Failed chunks are still to be read of a document of which something else was said meanwhile.
                return await self.process(replace(task, document=stored), progress)
            result = _failed(document, error) if is_ours else _overtaken(task, stored)
        except Exception as error:  # noqa: BLE001 (a defect fails the document that meets it, not those behind it)
            failure = as_failure(f"the document {document.source!r}", error)
            is_noted = task.scope is ReadingScope.FAILED_CHUNKS or await self._record_failure(document, failure)
            result = _failed(document, failure) if is_noted else _overtaken(task, await self._find(document.id))
        progress.finish(result.usage, failed=result.outcome is Outcome.FAILED)
        return result

    async def _find(self, id_: str) -> Document | None:
        return next(iter(await self._records.get_documents([id_])), None)

    async def _process(self, task: ReadingTask, progress: DocumentProgress) -> DocumentResult:
        document = task.document
        async with self._texts.claim([document.content_hash]):
            if task.scope is ReadingScope.FAILED_CHUNKS:
                (stored,) = await self._records.get_documents([document.id]) or [document]
                if stored.twin_of:
                    # Another document of this text came meanwhile and has taken the chunks.
                    return DocumentResult(stored.id, stored.source, Outcome.PROCESSED)
            elif self._shares_texts and (twin := await self._join(document, progress)) is not None:
                return twin
            return await self._read(replace(task, document=replace(document, twin_of="")), progress)

    async def _join(self, document: Document, progress: DocumentProgress) -> DocumentResult | None:
        """Commit a document as a twin of the one that holds the chunks of its text; None if there is none."""
        tries = _MOST_JOINS
        while await find_original(self._records, document) is not None:
            async with self._claims.claim([document.content_hash]):
                original = await find_original(self._records, document)
                if original is None:
                    break
                try:
                    commit = await self._commit_twin(document, original)
                except ConflictError:
                    # If it was the other one that another process changed, this one is not done for: it joins what
                    # is there now.
                    tries -= 1
                    stored = await self._find(document.id)
                    if not tries or stored is None or stored.version != document.version:
                        raise
                    continue
                progress.grow(commit.entity_growth, commit.relation_growth)
                detail = f"the same text as {original.source!r}; both are cited"
                return DocumentResult(document.id, document.source, Outcome.PROCESSED, detail=detail)
        return None

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
            plan=removal_of(stored),
            dropped_texts=(document.id,),
            # The original is another one with this twin, so that nobody lets it go who has not seen the twin.
            others=(revised(original),),
            relied_on=(original,),
        )
        return await self._committer.commit(change)

    async def _read(self, task: ReadingTask, progress: DocumentProgress) -> DocumentResult:
        document, has_text = task.document, task.scope is not ReadingScope.FAILED_CHUNKS

        async def find_stored(chunks: Sequence[Chunk] | None) -> StoredChunks:
            """Read the stored chunks, and the extractions of those that do not stay in place."""
            if not document.chunk_count and has_text:
                return StoredChunks()
            if chunks is None or not (task.scope is ReadingScope.CHANGES and task.all_read):
                return await read_stored_chunks(self._records, document.id)
            known = {chunk.id: chunk for chunk in await self._records.get_document_chunks(document.id)}
            stored = StoredChunks(known, all_read=True)
            extractions = await self._records.get_extractions(replaced_chunks(chunks, stored))
            return replace(stored, extractions={item.chunk_id: item for item in extractions})

        async with self._reading:
            text = (task.text or await self._records.get_document_text(document.id)) if has_text else None
            if text is None and has_text:
                # It was refused when it was handed over, and nothing has changed since.
                raise IngestError(document.error or f"the text of the document {document.source!r} is not stored")
            reading = await self._reader.read(replace(task, text=text), find_stored, progress)
        extractions, plan = reading.extractions, reading.plan
        finished = _finished(document, plan.chunk_count, extractions)
        change = DocumentChange(document, finished, plan, (*extractions, *plan.moved), reading.vectors)
        commit = await self._joint.commit(change)
        progress.grow(commit.entity_growth, commit.relation_growth)
        return DocumentResult(
            *(document.id, document.source, Outcome.PARTIAL if finished.error else Outcome.PROCESSED),
            detail=finished.error,
            chunk_count=plan.chunk_count,
            usage=sum((item.usage for item in extractions), commit.usage),
        )

    async def _record_failure(self, document: Document, error: HeliographError) -> bool:
        """Note that a document failed; return False if that is of a version that was replaced or deleted meanwhile."""
        failed = revised(document, status=DocumentStatus.FAILED, error=str(error)[:_MAX_ERROR_LENGTH])
        try:
            await self._committer.apply(Changeset(documents=(failed,), expected_documents={document.id: document}))
        except StaleChangesetError:
            return False
        except OUTAGES:
            raise
        except Exception:  # noqa: BLE001 (logged)
            _log.exception("that the document %r failed could not be noted; it stays pending", document.source)
        return True


def _failed(document: Document, error: HeliographError) -> DocumentResult:
    return DocumentResult(document.id, document.source, Outcome.FAILED, error)


def _overtaken(task: ReadingTask, stored: Document | None) -> DocumentResult:
    """Return the result of a document that others handed over anew, processed or deleted since the task was made."""
    document = task.document
    if stored is None:
        return _failed(document, document_conflict(document.id, "deleted"))
    outcome = Outcome.PENDING if stored.status in WAITING_STATUSES else Outcome(stored.status)
    if task.is_known and outcome is Outcome.PROCESSED:
        outcome = Outcome.UNCHANGED
    error = IngestError(stored.error) if outcome is Outcome.FAILED else None
    detail = stored.error if outcome is Outcome.PARTIAL else ""
    if (stored.content_hash, stored.track_id) != (document.content_hash, document.track_id):
        detail = " ".join(filter(None, ("a later version has taken its place", detail)))
    return DocumentResult(document.id, document.source, outcome, error, detail, chunk_count=stored.chunk_count)


def _finished(document: Document, chunk_count: int, extractions: Sequence[Extraction]) -> Document:
    failed = [item for item in extractions if item.error]
    shown = "; ".join(f"{item.chunk_id}: {item.error}" for item in failed[:_SHOWN_ERRORS])
    more = "; ..." if len(failed) > _SHOWN_ERRORS else ""
    error = f"{len(failed)} of {chunk_count} chunks could not be read ({shown}{more}); retry asks for them again"
    return revised(
        document,
        status=DocumentStatus.PARTIAL if failed else DocumentStatus.PROCESSED,
        error=error[:_MAX_ERROR_LENGTH] if failed else "",
        chunk_count=chunk_count,
        usage=sum((item.usage for item in extractions), document.usage),
    )


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
        self._growth = 0, 0

    def begin_chunks(self, count: int) -> None:
        """Say how many chunks will be read."""
        self._share = self._remaining / count if count else 0.0
        self._reporter.add(chunks_total=count)

    def finish_chunk(self) -> None:
        """Count a chunk that was read, and its share of the document's characters."""
        share = min(self._share, self._remaining)
        self._remaining -= share
        self._reporter.add(share, chunks_done=1)

    def grow(self, entities: int, relations: int) -> None:
        """Note how many more entities and relations there are by the document's commit."""
        self._growth = entities, relations

    def finish(self, usage: Usage, *, failed: bool = False) -> None:
        """Count the document as done."""
        entities, relations = self._growth
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
        """Keep the parts; while the gate is not set, no further document is begun."""
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
        """Process documents, once per run; return their results in the same order.

        `on_finished` is called with a document's id as soon as nothing more will be done about it.

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
                progress = DocumentProgress(self._reporter, task.document.length)
                self._results[index] = await self._processor.process(task, progress)
            except OUTAGES as error:
                self._outage = self._outage or error
            finally:
                on_finished(task.document.id)
