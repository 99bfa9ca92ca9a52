"""Takes documents in: from what a caller hands over to documents that wait, durably, to be processed.

`prepare` checks and cleans text and metadata; `Intake.identify` finds which stored document each one is, by id or by
source; `decide` says which are new, changed, unchanged or refused, and `Intake.enqueue` writes the new and the changed
as pending, a few hundred in one transaction. A document that cannot be taken in is reported, and the rest go on: what
is refused is a result, not an exception. Of documents with the same text one holds the chunks, the others name it as
their original.

A whole document (a given graph, an import) comes by `IngestPipeline.insert_whole`, which is never pending and refuses
by exceptions; both pass `Intake.admit`. Over HTTP `Jobs.check_backlog` refuses first, when too much waits.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import PurePath
from typing import Any, Literal, cast

from heliograph.documents.markdown import clean_text, find_title, replace_surrogates, too_long, with_language
from heliograph.errors import (
    ClusterUnavailable,
    ConflictError,
    HeliographError,
    IngestError,
    InvalidRequestError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    StoreError,
)
from heliograph.extraction.base import placed_extraction
from heliograph.filters import Sources
from heliograph.ids import chunk_ids, content_hash, document_id, is_storable
from heliograph.ingest.commit import Commit, Committer
from heliograph.ingest.models import DocumentResult, NewDocument, Outcome
from heliograph.ingest.reading import DocumentChange, ReadingScope, ReadingTask, StoredChunks, plan_chunks
from heliograph.models import (
    COMMITTED_STATUSES,
    DOCUMENT_DETAILS,
    KEPT_FIELDS,
    WAITING_STATUSES,
    Document,
    DocumentStatus,
    document_details,
    revised,
)
from heliograph.stores.base import DocumentQuery, RecordsStore, Store
from heliograph.stores.changeset import Changeset

_log = logging.getLogger(__name__)

# Errors that say nothing about the document at hand: the next one would meet them too.
OUTAGES = (StoreError, ModelUnavailable, ModelTimeout, RateLimited, ClusterUnavailable)


def as_failure(what: str, error: Exception) -> HeliographError:
    """Return the error of a document whose work (`what`, as the start of a sentence) raised; logs a defect's traceback.

    To be asked of no outage.
    """
    failure = error if isinstance(error, HeliographError) else IngestError.of_defect(what, error)
    if isinstance(failure, IngestError) and failure.traceback:
        _log.error("%s\n%s", failure, failure.traceback.rstrip())
    return failure


def new_documents(
    documents: str | NewDocument | Iterable[str | NewDocument],
    sources: str | Sequence[str] | None = None,
    ids: str | Sequence[str] | None = None,
    metadata: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
) -> list[NewDocument]:
    """Return one `NewDocument` per text, or ready document, in order; what belongs to one may be given by itself.

    Without sources texts have none, and a ready document keeps its own.

    Raises:
        InvalidRequestError: A list has another length than `documents`, or a document is neither text nor ready.
    """
    if not isinstance(documents, str | NewDocument | Iterable) or isinstance(documents, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidRequestError(
            f"documents must be a text, a NewDocument or a list of them, got {type(documents).__name__}: "
            f"{documents!r:.80}"
        )
    if isinstance(documents, str | NewDocument):
        documents = [documents]
        sources = [sources] if isinstance(sources, str) else sources
        ids = [ids] if isinstance(ids, str) else ids
        metadata = [metadata] if isinstance(metadata, Mapping) else metadata
    items = list(documents)
    for name, values in (("sources", sources), ("ids", ids), ("metadata", metadata)):
        if isinstance(values, str | Mapping) or (values is not None and len(values) != len(items)):
            raise InvalidRequestError(
                f"{name} must be a list of {len(items)} values, one a document; got {values!r:.80}"
            )
    found: list[NewDocument] = []
    for index, item in enumerate(cast("list[object]", items)):
        source, id_ = (values[index] if values else "" for values in (sources, ids))
        given = metadata[index] if metadata and not isinstance(metadata, Mapping) else None
        if isinstance(item, NewDocument):
            merged = given if given is not None else item.metadata
            found.append(replace(item, source=source or item.source, id=id_ or item.id, metadata=merged))
        elif isinstance(item, str):
            found.append(NewDocument(item, source or "", "", id_ or "", given))
        else:
            got = f"got {type(item).__name__}: {item!r:.80}"
            raise InvalidRequestError(f"a document must be a text or a NewDocument, {got}")
    return found


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def clean_metadata(metadata: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return metadata as JSON reads it back, without NUL, so that it compares equal with stored metadata.

    Raises:
        InvalidRequestError: It is not JSON.
    """
    try:
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
        return json.loads(_NUL.sub(r"\1", replace_surrogates(text)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"the metadata of the document {label!r} is not JSON ({error}); use strings, numbers, lists and objects"
        ) from error


# Which stored document a text or a file stands for that comes with a source and without an id.
#
# A source that names one document is its identity, whatever the document's id: what comes from there again is an
# update. A source that names several is none, as are the names that LightRAG writes where it was told no path: a text
# of such a source replaces nothing, and is known again by source and text together. A file or URL is the one document
# of its address: where others claim that address, too, it keeps the id that follows from it, and leaves theirs alone.

# What LightRAG calls the file of a text or graph that came without one.
PLACEHOLDER_SOURCES = frozenset({"unknown_source", "no-file-path", "custom_kg"})
_SOURCES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class SourceOwners:
    """The documents of one source: how many there are, and the first two by id."""

    count: int = 0
    first: tuple[Document, ...] = ()


async def find_by_source(records: RecordsStore, sources: Iterable[str]) -> dict[str, SourceOwners]:
    """Return the owners of each source that names a document; reads at most two documents of each."""
    wanted = [source for source in dict.fromkeys(sources) if source and is_storable(source)]
    found: dict[str, SourceOwners] = {}
    for start in range(0, len(wanted), _SOURCES_AT_ONCE):
        some = wanted[start : start + _SOURCES_AT_ONCE]
        page = await records.find_documents(DocumentQuery(filter=Sources(tuple(some)), sort="id", limit=2 * len(some)))
        if page.total > len(page.documents):
            for source in some:
                alone = await records.find_documents(DocumentQuery(filter=Sources((source,)), sort="id", limit=2))
                found[source] = SourceOwners(alone.total, alone.documents)
            continue
        for document in page.documents:
            known = found.get(document.source, SourceOwners())
            found[document.source] = SourceOwners(known.count + 1, (*known.first, document)[:2])
    return {source: owners for source, owners in found.items() if owners.count}


async def identify_texts(records: RecordsStore, texts: Sequence[tuple[str, str | None]]) -> list[str]:
    """Return the id of the document that each text stands for, given clean sources and texts, in order.

    None in place of a text means whatever the file or URL at the source says.
    """
    owners = await find_by_source(records, (source for source, _ in texts if source not in PLACEHOLDER_SOURCES))
    ids: list[str] = []
    for source, text in texts:
        known = owners.get(source)
        if known is not None and known.count == 1:
            ids.append(known.first[0].id)
        elif text is None or (known is None and source not in PLACEHOLDER_SOURCES):
            ids.append(document_id(source or text or ""))
        else:
            same = DocumentQuery(filter=Sources((source,)), content_hashes=(content_hash(text),), sort="id", limit=1)
            page = await records.find_documents(same)
            ids.append(page.documents[0].id if page.documents else document_id(f"{source}\n{text}"))
    return ids


async def identify_files(records: RecordsStore, sources: Sequence[str]) -> list[str]:
    """Return the id of the document that the file or URL at each source stands for, in order."""
    return await identify_texts(records, [(clean_text(source), None) for source in sources])


async def changed_document(
    records: RecordsStore, document: Document, text: str | None, metadata: Mapping[str, Any] | None, details: object
) -> NewDocument:
    """Return a stored document as it shall be handed over anew; what is None stays as it is.

    Raises:
        ConflictError: It has no text that could stay.
    """
    page_starts: tuple[int, ...] = ()
    if text is None:
        text, page_starts = await records.get_document_text(document.id), document.page_starts
    if text is None:
        raise ConflictError(f"the document {document.source!r} has no text yet; give one, or wait until it is read")
    known = document.details
    wanted = {name: known[name] if value is None else value for name, value in document_details(details).items()}
    return NewDocument(text, document.source, id=document.id, metadata=metadata, page_starts=page_starts, **wanted)


# Documents with the same text: its chunks are stored once, under one of them, and all sources are cited.
#
# The document whose id sorts first is the canonical one; its duplicates are rows with source and metadata that name it.
# When the canonical document goes, one with a smaller id comes, or it is handed over with another text, the chunks move
# to another in the same commit, with what was read in them. Only before a whole document takes the place of a canonical
# one they move in a commit of their own.

_HOLDING = (*COMMITTED_STATUSES, *WAITING_STATUSES)


def is_committed(document: Document) -> bool:
    """Whether a document's chunks are in every projection."""
    return document.status in COMMITTED_STATUSES


async def find_twins(records: RecordsStore, original: Document) -> list[Document]:
    """Return the committed twins of a document, by id; none of one that holds no chunks itself."""
    query = DocumentQuery(COMMITTED_STATUSES, twin_of=original.id, sort="id")
    return [item async for item in records.all_documents(query)] if is_committed(original) else []


async def find_original(records: RecordsStore, twin: Document) -> Document | None:
    """Return the committed document that holds the chunks of a twin's text; None if there is none any more."""
    query = DocumentQuery(COMMITTED_STATUSES, content_hashes=(twin.content_hash,), sort="id")
    found = [item async for item in records.all_documents(query) if not item.twin_of and item.id != twin.id]
    return next((item for item in found if item.id == twin.twin_of), found[0] if found else None)


async def find_originals(records: RecordsStore, hashes: Sequence[str]) -> dict[str, Document]:
    """Return, per content hash, the first document that holds or will hold its chunks."""
    originals: dict[str, Document] = {}
    if distinct := tuple(dict.fromkeys(hashes)):
        async for document in records.all_documents(DocumentQuery(_HOLDING, content_hashes=distinct)):
            if not document.twin_of:
                originals.setdefault(document.content_hash, document)
    return originals


async def promote_twin(
    records: RecordsStore,
    committer: Committer,
    original: Document,
    twins: Sequence[Document],
    left: Document | None,
    *,
    new_text: str | None = None,
    known: StoredChunks | None = None,
) -> Commit:
    """Promote a twin: move the chunks of a committed document to another one with the same text.

    Args:
        records: Read only.
        committer: Writes.
        original: Holds the chunks; as it is stored.
        twins: The promoted one, which shall hold them, and then further twins, as they are stored.
        left: What the original is from now on; None if it goes.
        new_text: What the original says from now on; None if it has no text of its own.
        known: Chunks that the promoted twin has itself, which go; None if it has none.

    Raises:
        ConflictError: Another process changed one of them meanwhile.
        ModelError: The passages of the promoted twin cannot be embedded.
        StoreError: The store failed.
    """
    chunks = await records.get_document_chunks(original.id)
    read = {item.chunk_id: item for item in await records.get_extractions([chunk.id for chunk in chunks])}
    promoted, known = twins[0], known or StoredChunks()
    ids = chunk_ids(promoted.id, [chunk.text for chunk in chunks])
    moved = [replace(chunk, id=id_, document_id=promoted.id) for chunk, id_ in zip(chunks, ids, strict=True)]
    stored = StoredChunks({**{item.id: item for item in chunks}, **known.chunks}, {**read, **known.extractions})
    fields = {"twin_of": "", "status": original.status, "error": original.error, "chunk_count": len(moved)}
    change = DocumentChange(
        basis=promoted,
        document=revised(promoted, **fields),
        plan=plan_chunks(promoted.title, moved, stored, keeps_readings=False),
        extractions=tuple(
            placed_extraction(read[chunk.id], new.id, promoted.id, new.position)
            for chunk, new in zip(chunks, moved, strict=True)
            if chunk.id in read
        ),
        texts={
            promoted.id: await records.get_document_text(original.id) or "",
            **({original.id: new_text} if new_text is not None else {}),
        },
        dropped_texts=(original.id,) if left is not None and new_text is None else (),
        others=(*((left,) if left is not None else ()), *(revised(twin, twin_of=promoted.id) for twin in twins[1:])),
        gone=() if left is not None else (original.id,),
        relied_on=(original, *twins[1:]),
        may_call_chat=left is not None,
    )
    return await committer.commit(change)


def as_twin(document: Document, original_id: str) -> Document:
    """Return a document as it is stored once another one holds the chunks of its text."""
    return revised(document, twin_of=original_id, status=DocumentStatus.PROCESSED, error="", chunk_count=0)


class WorkLocks:
    """Locks documents, by id, while a task works on them; texts, by their hash, are locked alike.

    They are taken for all documents of a call together, so that no two calls wait for each other. They keep tasks of
    this process from doing in vain what another one does; that nothing is overwritten unseen is the store's to see to,
    by `Changeset.expected_documents`.
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


_BATCH_DOCUMENTS = 500
_BATCH_CHARACTERS = 8_000_000
_MAX_DETAIL_LENGTH = 200
_MAX_NAME_LENGTH = 4_096
_MOST_TRIES = 20
# What is done about two documents with the same text.
Duplicates = Literal["cite", "report", "separate"]
# What whoever hands a document over says of it, beside its text.
_GIVEN = ("source", "metadata", *DOCUMENT_DETAILS)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that was handed over, checked.

    Attributes:
        document: As it shall be stored while it waits; its id is empty if it has none.
        is_known_by_source: Whether its id is yet to be found by its source.
        kept: Fields that were not given, in which a known document stays as it is.
    """

    document: Document
    text: str = ""
    kept: tuple[str, ...] = ()
    is_known_by_source: bool = False
    error: HeliographError | None = None
    is_repeated: bool = False
    is_recorded: bool = False


def prepare(documents: Sequence[NewDocument], max_characters: int, track_id: str) -> list[Candidate]:
    """Check and clean documents. Takes CPU time in proportion to their text."""
    candidates: list[Candidate] = []
    for new in documents:
        error = new.error
        try:
            candidates.append(
                _candidate(new, max_characters, track_id) if error is None else _refused(new, error, track_id)
            )
        except Exception as defect:  # noqa: BLE001 (a defect fails the document that meets it, not the whole call)
            error = as_failure(f"the document {new.source or new.id or 'without a name'!r}", defect)
            candidates.append(_refused(new, error, track_id))
    return candidates


@dataclass(frozen=True, slots=True)
class StoredAlready:
    """What is stored when a batch is taken in: its documents by id, and originals of its new texts by content hash."""

    known: Mapping[str, Document]
    originals: Mapping[str, Document]


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a document that was handed over.

    Attributes:
        entry: The work to do, or the result of the document.
        row: What is to be written of it; None leaves what is stored.
        stored: What is stored of it.
    """

    entry: ReadingTask | DocumentResult
    row: Document | None = None
    stored: Document | None = None


class Intake:
    """Writes candidates as pending documents."""

    def __init__(self, store: Store, committer: Committer, duplicates: Duplicates, claims: WorkLocks) -> None:
        """Keep the parts; `claims` are of documents and texts, held for moments."""
        self._store = store
        self._records = store.records
        self._committer = committer
        self._duplicates: Duplicates = duplicates
        self._claims = claims

    async def identify(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return candidates with the ids of the documents that they are, see `heliograph.ingest.intake`.

        Of several with one id the first that can be taken in counts; the others are errors, or twins if they say the
        same.

        Raises:
            StoreError: The store cannot be used.
        """
        unnamed = [item for item in candidates if item.is_known_by_source]
        texts = [(item.document.source, None if item.error else item.text) for item in unnamed]
        ids = iter(await identify_texts(self._records, texts))
        named = [
            replace(item, document=replace(item.document, id=next(ids))) if item.is_known_by_source else item
            for item in candidates
        ]
        chosen: dict[str, Candidate] = {}
        for candidate in named:
            if candidate.error is None:
                chosen.setdefault(candidate.document.id, candidate)
        return [_against(candidate, chosen.get(candidate.document.id)) for candidate in named]

    @asynccontextmanager
    async def admit(self, batch: Sequence[Candidate]) -> AsyncGenerator[StoredAlready]:
        """Hold documents for a moment and yield what is stored of them: the one gate that all come in by.

        Those that will wait come from `enqueue` and are written in here. Whole ones come from
        `IngestPipeline.insert_whole`, whose commit may take long: they let go of their texts in here, and the store
        refuses them if something changes later. What is raised here becomes a failed result of the former, document
        by document, and reaches the caller of the latter.
        """
        already = await self._find_stored(batch)
        wanted = {item.document.id for item in batch} | {item.content_hash for item in already.known.values()}
        # Whoever holds one of these may be storing it.
        is_new = not already.known and not any(map(self._claims.is_claimed, wanted))
        async with self._claims.claim(wanted):
            yield already if is_new else await self._find_stored(batch)

    async def let_go(self, stored: Document) -> Document:
        """Have a twin hold the chunks that a document holds for others, and return what the document is by then.

        To be called before it gets another text.
        """
        if not (twins := await find_twins(self._records, stored)):
            return stored
        left = as_twin(stored, twins[0].id)
        await promote_twin(self._records, self._committer, stored, twins, left)
        return left

    async def enqueue(self, candidates: Sequence[Candidate]) -> list[ReadingTask | DocumentResult]:
        """Store new and changed documents; return per candidate, in order, the work to do or its result.

        A document that is being read is replaced at once: what was read can then no longer be committed.

        Raises:
            ConflictError: Other processes kept changing one of the documents, or one with the same text.
            ModelError: A document takes the place of one with the same text, and cannot be embedded.
            StoreError: The store cannot be used; earlier batches are stored.
        """
        entries: list[ReadingTask | DocumentResult] = []
        for batch in _batches(candidates):
            entries += await self._enqueue_apart(batch)
        return entries

    async def _enqueue_apart(
        self, batch: Sequence[Candidate], tries: int = _MOST_TRIES
    ) -> list[ReadingTask | DocumentResult]:
        """Store a batch in one transaction; if one of it cannot be stored, each in its own, so that it fails alone.

        One that was committed, or handed over by another process, since it was looked for is looked for again.
        """
        try:
            async with self.admit(batch) as already:
                return await self._enqueue(batch, already)
        except OUTAGES:
            raise
        except Exception as error:
            if len(batch) > 1:
                return [entry for candidate in batch for entry in await self._enqueue_apart([candidate])]
            if isinstance(error, ConflictError):
                if tries > 1:
                    return await self._enqueue_apart(batch, tries - 1)
                raise
            document = batch[0].document
            failure = as_failure(f"the document {document.source!r}", error)
            return [DocumentResult(document.id, document.source, Outcome.FAILED, failure)]

    async def _find_stored(self, batch: Sequence[Candidate]) -> StoredAlready:
        """Find which documents of a batch are stored, and who has the texts of the new and the changed ones."""

        async def find() -> StoredAlready:
            ids = list({candidate.document.id: None for candidate in batch if candidate.document.id})
            known = {document.id: document for document in await self._records.get_documents(ids)}
            if self._duplicates == "separate":
                return StoredAlready(known, {})
            changed = [
                document.content_hash
                for candidate in batch
                if (document := candidate.document).content_hash
                and ((stored := known.get(document.id)) is None or stored.content_hash != document.content_hash)
            ]
            return StoredAlready(known, await find_originals(self._records, changed))

        return await self._store.read_written(find)

    async def _enqueue(self, batch: Sequence[Candidate], already: StoredAlready) -> list[ReadingTask | DocumentResult]:
        """Decide and store; one that lets go of a text that it holds for twins is stored once what comes before is.

        No twin that waits from then on may be promoted.
        """
        entries: list[ReadingTask | DocumentResult] = []
        while batch:
            ready: list[Decision] = []
            holder: Decision | None = None
            for candidate, decision in zip(batch, decide(batch, already, self._duplicates), strict=True):
                ready.append(await self._with_new_language(candidate, decision))
                stored = decision.stored if isinstance(decision.entry, ReadingTask) else None
                if stored is not None and await find_twins(self._records, stored):
                    holder = ready.pop()
                    break
            await self._write(ready)
            if holder is not None:
                ready.append(await self._write_letting_go(holder))
            entries += (decision.entry for decision in ready)
            if batch := batch[len(ready) :]:
                already = await self._find_stored(batch)
        return entries

    async def _write_letting_go(self, decision: Decision) -> Decision:
        """Write what was decided on a document that holds chunks for twins, and have one of them hold these."""
        row, entry, stored = decision.row, decision.entry, decision.stored
        twins = await find_twins(self._records, stored) if stored is not None else []
        if stored is None or row is None or not isinstance(entry, ReadingTask) or not twins:
            await self._write([decision])
            return decision
        row = replace(row, chunk_count=0)
        await promote_twin(self._records, self._committer, stored, twins, row, new_text=entry.text or "")
        return replace(decision, row=row, entry=replace(entry, document=row))

    async def _write(self, decisions: Sequence[Decision]) -> None:
        """Write what was decided, in one transaction."""
        rows: dict[str, Document] = {}
        texts: dict[str, str] = {}
        expected: dict[str, Document | None] = {}
        for decision in decisions:
            if (row := decision.row) is not None:
                rows[row.id], expected[row.id] = row, decision.stored
                if isinstance(decision.entry, ReadingTask):
                    texts[row.id] = decision.entry.text or ""
        if rows:
            documents = tuple(rows.values())
            await self._committer.apply(
                Changeset(documents=documents, document_texts=texts, expected_documents=expected)
            )

    async def _with_new_language(self, candidate: Candidate, decision: Decision) -> Decision:
        """Return a decision whose kept metadata name the language of the new text, unless somebody stated another."""
        row, entry, stored = decision.row, decision.entry, decision.stored
        if row is None or stored is None or not isinstance(entry, ReadingTask) or "metadata" not in candidate.kept:
            return decision
        kept, language = stored.metadata, candidate.document.metadata["language"]
        if row.content_hash == stored.content_hash or kept.get("language") == language:
            return decision
        if "language" in kept:
            text = await self._records.get_document_text(row.id)
            if text is None or with_language({}, text) != {"language": kept["language"]}:
                return decision
        row = replace(row, metadata={**kept, "language": language})
        return replace(decision, row=row, entry=replace(entry, document=row))


def _candidate(new: NewDocument, max_characters: int, track_id: str) -> Candidate:
    name, source = checked_name(new.id, "id"), checked_name(new.source, "source")
    details: dict[str, Any] = {}
    for field, value in document_details(new).items():
        if value is None and field != "title":
            continue
        if not isinstance(value, str):
            raise InvalidRequestError(f"the {field} of a document must be a string, got {value!r:.80}")
        details[field] = " ".join(clean_text(value).split())[:_MAX_DETAIL_LENGTH]
    label = new.source or new.id or "without a name"
    if not isinstance(new.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidRequestError(f"the text of the document {label!r} must be a string, got {type(new.text).__name__}")
    if len(new.text) > max_characters:
        raise too_long(label, max_characters, len(new.text))
    text, page_starts = clean_pages(new.text, new.page_starts, label)
    if not text or text.isspace():
        raise IngestError(f"the document {label!r} is empty; give it a text")
    id_ = name or document_id(source or text)
    details["title"] = details["title"] or find_title(text) or PurePath(source).stem[:_MAX_DETAIL_LENGTH]
    metadata = None if new.metadata is None else clean_metadata(new.metadata, source or id_)
    document = Document(
        id=id_,
        source=source or id_,
        content_hash=content_hash(text),
        metadata=with_language(metadata or {}, text),
        length=len(text),
        track_id=track_id,
        page_starts=page_starts,
        **details,
    )
    given = {"source": source or None, "metadata": metadata, **details}
    kept = tuple(field for field in _GIVEN if given.get(field) is None)
    return Candidate(document, text, kept, is_known_by_source=bool(source) and not name)


def _refused(new: NewDocument, error: HeliographError, track_id: str) -> Candidate:
    id_ = clean_text(new.id) if isinstance(new.id, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
    source = clean_text(new.source) if isinstance(new.source, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
    is_recorded = bool(id_ or source) and len(id_ + source) <= _MAX_NAME_LENGTH
    metadata: dict[str, Any] = {}
    with suppress(InvalidRequestError):
        metadata = clean_metadata(new.metadata or {}, new.source)
    document = Document(
        id=id_ or (document_id(source) if source else ""),
        source=source or id_,
        title=PurePath(source).stem[:_MAX_DETAIL_LENGTH],
        status=DocumentStatus.FAILED,
        error=str(error),
        metadata=metadata,
        track_id=track_id,
    )
    return Candidate(document, is_known_by_source=bool(source) and not id_, error=error, is_recorded=is_recorded)


def _against(candidate: Candidate, chosen: Candidate | None) -> Candidate:
    """Settle what happens to a candidate whose id another one of the same call may have."""
    if candidate is chosen:
        return candidate
    if candidate.error is not None:
        # A failure must not be stored over the document of the same name that goes in.
        return candidate if chosen is None else replace(candidate, is_recorded=False)
    if chosen is None or candidate.document.content_hash == chosen.document.content_hash:
        return replace(candidate, is_repeated=True)
    error = InvalidRequestError(
        f"two documents of this call have the id {candidate.document.id!r} (source {candidate.document.source!r}) and "
        "different texts; the first was taken, give the other its own id or source"
    )
    return replace(candidate, error=error)


def decide(batch: Sequence[Candidate], already: StoredAlready, duplicates: Duplicates) -> list[Decision]:
    """Return what becomes of candidates, in order; reads and writes nothing.

    Each is new, changed, unchanged, refused or, where another document has its text, stored or among those before it,
    a twin of that one.
    """
    originals = dict(already.originals)
    decisions: list[Decision] = []
    for candidate in batch:
        stored = already.known.get(candidate.document.id)
        row, entry = _compare(candidate, stored)
        if duplicates != "separate" and row is not None and isinstance(entry, ReadingTask):
            if stored is not None and originals.get(stored.content_hash) == stored:
                # It lets go of its text, which one behind it may have for itself.
                del originals[stored.content_hash]
            original = originals.setdefault(row.content_hash, row)
            if original.id != row.id and duplicates == "report" and stored is None:
                detail = f"{original.source!r} ({original.id}) has the same text; it is not stored again"
                row, entry = None, DocumentResult(row.id, row.source, Outcome.DUPLICATE, detail=detail)
            elif original.id != row.id:
                row = replace(row, twin_of=original.id)
                entry = replace(entry, document=row)
        decisions.append(Decision(entry, row, stored))
    return decisions


def _compare(candidate: Candidate, stored: Document | None) -> tuple[Document | None, ReadingTask | DocumentResult]:
    """Return the row to write, if any, and the work to do or the result of the document."""
    document = candidate.document
    if candidate.error is not None:
        # Over what failed as well, without a text, it is recorded: what it says now is why.
        hides_nothing = stored is None or (stored.status is DocumentStatus.FAILED and not stored.length)
        moments = {"created_at": stored.created_at, "updated_at": revised(stored).updated_at} if stored else {}
        row = replace(document, **moments)
        result = DocumentResult(document.id, document.source, Outcome.FAILED, candidate.error)
        return row if candidate.is_recorded and hides_nothing else None, result
    if candidate.is_repeated:
        return None, DocumentResult(document.id, document.source, Outcome.UNCHANGED)
    if stored is None:
        return document, ReadingTask(document, candidate.text)
    # What is not given stays.
    kept = {field: getattr(stored, field) for field in (*candidate.kept, *KEPT_FIELDS)}
    document = replace(document, updated_at=revised(stored).updated_at, **kept)
    given = {field: getattr(document, field) for field in _GIVEN}
    has_same_given = all(getattr(stored, field) == value for field, value in given.items())
    is_same_title = stored.title == document.title
    is_committed = stored.status in COMMITTED_STATUSES
    is_same_text = (stored.content_hash, stored.page_starts) == (document.content_hash, document.page_starts)
    if is_committed and is_same_title and is_same_text:
        result = DocumentResult(stored.id, document.source, Outcome.UNCHANGED, chunk_count=stored.chunk_count)
        return None if has_same_given else revised(stored, **given), result
    if stored.status in WAITING_STATUSES and has_same_given and is_same_text:
        return None, ReadingTask(stored, candidate.text, is_known=stored.track_id != document.track_id)
    scope = ReadingScope.CHANGES if is_committed and is_same_title else ReadingScope.WHOLE
    return document, ReadingTask(document, candidate.text, scope, all_read=stored.status is DocumentStatus.PROCESSED)


def checked_name(name: str, what: str) -> str:
    """Return the clean id or source (`what`) of a document; raises `InvalidRequestError` if it cannot be one."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidRequestError(f"the {what} of a document must be a string, got {name!r:.80}")
    if len(name) > _MAX_NAME_LENGTH:
        raise InvalidRequestError(
            f"the {what} {name[:40]!r}... has {len(name)} characters; give one of at most {_MAX_NAME_LENGTH}"
        )
    return clean_text(name)


def _batches(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    batch: list[Candidate] = []
    characters = 0
    for candidate in candidates:
        if batch and (len(batch) >= _BATCH_DOCUMENTS or characters + len(candidate.text) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(candidate)
        characters += len(candidate.text)
    if batch:
        yield batch


# Where the pages of a document start in its text, from what a caller hands over to what is stored.
#
# Offsets go in as given, with the text as it came; out come clean text and offsets into it. Page `n` starts at the
# offset with index `n - 1`; offsets never go down, and a page without text starts where the next one does.


def clean_pages(text: str, page_starts: Sequence[int], label: str) -> tuple[str, tuple[int, ...]]:
    """Return the clean text, the same as without pages, and where each page starts in it.

    `page_starts` are offsets into the text as given, never going down; there may be none.

    Raises:
        InvalidRequestError: The offsets are not like that.
    """
    if not page_starts:
        return clean_text(text), ()
    is_number = all(isinstance(start, int) for start in page_starts)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_number or not all(low <= high for low, high in pairwise((0, *page_starts, len(text)))):
        raise InvalidRequestError(
            f"the page_starts of the document {label!r} are not ascending offsets into its {len(text):,} characters; "
            "give the offset at which each page starts, in order"
        )
    cuts = [0]
    for start in page_starts:
        # A cut goes behind two characters that are cleaned as one: CR LF, or a pair of surrogates.
        before, after = text[max(0, start - 1) : start], text[start : start + 1]
        is_surrogate_pair = "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"
        cuts.append(start + 1 if (before, after) == ("\r", "\n") or is_surrogate_pair else start)
    pieces = [clean_text(text[start:end]) for start, end in pairwise((*cuts, len(text)))]
    return "".join(pieces), tuple(accumulate(len(piece) for piece in pieces[:-1]))
