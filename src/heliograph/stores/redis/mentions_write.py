"""Writing what was read in chunks: extractions, the mentions under what they count for, and evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heliograph.models import EntityMention, Extraction, RelationMention
from heliograph.stores.changeset import Changeset
from heliograph.stores.inspection import ScanKind
from heliograph.stores.redis.codec import (
    dump,
    dump_entity_mention,
    dump_extraction,
    dump_relation_mention,
    dump_versioned,
    load_entity_mention,
    load_relation_mention,
    mention_place,
)
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.session import Command, Session
from heliograph.text.mention_ids import end_ids, mention_entity_id, mention_relation_id
from heliograph.text.names import name_to_entity_id

__all__ = ["mention_commands"]

_ENTITIES, _RELATIONS = "entities", "relations"
_MENTIONED = {_ENTITIES: ScanKind.MENTIONED_ENTITIES, _RELATIONS: ScanKind.MENTIONED_RELATIONS}
_EVIDENCE = {_ENTITIES: ScanKind.ENTITY_EVIDENCE, _RELATIONS: ScanKind.RELATION_EVIDENCE}
# ARGV: keys and places, in turn.
_ADD = "for i = 1, #ARGV, 2 do redis.call('ZADD', ARGV[i], 0, ARGV[i + 1]) end"
_REMOVE = "for i = 1, #ARGV, 2 do redis.call('ZREM', ARGV[i], ARGV[i + 1]) end"
# ARGV: where mentions are, without id; where ids are; ids. Those that have a mention are listed, others are not.
_LIST = """
for i = 3, #ARGV do
  if redis.call('EXISTS', ARGV[1] .. ARGV[i]) == 1 then redis.call('ZADD', ARGV[2], 0, ARGV[i])
  else redis.call('ZREM', ARGV[2], ARGV[i]) end
end
"""


@dataclass
class _Places:
    """Where the mentions of some chunks stand.

    Attributes:
        places: Per key.
        counted: Ids that they count for, per kind; of relations only those that are one.
    """

    places: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    counted: Mapping[str, set[str]] = field(default_factory=lambda: {_ENTITIES: set[str](), _RELATIONS: set[str]()})

    def add(
        self, keys: Keys, chunk_id: str, entities: Iterable[EntityMention], relations: Iterable[RelationMention]
    ) -> None:
        """Take in the mentions of one chunk, in the order they were written."""
        for ordinal, mention in enumerate(entities):
            place, id_ = mention_place(mention.rank, chunk_id, ordinal), mention_entity_id(mention)
            self.places[keys.mentions(_ENTITIES, id_)].add(place)
            self.counted[_ENTITIES].add(id_)
            if mention.entity_id and (named := name_to_entity_id(mention.name)) != id_:
                self.places[keys.moved(named)].add(place)
        for ordinal, pair in enumerate(relations):
            place, id_ = mention_place(pair.rank, chunk_id, ordinal), mention_relation_id(pair)
            self.places[keys.mentions(_RELATIONS, id_)].add(place)
            # One whose two ends are the same entity is kept under that entity, and counts for no relation.
            if id_ != end_ids(pair)[0]:
                self.counted[_RELATIONS].add(id_)


async def mention_commands(session: Session, changeset: Changeset, version: int) -> list[Command]:
    """Return what applies the extractions and the evidence of a changeset."""
    keys = session.keys
    read = {item.chunk_id: item for item in changeset.extractions}
    chunk_ids = list(dict.fromkeys([*changeset.removed_chunks, *read]))
    old = await session.read([("LRANGE", keys.said(kind, id_), 0, -1) for id_ in chunk_ids for kind in _MENTIONED])
    before, after = _Places(), _Places()
    for id_, entities, relations in zip(chunk_ids, old[::2], old[1::2], strict=True):
        before.add(
            *(keys, id_, [load_entity_mention(id_, item) for item in entities]),
            [load_relation_mention(id_, item) for item in relations],
        )
    for id_, item in read.items():
        after.add(keys, id_, item.entities, item.relations)
    return [
        *_removal_commands(keys, changeset.removed_chunks, read),
        *(command for item in read.values() for command in _extraction_commands(keys, item)),
        *_place_commands(before.places, after.places),
        *_listing_commands(keys, before, after),
        *_evidence_commands(keys, changeset, version),
    ]


def _removal_commands(keys: Keys, removed: Sequence[str], read: Mapping[str, Extraction]) -> Iterator[Command]:
    if removed:
        yield "HDEL", keys.extractions, *removed
        yield "HDEL", keys.aliases, *removed
        yield "ZREM", keys.ids(ScanKind.EXTRACTIONS), *removed
    said = [keys.said(kind, id_) for id_ in dict.fromkeys([*removed, *read]) for kind in _MENTIONED]
    if said:
        yield "DEL", *said


def _extraction_commands(keys: Keys, item: Extraction) -> Iterator[Command]:
    yield "HSET", keys.extractions, item.chunk_id, dump_extraction(item)
    yield "ZADD", keys.ids(ScanKind.EXTRACTIONS), 0, item.chunk_id
    if item.aliases:
        yield "HSET", keys.aliases, item.chunk_id, dump([(alias.name, alias.alias) for alias in item.aliases])
    else:
        yield "HDEL", keys.aliases, item.chunk_id
    if item.entities:
        yield "RPUSH", keys.said(_ENTITIES, item.chunk_id), *map(dump_entity_mention, item.entities)
    if item.relations:
        yield "RPUSH", keys.said(_RELATIONS, item.chunk_id), *map(dump_relation_mention, item.relations)


def _place_commands(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> Iterator[Command]:
    none = set[str]()
    for script, had, has in ((_REMOVE, after, before), (_ADD, before, after)):
        values = [part for key in has for place in has[key] - had.get(key, none) for part in (key, place)]
        if values:
            yield "EVAL", script, 0, *values


def _listing_commands(keys: Keys, before: _Places, after: _Places) -> Iterator[Command]:
    for kind, listed in _MENTIONED.items():
        if changed := before.counted[kind] ^ after.counted[kind]:
            yield "EVAL", _LIST, 0, keys.mentions(kind, ""), keys.ids(listed), *changed


def _evidence_commands(keys: Keys, changeset: Changeset, version: int) -> Iterator[Command]:
    entities = {
        item.id: (item.names, item.types, item.mention_count) if item.mention_count else None
        for item in changeset.entity_evidence
    }
    relations = {
        item.id: (item.source_id, item.target_id, item.keywords, item.weight_millionths, item.mention_count)
        if item.mention_count
        else None
        for item in changeset.relation_evidence
    }
    groups: Mapping[str, Mapping[str, tuple[Any, ...] | None]] = {_ENTITIES: entities, _RELATIONS: relations}
    for kind, group in groups.items():
        gone = [id_ for id_, counts in group.items() if counts is None]
        if gone:
            yield "HDEL", keys.evidence(kind), *gone
            yield "ZREM", keys.ids(_EVIDENCE[kind]), *gone
        kept = {id_: dump_versioned(version, counts) for id_, counts in group.items() if counts is not None}
        if kept:
            yield "HSET", keys.evidence(kind), *(part for pair in kept.items() for part in pair)
            yield "ZADD", keys.ids(_EVIDENCE[kind]), *(part for id_ in kept for part in (0, id_))
