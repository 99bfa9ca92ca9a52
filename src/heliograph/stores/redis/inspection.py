"""Whole-workspace reads in Redis, by the sorted sets of ids."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.models import Batch, Document, EntityMention, RelationMention
from heliograph.stores.changeset import Collection
from heliograph.stores.inspection import Inspection, ScanKind, batch_of, digest_terms
from heliograph.stores.redis.committer import Committer
from heliograph.stores.redis.documents_write import read_documents
from heliograph.stores.redis.evidence import read_mentions
from heliograph.stores.redis.faults import find_faults
from heliograph.stores.redis.repair import repair
from heliograph.stores.redis.session import Session
from heliograph.stores.redis.text_rows import scan_rows

__all__ = ["RedisInspection"]

_WINDOW = 1_000


class RedisInspection(Inspection):
    """Reads by pages.

    Args:
        session: Reads the keys.
        committer: Makes the commit of a repair.
    """

    def __init__(self, session: Session, committer: Committer) -> None:
        self._session = session
        self._committer = committer

    async def scan(self, kind: ScanKind, after: str, limit: int) -> list[str]:
        """See `Inspection`."""
        return await self._session.scan(kind, after, limit)

    async def get_mentions(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
    ) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
        """See `Inspection`."""
        return await read_mentions(self._session, entity_ids, relation_ids, offset, limit)

    async def digest_texts(self, collection: Collection) -> dict[str, int]:
        """See `Inspection`."""
        rows = scan_rows(self._session, collection)
        digests = {
            id_: digest_terms(term.decode("utf-8", "surrogatepass") for term in terms) async for id_, terms in rows
        }
        return {id_: digest for id_, digest in digests.items() if digest}

    async def list_batches(self, offset: int, limit: int) -> list[Batch]:
        """See `Inspection`."""
        if limit < 1:
            return []
        keys = self._session.keys
        tracks = await self._session.read_one("ZRANGE", keys.tracks, offset, offset + limit - 1)
        members = await self._session.read([("ZRANGE", keys.of("track", track), 0, -1) for track in tracks])
        batches: list[Batch] = []
        for track, ids in zip(tracks, members, strict=True):
            documents = [item for item in await self._documents(ids) if item.track_id == track]
            if documents:
                batches.append(batch_of(track, documents))
        return batches

    async def find_faults(self) -> list[str]:
        """See `Inspection`."""
        return await find_faults(self._session)

    async def repair(self) -> None:
        """See `Inspection`."""
        await repair(self._committer)

    async def _documents(self, ids: Sequence[str]) -> list[Document]:
        found: list[Document] = []
        for start in range(0, len(ids), _WINDOW):
            found += (await read_documents(self._session, ids[start : start + _WINDOW])).values()
        return found
