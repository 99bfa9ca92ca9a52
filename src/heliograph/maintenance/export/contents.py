"""Reading everything in a workspace, a page at a time, in the order of ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from heliograph.models import Chunk, Curation, Document, Entity, Extraction, Relation
from heliograph.stores.base import CachedReply, CurationQuery, Store
from heliograph.stores.inspection import ScanKind

__all__ = ["Contents", "WholeDocument"]

_PAGE = 500
_ANSWERS = "query"


@dataclass(frozen=True, slots=True)
class WholeDocument:
    """A document with its text (None if none is kept), its chunks in order, and what was read in each."""

    document: Document
    text: str | None
    chunks: tuple[Chunk, ...]
    extractions: tuple[Extraction, ...]


class Contents:
    """What a workspace holds; memory holds one page, or one document.

    Every document is of one moment; what others commit meanwhile may or may not be among what is read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def documents(self) -> AsyncIterator[WholeDocument]:
        """Yield all documents, failed and pending ones too."""
        async for ids in self._pages(ScanKind.DOCUMENTS):
            for id_ in ids:
                whole = await self._whole(id_)
                if whole is not None:
                    yield whole

    async def entities(self) -> AsyncIterator[Entity]:
        """Yield all entities."""
        async for ids in self._pages(ScanKind.ENTITIES):
            for entity in await self._store.graph.get_entities(ids):
                yield entity

    async def relations(self) -> AsyncIterator[Relation]:
        """Yield all relations."""
        async for page in self.relation_pages():
            for relation in page:
                yield relation

    async def relation_pages(self) -> AsyncIterator[list[Relation]]:
        """Yield all relations, a page at a time."""
        async for ids in self._pages(ScanKind.RELATIONS):
            yield await self._store.graph.name_ends(await self._store.graph.get_relations(ids))

    async def curations(self) -> AsyncIterator[Curation]:
        """Yield all curations in their order, those that were taken back too."""
        offset = 0
        while True:
            page = await self._store.curations.find_curations(CurationQuery(offset=offset, limit=_PAGE))
            for curation in page.curations:
                yield curation
            offset += len(page.curations)
            if len(page.curations) < _PAGE:
                return

    async def replies(self) -> AsyncIterator[CachedReply]:
        """Yield the kept replies of chat models but answers, which hold for one state of the workspace only."""
        after = ""
        while page := await self._store.replies.list_replies(after, _PAGE):
            for reply in page:
                if reply.cache_type != _ANSWERS:
                    yield reply
            after = page[-1].key

    async def sources(self, chunk_ids: tuple[str, ...]) -> list[str]:
        """Return the sources of some chunks' documents, each once."""
        found = await self._store.records.get_sources(chunk_ids)
        return list(dict.fromkeys(found[id_] for id_ in chunk_ids if id_ in found))

    async def relations_of(self, entity_id: str) -> list[Relation]:
        """Return the relations of an entity, best ranked first."""
        ranked = await self._store.graph.rank_incident_relations([entity_id])
        return await self._store.graph.name_ends(await self._store.graph.get_relations([item.id for item in ranked]))

    async def _whole(self, id_: str) -> WholeDocument | None:
        """Return a document as of one moment; None if it is gone."""
        records = self._store.records
        while found := await records.get_documents([id_]):
            text = await records.get_document_text(id_)
            chunks = await records.get_document_chunks(id_)
            extractions = await records.get_extractions([chunk.id for chunk in chunks])
            if await records.get_documents([id_]) == found:
                return WholeDocument(found[0], text, tuple(chunks), tuple(extractions))
        return None

    async def _pages(self, kind: ScanKind) -> AsyncIterator[list[str]]:
        after = ""
        while ids := await self._store.inspection.scan(kind, after, _PAGE):
            yield ids
            after = ids[-1]
