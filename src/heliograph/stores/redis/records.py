"""Truth in Redis; evidence is read in `evidence`, documents are listed in `documents`."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.models import (
    COMMITTED_STATUSES,
    Chunk,
    Document,
    EntityEvidence,
    EntityMention,
    Extraction,
    RelationEvidence,
)
from heliograph.stores.base import DocumentPage, DocumentQuery, EntityPlaces, RecordsStore
from heliograph.stores.redis.codec import load_chunk, load_entity_mention, load_extraction
from heliograph.stores.redis.documents import find_documents
from heliograph.stores.redis.documents_write import read_documents
from heliograph.stores.redis.evidence import read_evidence, read_places
from heliograph.stores.redis.packed import ask_packed
from heliograph.stores.redis.session import Session

__all__ = ["RedisRecordsStore"]

# Bytes of a character at the most; as much is read for an opening.
_MOST_BYTES = 4
# ARGV: prefix, ids of chunks. The source of the document of each, which may be empty; false if there is none.
_SOURCES = """
local p, found = ARGV[1], {}
for i = 2, #ARGV do
  local owner = redis.call('HGET', p .. 'owners', ARGV[i])
  found[#found + 1] = owner and redis.call('HGET', p .. 'doc:' .. owner, 'source')
end
return cjson.encode(found)
"""
# ARGV: prefix, ids of chunks. The twins of the document of each: id, source and status, one twin after the other; false
# if there are none.
_TWINS = """
local p, found = ARGV[1], {}
for i = 2, #ARGV do
  local owner, row = redis.call('HGET', p .. 'owners', ARGV[i]), {}
  for _, twin in ipairs(owner and redis.call('SMEMBERS', p .. 'twins:' .. owner) or {}) do
    local said = redis.call('HMGET', p .. 'doc:' .. twin, 'source', 'status')
    row[#row + 1] = {twin, said[1], said[2]}
  end
  found[#found + 1] = #row > 0 and row
end
return cjson.encode(found)
"""


class RedisRecordsStore(RecordsStore):
    """Truth as hashes, texts and lists.

    Args:
        session: Reads the keys.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._keys = session.keys

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        """See `RecordsStore`."""
        found = await read_documents(self._session, ids)
        return [found[id_] for id_ in ids if id_ in found]

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        """See `RecordsStore`."""
        return await find_documents(self._session, query)

    async def get_document_text(self, document_id: str) -> str | None:
        """See `RecordsStore`; a twin's text is that of its original."""
        text, twin_of = await self._session.read(
            [("GET", self._keys.text(document_id)), ("HGET", self._keys.document(document_id), "twin_of")]
        )
        if text is None and twin_of:
            text = await self._session.read_one("GET", self._keys.text(twin_of))
        return text

    async def get_openings(self, document_ids: Sequence[str], length: int) -> dict[str, str]:
        """See `RecordsStore`."""
        twins = await self._session.read([("HGET", self._keys.document(id_), "twin_of") for id_ in document_ids])
        holders = {id_: twin_of or id_ for id_, twin_of in zip(document_ids, twins, strict=True)}
        ids = list(dict.fromkeys(holders.values()))
        # A range may end within a character, hence bytes.
        parts = await self._session.read_bytes(
            [("GETRANGE", self._keys.text(id_), 0, _MOST_BYTES * max(1, length) - 1) for id_ in ids]
        )
        texts = {id_: _whole(part)[: max(0, length)] for id_, part in zip(ids, parts, strict=True) if part}
        return {id_: texts[holder] for id_, holder in holders.items() if holder in texts}

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        """See `RecordsStore`."""
        found = await self._session.read_one("MGET", *map(self._keys.chunk, ids)) if ids else []
        return [load_chunk(id_, text) for id_, text in zip(ids, found, strict=True) if text]

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        """See `RecordsStore`."""
        return await self.get_chunks(await self._session.read_one("ZRANGE", self._keys.chunks_of(document_id), 0, -1))

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        """See `RecordsStore`."""
        found = await ask_packed(self._session, _SOURCES, chunk_ids)
        return {id_: source for id_, source in zip(chunk_ids, found, strict=True) if source is not False}

    async def get_twin_sources(self, chunk_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """See `RecordsStore`."""
        found = await ask_packed(self._session, _TWINS, chunk_ids)
        named = {
            id_: tuple(source for _, source, status in sorted(twins) if status in COMMITTED_STATUSES)
            for id_, twins in zip(chunk_ids, found, strict=True)
            if twins
        }
        return {id_: sources for id_, sources in named.items() if sources}

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:
        """See `RecordsStore`."""
        if not chunk_ids:
            return []
        keys = self._keys
        said = [("LRANGE", keys.said(kind, id_), 0, -1) for id_ in chunk_ids for kind in ("entities", "relations")]
        heads = [("HMGET", keys.extractions, *chunk_ids), ("HMGET", keys.aliases, *chunk_ids)]
        texts, aliases, *lists = await self._session.read_at_once([*heads, *said])
        rows = zip(chunk_ids, texts, lists[::2], lists[1::2], aliases, strict=True)
        return [load_extraction(id_, text, *rest) for id_, text, *rest in rows if text]

    async def get_entity_mentions(self, chunk_ids: Sequence[str]) -> dict[str, tuple[EntityMention, ...]]:
        """See `RecordsStore`."""
        if not chunk_ids:
            return {}
        said = [("LRANGE", self._keys.said("entities", id_), 0, -1) for id_ in chunk_ids]
        texts, *lists = await self._session.read_at_once([("HMGET", self._keys.extractions, *chunk_ids), *said])
        rows = zip(chunk_ids, texts, lists, strict=True)
        return {id_: tuple(load_entity_mention(id_, item) for item in items) for id_, text, items in rows if text}

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
        """See `RecordsStore`."""
        return await read_evidence(self._session, entity_ids, relation_ids, leading)

    async def get_mention_places(self, entity_ids: Sequence[str], most: int) -> list[EntityPlaces]:
        """See `RecordsStore`."""
        return await read_places(self._session, entity_ids, most)


def _whole(part: bytes) -> str:
    """Return the text that part of its bytes stands for, without a character that was cut."""
    try:
        return part.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        return part[: error.start].decode("utf-8", "surrogatepass")
