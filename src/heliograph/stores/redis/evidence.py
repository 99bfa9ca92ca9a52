"""Reading what was said of entities and relations: mentions in canonical order, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from heliograph.ids import is_subject_rank
from heliograph.models import EntityEvidence, EntityMention, RelationEvidence, RelationMention
from heliograph.stores.listing import EntityPlaces
from heliograph.stores.redis.codec import (
    load_entity_evidence,
    load_entity_mention,
    load_relation_evidence,
    load_relation_mention,
    place_chunk,
    place_rank,
)
from heliograph.stores.redis.session import Command, Session

__all__ = ["read_evidence", "read_mentions", "read_places"]

M = TypeVar("M", EntityMention, RelationMention)
# ARGV: prefix, first and last place, how many ids are of entities, ids. Per id what its mentions add up to, if
# anything, and, for each of its mentions in canonical order from the first place to the last, the chunk's id and what
# is said. All of it is of one moment, since nothing else runs meanwhile.
_READ = """
local p, first, last, entities = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local found = {}
for i = 5, #ARGV do
  local kind = i - 4 <= entities and 'entities:' or 'relations:'
  local row = {redis.call('HGET', p .. 'evidence:' .. kind:sub(1, -2), ARGV[i]) or ''}
  for _, place in ipairs(redis.call('ZRANGE', p .. 'mentions:' .. kind .. ARGV[i], first, last)) do
    local chunk = place:sub(17, -8)
    row[#row + 1] = chunk
    row[#row + 1] = redis.call('LINDEX', p .. 'said:' .. kind .. chunk, tonumber(place:sub(-6), 16)) or ''
  end
  found[#found + 1] = row
end
return found
"""
# ARGV: prefix, first and last place, entity ids. Per entity one text, a line each: how many mentions it has, and the
# places; an empty one if it has none. Many small answers would keep the event loop busy.
_PLACES = """
local p, found = ARGV[1], {}
for i = 4, #ARGV do
  local evidence = redis.call('HGET', p .. 'evidence:entities', ARGV[i])
  if evidence then
    local places = redis.call('ZRANGE', p .. 'mentions:entities:' .. ARGV[i], ARGV[2], ARGV[3])
    table.insert(places, 1, evidence:match('(%d+)%]$'))
    found[#found + 1] = table.concat(places, '\\n')
  else
    found[#found + 1] = ''
  end
end
return found
"""
# Ids in one call; others wait while it runs.
_MOST_IDS = 500


@dataclass(frozen=True, slots=True)
class _Row:
    """What stands under one id: evidence as it is stored, empty if there is none, and mentions as they are stored."""

    id: str
    evidence: str
    said: Sequence[str]

    def mentions(self, load: Callable[[str, str], M]) -> tuple[M, ...]:
        """Return the mentions."""
        return tuple(load(chunk, text) for chunk, text in zip(self.said[::2], self.said[1::2], strict=True) if text)


async def read_evidence(
    session: Session, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
    """Return the evidence for these, each with its first `leading` mentions, all of one moment."""
    entities, relations = await _read(session, entity_ids, relation_ids, 0, leading)
    return (
        [
            load_entity_evidence(row.id, row.evidence, row.mentions(load_entity_mention))
            for row in entities
            if row.evidence
        ],
        [
            load_relation_evidence(row.id, row.evidence, row.mentions(load_relation_mention))
            for row in relations
            if row.evidence
        ],
    )


async def read_mentions(
    session: Session, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
    """Return, per id that has any, its mentions in canonical order from `offset` on, at most `limit`."""
    entities, relations = await _read(session, entity_ids, relation_ids, offset, limit)
    return (
        {row.id: list(row.mentions(load_entity_mention)) for row in entities if row.said},
        {row.id: list(row.mentions(load_relation_mention)) for row in relations if row.said},
    )


async def read_places(session: Session, entity_ids: Sequence[str], most: int) -> list[EntityPlaces]:
    """Return where entities are mentioned, see `RecordsStore.get_mention_places`; reads none of what is said."""
    if not entity_ids:
        return []
    first, last = (0, most - 1) if most > 0 else (1, 0)
    windows = [entity_ids[start : start + _MOST_IDS] for start in range(0, len(entity_ids), _MOST_IDS)]
    answers = await session.read_at_once(
        [("EVAL", _PLACES, 0, session.keys.prefix, first, last, *window) for window in windows]
    )
    rows = [row for found in answers for row in found]
    return [_places(id_, row, most) for id_, row in zip(entity_ids, rows, strict=True) if row]


def _places(id_: str, row: str, most: int) -> EntityPlaces:
    head, *places = row.split("\n")
    count, subjects = int(head), sum(is_subject_rank(place_rank(place)) for place in places)
    read = places if count <= most else places[:subjects]
    return EntityPlaces(id_, count, tuple(map(place_chunk, read)), subjects)


async def _read(
    session: Session, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
) -> tuple[list[_Row], list[_Row]]:
    ids = [*entity_ids, *relation_ids]
    if not ids:
        return [], []
    first, last = (max(0, offset), max(0, offset) + limit - 1) if limit > 0 else (1, 0)
    commands: list[Command] = []
    for start in range(0, len(ids), _MOST_IDS):
        entities = min(_MOST_IDS, max(0, len(entity_ids) - start))
        window = ids[start : start + _MOST_IDS]
        commands.append(("EVAL", _READ, 0, session.keys.prefix, first, last, entities, *window))
    answers: list[Any] = [row for rows in await session.read_at_once(commands) for row in rows]
    rows = [_Row(id_, row[0], row[1:]) for id_, row in zip(ids, answers, strict=True)]
    return rows[: len(entity_ids)], rows[len(entity_ids) :]
