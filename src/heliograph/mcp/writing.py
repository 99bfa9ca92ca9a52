"""The tools that change documents: insert, batch insert, update, delete; and the one that makes the index anew.

An insert only adds: a source or id that is known with another text is refused, so that nothing is replaced by mistake;
replacing is what update is for. Documents are stored before they are processed, so what a model's outage leaves behind
is processed later.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from heliograph.documents.markdown import clean_text
from heliograph.engine import AsyncHeliograph
from heliograph.errors import ConflictError, HeliographError, ModelError, NotFoundError, StoreUnavailable
from heliograph.ids import content_hash
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.intake import PLACEHOLDER_SOURCES, find_by_source, identify_texts
from heliograph.ingest.models import DocumentResult, NewDocument, Outcome
from heliograph.mcp.arguments import (
    BatchInsertArguments,
    DeleteArguments,
    InsertArguments,
    NewDocumentArguments,
    NoArguments,
    UpdateArguments,
)
from heliograph.mcp.calls import Call
from heliograph.mcp.results import BatchResult, DeleteResult, DocumentItem, RebuildResult
from heliograph.models import WAITING_STATUSES, Document, DocumentStatus
from heliograph.service.principal import Role
from heliograph.stores.base import DocumentQuery


async def insert(call: Call, arguments: InsertArguments) -> DocumentItem:
    """Take one document in.

    Raises:
        ConflictError: Its source or id is known with another text.
        HeliographError: Why it failed.
    """
    (result,) = await _insert(call, [arguments])
    if result.error is not None:
        raise result.error
    return DocumentItem.of(result)


async def batch_insert(call: Call, arguments: BatchInsertArguments) -> BatchResult:
    """Take documents in; one that fails stops no other.

    Raises:
        HeliographError: Why the first failed, if all did.
    """
    results = await _insert(call, arguments.documents)
    failed = [result for result in results if result.outcome is Outcome.FAILED]
    if len(failed) == len(results) and failed[0].error is not None:
        raise failed[0].error
    return BatchResult(documents=[DocumentItem.of(result) for result in results], failed=len(failed))


async def update(call: Call, arguments: UpdateArguments) -> DocumentItem:
    """Replace a document's text, title or metadata.

    Raises:
        NotFoundError: There is no such document.
        ConflictError: It has no text that could stay.
        HeliographError: Why it failed.
    """
    async with call.engine(Role.WRITE) as engine:
        document = await require_document(engine, arguments.document_id)
        text, page_starts = arguments.content, ()
        if text is None:
            text, page_starts = await engine.store.records.get_document_text(document.id), document.page_starts
        if text is None:
            raise ConflictError(f"the document {document.source!r} has no text yet; give content")
        title = document.title if arguments.title is None else arguments.title
        new = NewDocument(text, document.source, title, document.id, arguments.metadata, page_starts)
        (result,) = await _take_in(call, engine, [new])
    if result.error is not None:
        raise result.error
    return DocumentItem.of(result)


async def delete(call: Call, arguments: DeleteArguments) -> DeleteResult:
    """Delete documents and all that only they said.

    Raises:
        NotFoundError: There is none of them.
    """
    async with call.engine(Role.WRITE) as engine:
        report = await engine.delete(arguments.document_ids)
    if not report.deleted:
        raise NotFoundError(f"there is no document {', '.join(map(repr, report.missing))!s:.500} in this workspace")
    return DeleteResult.of(report)


async def rebuild_index(call: Call, _: NoArguments) -> RebuildResult:
    """Make everything that follows from the documents anew."""
    async with call.engine(Role.ADMIN) as engine:
        return RebuildResult.of(await engine.rebuild(progress=call.progress.tell_count))


async def require_document(engine: AsyncHeliograph, id_: str) -> Document:
    """Return a document.

    Raises:
        NotFoundError: There is none of this id.
    """
    if (document := await engine.document(id_)) is None:
        raise NotFoundError(f"there is no document {id_!r:.200} in this workspace; query and insert return ids")
    return document


async def _insert(call: Call, given: Sequence[NewDocumentArguments]) -> list[DocumentResult]:
    async with call.engine(Role.WRITE) as engine:
        await call.check_room(engine)
        checked = await _check_known(engine, given)
        new, refused = [item for item, _ in checked], [error for _, error in checked]
        accepted = [item for item, error in zip(new, refused, strict=True) if error is None]
        taken = iter(await _take_in(call, engine, accepted))
    return [
        next(taken) if error is None else DocumentResult(item.id, item.source, Outcome.FAILED, error)
        for item, error in zip(new, refused, strict=True)
    ]


async def _check_known(
    engine: AsyncHeliograph, given: Sequence[NewDocumentArguments]
) -> list[tuple[NewDocument, HeliographError | None]]:
    """Return the documents, with ids, each with why it is refused."""
    records = engine.store.records
    named = [(clean_text(arguments.source or ""), clean_text(arguments.content)) for arguments in given]
    ids = await identify_texts(records, named)
    new = [_new_document(arguments, id_) for arguments, id_ in zip(given, ids, strict=True)]
    claims = await find_by_source(records, (source for source, _ in named))
    known = {item.id: item for item in await records.get_documents([item.id for item in new])}
    taken: dict[str, str] = {}
    checked: list[tuple[NewDocument, HeliographError | None]] = []
    for item, (source, _) in zip(new, named, strict=True):
        other = claims.get(source) if source not in PLACEHOLDER_SOURCES else None
        is_first = source in PLACEHOLDER_SOURCES or taken.setdefault(source or item.id, item.id) == item.id
        if item.id not in known and other is not None and other.count == 1:
            one = other.first[0]
            refusal = ConflictError(
                f"there is a document {one.id!r} from {source!r}; update it, or give another source"
            )
        elif item.id not in known and other is None and not is_first:
            refusal = ConflictError(f"two documents come from {source!r}; give each its own source")
        else:
            refusal = _refusal(item, known.get(item.id))
        checked.append((item, refusal))
    return checked


def _new_document(arguments: NewDocumentArguments, id_: str) -> NewDocument:
    """Return a document whose id stands: that given, or that found by its source."""
    named = (arguments.metadata or {}).get("source")
    source = arguments.source or (named if isinstance(named, str) else "")
    return NewDocument(
        arguments.content, source, arguments.title or "", arguments.document_id or id_, arguments.metadata
    )


def _refusal(new: NewDocument, known: Document | None) -> HeliographError | None:
    if known is None or known.status is DocumentStatus.FAILED:
        return None
    if known.content_hash == content_hash(clean_text(new.text)):
        return None
    return ConflictError(
        f"there is a document {known.id!r} from {known.source!r} with another text; update it, or give another source"
    )


async def _take_in(call: Call, engine: AsyncHeliograph, new: Sequence[NewDocument]) -> list[DocumentResult]:
    if not new:
        return []
    track_id = new_track_id("insert")
    try:
        report = await engine.insert(new, track_id=track_id, progress=call.progress.tell_ingest)
    except (ModelError, StoreUnavailable) as error:
        with suppress(HeliographError):
            await _keep(call, engine, track_id, error)
        raise
    return list(report.results)


async def _keep(call: Call, engine: AsyncHeliograph, track_id: str, error: HeliographError) -> None:
    """Have what was stored before an outage processed when that is over, and note so on the error."""
    waiting = (await engine.documents(DocumentQuery(WAITING_STATUSES, track_id=track_id, limit=0))).total
    if not waiting:
        return
    is_later = await call.process_later(track_id)
    advice = "it is processed in the background" if is_later else "give it again, or run 'heliograph resume'"
    error.add_note(f"The text of {waiting} document{'s' * (waiting > 1)} is stored; {advice}.")
