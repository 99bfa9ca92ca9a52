"""Archives: everything that a workspace was told as JSON lines, so that another workspace can be made from it.

The first line names the version; then each document comes with its text, chunks and extractions, then the
curations, then the kept replies of chat models. `export_archive` writes one, `import_archive` takes one in:
documents in any order, curations in theirs, replies only where what they are about is here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from heliograph._version import __version__
from heliograph.curation.curator import Curator
from heliograph.errors import InvalidRequestError
from heliograph.maintenance.whole_documents import (
    Contents,
    DocumentImport,
    ImportKind,
    ImportProgress,
    ImportReport,
    NoteKind,
    NoteList,
    WholeDocument,
    WholeDocumentIntake,
)
from heliograph.models import Chunk, Curation, Document, Extraction
from heliograph.stores.base import CachedReply, Store

ARCHIVE_VERSION = 2
_READABLE = range(1, ARCHIVE_VERSION + 1)

_DOCUMENT = TypeAdapter(Document)
_CHUNK = TypeAdapter(Chunk)
_EXTRACTION = TypeAdapter(Extraction)
_CURATION = TypeAdapter(Curation)
_REPLY = TypeAdapter(CachedReply)
_HEAD_LENGTH = 200
_ESCAPED_SURROGATE = "\\ud"

ArchiveEntry = WholeDocument | Curation | CachedReply


async def export_archive(contents: Contents, path: Path) -> int:
    """Write everything that was said into a new file; return how many documents there are."""
    count = 0
    # Half a character, which UTF-8 has no place for, becomes an escape that JSON reads back.
    with path.open("x", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(_line("archive", {"version": ARCHIVE_VERSION, "made_by": f"heliograph {__version__}"}))
        async for whole in contents.documents():
            # A twin's text is that of its original, which has it.
            text = None if whole.document.twin_of else whole.text
            file.write(_line("document", _DOCUMENT.dump_python(whole.document, mode="json") | {"text": text}))
            for chunk in whole.chunks:
                file.write(_line("chunk", _CHUNK.dump_python(chunk, mode="json")))
            for extraction in whole.extractions:
                file.write(_line("extraction", _EXTRACTION.dump_python(extraction, mode="json")))
            count += 1
        async for curation in contents.curations():
            file.write(_line("curation", _CURATION.dump_python(curation, mode="json")))
        async for reply in contents.replies():
            file.write(_line("reply", _REPLY.dump_python(reply, mode="json")))
    return count


def is_archive(path: Path) -> bool:
    """Whether a file begins as an archive does.

    Raises:
        OSError: It cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_HEAD_LENGTH).startswith('{"archive":')


@dataclass(slots=True)
class _Open:
    """A document whose lines are being read."""

    document: Document
    text: str | None
    chunks: list[Chunk]
    extractions: list[Extraction]

    def close(self) -> WholeDocument:
        return WholeDocument(self.document, self.text, tuple(self.chunks), tuple(self.extractions))


def read_archive(path: Path) -> Iterator[ArchiveEntry]:
    """Yield whole documents, then curations, then replies; memory holds one document.

    Raises:
        InvalidRequestError: It is no archive, of a newer form, or a line is not what it should be; says which line.
    """
    document: _Open | None = None
    number = 1
    try:
        for number, kind, fields in _lines(path):
            if kind == "chunk" and document:
                document.chunks.append(_CHUNK.validate_python(fields))
            elif kind == "extraction" and document:
                document.extractions.append(_EXTRACTION.validate_python(fields))
            elif kind in ("document", "curation", "reply"):
                if document:
                    yield document.close()
                document = _opened(fields) if kind == "document" else None
                if kind != "document":
                    yield (_CURATION if kind == "curation" else _REPLY).validate_python(fields)
            else:
                raise InvalidRequestError(f"line {number} of {str(path)!r} holds a {kind!r} where none can stand")
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise InvalidRequestError(
            f"line {number} of {str(path)!r} is damaged: {error.title} {place}: {problem['msg']}; export it anew"
        ) from None
    if document:
        yield document.close()


def _opened(fields: dict[str, Any]) -> _Open:
    text = fields.pop("text", None)
    return _Open(_DOCUMENT.validate_python(fields), text if text is None else str(text), [], [])


def _lines(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                kind, fields = _parse(path, number, line)
                if number == 1:
                    _check_head(path, kind, fields)
                else:
                    yield number, kind, fields
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
    if _ESCAPED_SURROGATE in line and not _is_encodable(found):
        raise InvalidRequestError(f"line {number} of {str(path)!r} holds half a character; export it anew")
    if isinstance(found, dict) and len(cast("dict[str, object]", found)) == 1:
        ((kind, fields),) = cast("dict[str, object]", found).items()
        if isinstance(fields, dict):
            return kind, cast("dict[str, Any]", fields)
    raise InvalidRequestError(f"line {number} of {str(path)!r} is no line of an archive")


def _is_encodable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_head(path: Path, kind: str, fields: dict[str, Any]) -> None:
    if kind != "archive":
        raise InvalidRequestError(f"{str(path)!r} is not an archive that 'heliograph export' wrote")
    if fields.get("version") not in _READABLE:
        raise InvalidRequestError(
            f"{str(path)!r} has version {fields.get('version')!r}, this Heliograph reads up to {ARCHIVE_VERSION}; "
            "upgrade it"
        )


def _line(kind: str, fields: dict[str, Any]) -> str:
    return json.dumps({kind: fields}, ensure_ascii=False) + "\n"


# Adding the kept replies of an archive, so that what was paid for there is not asked for again here.
#
# A reply goes with the chunk, entity or relation that it is about: where that is not here, no deletion would ever
# take it away, so it is left out. Answers are left out too, since they hold for one state of one workspace.

_PAGE = 500
_ANSWERS = "query"


async def add_replies(
    store: Store, replies: AsyncIterator[CachedReply], notes: NoteList, progress: ImportProgress
) -> int:
    """Add the replies that are not here yet, in pages; return how many.

    Args:
        store: Where documents and curations have been taken in before.
        replies: From an archive.
        notes: Gets what is left out or here already.
        progress: Told how many have been added.

    Raises:
        StoreError: The store cannot be used; what was added before stays.
    """
    added = 0
    page: list[CachedReply] = []
    async for reply in replies:
        page.append(reply)
        if len(page) == _PAGE:
            added += await _add_page(store, page, notes)
            progress("replies", added)
            page = []
    if page:
        added += await _add_page(store, page, notes)
        progress("replies", added)
    return added


async def _add_page(store: Store, page: Sequence[CachedReply], notes: NoteList) -> int:
    ids = [reply.subject_id for reply in page if reply.subject_id]
    distinct = list(dict.fromkeys(ids))
    found = {chunk.id for chunk in await store.records.get_chunks(distinct)}
    found |= {entity.id for entity in await store.graph.get_entities(distinct)}
    here = found | {relation.id for relation in await store.graph.get_relations(distinct)}
    added = 0
    for reply in page:
        if reply.cache_type == _ANSWERS or (reply.subject_id and reply.subject_id not in here):
            notes.add(NoteKind.LEFT_OUT, "kept replies about what is not here", reply.subject_id)
        elif await store.replies.get_reply(reply.key) is not None:
            notes.add(NoteKind.KNOWN, "kept replies that are here already")
        else:
            await store.replies.put_reply(reply)
            added += 1
    return added


# Importing an archive: its documents, then its curations and the kept replies of chat models, as they are.
#
# Documents go in several at a time and in any order, since the graph does not depend on it; those that share
# another's text come last. Curations are added in their order where none of the same id is here, replies where what
# they are about is here, so that no deletion misses them.

T = TypeVar("T")


async def import_archive(
    store: Store, intake: WholeDocumentIntake, curator: Curator, path: Path, progress: ImportProgress
) -> ImportReport:
    """Import an archive; see `import_places`."""
    notes = NoteList()
    documents = DocumentImport(intake, notes, progress)
    twins: list[WholeDocument] = []
    curations: list[Curation] = []
    first: CachedReply | None = None
    entries = _entries(path)
    try:
        async for entry in entries:
            if isinstance(entry, CachedReply):
                first = entry
                break
            if isinstance(entry, Curation):
                curations.append(entry)
            elif entry.document.twin_of:
                twins.append(entry)
            else:
                await documents.add(entry)
    finally:
        # What stands before a broken line is taken in.
        await documents.finish()
    for twin in twins:
        await documents.add(twin)
    await documents.finish()
    added = await _add_curations(store, curator, curations, notes, progress)
    replies = await add_replies(store, _replies(first, entries), notes, progress)
    return replace(documents.report(ImportKind.ARCHIVE, path, curations=added), replies=replies)


async def _replies(first: CachedReply | None, entries: AsyncIterator[ArchiveEntry]) -> AsyncIterator[CachedReply]:
    """Yield the replies with which an archive ends."""
    if first is not None:
        yield first
    async for entry in entries:
        if not isinstance(entry, CachedReply):
            raise InvalidRequestError("the archive goes on after its replies, which end it; export it anew")
        yield entry


async def _add_curations(
    store: Store, curator: Curator, curations: list[Curation], notes: NoteList, progress: ImportProgress
) -> int:
    added = 0
    for page in _pages(iter(curations), _PAGE):
        known = {item.id for item in await store.curations.get_curations([item.id for item in page])}
        notes.add(NoteKind.KNOWN, "curations that are here already", count=len(known))
        new = [item for item in page if item.id not in known]
        await curator.replay(new)
        added += len(new)
        progress("curations", added)
    return added


async def _entries(path: Path) -> AsyncIterator[ArchiveEntry]:
    """Read an archive outside the event loop, an entry at a time."""
    entries = read_archive(path)
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        yield entry


def _pages(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while page := list(islice(items, size)):
        yield page
