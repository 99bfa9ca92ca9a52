"""Which stored document a text or a file stands for that comes with a source and without an id.

A source that names one document is its identity, whatever the document's id: what comes from there again is an update.
A source that names several is none, as are the names that LightRAG writes where it was told no path: a text of such a
source replaces nothing, and is known again by source and text together. A file or URL is the one document of its
address: where others claim that address, too, it keeps the id that follows from it, and leaves theirs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heliograph.documents.cleaning import clean_text
from heliograph.filters import Sources
from heliograph.ids import content_hash, document_id, is_storable
from heliograph.models import Document
from heliograph.stores.base import DocumentQuery, RecordsStore

__all__ = ["PLACEHOLDER_SOURCES", "find_by_source", "identify_files", "identify_texts"]

# What LightRAG calls the file of a text or graph that came without one.
PLACEHOLDER_SOURCES = frozenset({"unknown_source", "no-file-path", "custom_kg"})
_PAGE = 500


@dataclass(frozen=True, slots=True)
class SourceClaims:
    """The documents of one source: how many there are, and the first two by id."""

    count: int = 0
    first: tuple[Document, ...] = ()


async def find_by_source(records: RecordsStore, sources: Iterable[str]) -> dict[str, SourceClaims]:
    """Return, per source that names a document, who claims it; costs what these sources have, at most two each."""
    wanted = [source for source in dict.fromkeys(sources) if source and is_storable(source)]
    found: dict[str, SourceClaims] = {}
    for start in range(0, len(wanted), _PAGE):
        some = wanted[start : start + _PAGE]
        page = await records.find_documents(DocumentQuery(filter=Sources(tuple(some)), sort="id", limit=2 * len(some)))
        if page.total > len(page.documents):
            for source in some:
                alone = await records.find_documents(DocumentQuery(filter=Sources((source,)), sort="id", limit=2))
                found[source] = SourceClaims(alone.total, alone.documents)
            continue
        for document in page.documents:
            known = found.get(document.source, SourceClaims())
            found[document.source] = SourceClaims(known.count + 1, (*known.first, document)[:2])
    return {source: claims for source, claims in found.items() if claims.count}


async def identify_texts(records: RecordsStore, texts: Sequence[tuple[str, str]]) -> list[str]:
    """Return the id of the document that each text stands for, given clean sources and texts, in order."""
    claims = await find_by_source(records, (source for source, _ in texts if source not in PLACEHOLDER_SOURCES))
    ids: list[str] = []
    for source, text in texts:
        known = claims.get(source)
        if source not in PLACEHOLDER_SOURCES and (known is None or known.count == 1):
            ids.append(known.first[0].id if known else document_id(source or text))
            continue
        same = DocumentQuery(filter=Sources((source,)), content_hashes=(content_hash(text),), sort="id", limit=1)
        page = await records.find_documents(same)
        ids.append(page.documents[0].id if page.documents else document_id(f"{source}\n{text}"))
    return ids


async def identify_files(records: RecordsStore, sources: Sequence[str]) -> list[str]:
    """Return the id of the document that the file or URL at each source stands for, in order."""
    cleaned = [clean_text(source) for source in sources]
    claims = await find_by_source(records, cleaned)
    ids: list[str] = []
    for source in cleaned:
        known = claims.get(source)
        is_identity = known is not None and known.count == 1 and source not in PLACEHOLDER_SOURCES
        ids.append(known.first[0].id if known and is_identity else document_id(source))
    return ids
