"""Evidence and folds of what a `Scope` leaves, from the mentions in its chunks alone.

A thing's mentions are read in canonical order and those elsewhere passed over; where it has far more of them than the
scope has chunks, the scope's chunks are asked for theirs instead, so that a fold takes time in proportion to the
smaller of the two. What was folded is kept in the scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby
from operator import itemgetter
from typing import Literal, TypeVar

import apsw
import numpy as np

from heliograph.ids import is_subject_rank
from heliograph.models import Entity, EntityEvidence, EntityMention, Relation, RelationEvidence, RelationMention
from heliograph.stores.base import EntityPlaces, Fold
from heliograph.stores.key_sets import KeySet
from heliograph.stores.sqlite.evidence import read_relation_mention, to_places
from heliograph.stores.sqlite.identity import find_ids, find_keys
from heliograph.stores.sqlite.scope import Scope
from heliograph.stores.sqlite.sql import Row, array, fetch

M = TypeVar("M", EntityMention, RelationMention)

_Kind = Literal["entity", "relation"]
_COLUMNS: dict[_Kind, str] = {
    "entity": "entity_key, chunk_key, name, type, description, rank, name_hash IS NOT NULL",
    "relation": "relation_key, chunk_key, source, target, keywords, description, weight, rank, source_key, target_key",
}
# A thing with more mentions than this per chunk of the scope, and more than a few, is read by the scope's chunks.
_MENTIONS_PER_CHUNK = 4
_FEW_MENTIONS = 64


@dataclass(frozen=True, slots=True)
class _Said:
    """The rows of one thing's mentions in a scope, in canonical order, and the earliest moment of their documents."""

    rows: Sequence[Row]
    moment: int


def keys_within(connection: apsw.Connection, ids: Iterable[str], allowed: KeySet) -> dict[str, int]:
    """Return the keys of those ids that are allowed, in the order given."""
    wanted = list(dict.fromkeys(ids))
    keys = find_keys(connection, wanted)
    known = [id_ for id_ in wanted if id_ in keys]
    holds = allowed.holds(np.array([keys[id_] for id_ in known], np.int64)).tolist()
    return {id_: keys[id_] for id_, is_allowed in zip(known, holds, strict=True) if is_allowed}


def read_entity_evidence(
    connection: apsw.Connection, scope: Scope, fold: Fold, ids: Sequence[str], leading: int
) -> list[EntityEvidence]:
    """Return, in order, the evidence that the scope has of these entities."""
    keys = keys_within(connection, ids, scope.entities)
    mentions = _entity_mentions(
        connection, {key: id_ for id_, key in keys.items()}, _said(connection, scope, "entity", keys.values())
    )
    counted = (fold.count_entity(id_, mentions[key], leading) for id_, key in keys.items())
    return [replace(evidence, version=scope.version) for evidence in counted]


def read_places_within(connection: apsw.Connection, scope: Scope, ids: Sequence[str], most: int) -> list[EntityPlaces]:
    """Return, in order, where the scope mentions these entities, as `RecordsStore.get_mention_places` does."""
    keys = keys_within(connection, ids, scope.entities)
    rows = _rows_within(connection, scope, "entity", list(keys.values()), "entity_key, chunk_key, rank") if keys else ()
    mentions = {key: list(group) for key, group in groupby(rows, itemgetter(0))}
    kept = {
        key: (group if len(group) <= most else [row for row in group if is_subject_rank(row[2])])[:most]
        for key, group in mentions.items()
    }
    chunk_ids = find_ids(connection, {chunk for group in kept.values() for _, chunk, _ in group})
    return [to_places(id_, len(mentions[key]), kept[key], chunk_ids) for id_, key in keys.items()]


def read_relation_evidence(
    connection: apsw.Connection, scope: Scope, fold: Fold, ids: Sequence[str], leading: int
) -> list[RelationEvidence]:
    """Return, in order, the evidence that the scope has of these relations."""
    keys = keys_within(connection, ids, scope.relations)
    ends = _ends(connection, keys.values())
    mentions = _relation_mentions(connection, _said(connection, scope, "relation", keys.values()))
    counted = (fold.count_relation(id_, ends[key], mentions[key], leading) for id_, key in keys.items())
    return [replace(evidence, version=scope.version) for evidence in counted]


def fold_entities(connection: apsw.Connection, scope: Scope, fold: Fold, keys: Sequence[int]) -> dict[int, Entity]:
    """Return the entities with these keys, all of them in the scope, as the scope folds them."""
    found = {key: item for key in keys if isinstance(item := scope.folded.get(key), Entity)}
    ids = find_ids(connection, [key for key in keys if key not in found])
    if not ids:
        return found
    said = _said(connection, scope, "entity", ids)
    mentions = _entity_mentions(connection, ids, said)
    degrees = scope.degrees[scope.entities.places(np.array(list(ids), np.int64))].tolist()
    for (key, id_), degree in zip(ids.items(), degrees, strict=True):
        entity = fold.fold_entity(fold.count_entity(id_, mentions[key], fold.leading))
        found[key] = replace(entity, degree=degree, created_at=said[key].moment)
        scope.remember(key, found[key])
    return found


def fold_relations(connection: apsw.Connection, scope: Scope, fold: Fold, keys: Sequence[int]) -> dict[int, Relation]:
    """Return the relations with these keys, all of them in the scope, as the scope folds them."""
    found = {key: item for key in keys if isinstance(item := scope.folded.get(key), Relation)}
    ids = find_ids(connection, [key for key in keys if key not in found])
    if not ids:
        return found
    said = _said(connection, scope, "relation", ids)
    mentions = _relation_mentions(connection, said)
    ends = _ends(connection, ids)
    for key, id_ in ids.items():
        relation = fold.fold_relation(fold.count_relation(id_, ends[key], mentions[key], fold.leading))
        found[key] = replace(relation, created_at=said[key].moment)
        scope.remember(key, found[key])
    return found


def _entity_mentions(
    connection: apsw.Connection, ids: dict[int, str], said: dict[int, _Said]
) -> dict[int, list[EntityMention]]:
    chunk_ids = _chunk_ids(connection, said)
    return {
        key: [
            EntityMention(chunk_ids[chunk], name, kind, text, rank, ids[key] if is_resolved else "")
            for _, chunk, name, kind, text, rank, is_resolved in item.rows
        ]
        for key, item in said.items()
    }


def _relation_mentions(connection: apsw.Connection, said: dict[int, _Said]) -> dict[int, list[RelationMention]]:
    chunk_ids = _chunk_ids(connection, said)
    resolved = {key for item in said.values() for row in item.rows for key in row[-2:] if key is not None}
    ids = find_ids(connection, resolved)
    return {key: [_relation_mention(chunk_ids[row[1]], row, ids) for row in item.rows] for key, item in said.items()}


def _relation_mention(chunk_id: str, row: Row, ids: Mapping[int, str]) -> RelationMention:
    _, _, source, target, keywords, description, weight, rank, source_key, target_key = row
    said = source, target, keywords, description, weight, rank
    return read_relation_mention(chunk_id, *said, ids.get(source_key), ids.get(target_key))


def _chunk_ids(connection: apsw.Connection, said: dict[int, _Said]) -> dict[int, str]:
    return find_ids(connection, {row[1] for item in said.values() for row in item.rows})


def _ends(connection: apsw.Connection, relations: Iterable[int]) -> dict[int, tuple[str, str]]:
    query = """SELECT relation_evidence.key, source.id, target.id FROM carray(?) AS wanted
               CROSS JOIN relation_evidence ON relation_evidence.key = wanted.value
               CROSS JOIN identity AS source ON source.key = source_key
               CROSS JOIN identity AS target ON target.key = target_key"""
    keys = list(relations)
    rows = fetch(connection, query, (array(keys),)) if keys else []
    return {key: (source, target) for key, source, target in rows}


def _said(connection: apsw.Connection, scope: Scope, kind: _Kind, keys: Iterable[int]) -> dict[int, _Said]:
    """Return what the scope says of these things, each of which it has; the order of the result is any."""
    wanted = list(keys)
    rows = list(_rows_within(connection, scope, kind, wanted, _COLUMNS[kind])) if wanted else []
    chunks = np.fromiter((row[1] for row in rows), np.int64, len(rows))
    moments = iter(scope.moments[scope.chunks.places(chunks)].tolist())
    grouped = ((key, list(group)) for key, group in groupby(rows, itemgetter(0)))
    return {key: _Said(group, min(next(moments) for _ in group)) for key, group in grouped}


def _rows_within(
    connection: apsw.Connection, scope: Scope, kind: _Kind, keys: list[int], columns: str
) -> Iterator[Row]:
    """Yield the rows of the mentions of each thing that stand in the scope, thing by thing, in canonical order."""
    limit = max(_FEW_MENTIONS, _MENTIONS_PER_CHUNK * len(scope.chunks))
    query = f"SELECT key, mention_count > ? FROM carray(?) AS wanted CROSS JOIN {kind}_evidence ON key = wanted.value"
    is_large = dict(fetch(connection, query, (limit, array(keys))))
    small = [key for key in keys if not is_large.get(key)]
    if small:
        # The table is clustered by thing, rank, chunk and ordinal, and is read in that order.
        query = f"""SELECT {columns} FROM carray(?) AS wanted
                    CROSS JOIN {kind}_mention ON {kind}_key = wanted.value"""
        rows = fetch(connection, query, (array(small),))
        chunks = np.fromiter((row[1] for row in rows), np.int64, len(rows))
        yield from compress(rows, scope.chunks.holds(chunks).tolist())
    for key in keys:
        if is_large.get(key):
            query = f"""SELECT {columns} FROM carray(?) AS wanted
                        CROSS JOIN {kind}_mention INDEXED BY {kind}_mention_by_chunk
                        ON chunk_key = wanted.value AND {kind}_key = ? ORDER BY rank, chunk_key, ordinal"""
            yield from fetch(connection, query, (array(scope.chunks.keys), key))
