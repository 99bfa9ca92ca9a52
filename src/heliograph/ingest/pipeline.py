"""The ingest of one workspace: insert, resume, retry, delete, cancel.

Documents come in, or ids of stored ones; they end up in every projection, each in one transaction, and a report comes
out. Every document is stored as pending before any is processed, so a crash, a cancel or an outage loses none, and
`resume` repeats no model call whose reply is cached. Runs of one process share one entry into the section that a
single process may be in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace

from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import ConflictError, HeliographError
from heliograph.extraction.base import Extractor
from heliograph.ids import is_storable
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.chunking import Chunker, make_chunker
from heliograph.ingest.commit import Committer, JointCommits
from heliograph.ingest.intake import Candidate, Intake, identify_texts, prepare
from heliograph.ingest.merging import Folder
from heliograph.ingest.models import (
    DeleteReport,
    DocumentResult,
    IngestReport,
    NewDocument,
    Outcome,
    ProgressCallback,
)
from heliograph.ingest.processing import (
    DocumentProcessor,
    ProgressReporter,
    Run,
    WorkLocks,
    as_twin,
    find_twins,
    promote_twin,
    read_stored_chunks,
)
from heliograph.ingest.reading import DocumentChange, InProcessReader, Reader, ReadingTask, plan_chunks
from heliograph.ingest.summary import DescriptionSummarizer
from heliograph.models import RETRIED_STATUSES, WAITING_STATUSES, Chunk, Document, DocumentStatus, Extraction, utc_now
from heliograph.settings import IngestSettings
from heliograph.stores.base import DocumentQuery, Store
from heliograph.stores.changeset import Changeset


class SharedEntry:
    """Shares one exclusive context among the runs of a process: the first in opens it, the last one out closes it."""

    def __init__(self, exclusive: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._exclusive = exclusive
        self._opening = asyncio.Lock()
        self._stack: AsyncExitStack | None = None
        self._inside = 0

    @asynccontextmanager
    async def enter(self) -> AsyncGenerator[None]:
        """Be inside; whatever opening the context raises is raised here."""
        async with self._opening:
            if self._stack is None:
                stack = AsyncExitStack()
                await stack.enter_async_context(self._exclusive())
                self._stack = stack
            self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            # Whoever is cancelled here still closes: a section left open would keep all other processes out.
            await _ended(asyncio.create_task(self._leave()))

    async def _leave(self) -> None:
        """Close the section after the last run; a run that starts meanwhile waits and reopens it."""
        async with self._opening:
            if not self._inside and (stack := self._stack):
                self._stack = None
                await stack.aclose()


async def _ended(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task, also when cancelled, and be cancelled only then."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from (None if task.cancelled() else task.exception())
    task.result()


_log = logging.getLogger(__name__)

_PAGE = 10_000
# Documents that may wait to be committed together, per one that is read; short ones cost a third of what they do alone.
_WAITING_PER_READ = 4
# Another process may do what this one noted; what is forgotten is read again as a whole.
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
        folder = Folder(settings, embedding.info, has_chat=chat is not None)
        summarizer = None if chat is None else DescriptionSummarizer(chat, settings)
        self._store = store
        self._settings = settings
        self._committer = Committer(store, embedding, summarizer, folder)
        parallel = settings.max_parallel_documents
        # Who asks for one document at a time gets no commit of several.
        self._most_waiting = 1 if parallel == 1 else _WAITING_PER_READ * parallel
        self._text_locks = WorkLocks()
        self._intake = Intake(store.records, self._committer, settings.duplicates, self._text_locks)
        self._processor = DocumentProcessor(
            store.records,
            reader or InProcessReader(chunker, extractor),
            self._committer,
            # What a chat model writes takes long and is paid for by document, so each is committed by itself.
            JointCommits(self._committer, 1 if chat is not None else self._most_waiting),
            parallel,
            self._text_locks,
            shares_texts=settings.duplicates != "separate",
        )
        self._document_locks = WorkLocks()
        # What comparing an update with what is stored has told, until it is processed.
        self._updates: dict[str, ReadingTask] = {}
        self._entry = SharedEntry(exclusive or store.ingest_lock)
        self._runs: set[Run] = set()
        self._after_insert: Callable[[Sequence[str]], Awaitable[object]] | None = None
        self._gate = asyncio.Event()
        self._gate.set()

    def call_after_insert(self, work: Callable[[Sequence[str]], Awaitable[object]]) -> None:
        """Have something done after every `insert`, given the ids of the documents that were taken in."""
        self._after_insert = work

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

        A document that cannot be taken in is reported as failed and stops no other.

        Args:
            documents: What to take in; those of one call should have different ids.
            track_id: Name of the batch; None makes one.
            progress: Told how far the run has come.

        Returns:
            One result per document, in order.

        Raises:
            CancelledIngestError: `cancel` was called; what was not finished stays pending.
            ModelError: A model cannot be used at all; what was not finished stays pending.
            StoreError: The store cannot be used.
        """
        batch = track_id or new_track_id("insert")
        candidates = await self._prepare(documents, batch)
        ids = [item.document.id for item in candidates if item.document.id]
        async with self._run(batch, progress) as run, self._document_locks.claim(ids) as release:
            entries = await self._intake.enqueue(candidates)
            tasks = {index: entry for index, entry in enumerate(entries) if isinstance(entry, ReadingTask)}
            results = {index: entry for index, entry in enumerate(entries) if isinstance(entry, DocumentResult)}
            async with self._entry.enter() if tasks else nullcontext():
                results.update(zip(tasks, await run.process(list(tasks.values()), release), strict=True))
        taken_in = [result.id for result in results.values() if result.outcome in (Outcome.PROCESSED, Outcome.PARTIAL)]
        if self._after_insert is not None and taken_in:
            try:
                await self._after_insert(taken_in)
            except HeliographError:
                raise
            except Exception:  # noqa: BLE001 (logged)
                # The documents are in, and others may wait behind them.
                _log.exception("what is done after an insert failed because of a defect; please report it")
        return IngestReport(batch, tuple(results[index] for index in range(len(entries))))

    async def enqueue(self, documents: Sequence[NewDocument], track_id: str | None = None) -> IngestReport:
        """Store documents as pending, for `resume` to process, and return at once.

        Results are `pending`, or what `insert` says of documents that need no processing or cannot be taken in. A
        document under way is replaced: what is being made of its old text is given up.

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
            results.append(DocumentResult(id_, source, Outcome.PENDING, chunk_count=count))
            if entry.keeps_readings:
                self._updates.pop(id_, None)
                self._updates[id_] = replace(entry, text=None)
                if len(self._updates) > _MOST_UPDATES:
                    del self._updates[next(iter(self._updates))]
        return IngestReport(batch, tuple(results))

    async def abandon(self, reason: str) -> int:
        """Mark what waits as failed, for `retry` to take up, and return how many documents that are.

        What is under way in this process is left alone.

        Raises:
            StoreError: The store cannot be used.
        """
        count = 0
        for id_ in await self._find(DocumentQuery(WAITING_STATUSES)):
            async with self._document_locks.claim([id_]):
                for document in await self._documents([id_]):
                    if document.status in WAITING_STATUSES:
                        failed = replace(document, status=DocumentStatus.FAILED, error=reason, updated_at=utc_now())
                        expected = {id_: document.content_hash}
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

        Args:
            document: As it shall be stored; a stored one of the same id is replaced.
            text: Its text; None if it has none of its own.
            chunks: All its chunks, in order.
            extractions: What they say, one per chunk, canonical.
            may_call_chat: Whether a chat model may be asked to summarise descriptions that grow long.

        Raises:
            ConflictError: Another process changed the document meanwhile.
            ModelError: It cannot be embedded; nothing was written.
            StoreError: The store cannot be used; nothing was written.
        """
        async with self._document_locks.claim([document.id]):
            known = await self._documents([document.id])
            if known and known[0].content_hash != document.content_hash:
                async with self._text_locks.claim([known[0].content_hash]):
                    known = await self._documents([document.id])
                    if twins := await find_twins(self._store.records, known[0]):
                        left = as_twin(known[0], twins[0].id)
                        await promote_twin(self._store.records, self._committer, known[0], twins, left)
                        known = [left]
            stored = await read_stored_chunks(self._store.records, document.id)
            plan = plan_chunks(document.title, chunks, stored, keeps_readings=False)
            change = DocumentChange(
                basis=known[0] if known else replace(document, content_hash="", chunk_count=0),
                document=document,
                chunks=plan.written,
                removed_chunks=plan.removed,
                replaced=plan.replaced,
                extractions=tuple(extractions),
                passages=plan.passages,
                terms=plan.terms,
                text=text,
                dropped_texts=() if text is not None else (document.id,),
                is_new=not known,
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

        Chunks that were read are not read again; raises as `insert`.

        Args:
            document_ids: Only these; empty means all. Those that are unknown, or did not fail, are left alone.
            progress: Told of what is done.
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

    async def delete(self, document_ids: Iterable[str]) -> DeleteReport:
        """Delete documents and all that only they said, each in one transaction.

        Entities and relations that others mention too are folded again from what is left. No chat model is called: a
        long description is what it was before the document came, if that is still kept, else its fragments joined.

        Raises:
            ConflictError: Another process replaced a document meanwhile; those before it are deleted.
            ModelError: What is left cannot be embedded; that document is not deleted, those before it are.
            StoreError: The store cannot be used; likewise.
        """
        wanted = list(dict.fromkeys(document_ids))
        deleted: list[str] = []
        chunks = entities = relations = 0
        async with self._document_locks.claim(wanted):
            # Twins first, so that none is made an original only to go as well.
            for document in sorted(await self._documents(wanted), key=lambda item: not item.twin_of):
                id_, records = document.id, self._store.records
                async with self._text_locks.claim([document.content_hash]):
                    found = await self._documents([id_])
                    if not found:
                        raise ConflictError(
                            f"the document {id_!r} went while it was to be deleted; look again, or check the store"
                        )
                    if twins := await find_twins(records, found[0]):
                        # The chunks go to another document with the same text.
                        commit = await promote_twin(records, self._committer, found[0], twins, None)
                    else:
                        stored = await read_stored_chunks(records, id_)
                        removed, replaced = tuple(stored.chunks), tuple(stored.extractions.values())
                        change = DocumentChange(basis=found[0], removed_chunks=removed, replaced=replaced)
                        commit = await self._committer.commit(change)
                        chunks += len(removed)
                self._updates.pop(id_, None)
                deleted.append(id_)
                entities -= commit.added_entities
                relations -= commit.added_relations
        missing = tuple(id_ for id_ in wanted if id_ not in set(deleted))
        return DeleteReport(tuple(deleted), missing, chunks, entities, relations)

    async def delete_matching(self, query: DocumentQuery) -> DeleteReport:
        """Delete all documents that a query finds, whatever its limits; raises as `delete`."""
        return await self.delete(await self._find(query))

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
            stored = list(dict.fromkeys(only)) if only else await self._find(DocumentQuery(statuses))
            found = [id_ for id_ in stored if not self._document_locks.is_claimed(id_)]
            async with self._document_locks.claim(found) as release:
                # What another task finished since it was found is left alone.
                tasks = [
                    self._stored_task(document)
                    for document in await self._documents(found)
                    if document.status in statuses
                ]
                return IngestReport(batch, tuple(await run.process(tasks, release)))

    def forget_updates(self) -> None:
        """Forget which chunks of waiting updates stay, once the documents are deleted; texts are then read whole."""
        self._updates.clear()

    def _stored_task(self, document: Document) -> ReadingTask:
        known = self._updates.pop(document.id, None)
        if known is not None:
            basis, noted = (
                (item.status, item.content_hash, item.title, item.track_id) for item in (document, known.document)
            )
            if basis == noted:
                return replace(known, document=document)
        return ReadingTask(document, keeps_chunks=document.status is DocumentStatus.PARTIAL)

    async def _find(self, query: DocumentQuery) -> list[str]:
        ids: list[str] = []
        while query.can_match:
            page = await self._store.records.find_documents(replace(query, offset=len(ids), limit=_PAGE))
            ids += [document.id for document in page.documents]
            if len(page.documents) < _PAGE:
                break
        return ids

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
