"""Reading whole documents from a workspace and importing them, and archives: all its contents as JSON lines.

The first line names the version; then each document comes with its text, chunks and extractions, then the
curations, then the cached replies of chat models. `export_archive` writes one, `import_archive` imports one:
documents in any order, curations in theirs, replies only if their subject is in the workspace.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from heliograph._version import __version__
from heliograph.calls.tasks import gather_or_cancel
from heliograph.curation.curator import Curator
from heliograph.documents.markdown import clean_text
from heliograph.errors import ConflictError, InvalidRequestError
from heliograph.extraction.base import canonical_extraction, placed_extraction
from heliograph.ids import chunk_ids, content_hash
from heliograph.ingest.intake import find_original, is_committed
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.models import WAITING_STATUSES, Chunk, Curation, Document, DocumentStatus, Entity, Extraction, Relation
from heliograph.observing import TellCount
from heliograph.stores.base import ANSWERS, CachedReply, ScanKind, Store

# Reading all contents of a workspace, a page at a time, in the order of ids; every export uses it.

_PAGE = 500


@dataclass(frozen=True, slots=True)
class WholeDocument:
    """A document with its text (None if none is kept), its chunks in order, and the extraction of each."""

    document: Document
    text: str | None
    chunks: tuple[Chunk, ...]
    extractions: tuple[Extraction, ...]


class Contents:
    """The contents of a workspace; memory holds one page, or one document.

    Every document is read at one moment; commits made meanwhile may or may not be included.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def dimension(self) -> int:
        """Length of the vectors; 0 where the store does not know it."""
        return self.store.embedding[1] if self.store.embedding else 0

    async def documents(self) -> AsyncIterator[WholeDocument]:
        """Yield all documents, including failed and pending ones."""
        async for ids in self.store.inspection.pages(ScanKind.DOCUMENTS, _PAGE):
            for id_ in ids:
                whole = await self._whole(id_)
                if whole is not None:
                    yield whole

    async def entities(self) -> AsyncIterator[Entity]:
        """Yield all entities."""
        async for ids in self.store.inspection.pages(ScanKind.ENTITIES, _PAGE):
            for entity in await self.store.graph.get_entities(ids):
                yield entity

    async def relations(self) -> AsyncIterator[Relation]:
        """Yield all relations."""
        async for ids in self.store.inspection.pages(ScanKind.RELATIONS, _PAGE):
            for relation in await self.store.graph.name_ends(await self.store.graph.get_relations(ids)):
                yield relation

    async def sources(self, chunk_ids: tuple[str, ...]) -> list[str]:
        """Return the distinct sources of some chunks' documents."""
        found = await self.store.records.get_sources(chunk_ids)
        return list(dict.fromkeys(found[id_] for id_ in chunk_ids if id_ in found))

    async def relations_of(self, entity_id: str) -> list[Relation]:
        """Return the relations of an entity, best ranked first."""
        ranked = await self.store.graph.rank_incident_relations([entity_id])
        return await self.store.graph.name_ends(await self.store.graph.get_relations([item.id for item in ranked]))

    async def _whole(self, id_: str) -> WholeDocument | None:
        """Return a document as of one moment; None if it was deleted."""
        records = self.store.records
        while found := await records.get_documents([id_]):
            text = await records.get_document_text(id_)
            chunks = await records.get_document_chunks(id_)
            extractions = await records.get_extractions([chunk.id for chunk in chunks])
            if await records.get_documents([id_]) == found:
                return WholeDocument(found[0], text, tuple(chunks), tuple(extractions))
        return None


# The report of an import: imported, repaired and omitted items, and why. No loss is silent.

_MAX_EXAMPLES = 5


class ExportFormat(StrEnum):
    """The formats of an export.

    `jsonl` holds everything, `lightrag` is a folder that LightRAG opens; both can be imported again. The others are for
    reading.
    """

    JSONL = "jsonl"
    CSV = "csv"
    GRAPHML = "graphml"
    MARKDOWN = "markdown"
    OBSIDIAN = "obsidian"
    LIGHTRAG = "lightrag"


class ImportKind(StrEnum):
    """The kind of source that is imported."""

    ARCHIVE = "archive"
    LIGHTRAG = "lightrag"
    GRAPHRAG = "graphrag"


class NoteKind(StrEnum):
    """What an import did with an item that it could not take over unchanged."""

    REPAIRED = "repaired"
    LEFT_OUT = "left out"
    KNOWN = "known before"
    REMARK = "remark"


@dataclass(frozen=True, slots=True)
class ImportNote:
    """A change that an import made, and how often."""

    kind: NoteKind
    text: str
    count: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceGraph:
    """Distinct entities and relations of an imported graph after repair, and the sum of the relations' weights."""

    entities: int = 0
    relations: int = 0
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The report of an import.

    Attributes:
        path: Where it was imported from; several places are separated by a space.
        updated: Documents that replaced others of the same id.
        unchanged: Documents that existed already with the same text, and were left alone.
        failed: Documents that could not be imported; the notes say why.
        graph: Entities and relations of an imported graph; zeros for an archive, which holds none of its own.
    """

    kind: ImportKind
    path: str
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: int = 0
    chunks: int = 0
    curations: int = 0
    graph: SourceGraph = field(default_factory=SourceGraph)
    notes: tuple[ImportNote, ...] = ()
    replies: int = 0

    @property
    def documents(self) -> int:
        """The number of all documents processed."""
        return self.added + self.updated + self.unchanged + self.failed


class NoteList:
    """Collects notes: equal notes are merged and counted."""

    def __init__(self) -> None:
        self._notes: dict[tuple[NoteKind, str], ImportNote] = {}

    def add(self, kind: NoteKind, text: str, example: str = "", count: int = 1) -> None:
        """Add a note; an empty example shows none, a count of 0 adds nothing at all."""
        if not count:
            return
        known = self._notes.get((kind, text)) or ImportNote(kind, text, 0)
        examples = (*known.examples, example) if example and len(known.examples) < _MAX_EXAMPLES else known.examples
        self._notes[kind, text] = replace(known, count=known.count + count, examples=examples)

    def notes(self) -> tuple[ImportNote, ...]:
        """Return all notes, by kind, in the order in which each first came up."""
        order = list(NoteKind)
        return tuple(sorted(self._notes.values(), key=lambda note: order.index(note.kind)))


# Importing one whole document: text, chunks and extractions as they are given, vectors computed again.
#
# The input is checked against what the store relies on (ids are derived from texts, chunks are parts of the text,
# extractions are of these chunks), since it may be damaged or made by hand. A document that exists with the same text
# is left alone, so that an interrupted import continues where it stopped.

_UNREAD = "import"


class Taken(StrEnum):
    """The outcome of importing a document."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class WholeDocumentIntake:
    """Imports whole documents into one workspace; may be called from many tasks at once."""

    def __init__(self, store: Store, pipeline: IngestPipeline) -> None:
        self.records = store.records
        self._pipeline = pipeline
        # Embeds imported documents.
        self.committer = pipeline.committer

    async def take(self, whole: WholeDocument) -> Taken:
        """Import a document in one commit; no chat model is called.

        Raises:
            ConflictError: Another process changed the document meanwhile.
            InvalidRequestError: It is damaged, or the original whose text it shares is missing; nothing was written.
            ModelError: It cannot be embedded; nothing was written.
            StoreError: The store cannot be used; nothing was written.
        """
        found = await self.records.get_documents([whole.document.id])
        if found:
            is_finished, is_given_finished = is_committed(found[0]), is_committed(whole.document)
            # The stored document stays if it has the same text, or is finished while the imported one is not.
            has_same_text = found[0].content_hash == whole.document.content_hash
            if is_finished or not is_given_finished if has_same_text else is_finished and not is_given_finished:
                return Taken.UNCHANGED
        document = await self._checked_document(whole)
        # One canonical extraction per chunk, whose mentions are resolved by the rules of this workspace.
        given = {item.chunk_id: item for item in whole.extractions}
        strange = given.keys() - {chunk.id for chunk in whole.chunks}
        if strange or len(given) != len(whole.extractions):
            raise InvalidRequestError(
                f"the document {whole.document.id!r} has readings of chunks that it does not have, or two of one; "
                "the import is damaged"
            )
        extractions = [
            canonical_extraction(
                placed_extraction(
                    given.get(chunk.id) or Extraction(chunk.id, _UNREAD), chunk.id, whole.document.id, chunk.position
                )
            )
            for chunk in whole.chunks
        ]
        text = None if document.twin_of else whole.text
        await self._pipeline.insert_whole(document, text, whole.chunks, extractions, may_call_chat=False)
        return Taken.UPDATED if found else Taken.ADDED

    async def _checked_document(self, whole: WholeDocument) -> Document:
        document, label = whole.document, f"the document {whole.document.id!r}"
        if not document.id or clean_text(document.id) != document.id:
            raise InvalidRequestError(f"{label} has no usable id; the import is damaged")
        status = DocumentStatus.PENDING if document.status in WAITING_STATUSES else document.status
        document = replace(document, status=status, chunk_count=len(whole.chunks))
        if document.twin_of:
            original = await find_original(self.records, document)
            if original is None or whole.chunks:
                raise InvalidRequestError(
                    f"{label} has the text of {document.twin_of!r}, which is not here; import that one as well"
                )
            return replace(document, twin_of=original.id)
        if whole.text is None:
            if document.status is not DocumentStatus.FAILED:
                raise InvalidRequestError(f"{label} has no text; the import is damaged")
        elif clean_text(whole.text) != whole.text or content_hash(whole.text) != document.content_hash:
            raise InvalidRequestError(f"{label} does not have the text that its hash is of; the import is damaged")
        # The chunks of a waiting document still belong to its previous text.
        text = whole.text if is_committed(document) else None
        ids = chunk_ids(document.id, [chunk.text for chunk in whole.chunks])
        for position, (chunk, id_) in enumerate(zip(whole.chunks, ids, strict=True)):
            is_own = (chunk.id, chunk.document_id, chunk.position) == (id_, document.id, position)
            if not is_own or (text is not None and text[chunk.start : chunk.end] != chunk.text):
                raise InvalidRequestError(
                    f"the chunk {chunk.id!r} of {label} does not fit its text; the import is damaged"
                )
        if is_committed(document) and not whole.chunks:
            raise InvalidRequestError(f"{label} has no chunks; the import is damaged")
        return document


# Importing many whole documents, several at a time, and counting the outcomes.

_AT_ONCE = 8
_REMARKS = {
    DocumentStatus.PENDING: "documents that wait to be read; run resume",
    DocumentStatus.PARTIAL: "documents that were not read to the end; run retry",
}


class DocumentImport:
    """The documents of one import; memory holds those in progress.

    Notes record what could not be imported, and why; progress reports how many are done, and for large ones how many
    texts were embedded.
    """

    def __init__(self, intake: WholeDocumentIntake, notes: NoteList, progress: TellCount) -> None:
        self._intake = intake
        self._notes = notes
        self._progress = progress
        self._counts: Counter[Taken | None] = Counter()
        self._chunks = 0
        self._embedded = 0
        self._waiting: list[WholeDocument] = []

    async def add(self, whole: WholeDocument) -> None:
        """Import a document, at the latest when `finish` is called.

        Raises:
            ModelError: It cannot be embedded; finished documents stay.
            StoreError: The store cannot be used; finished documents stay.
        """
        self._waiting.append(whole)
        if len(self._waiting) >= _AT_ONCE:
            await self.finish()

    async def finish(self) -> None:
        """Import the documents added so far; raises as `add`."""
        waiting, self._waiting = self._waiting, []

        def tell(count: int) -> None:
            self._embedded += count
            self._progress("texts embedded", self._embedded)

        with self._intake.committer.telling(tell):
            await gather_or_cancel(self._take(whole) for whole in waiting)

    @property
    def has_changes(self) -> bool:
        """Whether any document was added or updated."""
        return bool(self._counts[Taken.ADDED] or self._counts[Taken.UPDATED])

    def report(
        self, kind: ImportKind, path: Path | str, *, curations: int = 0, graph: SourceGraph | None = None
    ) -> ImportReport:
        """Return the counts of the import."""
        report = ImportReport(
            *(kind, str(path), self._counts[Taken.ADDED], self._counts[Taken.UPDATED], self._counts[Taken.UNCHANGED]),
            *(self._counts[None], self._chunks, curations),
            notes=self._notes.notes(),
        )
        return report if graph is None else replace(report, graph=graph)

    async def _take(self, whole: WholeDocument) -> None:
        document = whole.document
        try:
            taken = await self._intake.take(whole)
        except (ConflictError, InvalidRequestError) as error:
            self._counts[None] += 1
            self._notes.add(NoteKind.LEFT_OUT, str(error), document.source)
        else:
            self._counts[taken] += 1
            if taken is not Taken.UNCHANGED:
                self._chunks += len(whole.chunks)
                if (remark := _REMARKS.get(document.status)) is not None:
                    self._notes.add(NoteKind.REMARK, remark, document.source)
        self._progress("documents", self._counts.total())


ARCHIVE_VERSION = 2
_READABLE = range(1, ARCHIVE_VERSION + 1)

# Created on first use: the engine imports this module, and seldom reads or writes an archive.
_adapter = cache(TypeAdapter[Any])
_HEAD_LENGTH = 200
_ESCAPED_SURROGATE = "\\ud"

ArchiveEntry = WholeDocument | Curation | CachedReply


async def export_archive(contents: Contents, path: Path) -> int:
    """Write all stored truth into a new file; return how many documents there are."""
    count = 0
    # A lone surrogate, which UTF-8 cannot encode, becomes an escape that JSON reads back.
    with path.open("x", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(_line("archive", {"version": ARCHIVE_VERSION, "made_by": f"heliograph {__version__}"}))
        async for whole in contents.documents():
            # A twin's text is that of its original, which is exported with it.
            text = None if whole.document.twin_of else whole.text
            file.write(_line("document", _adapter(Document).dump_python(whole.document, mode="json") | {"text": text}))
            for chunk in whole.chunks:
                file.write(_line("chunk", _adapter(Chunk).dump_python(chunk, mode="json")))
            for extraction in whole.extractions:
                file.write(_line("extraction", _adapter(Extraction).dump_python(extraction, mode="json")))
            count += 1
        async for curations in contents.store.curations.pages(_PAGE):
            file.writelines(_line("curation", _adapter(Curation).dump_python(item, mode="json")) for item in curations)
        async for replies in contents.store.replies.lasting_pages(_PAGE):
            file.writelines(_line("reply", _adapter(CachedReply).dump_python(item, mode="json")) for item in replies)
    return count


def is_archive(path: Path) -> bool:
    """Whether a file begins as an archive does; raises `OSError` if it cannot be read."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_HEAD_LENGTH).startswith('{"archive":')


def read_archive(path: Path) -> Iterator[ArchiveEntry]:
    """Yield whole documents, then curations, then replies; memory holds one document.

    Raises:
        InvalidRequestError: It is not an archive, has a newer version, or has an invalid line; says which line.
    """
    # The document whose lines are being read, if any.
    document: WholeDocument | None = None
    chunks: list[Chunk] = []
    extractions: list[Extraction] = []
    number = 1
    try:
        for number, kind, fields in _lines(path):
            if kind == "chunk" and document:
                chunks.append(_adapter(Chunk).validate_python(fields))
            elif kind == "extraction" and document:
                extractions.append(_adapter(Extraction).validate_python(fields))
            elif kind in ("document", "curation", "reply"):
                if document:
                    yield replace(document, chunks=tuple(chunks), extractions=tuple(extractions))
                document, chunks, extractions = None, [], []
                if kind == "document":
                    text = fields.pop("text", None)
                    read = _adapter(Document).validate_python(fields)
                    document = WholeDocument(read, text if text is None else str(text), (), ())
                else:
                    yield _adapter(Curation if kind == "curation" else CachedReply).validate_python(fields)
            else:
                raise InvalidRequestError(f"line {number} of {str(path)!r} holds a {kind!r} where none can stand")
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise InvalidRequestError(
            f"line {number} of {str(path)!r} is damaged: {error.title} {place}: {problem['msg']}; export it anew"
        ) from None
    if document:
        yield replace(document, chunks=tuple(chunks), extractions=tuple(extractions))


def _lines(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                kind, fields = _parse(path, number, line)
                if number > 1:
                    yield number, kind, fields
                elif kind != "archive":
                    raise InvalidRequestError(f"{str(path)!r} is not an archive that 'heliograph export' wrote")
                elif fields.get("version") not in _READABLE:
                    raise InvalidRequestError(
                        f"{str(path)!r} has version {fields.get('version')!r}, this Heliograph reads up to "
                        f"{ARCHIVE_VERSION}; upgrade it"
                    )
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{str(path)!r} is not an archive: it is no text ({error.reason})") from error
    except OSError as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read ({error.strerror or error}); check it") from error


def _parse(path: Path, number: int, line: str) -> tuple[str, dict[str, Any]]:
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"line {number} of {str(path)!r} is not JSON ({error}); the file is damaged or cut short, export it anew"
        ) from None
    if _ESCAPED_SURROGATE in line:
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InvalidRequestError(
                f"line {number} of {str(path)!r} holds half a character; export it anew"
            ) from None
    if isinstance(found, dict) and len(cast("dict[str, object]", found)) == 1:
        ((kind, fields),) = cast("dict[str, object]", found).items()
        if isinstance(fields, dict):
            return kind, cast("dict[str, Any]", fields)
    raise InvalidRequestError(f"line {number} of {str(path)!r} is no line of an archive")


def _line(kind: str, fields: dict[str, Any]) -> str:
    return json.dumps({kind: fields}, ensure_ascii=False) + "\n"


# Documents are imported several at a time and in any order, since the graph does not depend on it; twins come last.
# Curations are added in their order where none of the same id exists.
#
# Cached replies are added, so that paid calls are not repeated here. A reply needs the chunk, entity or relation that
# it is about: if that is missing, no deletion would ever remove the reply, so it is left out. Answers are left out too,
# since they hold for one state of one workspace.


async def import_archive(
    store: Store, intake: WholeDocumentIntake, curator: Curator, path: Path, progress: TellCount
) -> ImportReport:
    """Import an archive; see `import_places`."""
    notes = NoteList()
    documents = DocumentImport(intake, notes, progress)
    twins, curations, replies = list[WholeDocument](), list[Curation](), list[CachedReply]()
    added_curations = added_replies = 0

    async def settle() -> int:
        """Import everything that replies may be about; return how many curations were added."""
        for twin in twins:
            await documents.add(twin)
        await documents.finish()
        added = 0
        for start in range(0, len(curations), _PAGE):
            page = curations[start : start + _PAGE]
            known = {item.id for item in await store.curations.get_curations([item.id for item in page])}
            notes.add(NoteKind.KNOWN, "curations that are here already", count=len(known))
            new = [item for item in page if item.id not in known]
            await curator.replay(new)
            added += len(new)
            progress("curations", added)
        return added

    is_settled = False
    try:
        async for entry in _entries(path):
            if isinstance(entry, CachedReply):
                if not is_settled:
                    added_curations, is_settled = await settle(), True
                replies.append(entry)
                if len(replies) == _PAGE:
                    added_replies += await _add_page(store, replies, notes)
                    progress("replies", added_replies)
                    replies = []
            elif is_settled:
                raise InvalidRequestError("the archive goes on after its replies, which end it; export it anew")
            elif isinstance(entry, Curation):
                curations.append(entry)
            elif entry.document.twin_of:
                twins.append(entry)
            else:
                await documents.add(entry)
    finally:
        # Import what precedes a broken line.
        await documents.finish()
    if not is_settled:
        added_curations = await settle()
    if replies:
        added_replies += await _add_page(store, replies, notes)
        progress("replies", added_replies)
    return replace(documents.report(ImportKind.ARCHIVE, path, curations=added_curations), replies=added_replies)


async def _add_page(store: Store, page: Sequence[CachedReply], notes: NoteList) -> int:
    distinct = list(dict.fromkeys(reply.subject_id for reply in page if reply.subject_id))
    found = {chunk.id for chunk in await store.records.get_chunks(distinct)}
    found |= {entity.id for entity in await store.graph.get_entities(distinct)}
    here = found | {relation.id for relation in await store.graph.get_relations(distinct)}
    added = 0
    for reply in page:
        if reply.cache_type == ANSWERS or (reply.subject_id and reply.subject_id not in here):
            notes.add(NoteKind.LEFT_OUT, "kept replies about what is not here", reply.subject_id)
        elif await store.replies.get_reply(reply.key) is not None:
            notes.add(NoteKind.KNOWN, "kept replies that are here already")
        else:
            await store.replies.put_reply(reply)
            added += 1
    return added


async def _entries(path: Path) -> AsyncIterator[ArchiveEntry]:
    """Read an archive outside the event loop, an entry at a time."""
    entries = read_archive(path)
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        yield entry
