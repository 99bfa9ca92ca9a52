"""Full text in the embedded store: an index of posting lists finds what holds terms, FTS5 what holds a phrase.

What a chunk or an entity is found by is written twice: into a table of words by key, from which the index is made
(`text_accelerator`), and into a contentless FTS5 table, which knows in which order they stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw

from heliograph.stores.base import Hit, TextStore
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.key_sets import KeySet
from heliograph.stores.sqlite.accelerator import log_changes
from heliograph.stores.sqlite.database import Database
from heliograph.stores.sqlite.identity import first_by_id
from heliograph.stores.sqlite.known_ids import IdMemory, KnownIds
from heliograph.stores.sqlite.sql import fetch, singles
from heliograph.stores.sqlite.text_accelerator import TextAccelerator

SEARCHED = (Collection.CHUNKS, Collection.ENTITIES)
_MAX_TERMS = 256
# Rows that are ordered by id where equals are cut.
_MOST_EQUALS = 10_000
# Of so many the ids are looked up one by one, which are likely to be known; of more, by one statement.
_FEW_EQUALS = 1_000


class SqliteTextStore(TextStore):
    """One index and one FTS5 table per collection."""

    def __init__(self, database: Database, accelerators: Mapping[Collection, TextAccelerator], ids: IdMemory) -> None:
        self._database = database
        self._accelerators = accelerators
        self._ids = ids

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """See `TextStore`; exact over all rows. Cut at 256 distinct terms, and equals at the end at 10,000."""
        wanted = distinct_terms(terms)
        if not wanted or limit < 1 or collection not in SEARCHED:
            return []
        accelerator = self._accelerators[collection]
        return await self._database.read(
            lambda connection: find_texts(connection, self._ids.at(connection), accelerator, wanted, limit)
        )

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`; the first by id are returned, of the first thousand stored where very many hold a phrase.

        Terms of a phrase after the 256th are not looked for.
        """
        if not any(phrases) or limit < 1 or collection not in SEARCHED:
            return [[] for _ in phrases]

        def find(connection: apsw.Connection) -> list[list[str]]:
            found = [phrase_keys(connection, collection, phrase, limit) for phrase in phrases]
            ids = self._ids.at(connection).find_ids(connection, {key for keys in found for key in keys})
            return [[ids[key] for key in keys] for keys in found]

        return await self._database.read(find)


def distinct_terms(terms: Sequence[str]) -> list[str]:
    """Return those of a question's terms that are searched for."""
    return list(dict.fromkeys(terms))[:_MAX_TERMS]


def find_texts(
    connection: apsw.Connection,
    known: KnownIds,
    accelerator: TextAccelerator,
    terms: Sequence[str],
    limit: int,
    allowed: KeySet | None = None,
) -> list[Hit]:
    """Return what holds any of the terms, of all or of the keys that are allowed, as `TextStore.search` does."""
    found = accelerator.search(connection, terms, limit, allowed)
    if len(found) > limit + _FEW_EQUALS:
        equals = [key for key, score in found if score == found[-1][1]]
        better = found[: len(found) - len(equals)]
        first = first_by_id(connection, equals[:_MOST_EQUALS], limit - len(better))
        found = [*better, *((key, found[-1][1]) for key in first)]
    return to_hits(found, accelerator.find_ids(connection, known, [key for key, _ in found]))[:limit]


def to_hits(found: Sequence[tuple[int, float]], ids: Mapping[int, str]) -> list[Hit]:
    """Return keys with scores as hits, those with an id, best first, ties by id."""
    hits = (Hit(ids[key], score) for key, score in found if key in ids)
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def phrase_keys(connection: apsw.Connection, collection: Collection, phrase: Sequence[str], limit: int) -> list[int]:
    """Return the first keys by id, -1 for all, whose terms hold this phrase."""
    if not phrase or collection not in SEARCHED:
        return []
    table = f"{collection.value}_terms"
    match = '"' + " ".join(phrase[:_MAX_TERMS]).replace('"', '""') + '"'
    query = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid LIMIT ?"
    keys = [key for (key,) in fetch(connection, query, (match, -1 if limit < 0 else max(limit, _FEW_EQUALS)))]
    return first_by_id(connection, keys, limit) if 0 <= limit < len(keys) else keys


def write_texts(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int], version: int) -> None:
    """Apply the full-text part of a changeset."""
    removed = {Collection.CHUNKS: changeset.removed_chunks, Collection.ENTITIES: changeset.removed_entities}
    for collection in SEARCHED:
        name = collection.value
        gone = [keys[id_] for id_ in removed[collection] if id_ in keys]
        connection.executemany(f"DELETE FROM {name}_terms WHERE rowid = ?", singles(gone))
        connection.executemany(f"DELETE FROM {name}_words WHERE key = ?", singles(gone))
        rows = [(keys[entry.id], " ".join(entry.terms)) for entry in changeset.texts.get(collection, ())]
        connection.executemany(f"INSERT OR REPLACE INTO {name}_terms (rowid, terms) VALUES (?, ?)", rows)
        connection.executemany(f"INSERT OR REPLACE INTO {name}_words VALUES (?, ?)", rows)
        log_changes(connection, f"{name}_terms", version, (*gone, *(key for key, _ in rows)))
