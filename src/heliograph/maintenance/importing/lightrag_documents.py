"""From LightRAG's documents and chunks to ours: each chunk at its place in the text, each id what ours follow from.

A chunk is looked for in its document's text; where one of a document is not found, or the text is not kept, the text is
its chunks one after the other. Documents that were never read go in as waiting, those that were not
read to the end as partial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from heliograph.documents.markdown import find_title
from heliograph.ids import chunk_id, content_hash, document_id
from heliograph.maintenance.importing.lightrag_files import LightragChunk, LightragDocument, LightragFiles
from heliograph.maintenance.importing.report import NoteKind, NoteList
from heliograph.models import Chunk, Document, DocumentStatus, utc_now
from heliograph.text.tokens import count_tokens

__all__ = ["PlacedDocument", "join_chunks", "place_documents"]

_BETWEEN = "\n\n"
_MAX_STATE_LENGTH = 1_000
# What a tokenizer leaves of a character that was cut in two.
_TORN = "\ufffd"

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PlacedDocument:
    """A document as it shall be stored; `origins` are the ids that LightRAG gave its chunks, in their order."""

    document: Document
    text: str
    chunks: tuple[Chunk, ...]
    origins: tuple[str, ...] = ()


def place_documents(files: LightragFiles, track_id: str, notes: NoteList) -> list[PlacedDocument]:
    """Return all documents with a text or with chunks; note what is repaired and what is left out."""
    by_document: dict[str, list[LightragChunk]] = {}
    for chunk in files.chunks.values():
        by_document.setdefault(chunk.document_id, []).append(chunk)
    sources = {
        id_: _source(files.documents.get(id_), by_document.get(id_, ())) for id_ in (*files.documents, *by_document)
    }
    placed: list[PlacedDocument] = []
    for id_, source in sources.items():
        known = files.documents.get(id_)
        chunks = sorted(by_document.get(id_, ()), key=lambda item: (item.order, item.id))
        if not chunks and (known is None or not known.text):
            state = f" ({known.state[:120]})" if known and known.state else ""
            notes.add(
                NoteKind.LEFT_OUT, "documents of which neither text nor chunks are kept", f"{source or id_}{state}"
            )
            continue
        name = source or id_
        # LightRAG's own id tells documents of one file name apart. None has the id that inserting that file gives, or
        # whoever inserts it would replace one of them.
        placed.append(_place(known, chunks, _Target(document_id(f"{name}#{id_}"), id_, name, track_id), notes))
    return placed


def join_chunks(document: str, texts: Sequence[str], spans: Sequence[Span] | None = None) -> tuple[Chunk, ...]:
    """Return the chunks of a document; without spans they stand one after the other, a blank line between."""
    seen: Counter[str] = Counter()
    chunks: list[Chunk] = []
    end = -len(_BETWEEN)
    for position, text in enumerate(texts):
        start = end + len(_BETWEEN) if spans is None else spans[position][0]
        end = start + len(text)
        id_ = chunk_id(document, text, seen[text])
        seen[text] += 1
        chunks.append(Chunk(id_, document, position, text, count_tokens(text), start, end))
    return tuple(chunks)


@dataclass(frozen=True, slots=True)
class _Target:
    """What a document shall be called."""

    id: str
    origin: str
    source: str
    track_id: str


def _source(known: LightragDocument | None, chunks: Sequence[LightragChunk]) -> str:
    if known and known.source:
        return known.source
    return next((chunk.source for chunk in chunks if chunk.source), "")


def _place(
    known: LightragDocument | None, chunks: Sequence[LightragChunk], target: _Target, notes: NoteList
) -> PlacedDocument:
    text = known.text if known else ""
    spans = _find_spans(text, chunks, target.source, notes) if text else None
    if spans is not None and chunks:
        texts = [text[start:end] for start, end in spans]
    else:
        texts = [chunk.text for chunk in chunks]
        if chunks:
            reason = "not all of which are found in the text" if text else "since their text is not kept"
            notes.add(NoteKind.REPAIRED, f"documents whose text is made of their chunks, {reason}", target.source)
            text = _BETWEEN.join(texts)
    stem = PurePath(target.source).stem if target.source != target.origin else ""
    document = Document(
        *(target.id, target.source, find_title(text) or stem, content_hash(text)),
        status=_status(known, chunks),
        error=_error(known) if chunks else "",
        metadata=_metadata(target),
        length=len(text),
        chunk_count=len(chunks),
        track_id=target.track_id,
        created_at=known.created_at if known else utc_now(),
    )
    placed = join_chunks(target.id, texts, spans)
    return PlacedDocument(document, text, placed, tuple(chunk.id for chunk in chunks))


def _status(known: LightragDocument | None, chunks: Sequence[LightragChunk]) -> DocumentStatus:
    """Return the status of a document; LightRAG keeps chunks from before they are read."""
    if not chunks:
        return DocumentStatus.PENDING
    return DocumentStatus.PROCESSED if known is None or known.is_finished else DocumentStatus.PARTIAL


def _error(known: LightragDocument | None) -> str:
    if known is None or known.is_finished:
        return ""
    return f"LightRAG did not finish this document ({known.state[:_MAX_STATE_LENGTH]}); retry reads what is left"


def _metadata(target: _Target) -> Mapping[str, Any]:
    return {"lightrag_id": target.origin}


def _find_spans(text: str, chunks: Sequence[LightragChunk], source: str, notes: NoteList) -> list[Span] | None:
    """Return where the chunks stand in the text, or None if one of them does not."""
    spans: list[Span] = []
    begin, torn = 0, 0
    for chunk in chunks:
        span = _find(text, chunk.text, begin)
        if span is None:
            span = _find(text, chunk.text.strip(_TORN).strip(), begin)
            torn += 1
        if span is None:
            return None
        spans.append(span)
        begin = span[0] + 1
    notes.add(NoteKind.REPAIRED, "chunks that were cut within a character", source, torn)
    return spans


def _find(text: str, part: str, begin: int) -> Span | None:
    start = text.find(part, begin) if part else -1
    start = text.find(part) if part and start < 0 else start
    return None if start < 0 else (start, start + len(part))
