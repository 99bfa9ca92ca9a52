"""Documents with the same text: its chunks are stored once, under one of them, and all sources are cited.

The document whose id sorts first is the canonical one; its duplicates are rows with source and metadata that name it.
When the canonical document goes or changes, or one with a smaller id comes, the chunks move to another in the same
commit, with what was read in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from heliograph.ids import chunk_id
from heliograph.ingest.changes import DocumentChange
from heliograph.ingest.commit import Commit, Committer
from heliograph.ingest.reading import StoredChunks, placed_extraction
from heliograph.models import COMMITTED_STATUSES, WAITING_STATUSES, Chunk, Document, DocumentStatus, Extraction, utc_now
from heliograph.stores.base import DocumentQuery, RecordsStore
from heliograph.stores.changeset import TextEntry
from heliograph.text.analysis import chunk_index_text, terms

_PAGE = 1_000
_HOLDING = (*COMMITTED_STATUSES, *WAITING_STATUSES)


def is_committed(document: Document) -> bool:
    """Whether a document's chunks are in every projection."""
    return document.status in COMMITTED_STATUSES


async def find_heirs(records: RecordsStore, original: Document) -> list[Document]:
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


async def succeed(
    records: RecordsStore,
    committer: Committer,
    original: Document,
    heirs: Sequence[Document],
    left: Document | None,
    *,
    text: str | None = None,
    known: StoredChunks | None = None,
) -> Commit:
    """Move a committed document's chunks to another one with the same text.

    Args:
        records: Read only.
        committer: Writes.
        original: Holds the chunks; as it is stored.
        heirs: The one that shall hold them and then further twins, as they are stored.
        left: What the original is from now on; None if it goes.
        text: The text that it has then; None if it has none of its own.
        known: Chunks that the heir has itself, which go; None if it has none.

    Raises:
        ConflictError: Another process changed one of them meanwhile.
        ModelError: The heir's passages cannot be embedded.
        StoreError: The store failed.
    """
    chunks = await records.get_document_chunks(original.id)
    read = {item.chunk_id: item for item in await records.get_extractions([chunk.id for chunk in chunks])}
    change = _succession(original, heirs, chunks, read, known or StoredChunks())
    return await committer.commit(
        replace(
            change,
            text=await records.get_document_text(original.id) or "",
            dropped_texts=(original.id,) if left is not None and text is None else (),
            others=(*((left,) if left is not None else ()), *change.others),
            other_texts={} if text is None else {original.id: text},
            gone=() if left is not None else (original.id,),
            may_call_chat=left is not None,
        )
    )


def twin_change(
    document: Document, original: Document, chunks: Mapping[str, Chunk], read: Mapping[str, Extraction]
) -> DocumentChange:
    """Return the change that makes a document a twin.

    Args:
        document: As it is stored, naming its original.
        original: The original, committed.
        chunks: Chunks that it held itself until now.
        read: What was read in them.
    """
    return DocumentChange(
        basis=document,
        document=as_twin(document, original.id),
        removed_chunks=tuple(chunks),
        replaced=tuple(read.values()),
        dropped_texts=(document.id,),
        expected={original.id: original.content_hash},
    )


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


def _succession(
    original: Document,
    heirs: Sequence[Document],
    chunks: Sequence[Chunk],
    read: Mapping[str, Extraction],
    known: StoredChunks,
) -> DocumentChange:
    heir = heirs[0]
    ids = _new_ids(heir.id, chunks)
    moved = tuple(replace(chunk, id=ids[chunk.id], document_id=heir.id) for chunk in chunks)
    passages = {chunk.id: chunk_index_text(heir.title, chunk) for chunk in moved}
    extractions = (
        placed_extraction(read[chunk.id], ids[chunk.id], heir.id, chunk.position)
        for chunk in chunks
        if chunk.id in read
    )
    holder = replace(
        heir, twin_of="", status=original.status, error=original.error, chunk_count=len(moved), updated_at=utc_now()
    )
    return DocumentChange(
        basis=heir,
        document=holder,
        chunks=moved,
        removed_chunks=(*ids, *(id_ for id_ in known.chunks if id_ not in passages)),
        replaced=(*read.values(), *known.extractions.values()),
        extractions=tuple(extractions),
        passages=passages,
        terms=tuple(TextEntry(id_, tuple(terms(passage))) for id_, passage in passages.items()),
        others=tuple(replace(twin, twin_of=heir.id) for twin in heirs[1:]),
        expected={original.id: original.content_hash},
    )


def _new_ids(document_id: str, chunks: Sequence[Chunk]) -> dict[str, str]:
    occurrences: Counter[str] = Counter()
    ids: dict[str, str] = {}
    for chunk in chunks:
        ids[chunk.id] = chunk_id(document_id, chunk.text, occurrences[chunk.text])
        occurrences[chunk.text] += 1
    return ids
