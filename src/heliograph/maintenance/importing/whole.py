"""Taking one whole document in: text, chunks and readings as they are given, vectors made anew.

What comes in is checked against what the store relies on (ids follow from texts, chunks stand in the text, readings are
of these chunks), since it may be damaged or made by hand. A document that is here with the same text is left alone, so
that an import that was interrupted goes on where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from heliograph.documents.cleaning import clean_text
from heliograph.errors import InvalidRequestError
from heliograph.ids import chunk_id, content_hash
from heliograph.ingest.mentions import canonical_extraction, placed_extraction
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.ingest.twins import find_original, is_committed
from heliograph.maintenance.export.contents import WholeDocument
from heliograph.models import WAITING_STATUSES, Chunk, Document, DocumentStatus, Extraction
from heliograph.stores.base import Store

__all__ = ["Taken", "WholeDocumentIntake"]

_UNREAD = "import"


class Taken(StrEnum):
    """What became of a document."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class WholeDocumentIntake:
    """Takes whole documents into one workspace; may be called from many tasks at once.

    Args:
        store: Read only.
        pipeline: Writes.
    """

    def __init__(self, store: Store, pipeline: IngestPipeline) -> None:
        self._records = store.records
        self._pipeline = pipeline

    async def take(self, whole: WholeDocument) -> Taken:
        """Take a document in, in one commit; no chat model is called.

        Raises:
            ConflictError: Another process changed the document meanwhile.
            InvalidRequestError: It is damaged, or the document whose text it shares is not here; nothing was written.
            ModelError: It cannot be embedded; nothing was written.
            StoreError: The store cannot be used; nothing was written.
        """
        found = await self._records.get_documents([whole.document.id])
        if found and _is_kept(found[0], whole.document):
            return Taken.UNCHANGED
        document = await self._checked_document(whole)
        extractions = _checked_extractions(whole)
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
            original = await find_original(self._records, document)
            if original is None or whole.chunks:
                raise InvalidRequestError(
                    f"{label} has the text of {document.twin_of!r}, which is not here; import that one as well"
                )
            return replace(document, twin_of=original.id)
        _check_text(document, whole, label)
        _check_chunks(document, whole, label)
        return document


def _is_kept(stored: Document, document: Document) -> bool:
    """Whether what is stored stays: it has the same text, or is finished where the other is not."""
    if stored.content_hash == document.content_hash:
        return is_committed(stored) or not is_committed(document)
    return is_committed(stored) and not is_committed(document)


def _check_text(document: Document, whole: WholeDocument, label: str) -> None:
    if whole.text is None:
        if document.status is not DocumentStatus.FAILED:
            raise InvalidRequestError(f"{label} has no text; the import is damaged")
    elif clean_text(whole.text) != whole.text or content_hash(whole.text) != document.content_hash:
        raise InvalidRequestError(f"{label} does not have the text that its hash is of; the import is damaged")


def _check_chunks(document: Document, whole: WholeDocument, label: str) -> None:
    seen: Counter[str] = Counter()
    # The chunks of a document that waits are still those of the text before.
    text = whole.text if is_committed(document) else None
    for position, chunk in enumerate(whole.chunks):
        is_own = chunk.id == chunk_id(document.id, chunk.text, seen[chunk.text]) and chunk.document_id == document.id
        if not is_own or chunk.position != position or not _stands_in(chunk, text):
            raise InvalidRequestError(f"the chunk {chunk.id!r} of {label} does not fit its text; the import is damaged")
        seen[chunk.text] += 1
    if is_committed(document) and not whole.chunks:
        raise InvalidRequestError(f"{label} has no chunks; the import is damaged")


def _stands_in(chunk: Chunk, text: str | None) -> bool:
    return text is None or text[chunk.start : chunk.end] == chunk.text


def _checked_extractions(whole: WholeDocument) -> Sequence[Extraction]:
    """Return one canonical extraction per chunk, whose mentions count for what the rules here lead to."""
    given = {item.chunk_id: item for item in whole.extractions}
    strange = given.keys() - {chunk.id for chunk in whole.chunks}
    if strange or len(given) != len(whole.extractions):
        raise InvalidRequestError(
            f"the document {whole.document.id!r} has readings of chunks that it does not have, or two of one; "
            "the import is damaged"
        )
    return [
        canonical_extraction(
            placed_extraction(
                given.get(chunk.id) or Extraction(chunk.id, _UNREAD), chunk.id, whole.document.id, chunk.position
            )
        )
        for chunk in whole.chunks
    ]
