"""Full text in the embedded store: contentless FTS5 tables whose rows are interned keys.

Only terms are stored, never text; ranking is FTS5's BM25 (k1 1.2, b 0.75), in large collections of the rows that can
be among the best (`text_search`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw

from heliograph.stores.base import Hit, TextStore
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.sqlite.database import Database
from heliograph.stores.sqlite.known_ids import IdMemory
from heliograph.stores.sqlite.sql import fetch
from heliograph.stores.sqlite.text_frequencies import FrequencyMemory
from heliograph.stores.sqlite.text_search import search_terms

__all__ = ["SqliteTextStore", "match_any", "phrase_keys", "write_texts"]

_SEARCHED = (Collection.CHUNKS, Collection.ENTITIES)
_MAX_TERMS = 256


class SqliteTextStore(TextStore):
    """Two FTS5 tables."""

    def __init__(self, database: Database, ids: IdMemory) -> None:
        self._database = database
        self._ids = ids
        self._frequencies = FrequencyMemory()

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """See `TextStore`; a question is cut at 256 distinct terms."""
        wanted = list(dict.fromkeys(terms))[:_MAX_TERMS]
        if not wanted or limit < 1 or collection not in _SEARCHED:
            return []
        table = f"{collection.value}_terms"

        def find(connection: apsw.Connection) -> list[Hit]:
            scores = dict(search_terms(connection, table, wanted, limit, self._frequencies.at(connection)))
            ids = self._ids.at(connection).find_ids(connection, scores)
            return sorted((Hit(ids[key], score) for key, score in scores.items()), key=lambda hit: (-hit.score, hit.id))

        return await self._database.read(find)

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`; those stored first are returned. Terms of a phrase after the 256th are not looked for."""
        if not any(phrases) or limit < 1 or collection not in _SEARCHED:
            return [[] for _ in phrases]

        def find(connection: apsw.Connection) -> list[list[str]]:
            found = [phrase_keys(connection, collection, phrase, limit) for phrase in phrases]
            ids = self._ids.at(connection).find_ids(connection, {key for keys in found for key in keys})
            return [[ids[key] for key in keys] for keys in found]

        return await self._database.read(find)


def phrase_keys(connection: apsw.Connection, collection: Collection, phrase: Sequence[str], limit: int) -> list[int]:
    """Return the first keys, -1 for all, whose terms hold this phrase."""
    if not phrase or collection not in _SEARCHED:
        return []
    table = f"{collection.value}_terms"
    match = '"' + " ".join(phrase[:_MAX_TERMS]).replace('"', '""') + '"'
    query = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid LIMIT ?"
    return [key for (key,) in fetch(connection, query, (match, limit))]


def match_any(collection: Collection, terms: Sequence[str]) -> str:
    """Return the FTS5 expression that asks for any of the terms; empty if there is nothing to ask for."""
    wanted = list(dict.fromkeys(terms))[:_MAX_TERMS]
    if collection not in _SEARCHED:
        return ""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in wanted)


def write_texts(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    """Apply the full-text part of a changeset."""
    removed = {Collection.CHUNKS: changeset.removed_chunks, Collection.ENTITIES: changeset.removed_entities}
    for collection in _SEARCHED:
        table = f"{collection.value}_terms"
        gone = ((keys[id_],) for id_ in removed[collection] if id_ in keys)
        connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", gone)
        rows = ((keys[entry.id], " ".join(entry.terms)) for entry in changeset.texts.get(collection, ()))
        connection.executemany(f"INSERT OR REPLACE INTO {table} (rowid, terms) VALUES (?, ?)", rows)
