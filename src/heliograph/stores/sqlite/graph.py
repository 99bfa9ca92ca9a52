"""The graph in the embedded store: entities, relations, names, neighbourhoods and paths."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import apsw

from heliograph.models import Entity, GraphPath, Relation, Subgraph
from heliograph.stores.base import GraphStore, IncidentRelation
from heliograph.stores.changeset import Changeset
from heliograph.stores.names import NameIndex, keys_of, pieces_within, rank_names, terms_of
from heliograph.stores.paths import PathSearch
from heliograph.stores.sqlite.database import Database, Row, array, fetch, fetch_one
from heliograph.stores.sqlite.identity import IdMemory, KnownIds, find_ids, find_keys
from heliograph.text.names import entity_key

# Names of entities in the embedded store: a B-tree of their keys for beginnings, pieces of them for the rest.
#
# `entity_name` holds the key of every name and alias, `names_terms` the `name_pieces` per entity. Candidates are
# found by these, and their names looked at, so that order and distance of the pieces need not be kept.

_MOST_READ = 2_000
_LAST = "\U0010ffff"
_PUT_NAME = "INSERT OR IGNORE INTO entity_name VALUES (?, ?)"
_PUT_TERMS = "INSERT INTO names_terms (rowid, terms) VALUES (?, ?)"


class SqliteNameIndex(NameIndex):
    """One B-tree and one FTS5 table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_names(self, text: str, limit: int) -> list[str]:
        """See `NameIndex`; 2,000 names that begin with the text are ranked, and as many that contain it."""
        key = entity_key(text)
        if not key or limit < 1:
            return []
        rows = await self._database.read(lambda connection: _candidates(connection, key, limit))
        found = ((id_, name, aliases.split("\n"), degree) for id_, name, aliases, degree in rows)
        return rank_names(found, text, limit)


def _candidates(connection: apsw.Connection, key: str, limit: int) -> list[tuple[str, str, str, int]]:
    query = "SELECT DISTINCT key FROM entity_name WHERE name = ?1 OR (name > ?1 AND name < ?2) ORDER BY name LIMIT ?3"
    keys = {found for (found,) in fetch(connection, query, (key, key + _LAST, _MOST_READ))}
    if len(keys) < limit and (pieces := pieces_within(key)):
        match = " ".join(f'"{piece}"' for piece in pieces)
        query = "SELECT rowid FROM names_terms WHERE names_terms MATCH ? ORDER BY rowid LIMIT ?"
        keys.update(found for (found,) in fetch(connection, query, (match, _MOST_READ)))
    if not keys:
        return []
    query = """SELECT identity.id, name, aliases, degree FROM carray(?) AS wanted
               CROSS JOIN entity ON entity.key = wanted.value
               CROSS JOIN entity_degree USING (key) CROSS JOIN identity USING (key)"""
    return fetch(connection, query, (array(sorted(keys)),))


def write_names(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    """Apply what a changeset does to names, before entities are written: the old names are read from them."""
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
    """Write all names anew from the entities."""
    connection.execute("DELETE FROM entity_name")
    connection.execute("INSERT INTO names_terms (names_terms) VALUES ('delete-all')")
    after = -1
    query = "SELECT key, name, aliases FROM entity WHERE key > ? ORDER BY key LIMIT ?"
    while rows := fetch(connection, query, (after, _MOST_READ)):
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


def walk(connection: apsw.Connection, entity_id: str, depth: int, max_entities: int) -> tuple[list[int], bool]:
    """Return the keys within `depth` relations of an entity, and whether some were left out.

    The order is that of `Subgraph`: each level is taken by degree (descending), then name.
    """
    start = find_keys(connection, (entity_id,)).get(entity_id)
    if start is None or max_entities < 1 or not _exist(connection, start):
        return [], False
    found = {start: None}
    frontier = [start]
    for _ in range(depth):
        level = {key for _, key, _ in fetch(connection, _NEIGHBOURS, (array(frontier), _ALL))} - found.keys()
        if not level:
            break
        room = max_entities - len(found)
        frontier = _most_connected(connection, level, room)
        found.update(dict.fromkeys(frontier))
        if len(level) > room:
            return list(found), True
    return list(found), False


def _exist(connection: apsw.Connection, key: int) -> bool:
    return fetch_one(connection, "SELECT 1 FROM entity WHERE key = ?", (key,)) is not None


def _most_connected(connection: apsw.Connection, keys: Collection[int], limit: int) -> list[int]:
    query = """SELECT entity_degree.key FROM carray(?) AS wanted
               CROSS JOIN entity_degree ON entity_degree.key = wanted.value CROSS JOIN entity USING (key)
               ORDER BY degree DESC, name, entity_degree.key LIMIT ?"""
    return [key for (key,) in fetch(connection, query, (array(keys), limit))]


def find_paths(
    connection: apsw.Connection, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int
) -> list[list[int]]:
    """Return the keys along up to `limit` shortest paths, in the order of `GraphStore.find_shortest_paths`."""
    keys = find_keys(connection, (source_id, target_id))
    if len(keys) < len({source_id, target_id}) or not all(_exist(connection, key) for key in keys.values()):
        return []
    search = PathSearch(keys[source_id], keys[target_id], max_length, limit, most_visited)
    while frontier := search.frontier:
        # One more than may be met shows that there are too many.
        search.expand(fetch(connection, _NEIGHBOURS, (array(frontier), most_visited + 1)))
    return search.paths(lambda found: find_ids(connection, found))


_ENTITY = "name, type, description, aliases, chunk_ids, token_count, degree, entity.created_at"
_ENTITIES_BY_KEY = f"""SELECT entity.key, {_ENTITY} FROM carray(?) AS wanted
                       CROSS JOIN entity ON entity.key = wanted.value CROSS JOIN entity_degree USING (key)"""
_RELATION = """relation.key, source_key, target_key, source, target, keywords, description, weight, chunk_ids,
               token_count, relation.created_at"""
_RELATIONS_BY_KEY = f"""SELECT {_RELATION} FROM carray(?) AS wanted
                        CROSS JOIN relation ON relation.key = wanted.value"""
# With a unary plus, or SQLite looks every target up in the array, from its beginning, instead of in a set made of it.
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
        if not ids:
            return []

        def read(connection: apsw.Connection) -> list[Entity]:
            known = self._ids.at(connection)
            keys = known.find_keys(connection, ids)
            entities = _entities_by_key(connection, known, list(keys.values()))
            return [entities[keys[id_]] for id_ in ids if keys.get(id_) in entities]

        return await self._database.read(read)

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        if not ids:
            return []

        def read(connection: apsw.Connection) -> list[Relation]:
            known = self._ids.at(connection)
            keys = known.find_keys(connection, ids)
            wanted = [keys[id_] for id_ in ids if id_ in keys]
            return (
                _relations(connection, known, fetch(connection, _RELATIONS_BY_KEY, (array(wanted),))) if wanted else []
            )

        return await self._database.read(read)

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        if not entity_ids:
            return []

        def read(connection: apsw.Connection) -> list[IncidentRelation]:
            known = self._ids.at(connection)
            keys = known.find_keys(connection, entity_ids)
            rows = fetch(connection, _INCIDENT, (array(list(keys.values())),)) if keys else []
            known.note({key: id_ for key, id_, *_ in rows})
            return [IncidentRelation(*ranked) for _, *ranked in rows]

        return await self._database.read(read)

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        order = "ORDER BY degree DESC, name, identity.id LIMIT ? OFFSET ?"
        query = f"""SELECT identity.id, {_ENTITY} FROM entity_degree
                    CROSS JOIN identity USING (key) CROSS JOIN entity USING (key)"""

        def read(connection: apsw.Connection) -> list[Row]:
            # The index holds the well-connected only; most lists end within it.
            rows = fetch(connection, f"{query} WHERE degree >= {_WELL_CONNECTED} {order}", (limit, offset))
            return rows if len(rows) == limit else fetch(connection, f"{query} {order}", (limit, offset))

        return [_entity(row) for row in await self._database.read(read)]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:

        def read(connection: apsw.Connection) -> list[Relation]:
            known = self._ids.at(connection)
            return _relations_among(
                connection, known, list(known.find_keys(connection, dict.fromkeys(entity_ids)).values())
            )

        return await self._database.read(read)

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:

        def read(connection: apsw.Connection) -> Subgraph:
            keys, is_truncated = walk(connection, entity_id, depth, max_entities)
            known = self._ids.at(connection)
            entities = _entities_by_key(connection, known, keys)
            relations = _relations_among(connection, known, keys)
            return Subgraph(tuple(entities[key] for key in keys), tuple(relations), is_truncated)

        return await self._database.read(read)

    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:

        def read(connection: apsw.Connection) -> list[GraphPath]:
            paths = find_paths(connection, source_id, target_id, max_length, limit, most_visited)
            known = self._ids.at(connection)
            entities = _entities_by_key(connection, known, list({key for path in paths for key in path}))
            relations = {
                frozenset((relation.source_id, relation.target_id)): relation
                for relation in _relations_among(connection, known, list(entities))
            }
            return [_path([entities[key] for key in path], relations) for path in paths]

        return await self._database.read(read)


def _path(entities: list[Entity], relations: Mapping[frozenset[str], Relation]) -> GraphPath:
    steps = pairwise(entities)
    return GraphPath(tuple(entities), tuple(relations[frozenset((left.id, right.id))] for left, right in steps))


def _entities_by_key(connection: apsw.Connection, known: KnownIds, keys: Sequence[int]) -> dict[int, Entity]:
    rows = fetch(connection, _ENTITIES_BY_KEY, (array(keys),)) if keys else []
    ids = known.find_ids(connection, {row[0] for row in rows})
    return {key: _entity((ids[key], *row)) for key, *row in rows}


def _relations_among(connection: apsw.Connection, known: KnownIds, keys: Sequence[int]) -> list[Relation]:
    rows = fetch(connection, _RELATIONS_AMONG, (array(keys),)) if keys else []
    return sorted(_relations(connection, known, rows), key=lambda relation: (-relation.weight, relation.id))


def _entity(row: Sequence[Any]) -> Entity:
    id_, name, kind, description, aliases, chunk_ids, token_count, degree, created_at = row
    return Entity(id_, name, kind, description, _split(aliases), _split(chunk_ids), token_count, degree, created_at)


def _relations(connection: apsw.Connection, known: KnownIds, rows: Sequence[Row]) -> list[Relation]:
    ids = known.find_ids(connection, {key for row in rows for key in row[:3]})
    return [_relation(ids, row) for row in rows]


def _relation(ids: Mapping[int, str], row: Row) -> Relation:
    key, source_key, target_key, source, target, keywords, description, weight, chunk_ids, token_count, created_at = row
    ends = source, target, ids[source_key], ids[target_key]
    return Relation(ids[key], *ends, _split(keywords), description, weight, _split(chunk_ids), token_count, created_at)


# Names and ids never hold a line break, and splitting is several times cheaper than parsing JSON.
def _join(values: Sequence[str]) -> str:
    return "\n".join(values)


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


def write_graph(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    """Apply the graph part of a changeset and keep degrees right."""
    now = int(time.time())
    _remove(connection, changeset, keys)
    entities = (
        (
            *(keys[item.id], item.name, item.type, item.token_count, changeset.moments.get(item.id, now)),
            *(item.description, _join(item.aliases), _join(item.chunk_ids)),
        )
        for item in changeset.entities
    )
    query = """INSERT INTO entity VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
      name = excluded.name, type = excluded.type, token_count = excluded.token_count,
      description = excluded.description, aliases = excluded.aliases, chunk_ids = excluded.chunk_ids"""
    connection.executemany(query, entities)
    gained = Counter(key for ends in _write_relations(connection, changeset, keys, now) for key in ends)
    # Entities of this changeset may be new: they get their row of degrees with their first degree.
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
            *(keys[item.id], keys[item.source_id], keys[item.target_id], item.weight, item.token_count),
            changeset.moments.get(item.id, now),
            *(item.source, item.target, _join(item.keywords), item.description, _join(item.chunk_ids)),
        )
        for item in changeset.relations
    )
    query = """INSERT INTO relation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
      source_key = excluded.source_key, target_key = excluded.target_key, weight = excluded.weight,
      token_count = excluded.token_count, source = excluded.source, target = excluded.target,
      keywords = excluded.keywords, description = excluded.description, chunk_ids = excluded.chunk_ids"""
    connection.executemany(query, rows)
    new = {keys[item.id]: (keys[item.source_id], keys[item.target_id]) for item in changeset.relations}
    return [ends for key, ends in new.items() if key not in known]


def _change_degrees(connection: apsw.Connection, changes: Mapping[int, int]) -> None:
    query = "UPDATE entity_degree SET degree = degree + ? WHERE key = ?"
    connection.executemany(query, ((change, key) for key, change in changes.items()))
