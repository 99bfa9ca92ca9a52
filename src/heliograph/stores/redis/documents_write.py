"""Writing documents and chunks, with the indexes by which they are listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import get_args

from heliograph.models import Document
from heliograph.stores.changeset import Changeset
from heliograph.stores.inspection import ScanKind
from heliograph.stores.listing import DocumentSort
from heliograph.stores.redis.codec import dump_chunk, micros, sort_value
from heliograph.stores.redis.graph_write import hash_command
from heliograph.stores.redis.hashes import DOCUMENT_FIELDS, document_hash, to_document
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.session import Command, Session

__all__ = [
    "SORTS",
    "dating_command",
    "document_commands",
    "listing_commands",
    "places_of_document",
    "read_documents",
]

SORTS: tuple[str, ...] = get_args(DocumentSort)
# ARGV: prefix, ids of batches. Each takes its place by the moment of its last change.
_DATE_TRACKS = """
local p = ARGV[1]
for i = 2, #ARGV do
  local last = redis.call('ZRANGE', p .. 'track:' .. ARGV[i], -1, -1, 'WITHSCORES')
  if last[2] then redis.call('ZADD', p .. 'tracks', '-' .. last[2], ARGV[i])
  else redis.call('ZREM', p .. 'tracks', ARGV[i]) end
end
"""
# ARGV: prefix, ids of documents. Each says which chunks it has.
_NAME_CHUNKS = """
local p = ARGV[1]
for i = 2, #ARGV do
  local key = p .. 'doc:' .. ARGV[i]
  if redis.call('EXISTS', key) == 1 then
    local ids = redis.call('ZRANGE', p .. 'chunks_of:' .. ARGV[i], 0, -1)
    redis.call('HSET', key, 'chunk_ids', #ids == 0 and '[]' or cjson.encode(ids))
  end
end
"""


async def read_documents(session: Session, ids: Sequence[str]) -> dict[str, Document]:
    """Return, per id, the document there is."""
    rows = await session.read([("HMGET", session.keys.document(id_), *DOCUMENT_FIELDS) for id_ in ids])
    return {id_: to_document(id_, row) for id_, row in zip(ids, rows, strict=True) if row[0] is not None}


async def document_commands(session: Session, changeset: Changeset, version: int) -> list[Command]:  # noqa: ARG001
    """Return what applies the documents, texts and chunks of a changeset."""
    touched = list(dict.fromkeys([*changeset.removed_documents, *(item.id for item in changeset.documents)]))
    chunk_ids = list(dict.fromkeys([*changeset.removed_chunks, *(item.id for item in changeset.chunks)]))
    # Both are asked in one round trip: a session of a commit gathers only what is asked at the same time.
    hashes = [("HMGET", session.keys.document(id_), *DOCUMENT_FIELDS) for id_ in touched]
    owners = [("HMGET", session.keys.owners, *chunk_ids)] if chunk_ids else []
    rows = await session.read([*hashes, *owners])
    known = {
        id_: to_document(id_, row) for id_, row in zip(touched, rows[: len(touched)], strict=True) if row[0] is not None
    }
    owned = dict(zip(chunk_ids, rows[-1], strict=True)) if chunk_ids else {}
    new = {item.id for item in changeset.documents} - known.keys()
    return [
        *_document_commands(session.keys, changeset, known),
        *_text_commands(session.keys, changeset),
        *_chunk_commands(session.keys, changeset, {id_: owner for id_, owner in owned.items() if owner}, new),
    ]


def _document_commands(keys: Keys, changeset: Changeset, known: dict[str, Document]) -> Iterator[Command]:
    tracks = {item.track_id for item in (*known.values(), *changeset.documents)} - {""}
    for id_ in changeset.removed_documents:
        if id_ in known:
            yield from _unlisting(keys, known.pop(id_))
        yield "DEL", keys.document(id_), keys.text(id_)
        yield "ZREM", keys.ids(ScanKind.DOCUMENTS), id_
    for document in changeset.documents:
        before = known.get(document.id)
        now = replace(document, created_at=before.created_at) if before else document
        if before:
            yield from _unlisting(keys, before)
        yield hash_command(keys.document(now.id), document_hash(now, None if before else ()))
        yield from listing_commands(keys, now)
        known[now.id] = now
    if tracks:
        yield dating_command(keys, tracks)


def dating_command(keys: Keys, tracks: Iterable[str]) -> Command:
    """Return what puts batches in order by what their documents say."""
    return "EVAL", _DATE_TRACKS, 0, keys.prefix, *sorted(tracks)


def listing_commands(keys: Keys, item: Document) -> Iterator[Command]:
    """Yield what puts a document into the indexes; `dating_command` has to follow for its batch."""
    yield "ZADD", keys.ids(ScanKind.DOCUMENTS), 0, item.id
    for order, place in places_of_document(keys, item):
        yield "ZADD", order, 0, place
    yield "SADD", keys.of("hash", item.content_hash), item.id
    if item.track_id:
        yield "ZADD", keys.of("track", item.track_id), micros(item.updated_at), item.id
    if item.twin_of:
        yield "SADD", keys.twins(item.twin_of), item.id


def places_of_document(keys: Keys, item: Document) -> Iterator[tuple[str, str]]:
    """Yield in which orders a document stands, and as what."""
    for sort in SORTS:
        place = f"{sort_value(item, sort)}\0{item.id}"
        yield keys.documents("", sort), place
        yield keys.documents(item.status.value, sort), place


def _unlisting(keys: Keys, item: Document) -> Iterator[Command]:
    for order, place in places_of_document(keys, item):
        yield "ZREM", order, place
    yield "SREM", keys.of("hash", item.content_hash), item.id
    if item.track_id:
        yield "ZREM", keys.of("track", item.track_id), item.id
    if item.twin_of:
        yield "SREM", keys.twins(item.twin_of), item.id


def _text_commands(keys: Keys, changeset: Changeset) -> Iterator[Command]:
    for id_, text in changeset.document_texts.items():
        yield "SET", keys.text(id_), text
    for id_ in changeset.removed_texts:
        yield "DEL", keys.text(id_)


def _chunk_commands(
    keys: Keys, changeset: Changeset, owned: dict[str, str], new_documents: set[str]
) -> Iterator[Command]:
    changed = {*owned.values(), *(item.document_id for item in changeset.chunks), *new_documents}
    for id_, owner in owned.items():
        yield "ZREM", keys.chunks_of(owner), id_
    if changeset.removed_chunks:
        yield "DEL", *map(keys.chunk, changeset.removed_chunks)
        yield "HDEL", keys.owners, *changeset.removed_chunks
        yield "ZREM", keys.ids(ScanKind.CHUNKS), *changeset.removed_chunks
    for chunk in changeset.chunks:
        yield "SET", keys.chunk(chunk.id), dump_chunk(chunk)
        yield "HSET", keys.owners, chunk.id, chunk.document_id
        yield "ZADD", keys.chunks_of(chunk.document_id), chunk.position, chunk.id
        yield "ZADD", keys.ids(ScanKind.CHUNKS), 0, chunk.id
    if changed:
        yield "EVAL", _NAME_CHUNKS, 0, keys.prefix, *sorted(changed)
