"""Comparing documents and chunks: every chunk at its place, read, embedded and indexed, and nothing left over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from heliograph.ingest.resolving import resolve_again
from heliograph.maintenance.findings import Findings
from heliograph.maintenance.problems import Problem
from heliograph.maintenance.windows import Window
from heliograph.models import COMMITTED_STATUSES, Chunk, Document, Extraction
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.stores.inspection import ScanKind, digest_terms
from heliograph.text.analysis import terms
from heliograph.text.passages import chunk_index_text

__all__ = ["CHUNK_KINDS", "check_chunks", "check_documents"]

CHUNK_KINDS = (ScanKind.CHUNKS, ScanKind.EXTRACTIONS, ScanKind.CHUNK_VECTORS)


async def check_documents(store: Store, ids: Iterable[str]) -> Findings:
    """Compare documents with their own chunks, and their mentions with what names count for.

    What is wrong with the chunks is truth itself and cannot be computed again.
    """
    documents = await store.records.get_documents(sorted(ids))
    problems: list[Problem] = []
    for document in documents:
        if document.status in COMMITTED_STATUSES:
            chunks = await store.records.get_document_chunks(document.id)
            text = await store.records.get_document_text(document.id)
            problems += [
                Problem("document", document.id, message, is_repairable=False)
                for message in _document_faults(document, chunks, text)
            ]
    moved = [item for document in documents for item in await _resolved_otherwise(store, document)]
    problems += [
        Problem("chunk", item.chunk_id, "its mentions count for other entities than they should") for item in moved
    ]
    return Findings(tuple(problems), Changeset(extractions=tuple(moved)) if moved else None, documents=len(documents))


async def _resolved_otherwise(store: Store, document: Document) -> list[Extraction]:
    """Return what was read in a document's chunks where it should count for other entities than it does."""
    ids = [chunk.id for chunk in await store.records.get_document_chunks(document.id)]
    stored = await store.records.get_extractions(ids)
    right = await resolve_again(store, document.id, stored)
    return [after for before, after in zip(stored, right, strict=True) if before != after]


def _document_faults(document: Document, chunks: Sequence[Chunk], text: str | None) -> Iterable[str]:
    if document.twin_of and chunks:
        yield f"{document.source!r} has chunks, though {document.twin_of!r} holds them; index it again"
    if text is None:
        yield f"the text of {document.source!r} is missing; index it again"
        return
    if len(chunks) != document.chunk_count:
        yield f"{document.source!r} has {len(chunks)} chunks, and should have {document.chunk_count}; index it again"
    elif [chunk.position for chunk in chunks] != list(range(len(chunks))):
        yield f"the chunks of {document.source!r} are not in one sequence; index it again"
    for chunk in chunks:
        if text[chunk.start : chunk.end] != chunk.text:
            yield f"the chunk {chunk.id!r} is not what stands at its place in {document.source!r}; index it again"


async def check_chunks(store: Store, window: Window, texts: Mapping[str, int], *, every: bool) -> Findings:
    """Compare the chunks of a window with their documents, readings, vectors and full text.

    Args:
        store: Read only.
        window: Ids per kind of `CHUNK_KINDS`.
        texts: Digest of the stored full text per id of the whole workspace.
        every: Whether vectors and full text are made anew even where nothing is wrong.
    """
    ids = sorted(set(chain.from_iterable(window.values())))
    chunks = {chunk.id: chunk for chunk in await store.records.get_chunks(ids)}
    owners = list(dict.fromkeys(chunk.document_id for chunk in chunks.values()))
    documents = {document.id: document for document in await store.records.get_documents(owners)}
    owned = {id_: chunk for id_, chunk in chunks.items() if chunk.document_id in documents}
    passages = {id_: chunk_index_text(documents[chunk.document_id].title, chunk) for id_, chunk in owned.items()}
    entries = {id_: TextEntry(id_, tuple(terms(passage))) for id_, passage in passages.items()}
    # A document that waits has its new title already; its chunks keep the old one until its turn comes.
    settled = {document.id for document in documents.values() if document.status in COMMITTED_STATUSES}
    stale = [
        id_
        for id_, entry in entries.items()
        if owned[id_].document_id in settled and texts.get(id_, 0) != digest_terms(entry.terms)
    ]
    unembedded = [id_ for id_ in owned if id_ not in window[ScanKind.CHUNK_VECTORS]]
    orphans = [id_ for id_ in ids if id_ not in owned]
    problems = [
        *(Problem("chunk", id_, "it belongs to no document") for id_ in orphans),
        *(Problem("chunk", id_, "its full text is not that of its passage") for id_ in stale),
        *(Problem("chunk", id_, "it has no vector") for id_ in unembedded),
        *(
            Problem("chunk", id_, "it was never read; run retry, or index its document again", is_repairable=False)
            for id_ in owned
            if id_ not in window[ScanKind.EXTRACTIONS]
        ),
    ]
    chosen = sorted(owned) if every else sorted({*stale, *unembedded})
    repair = Changeset(removed_chunks=tuple(orphans), texts={Collection.CHUNKS: tuple(entries[id_] for id_ in chosen)})
    vectors = {Collection.CHUNKS: {id_: passages[id_] for id_ in chosen}}
    return Findings(tuple(problems), repair if chosen or orphans else None, vectors, chunks=len(owned))
