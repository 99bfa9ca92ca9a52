"""The graph in the embedded store: entities, relations, names, neighbourhoods and paths."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import apsw

from heliograph.models import Entity, Relation
from heliograph.stores.base import GraphStore, IncidentRelation
from heliograph.stores.changeset import Changeset
from heliograph.stores.graph import LAST_CHARACTER, MOST_CANDIDATES, KeyedNameIndex, keys_of, pieces_within, terms_of
from heliograph.stores.sql import ENTITIES, RELATIONS, Columns
from heliograph.stores.sqlite.database import Database, IdMemory, KnownIds, Row, array, fetch, upsert

# Names of entities: `entity_name`, a B-tree of the keys of names and aliases, for prefixes; `names_terms`, their
# pieces, for substrings. The names of candidates are then compared, so that order and distance of pieces need not be
# stored.

T = TypeVar("T")
_PUT_NAME = "INSERT OR IGNORE INTO entity_name VALUES (?, ?)"
_PUT_TERMS = "INSERT INTO names_terms (rowid, terms) VALUES (?, ?)"


class SqliteNameIndex(KeyedNameIndex):
    """The name index in one B-tree and one FTS5 table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_candidates(self, key: str, limit: int) -> list[Row]:
        return await self._database.read(lambda connection: _candidates(connection, key, limit))


def _candidates(connection: apsw.Connection, key: str, limit: int) -> list[Row]:
    query = "SELECT DISTINCT key FROM entity_name WHERE name = ?1 OR (name > ?1 AND name < ?2) ORDER BY name LIMIT ?3"
    keys = {found for (found,) in fetch(connection, query, (key, key + LAST_CHARACTER, MOST_CANDIDATES))}
    if len(keys) < limit and (pieces := pieces_within(key)):
        match = " ".join(f'"{piece}"' for piece in pieces)
        query = "SELECT rowid FROM names_terms WHERE names_terms MATCH ? ORDER BY rowid LIMIT ?"
        keys.update(found for (found,) in fetch(connection, query, (match, MOST_CANDIDATES)))
    query = """SELECT identity.id, name, aliases, degree FROM carray(?) AS wanted
               CROSS JOIN entity ON entity.key = wanted.value
               CROSS JOIN entity_degree USING (key) CROSS JOIN identity USING (key)"""
    return fetch(connection, query, (array(sorted(keys)),)) if keys else []


def write_names(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    """Apply a changeset to the name index, before entities are written: the old names are read from them."""
    new = {keys[item.id]: keys_of((item.name, *item.aliases)) for item in changeset.entities}
    gone = {keys[id_]: set[str]() for id_ in changeset.removed_entities if id_ in keys}
    wanted = gone | new
    if not wanted:
        return
    query = "SELECT key, name, aliases FROM carray(?) AS wanted CROSS JOIN entity ON entity.key = wanted.value"
    rows = fetch(connection, query, (array(wanted),))
    known = {key: keys_of((name, *aliases.split("\n"))) for key, name, aliases in rows}
    changed = [key for key, names in wanted.items() if names != known.get(key, set())]
    lost = ((name, key) for key in changed for name in known.get(key, set()) - wanted[key])
    connection.executemany("DELETE FROM entity_name WHERE name = ? AND key = ?", lost)
    connection.executemany("DELETE FROM names_terms WHERE rowid = ?", ((key,) for key in changed if key in known))
    gained = ((name, key) for key in changed for name in wanted[key] - known.get(key, set()))
    connection.executemany(_PUT_NAME, gained)
    terms = ((key, terms_of(wanted[key])) for key in changed if wanted[key])
    connection.executemany(_PUT_TERMS, terms)


def rebuild_names(connection: apsw.Connection) -> None:
    """Rebuild the name index from the entities."""
    connection.execute("DELETE FROM entity_name")
    connection.execute("INSERT INTO names_terms (names_terms) VALUES ('delete-all')")
    after = -1
    query = "SELECT key, name, aliases FROM entity WHERE key > ? ORDER BY key LIMIT ?"
    while rows := fetch(connection, query, (after, MOST_CANDIDATES)):
        names = {key: keys_of((name, *aliases.split("\n"))) for key, name, aliases in rows}
        connection.executemany(_PUT_NAME, ((name, key) for key, found in names.items() for name in found))
        connection.executemany(_PUT_TERMS, ((key, terms_of(found)) for key, found in names.items()))
        after = rows[-1][0]


# Walking the embedded graph by integer keys: neighbourhoods and shortest paths, level by level, within limits.

_NEIGHBOURS = """
SELECT wanted.value, target_key, weight FROM carray(?1) AS wanted CROSS JOIN relation ON source_key = wanted.value
UNION ALL
SELECT wanted.value, source_key, weight FROM carray(?1) AS wanted CROSS JOIN relation ON target_key = wanted.value
LIMIT ?2
"""
_ALL = -1


_ORDERED = """SELECT entity_degree.key FROM carray(?) AS wanted
               CROSS JOIN entity_degree ON entity_degree.key = wanted.value CROSS JOIN entity USING (key)
               ORDER BY degree DESC, name, entity_degree.key LIMIT ?"""
_EXISTING = """SELECT identity.id, identity.key FROM carray(?) AS wanted
               CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN entity USING (key)"""
_ENTITIES_BY_KEY = f"""SELECT {ENTITIES.select("entity", id="entity.key", degree="degree")} FROM carray(?) AS wanted
                       CROSS JOIN entity ON entity.key = wanted.value CROSS JOIN entity_degree USING (key)"""
# Only the name, not the whole row: a hub's row lists thousands of chunks.
_NAMES_BY_KEY = "SELECT entity.key, name FROM carray(?) AS wanted CROSS JOIN entity ON entity.key = wanted.value"
_RELATION = RELATIONS.select("relation", id="key", source_id="source_key", target_id="target_key")
_RELATIONS_BY_KEY = f"""SELECT {_RELATION} FROM carray(?) AS wanted
                        CROSS JOIN relation ON relation.key = wanted.value"""
# The unary plus keeps SQLite from scanning the array for every target; it then builds a set of the array once.
_RELATIONS_AMONG = f"""SELECT {_RELATION} FROM carray(?1) AS wanted CROSS JOIN relation ON source_key = wanted.value
                       WHERE +target_key IN (SELECT +value FROM carray(?1))"""
# As in the index `entity_by_degree`.
_WELL_CONNECTED = 16
_INCIDENT = """
WITH start (key) AS MATERIALIZED (
  SELECT DISTINCT value FROM carray(?)
), incident (key, source_key, target_key, weight) AS (
  SELECT relation.key, source_key, target_key, weight FROM start CROSS JOIN relation ON source_key = start.key
  UNION
  SELECT relation.key, source_key, target_key, weight FROM start CROSS JOIN relation ON target_key = start.key
)
SELECT incident.key, identity.id, source.degree + target.degree AS degree, weight FROM incident
CROSS JOIN entity_degree AS source ON source.key = source_key
CROSS JOIN entity_degree AS target ON target.key = target_key
CROSS JOIN identity ON identity.key = incident.key
ORDER BY degree DESC, weight DESC, identity.id
"""


class SqliteGraphStore(GraphStore):
    """The graph in tables."""

    def __init__(self, database: Database, ids: IdMemory) -> None:
        self._database = database
        self._ids = ids

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:

        def read(connection: apsw.Connection, known: KnownIds, keys: Mapping[str, int]) -> list[Entity]:
            rows = fetch(connection, _ENTITIES_BY_KEY, (array(list(keys.values())),))
            found = known.find_ids(connection, {row[0] for row in rows})
            entities = {key: ENTITIES.record((found[key], *row)) for key, *row in rows}
            return [entities[keys[id_]] for id_ in ids if keys.get(id_) in entities]

        return await self._read(ids, read)

    async def get_entity_names(self, ids: Sequence[str]) -> Mapping[str, str]:

        def read(connection: apsw.Connection, _: KnownIds, keys: Mapping[str, int]) -> list[tuple[str, str]]:
            names: dict[int, str] = dict(fetch(connection, _NAMES_BY_KEY, (array(list(keys.values())),)))
            return [(id_, names[key]) for id_, key in keys.items() if key in names]

        return dict(await self._read(ids, read))

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:

        def read(connection: apsw.Connection, known: KnownIds, keys: Mapping[str, int]) -> list[Relation]:
            wanted = [keys[id_] for id_ in ids if id_ in keys]
            return _relations(connection, known, fetch(connection, _RELATIONS_BY_KEY, (array(wanted),)))

        return await self._read(ids, read)

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:

        def read(connection: apsw.Connection, known: KnownIds, keys: Mapping[str, int]) -> list[IncidentRelation]:
            rows = fetch(connection, _INCIDENT, (array(list(keys.values())),))
            known.note({key: id_ for key, id_, *_ in rows})
            return [IncidentRelation._make(row[1:]) for row in rows]

        return await self._read(entity_ids, read)

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        return await self._list("TRUE", (), offset, limit)

    async def list_entities_of_type(self, type_: str, offset: int, limit: int) -> list[Entity]:
        return await self._list("entity.type = ?", (type_,), offset, limit)

    async def _list(self, condition: str, values: tuple[str, ...], offset: int, limit: int) -> list[Entity]:
        order = "ORDER BY degree DESC, name, identity.id LIMIT ? OFFSET ?"
        query = f"""SELECT {ENTITIES.select("entity", id="identity.id", degree="degree")} FROM entity_degree
                    CROSS JOIN identity USING (key) CROSS JOIN entity USING (key) WHERE {condition}"""
        bound = (*values, limit, offset)

        def read(connection: apsw.Connection) -> list[Row]:
            # The index holds only well-connected entities; most lists end within it.
            rows = fetch(connection, f"{query} AND degree >= {_WELL_CONNECTED} {order}", bound)
            return rows if len(rows) == limit else fetch(connection, f"{query} {order}", bound)

        return [ENTITIES.record(row) for row in await self._database.read(read)]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:

        def read(connection: apsw.Connection, known: KnownIds, keys: Mapping[str, int]) -> list[Relation]:
            rows = fetch(connection, _RELATIONS_AMONG, (array(list(keys.values())),))
            found = _relations(connection, known, rows)
            return sorted(found, key=lambda relation: (-relation.weight, relation.id))

        return await self._read(list(dict.fromkeys(entity_ids)), read)

    async def _read(
        self, ids: Sequence[str], work: Callable[[apsw.Connection, KnownIds, Mapping[str, int]], list[T]]
    ) -> list[T]:
        """Run `work` with the keys of these ids, if any is stored."""

        def read(connection: apsw.Connection) -> list[T]:
            known = self._ids.at(connection)
            keys = known.find_keys(connection, ids)
            return work(connection, known, keys) if keys else []

        return await self._database.read(read) if ids else []

    async def at_one_moment(self, work: Callable[[GraphStore], Coroutine[Any, Any, T]]) -> T:
        """Walks use integer keys."""
        return await self._database.read_at_once(lambda _: work(self))

    async def find_nodes(self, entity_ids: Sequence[str]) -> Mapping[str, int]:
        return dict(await self._database.fetch(_EXISTING, (array(entity_ids),))) if entity_ids else {}

    async def name_nodes(self, nodes: Collection[int]) -> Mapping[int, str]:
        return await self._database.read(lambda connection: self._ids.at(connection).find_ids(connection, nodes))

    async def find_steps(self, nodes: Collection[int], limit: int | None) -> list[tuple[int, int, float]]:
        values = array(nodes), _ALL if limit is None else limit
        return [(near, far, weight) for near, far, weight in await self._database.fetch(_NEIGHBOURS, values)]

    async def order_nodes(self, nodes: Collection[int], limit: int) -> list[int]:
        return [key for (key,) in await self._database.fetch(_ORDERED, (array(nodes), limit))]


def _relations(connection: apsw.Connection, known: KnownIds, rows: Sequence[Row]) -> list[Relation]:
    ids = known.find_ids(connection, {row[place] for row in rows for place in (0, 3, 4)})
    return [
        RELATIONS.record((ids[key], source, target, ids[source_key], ids[target_key], *rest))
        for key, source, target, source_key, target_key, *rest in rows
    ]


# Columns written as given; the moment of first appearance is kept.
_ENTITY = Columns(Entity, without=["id", "degree", "created_at"], are_lines=True)
_PUT_ENTITY = upsert("entity", ["key", "created_at", *_ENTITY.types], kept=["created_at"])
_ABOUT = Columns(Relation, without=["id", "source_id", "target_id", "created_at"], are_lines=True)
_PUT_RELATION = upsert(
    "relation", ["key", "source_key", "target_key", "created_at", *_ABOUT.types], kept=["created_at"]
)


def write_graph(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    """Apply the graph part of a changeset and keep degrees right."""
    now = int(time.time())
    _remove(connection, changeset, keys)
    entities = (
        (keys[item.id], changeset.moments.get(item.id, now), *_ENTITY.values(item)) for item in changeset.entities
    )
    connection.executemany(_PUT_ENTITY, entities)
    gained = Counter(key for ends in _write_relations(connection, changeset, keys, now) for key in ends)
    # Entities of this changeset may be new: their degree row is created with their first degree.
    degrees = [(keys[item.id], gained.pop(keys[item.id], 0)) for item in changeset.entities]
    query = """INSERT INTO entity_degree VALUES (?, ?)
      ON CONFLICT (key) DO UPDATE SET degree = degree + excluded.degree WHERE excluded.degree > 0"""
    connection.executemany(query, iter(degrees))
    _change_degrees(connection, gained)


def _remove(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    relations = [keys[id_] for id_ in changeset.removed_relations if id_ in keys]
    if relations:
        query = "SELECT source_key, target_key FROM relation WHERE key IN (SELECT value FROM carray(?))"
        lost = Counter(key for ends in fetch(connection, query, (array(relations),)) for key in ends)
        _change_degrees(connection, {key: -count for key, count in lost.items()})
        connection.execute("DELETE FROM relation WHERE key IN (SELECT value FROM carray(?))", (array(relations),))
    entities = [(keys[id_],) for id_ in changeset.removed_entities if id_ in keys]
    for table in ("entity", "entity_degree"):
        connection.executemany(f"DELETE FROM {table} WHERE key = ?", entities)


def _write_relations(
    connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int], now: int
) -> list[tuple[int, int]]:
    """Upsert relations and return the two ends of each that is new."""
    if not changeset.relations:
        return []
    wanted = [keys[item.id] for item in changeset.relations]
    query = "SELECT key FROM carray(?) AS wanted CROSS JOIN relation ON key = wanted.value"
    known = {key for (key,) in fetch(connection, query, (array(wanted),))}
    rows = (
        (
            *(keys[item.id], keys[item.source_id], keys[item.target_id], changeset.moments.get(item.id, now)),
            *_ABOUT.values(item),
        )
        for item in changeset.relations
    )
    connection.executemany(_PUT_RELATION, rows)
    new = {keys[item.id]: (keys[item.source_id], keys[item.target_id]) for item in changeset.relations}
    return [ends for key, ends in new.items() if key not in known]


def _change_degrees(connection: apsw.Connection, changes: Mapping[int, int]) -> None:
    query = "UPDATE entity_degree SET degree = degree + ? WHERE key = ?"
    connection.executemany(query, ((change, key) for key, change in changes.items()))
