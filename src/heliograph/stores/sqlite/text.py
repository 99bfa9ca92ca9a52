"""Full text in the embedded store: contentless FTS5 tables whose rows are interned keys.

Only terms are stored, never text; ranking is FTS5's BM25 (k1 1.2, b 0.75).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw

from heliograph.stores.base import Hit, TextStore
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.sqlite.database import Database

__all__ = ["SqliteTextStore", "write_texts"]

_SEARCHED = (Collection.CHUNKS, Collection.ENTITIES)
_MAX_TERMS = 256


class SqliteTextStore(TextStore):
    """Two FTS5 tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """See `TextStore`; a question is cut at 256 distinct terms."""
        wanted = list(dict.fromkeys(terms))[:_MAX_TERMS]
        if not wanted or collection not in _SEARCHED:
            return []
        match = " OR ".join('"' + term.replace('"', '""') + '"' for term in wanted)
        table = f"{collection.value}_terms"
        # FTS5 scores are negative, best first.
        query = f"""SELECT identity.id, -best.score FROM (
                      SELECT rowid AS key, rank AS score FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT ?
                    ) AS best JOIN identity ON identity.key = best.key ORDER BY best.score, identity.id"""
        rows = await self._database.fetch(query, (match, limit))
        return [Hit(id_, score) for id_, score in rows]


def write_texts(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    """Apply the full-text part of a changeset."""
    removed = {Collection.CHUNKS: changeset.removed_chunks, Collection.ENTITIES: changeset.removed_entities}
    for collection in _SEARCHED:
        table = f"{collection.value}_terms"
        gone = ((keys[id_],) for id_ in removed[collection] if id_ in keys)
        connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", gone)
        rows = ((keys[entry.id], " ".join(entry.terms)) for entry in changeset.texts.get(collection, ()))
        connection.executemany(f"INSERT OR REPLACE INTO {table} (rowid, terms) VALUES (?, ?)", rows)
