"""What a commit does to the graph of the store that holds the truth."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from heliograph.models import Entity, Relation
from heliograph.stores.changeset import Changeset
from heliograph.stores.inspection import ScanKind
from heliograph.stores.redis.graph_write import entity_commands, rank_command, relation_commands
from heliograph.stores.redis.keys import Keys
from heliograph.stores.redis.session import Command, Session

__all__ = ["graph_commands"]

T = TypeVar("T", Entity, Relation)


async def graph_commands(session: Session, changeset: Changeset, version: int) -> list[Command]:  # noqa: ARG001
    """Return what applies the folded entities and relations of a changeset."""
    keys = session.keys
    chunk_ids = list(dict.fromkeys(id_ for item in changeset.entities for id_ in item.chunk_ids))
    owners: list[Command] = [("HMGET", keys.owners, *chunk_ids)] if chunk_ids else []
    entities = [("HGET", keys.entity(item.id), "created_at") for item in changeset.entities]
    relations = [("HGET", keys.relation(item.id), "created_at") for item in changeset.relations]
    rows = await session.read([*entities, *relations, *owners])
    stored = dict(zip(chunk_ids, rows[-1], strict=True)) if chunk_ids else {}
    owner_ids = {id_: owner for id_, owner in stored.items() if owner}
    owner_ids |= {chunk.id: chunk.document_id for chunk in changeset.chunks}
    dates = rows[: len(entities)], rows[len(entities) : len(entities) + len(relations)]
    dated = _dated(changeset.entities, changeset.removed_entities, changeset.moments, dates[0])
    joined = _dated(changeset.relations, changeset.removed_relations, changeset.moments, dates[1])
    if not (dated or joined or changeset.removed_entities or changeset.removed_relations):
        return []
    return [
        *relation_commands(keys, changeset.removed_relations, joined),
        *entity_commands(keys, changeset.removed_entities, dated, owner_ids, {}),
        rank_command(keys),
        *_listing(keys, ScanKind.ENTITIES, changeset.removed_entities, [item.id for item in dated]),
        *_listing(keys, ScanKind.RELATIONS, changeset.removed_relations, [item.id for item in joined]),
    ]


def _listing(keys: Keys, kind: ScanKind, removed: Sequence[str], put: Sequence[str]) -> Iterator[Command]:
    if removed:
        yield "ZREM", keys.ids(kind), *removed
    if put:
        yield "ZADD", keys.ids(kind), *(part for id_ in put for part in (0, id_))


def _dated(items: Sequence[T], removed: Sequence[str], moments: Mapping[str, int], stored: Sequence[Any]) -> list[T]:
    """Return entities or relations with the moments at which they first appeared."""
    # What is removed and put in one changeset appears anew.
    gone, now = set(removed), int(time.time())
    known = {item.id: int(moment) for item, moment in zip(items, stored, strict=True) if moment is not None}
    return [
        replace(item, created_at=known[item.id])
        if item.id in known and item.id not in gone
        else replace(item, created_at=moments.get(item.id, now))
        for item in items
    ]
