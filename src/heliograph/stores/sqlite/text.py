"""Full text in the embedded store: posting lists find what holds terms, FTS5 what holds a phrase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw

from heliograph.stores.base import Hit, TextStore
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.key_sets import KeySet
from heliograph.stores.sqlite.accelerator import TextAccelerator, log_changes
from heliograph.stores.sqlite.database import Database, data_version, fetch, fetch_value, singles
from heliograph.stores.sqlite.identity import IdMemory, KnownIds, first_by_id

# Keeping the full text of FTS5, by which phrases are found, in few parts.
#
# FTS5 adds a part with every commit and merges parts of like size now and then. A search looks into every part: with
# eighteen of them, as they are left by 3,000 commits of one document each, it takes twice to six times as long as
# with one. So all are merged into one whenever an eighth of the commits was made since the last time, a step every
# few commits, which takes 0.1 ms of CPU time a commit, however large the index is; and in one go when the store is
# closed.

_SEARCHED = ("chunks_terms", "entities_terms")
_MARK = "terms_merged"
_STEP_COMMITS = 8
# Pages of 4 KB; a step takes up to 30 ms.
_STEP_PAGES = 512
_GROWTH = 1 / 8
_CLOSING_GROWTH = 1 / 64
_LEAST_COMMITS = 64


def merge_step(connection: apsw.Connection, version: int) -> None:
    """Within a writing transaction that commits `version`, do what part of the merging is due."""
    if version % _STEP_COMMITS:
        return
    begins = _is_due(connection, version, _GROWTH, _LEAST_COMMITS)
    for table in _SEARCHED:
        # A negative number of pages begins to merge all parts, a positive one goes on with what was begun.
        _command(connection, table, -_STEP_PAGES if begins else _STEP_PAGES)
    if begins:
        _note(connection, version)


def is_merge_due(connection: apsw.Connection) -> bool:
    """Whether merging now, when the store is closed, is worth it."""
    return _is_due(connection, data_version(connection), _CLOSING_GROWTH, _STEP_COMMITS)


def merge_all(connection: apsw.Connection) -> None:
    """Within a writing transaction, merge all parts of each table into one."""
    for table in _SEARCHED:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    _note(connection, data_version(connection))


def _is_due(connection: apsw.Connection, version: int, growth: float, least: int) -> bool:
    merged = int(fetch_value(connection, "SELECT value FROM meta WHERE name = ?", (_MARK,)) or 0)
    return version - merged >= least + growth * merged


def _command(connection: apsw.Connection, table: str, pages: int) -> None:
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))


def _note(connection: apsw.Connection, version: int) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_MARK, version))


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
