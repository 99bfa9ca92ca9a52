"""Names of entities in the embedded store: a B-tree of their keys for beginnings, pieces of them for the rest.

`entity_name` holds the key of every name and alias, `names_terms` the `name_pieces` per entity. Candidates are found by
these, and their names looked at, so that order and distance of the pieces need not be kept.
"""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from heliograph.stores.changeset import Changeset
from heliograph.stores.name_pieces import keys_of, pieces_within, terms_of
from heliograph.stores.names import NameIndex, rank_names
from heliograph.stores.sqlite.database import Database
from heliograph.stores.sqlite.sql import array, fetch
from heliograph.text.names import entity_key

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
