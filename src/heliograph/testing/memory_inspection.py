"""Whole-workspace reads of the store in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from heliograph.models import Batch, Document, EntityMention, Extraction, RelationMention
from heliograph.stores.changeset import Collection
from heliograph.stores.inspection import Inspection, ScanKind, batch_of, digest_terms
from heliograph.text.mention_ids import mention_entity_id, mention_relation_id

__all__ = ["MemoryInspection"]

M = TypeVar("M", EntityMention, RelationMention)


class MemoryInspection(Inspection):
    """Reads what a store in memory holds.

    Args:
        ids: Returns all ids per kind but the mentioned ones.
        documents: All documents by id; read, never written.
        extractions: All extractions by chunk id; likewise.
        terms: Returns the terms of a collection per id, with repeats.
    """

    def __init__(
        self,
        ids: Callable[[], Mapping[ScanKind, Iterable[str]]],
        documents: Mapping[str, Document],
        extractions: Mapping[str, Extraction],
        terms: Callable[[Collection], Mapping[str, Iterable[str]]],
    ) -> None:
        self._ids = ids
        self._documents = documents
        self._extractions = extractions
        self._terms = terms

    async def scan(self, kind: ScanKind, after: str, limit: int) -> list[str]:
        if kind is ScanKind.MENTIONED_ENTITIES:
            ids = {mention_entity_id(mention) for item in self._extractions.values() for mention in item.entities}
        elif kind is ScanKind.MENTIONED_RELATIONS:
            ids = {mention_relation_id(mention) for item in self._extractions.values() for mention in item.relations}
            ids.discard("")
        else:
            ids = set(self._ids()[kind])
        return sorted(id_ for id_ in ids if id_ > after)[:limit]

    async def get_mentions(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
    ) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
        entities: dict[str, list[EntityMention]] = {id_: [] for id_ in entity_ids}
        relations: dict[str, list[RelationMention]] = {id_: [] for id_ in relation_ids}
        for item in self._extractions.values():
            for mention in item.entities:
                entities.get(mention_entity_id(mention), []).append(mention)
            for mention in item.relations:
                relations.get(mention_relation_id(mention), []).append(mention)
        return _page(entities, offset, limit), _page(relations, offset, limit)

    async def digest_texts(self, collection: Collection) -> dict[str, int]:
        return {id_: digest_terms(terms) for id_, terms in self._terms(collection).items()}

    async def list_batches(self, offset: int, limit: int) -> list[Batch]:
        groups: dict[str, list[Document]] = {}
        for document in self._documents.values():
            if document.track_id:
                groups.setdefault(document.track_id, []).append(document)
        batches = [batch_of(track_id, documents) for track_id, documents in groups.items()]
        batches.sort(key=lambda batch: (-batch.updated_at.timestamp(), batch.track_id))
        return batches[offset : offset + limit]

    async def find_faults(self) -> list[str]:
        return []

    async def repair(self) -> None:
        return


def _page(groups: Mapping[str, list[M]], offset: int, limit: int) -> dict[str, list[M]]:
    pages = {
        id_: sorted(mentions, key=lambda mention: (mention.rank, mention.chunk_id))[offset : offset + limit]
        for id_, mentions in groups.items()
    }
    return {id_: page for id_, page in pages.items() if page}
