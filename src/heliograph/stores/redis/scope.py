"""What a filter leaves of a workspace in Redis: documents are matched here, what they say is read by document.

Making a scope takes time in proportion to what matches. It also remembers where the mentions stand that it was made
from, so that folding an entity reads these and no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heliograph.filters import Filter, matches
from heliograph.models import COMMITTED_STATUSES, Document
from heliograph.stores.changeset import Collection
from heliograph.stores.inspection import ScanKind
from heliograph.stores.key_sets import KeySet
from heliograph.stores.redis.catalogue import Documents
from heliograph.stores.redis.session import Session
from heliograph.stores.redis.vector_index import KnownVectors
from heliograph.stores.scoped.scope import MILLION, Scope, Tie, find_owners, touching_relations

__all__ = ["RedisScope", "make_scope"]

_MOST_DOCUMENTS = 100
_MOST_IDS = 2_000
# ARGV: prefix, ids of documents. Per document its chunks and what their mentions count for, all joined by NUL.
_SAID = """
local p, found = ARGV[1], {}
for i = 2, #ARGV do
  local row = {}
  for _, id in ipairs(redis.call('ZRANGE', p .. 'chunks_of:' .. ARGV[i], 0, -1)) do
    row[#row + 1] = id
    row[#row + 1] = redis.call('HGET', p .. 'counted', id) or ''
  end
  found[#found + 1] = table.concat(row, '\\0')
end
return found
"""
# ARGV: where all ids of entities stand, ids. A digit for each: 1 if it is there.
_THERE = """
local found = {}
for i = 2, #ARGV do found[#found + 1] = redis.call('ZSCORE', ARGV[1], ARGV[i]) and '1' or '0' end
return table.concat(found)
"""
# ARGV: prefix, ids of relations. The ends of each, nothing of one that is not there, all joined by NUL.
_ENDS = """
local p, found = ARGV[1], {}
for i = 2, #ARGV do
  local ends = redis.call('HMGET', p .. 'relation:' .. ARGV[i], 'source', 'target')
  found[#found + 1] = ends[1] or ''
  found[#found + 1] = ends[2] or ''
end
return table.concat(found, '\\0')
"""

# Where a mention stands: place of its chunk in a list, and which of the chunk's mentions it is.
_ORDINAL_BITS = 24


@dataclass(slots=True, eq=False, kw_only=True)
class RedisScope(Scope):
    """The part of one data version that a filter leaves, and where it stands.

    Attributes:
        sources: Source of each matching document.
        moments: Per document that stores chunks, Unix seconds at which the first of those that have them was seen.
        twins: Per document that stores chunks, matching twins by id but for the one that has them here.
        said: Per entity and relation, where its mentions stand, for `places`.
        numbers: Numbers of rows of full text, by collection, as far as asked for.
        keys: What may be found among the vectors that a process knows, by collection, as far as asked for.
    """

    sources: Mapping[str, str]
    moments: Mapping[str, int]
    twins: Mapping[str, Sequence[str]]
    said: Mapping[str, Sequence[int]]
    chunk_ids: Sequence[str]
    numbers: dict[Collection, NDArray[np.int64]] = field(default_factory=dict[Collection, NDArray[np.int64]])
    keys: dict[Collection, tuple[KnownVectors, KeySet]] = field(
        default_factory=dict[Collection, tuple[KnownVectors, KeySet]]
    )

    def places(self, id_: str) -> list[tuple[str, int]]:
        """Return where the mentions of an entity or relation stand: chunk, and which of its mentions it is."""
        last = (1 << _ORDINAL_BITS) - 1
        return [(self.chunk_ids[place >> _ORDINAL_BITS], place & last) for place in self.said.get(id_, ())]

    def allowed(self, collection: Collection, known: KnownVectors) -> KeySet:
        """Return which of the vectors known are in the scope; blocks."""
        found = self.keys.get(collection)
        if found is None or found[0] is not known:
            keys = known.keys_of(id_.encode() for id_ in self.ids_of(collection))
            found = self.keys[collection] = known, KeySet(np.sort(keys))
        return found[1]


@dataclass(frozen=True, slots=True)
class _Matching:
    """Matching documents by id, each with the one that stores its chunks, if any does."""

    documents: Mapping[str, Document]
    holders: Mapping[str, str | None]


class _Said:
    """What was read of chunks."""

    def __init__(self) -> None:
        self.chunks: dict[str, str] = {}
        self.entities: dict[str, list[int]] = {}
        self.relations: dict[str, list[int]] = {}
        self.millionths: dict[str, int] = {}

    def add(self, holder: str, row: str) -> None:
        """Take in the chunks of one document."""
        parts = row.split("\0") if row else []
        for chunk_id, line in zip(parts[::2], parts[1::2], strict=True):
            place = len(self.chunks) << _ORDINAL_BITS
            self.chunks[chunk_id] = holder
            entities, _, relations = line.partition("\n")
            for ordinal, id_ in enumerate(entities.split(" ") if entities else ()):
                self.entities.setdefault(id_, []).append(place + ordinal)
            for ordinal, pair in enumerate(relations.split(" ") if relations else ()):
                id_, _, weight = pair.rpartition(":")
                self.relations.setdefault(id_, []).append(place + ordinal)
                self.millionths[id_] = self.millionths.get(id_, 0) + int(weight)


async def make_scope(session: Session, documents: Documents, filter_: Filter) -> RedisScope:
    """Return what a filter leaves of the documents' data version; commits that come meanwhile may be in it or not."""
    matching = await asyncio.to_thread(_match, documents.by_id, filter_)
    holders = sorted({holder for holder in matching.holders.values() if holder is not None})
    said = _Said()
    for part in _parts(holders, _MOST_DOCUMENTS):
        rows = await session.read_one("EVAL", _SAID, 0, session.keys.prefix, *part)
        for holder, row in zip(part, rows, strict=True):
            said.add(holder, row)
    there = await _find_entities(session, list(said.entities))
    ties = await _find_ties(session, said, there)
    return await asyncio.to_thread(_build, documents, matching, said, there, ties)


def _build(
    documents: Documents, matching: _Matching, said: _Said, there: Sequence[str], ties: Mapping[str, Tie]
) -> RedisScope:
    owners = find_owners(matching.holders.items())
    return RedisScope(
        version=documents.version,
        documents=frozenset(matching.documents),
        owners=owners,
        chunks=said.chunks,
        entities=touching_relations(there, ties),
        relations=ties,
        sources={id_: document.source for id_, document in matching.documents.items()},
        moments=_moments(matching),
        twins=_twins(matching, documents.by_id, owners),
        said={id_: said.entities[id_] for id_ in there} | {id_: said.relations[id_] for id_ in ties},
        chunk_ids=list(said.chunks),
    )


def _match(documents: Mapping[str, Document], filter_: Filter) -> _Matching:
    found = {id_: documents[id_] for id_ in sorted(documents) if matches(filter_, documents[id_])}
    return _Matching(found, {id_: _holder(item, documents) for id_, item in found.items()})


def _holder(document: Document, documents: Mapping[str, Document]) -> str | None:
    """Return the document that stores a document's chunks; a twin with another title does not vouch for them.

    They were read and are indexed under the original's title.
    """
    if not document.twin_of:
        return document.id
    original = documents.get(document.twin_of)
    vouches = original is not None and original.title == document.title and document.status in COMMITTED_STATUSES
    return document.twin_of if vouches else None


def _moments(matching: _Matching) -> dict[str, int]:
    moments: dict[str, int] = {}
    for id_, holder in matching.holders.items():
        if holder is not None:
            moment = int(matching.documents[id_].created_at.timestamp())
            moments[holder] = min(moment, moments.get(holder, moment))
    return moments


def _twins(matching: _Matching, documents: Mapping[str, Document], owners: Mapping[str, str]) -> dict[str, list[str]]:
    twins: dict[str, list[str]] = {}
    for id_, document in matching.documents.items():
        holder = document.twin_of
        if holder in documents and document.status in COMMITTED_STATUSES and owners.get(holder) != id_:
            twins.setdefault(holder, []).append(id_)
    return twins


async def _find_entities(session: Session, ids: Sequence[str]) -> list[str]:
    there: list[str] = []
    for part in _parts(ids, _MOST_IDS):
        digits = await session.read_one("EVAL", _THERE, 0, session.keys.ids(ScanKind.ENTITIES), *part)
        there += [id_ for id_, digit in zip(part, digits, strict=True) if digit == "1"]
    return there


async def _find_ties(session: Session, said: _Said, entity_ids: Iterable[str]) -> dict[str, Tie]:
    there, ties = set(entity_ids), dict[str, Tie]()
    for part in _parts(list(said.relations), _MOST_IDS):
        ends = (await session.read_one("EVAL", _ENDS, 0, session.keys.prefix, *part)).split("\0")
        for id_, source, target in zip(part, ends[::2], ends[1::2], strict=True):
            if source in there and target in there:
                ties[id_] = Tie(source, target, said.millionths[id_] / MILLION)
    return ties


def _parts(ids: Sequence[str], size: int) -> list[Sequence[str]]:
    return [ids[start : start + size] for start in range(0, len(ids), size)]
