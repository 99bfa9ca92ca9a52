"""Vectors and full text in the embedded store: exact in the database, found fast through indexes made from its rows.

An index (4-bit vectors, or posting lists of terms) may be deleted any time. A vector search fetches four times as many
candidates as requested and scores exactly those that may be among the best: the first ones show how far estimates are
off, and candidates estimated worse than the last hit by more than twice that are not read (`stores.candidates`).
Posting lists find rows by terms, FTS5 finds them by phrase.
"""

from __future__ import annotations

import logging
import secrets
import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection as Container
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import cosines
from heliograph.errors import StoreDamaged
from heliograph.stores.base import Hit, TextStore, VectorStore
from heliograph.stores.bm25 import PostingIndex, distinct
from heliograph.stores.candidates import CandidateIndex, Candidates, count_candidates, count_first, late_candidates
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.sql import check_embedding
from heliograph.stores.sqlite.database import (
    Database,
    IdMemory,
    KnownIds,
    Row,
    array,
    data_version,
    fetch,
    fetch_one,
    fetch_value,
    find_known_ids,
    first_by_id,
    singles,
    stored_embedding,
)
from heliograph.stores.view import Keys, KeySet

IndexT = TypeVar("IndexT")

_LOGGER = logging.getLogger(__name__)
_BATCH = 4096
# Changes older than this many commits are dropped once the file holds them; a process further behind rebuilds.
_KEPT_VERSIONS = 10_000


class Accelerator(ABC, Generic[IndexT]):
    """One index and its file. All methods block; call them from a reading thread.

    Args:
        path: The file.
        name: The index's name in the log of changes and in the table of files.
        table: Holds the indexed rows, by `key`.
        column: The indexed column.
    """

    def __init__(self, path: Path, name: str, table: str, column: str) -> None:
        self._path = path
        self._name = name
        self._table = table
        self._column = column
        self._index: IndexT | None = None
        self._version = 0
        self._writer = ""
        self._is_refused = False
        self._lock = threading.Lock()

    @abstractmethod
    def _make(self) -> IndexT:
        """Return an empty index."""

    @abstractmethod
    def _checksum(self) -> str:
        """Return a checksum of the file if reading it does not reveal damage; otherwise an empty text.

        Raises:
            OSError: It cannot be read.
        """

    @abstractmethod
    def _read(self, writers: Sequence[str]) -> IndexT | None:
        """Return the index in the file if one of these writers wrote it; None if it is unusable.

        Raises:
            OSError: It cannot be read.
            ValueError: It is damaged.
        """

    @abstractmethod
    def _write(self, index: IndexT, writer: str, *, continues: bool) -> None:
        """Bring the file up to date, or rewrite it where the index does not continue it."""

    @abstractmethod
    def _fork(self, index: IndexT) -> IndexT:
        """Return the index to change: the same, or a copy if running searches must not see the changes."""

    @abstractmethod
    def _remove(self, index: IndexT, keys: Keys) -> None:
        """Remove those of the keys that are in the index."""

    @abstractmethod
    def _add(self, index: IndexT, rows: Sequence[Row]) -> None:
        """Add rows of key and column, under keys that are not in the index."""

    @abstractmethod
    def _count(self, index: IndexT, keys: Keys) -> tuple[int, int]:
        """Return how many of the keys are in the index, and its size."""

    @abstractmethod
    def _is_far(self, connection: apsw.Connection, behind: int, index: IndexT | None) -> bool:
        """Whether a file that lacks `behind` changes, at least one, is worth saving; `index`: None if not in memory."""

    def check_embedding(self, connection: apsw.Connection) -> None:
        """Raise `SchemaMismatch` if rows of the database must not be mixed with the index in memory."""

    @property
    def file_name(self) -> str:
        """The name of the file."""
        return self._path.name

    def lock_path(self) -> Path:
        """Return the lock file to hold from `claim` to `record`."""
        return self._path.with_name(f"{self._name}.lock")

    def is_due(self, connection: apsw.Connection) -> bool:
        """Whether the file should be saved now."""
        query = "SELECT coalesce(sum(length(keys)), 0) / 8 FROM vector_change WHERE collection = ? AND version > ?"
        behind = int(fetch_value(connection, query, (self._name, self._recorded(connection).version)))
        index = self._index
        if index is not None and not self._writer:
            # There was no usable file: it lacks all rows in memory, whenever they were logged.
            behind = max(behind, self._count(index, np.empty(0, np.int64))[1])
        return behind > 0 and self._is_far(connection, behind, index)

    def claim(self, connection: apsw.Connection) -> bool:
        """Within a writing transaction, take over the file; return whether it continues this index.

        The claim is committed before the file is touched: another process that had this file in memory will then
        rewrite it instead of appending to it, even if this process dies in between.
        """
        recorded = self._recorded(connection)
        version, writer = recorded.version, recorded.writer
        continues = writer == self._writer
        if version == 0 and writer and not continues:
            # Another process has found indexes faulty, and the one in memory here may be among them.
            with self._lock:
                self._index = None
        self._writer = secrets.token_hex(8)
        # Until the version is recorded, the file is the previous or the new one.
        writers = " ".join([self._writer, *writer.split()[:1]])
        self._record(connection, _Recorded(version, writers, recorded.checksum))
        return continues

    def sync(self, connection: apsw.Connection, *, continues: bool) -> tuple[int, str]:
        """Bring the file up to date and return its data version and its checksum."""
        with self._lock:
            # A process that reads the file now adopts its writer's name, but it has been claimed under a new one.
            writer = self._writer
            index = self._caught_up(connection)
            self._writer = writer
            try:
                self._write(index, writer, continues=continues)
            except IndexError:
                self._drop()
                index = self._brought_up(connection)
                self._writer = writer
                self._write(index, writer, continues=False)
            return self._version, self._checksum()

    def record(self, connection: apsw.Connection, version: int, checksum: str) -> None:
        """Within a writing transaction, record the file's data version and its checksum."""
        self._is_refused = False
        self._record(connection, _Recorded(version, self._writer, checksum))
        oldest = max(0, version - _KEPT_VERSIONS)
        connection.execute("DELETE FROM vector_change WHERE collection = ? AND version <= ?", (self._name, oldest))

    def compare(self, connection: apsw.Connection) -> tuple[int, int]:
        """Return how many stored rows the index lacks, and how many it has that are not stored."""
        index = self._catch_up(connection)
        stored = np.array(fetch(connection, f"SELECT key FROM {self._table}"), np.int64).reshape(-1)
        found, held = self._count(index, stored)
        return len(stored) - found, held - found

    def forget(self, connection: apsw.Connection) -> None:
        """Within a writing transaction, make every process rebuild the index when it is next opened."""
        self._record(connection, _Recorded(0, secrets.token_hex(8), ""))
        with self._lock:
            self._index = None

    def is_file_whole(self, connection: apsw.Connection) -> bool:
        """Whether the file, if there is a usable one, is undamaged."""
        recorded = self._recorded(connection)
        if not recorded.version or not self._path.exists():
            return True
        try:
            if self._checksum() != recorded.checksum:
                return False
            self._read_whole(recorded.writer.split())
        except (OSError, ValueError, IndexError):
            # Another process may be writing it.
            return self._recorded(connection) != recorded
        return True

    def _read_whole(self, writers: Sequence[str]) -> None:
        """Read and verify the whole file; raises as `_read`, or `IndexError`."""
        self._read(writers)

    def _drop(self) -> None:
        """Make the index rebuild without the file, which was found damaged while in use."""
        _LOGGER.warning("building %s again, it is damaged", self._path.name)
        self._index, self._is_refused = None, True

    def _catch_up(self, connection: apsw.Connection) -> IndexT:
        with self._lock:
            return self._caught_up(connection)

    def _caught_up(self, connection: apsw.Connection) -> IndexT:
        try:
            return self._brought_up(connection)
        except IndexError:
            # The file's header was right, but a part of it is damaged, which shows when it is changed.
            self._drop()
            return self._brought_up(connection)

    def _brought_up(self, connection: apsw.Connection) -> IndexT:
        current = data_version(connection)
        if self._index is None or current - self._version > _KEPT_VERSIONS:
            self._index = self._load(connection, current)
        if self._version < current:
            self.check_embedding(connection)
            index = self._fork(self._index)
            self._replay(connection, index)
            self._index, self._version = index, current
        return self._index

    def _load(self, connection: apsw.Connection, current: int) -> IndexT:
        recorded = self._recorded(connection)
        self._version, self._writer = 0, ""
        # A claim without a version: the file's first writer died before it recorded the version.
        is_near = 0 < recorded.version <= current <= recorded.version + _KEPT_VERSIONS
        if is_near and not self._is_refused and self._path.exists():
            try:
                is_whole = self._checksum() == recorded.checksum
                index = self._read(recorded.writer.split()) if is_whole else None
            except (OSError, ValueError) as error:
                _LOGGER.warning("building %s again, it cannot be read: %s", self._path.name, error)
            else:
                if not is_whole:
                    _LOGGER.warning("building %s again, it is not what was written last", self._path.name)
                if index is not None:
                    self._version, self._writer = recorded.version, recorded.writer
                    return index
        return self._make()

    def _replay(self, connection: apsw.Connection, index: IndexT) -> None:
        if self._version == 0:
            rows = connection.execute(f"SELECT key, {self._column} FROM {self._table}")
        else:
            query = "SELECT keys FROM vector_change WHERE collection = ? AND version > ?"
            logged = fetch(connection, query, (self._name, self._version))
            if not logged:
                return
            changed = distinct(np.frombuffer(b"".join(keys for (keys,) in logged), "<i8").astype(np.int64))
            # A changed key is removed first, so replaying a change twice, or one undone since, is harmless.
            self._remove(index, changed)
            query = f"""SELECT key, {self._column} FROM carray(?) AS wanted
                        CROSS JOIN {self._table} ON key = wanted.value"""
            rows = connection.execute(query, (array(changed),))
        while batch := list(islice(rows, _BATCH)):
            self._add(index, batch)

    def _recorded(self, connection: apsw.Connection) -> _Recorded:
        query = "SELECT version, writer, checksum FROM accelerator WHERE collection = ?"
        row = fetch_one(connection, query, (self._name,))
        return _Recorded(*row) if row else _Recorded(0, "", "")

    def _record(self, connection: apsw.Connection, recorded: _Recorded) -> None:
        connection.execute("INSERT OR REPLACE INTO accelerator VALUES (?, ?, ?, ?)", (self._name, *recorded))


class _Recorded(NamedTuple):
    """The database's record of a file: its data version, its writer, its checksum."""

    version: int
    writer: str
    checksum: str


def log_changes(connection: apsw.Connection, name: str, version: int, keys: Iterable[int]) -> None:
    """Within the transaction that commits `version`, log the rows that an index adds or removes, if any."""
    changed = sorted(set(keys))
    if changed:
        row = (name, version, np.array(changed, "<i8").tobytes())
        connection.execute("INSERT INTO vector_change VALUES (?, ?, ?)", row)


# The 4-bit index over the vectors of one collection, to find candidates.

# Number of missing vectors at which a process that never searched brings the file up to date.
_DUE = 2048
_BLOCK_BYTES = 1 << 20
# Up to this many vectors are all compared: reading them takes 2 ms, and comparing no longer than an index search.
_MOST_COMPARED = 1_000
# And this many times as many where that saves a process its first index, which takes 80 ms for its code tables.
# Only once, as after a commit all would be read again, but by an index only the changed ones.
_TIMES_AT_FIRST = 4


class VectorAccelerator(Accelerator[CandidateIndex]):
    """Finds candidates for a collection's nearest vectors."""

    def __init__(self, folder: Path, collection: Collection, embedding: tuple[str, int]) -> None:
        name = collection.value
        super().__init__(folder / f"{name}.turbovec", name, f"{name}_vector", "vector")
        self._embedding = embedding
        self._dimension = embedding[1]
        self._few: tuple[int, NDArray[np.int64], NDArray[np.float32]] | None = None

    def few(self, connection: apsw.Connection) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """Return keys, ascending, and vectors of the whole collection, if they are few and no index is in memory.

        They are cached until the next commit. For a process that has no index yet, the limit is higher, once.

        Raises:
            SchemaMismatch: They are of another embedding than the store was opened with.
        """
        if self._index is not None:
            self._few = None
            return None
        few, current = self._few, data_version(connection)
        if few is None or few[0] != current:
            self.check_embedding(connection)
            most = _MOST_COMPARED
            if few is None and not CandidateIndex.is_any_made:
                # A vector takes half a byte a dimension; the other half is for the header of every file. If the file is
                # longer, there are too many vectors, and reading them all to count them would be in vain.
                at_first = _TIMES_AT_FIRST * _MOST_COMPARED
                is_long = self._path.exists() and self._path.stat().st_size > at_first * self._dimension
                most = most if is_long else at_first
            rows = fetch(connection, f"SELECT key, vector FROM {self._table} LIMIT ?", (most + 1,))
            if len(rows) > most:
                return None
            few = self._few = (current, *_matrix(rows, self._dimension))
        return few[1], few[2]

    def search(
        self, connection: apsw.Connection, vector: NDArray[np.float32], limit: int, allowed: KeySet | None = None
    ) -> Candidates:
        """Return up to `limit` keys whose vectors are probably nearest.

        Args:
            connection: To read rows that the index lacks.
            vector: `(dimension,)` float32 of length 1.
            limit: Keys at the most.
            allowed: Keys to choose from; None means all. Some of them may have no vector.
        """
        return self._catch_up(connection).search(vector, limit, allowed)

    def check_embedding(self, connection: apsw.Connection) -> None:
        check_embedding(stored_embedding(connection), self._embedding)

    def _make(self) -> CandidateIndex:
        return CandidateIndex(self._dimension)

    def _checksum(self) -> str:
        check = 0
        with self._path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                check = zlib.crc32(block, check)
        return f"{check:08x}"

    def _read(self, writers: Sequence[str]) -> CandidateIndex | None:  # noqa: ARG002
        return CandidateIndex.load(self._path, self._dimension)

    def _write(self, index: CandidateIndex, writer: str, *, continues: bool) -> None:  # noqa: ARG002
        if not continues:
            self._path.unlink(missing_ok=True)
        index.sync(self._path)

    def _fork(self, index: CandidateIndex) -> CandidateIndex:
        return index

    def _remove(self, index: CandidateIndex, keys: Keys) -> None:
        index.remove(keys)

    def _add(self, index: CandidateIndex, rows: Sequence[Row]) -> None:
        keys = np.fromiter((key for key, _ in rows), np.uint64, len(rows))
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), np.float32).reshape(len(rows), -1)
        index.add(keys, vectors)

    def _count(self, index: CandidateIndex, keys: Keys) -> tuple[int, int]:
        return sum(key in index for key in keys.tolist()), len(index)

    def _is_far(self, connection: apsw.Connection, behind: int, index: CandidateIndex | None) -> bool:  # noqa: ARG002
        # An index in memory is only appended to the file.
        return behind >= _DUE or index is not None


# The full-text index of one collection: posting lists, built from `*_words`.

# The file is written as a whole. Reading a missing row again takes a hundred times as long as writing it: the index is
# saved after this share of changes by a process that has it in memory, or after this many by one that must load it.
_DUE_SHARE = 1 / 128
_DUE_SHARE_UNREAD = 1 / 32
_LEAST_DUE_UNREAD = 2048


class TextAccelerator(Accelerator[PostingIndex]):
    """Finds rows by terms, ranked by BM25."""

    def __init__(self, folder: Path, collection: Collection) -> None:
        name = f"{collection.value}_terms"
        super().__init__(folder / f"{collection.value}.postings", name, f"{collection.value}_words", "terms")

    def search(
        self, connection: apsw.Connection, terms: Sequence[str], limit: int, allowed: KeySet | None = None
    ) -> list[tuple[int, float]]:
        """Return keys and scores of the best rows, best first, ties by key.

        Args:
            connection: In a transaction; reads rows that the index lacks.
            terms: Each counts once.
            limit: Rows wanted; more are returned only if they score as much as the last of these.
            allowed: Keys to choose from; None means all.
        """
        try:
            keys, scores = self._catch_up(connection).search(terms, limit, allowed)
        except IndexError:
            # The file's header was right, but a posting names a row that does not exist.
            with self._lock:
                self._drop()
            keys, scores = self._catch_up(connection).search(terms, limit, allowed)
        return list(zip(keys.tolist(), scores.tolist(), strict=True))

    def find_ids(self, connection: apsw.Connection, known: KnownIds, keys: Container[int]) -> dict[int, str]:
        """Return the ids of keys that were found, except those of rows newer than the connection's snapshot.

        Raises:
            StoreDamaged: Another key has no id: the table of ids is damaged.
        """
        try:
            return known.find_ids(connection, keys)
        except StoreDamaged:
            # Another thread may have brought the index to a later version than the connection reads.
            if self._version <= data_version(connection):
                raise
            return find_known_ids(connection, keys)

    def _make(self) -> PostingIndex:
        return PostingIndex()

    def _checksum(self) -> str:
        return ""

    def _read(self, writers: Sequence[str]) -> PostingIndex:
        return PostingIndex.load(self._path, writers)

    def _read_whole(self, writers: Sequence[str]) -> None:
        self._read(writers).read_whole()

    def _write(self, index: PostingIndex, writer: str, *, continues: bool) -> None:  # noqa: ARG002
        index.save(self._path, writer)

    def _fork(self, index: PostingIndex) -> PostingIndex:
        return index.fork()

    def _remove(self, index: PostingIndex, keys: Keys) -> None:
        index.remove(keys)

    def _add(self, index: PostingIndex, rows: Sequence[Row]) -> None:
        index.add((key, terms.split(" ") if terms else ()) for key, terms in rows)

    def _count(self, index: PostingIndex, keys: Keys) -> tuple[int, int]:
        return index.count(keys), len(index)

    def _is_far(self, connection: apsw.Connection, behind: int, index: PostingIndex | None) -> bool:
        if index is not None:
            return behind >= _DUE_SHARE * len(index)
        if behind < _LEAST_DUE_UNREAD:
            return False
        # The same rows in a narrow table.
        rows = fetch_value(connection, f"SELECT count(*) FROM {self._name}_docsize")
        return behind >= _DUE_SHARE_UNREAD * rows


# Keeping the FTS5 tables, by which phrases are found, in few segments.
#
# FTS5 adds a segment with every commit and merges segments of like size now and then. A search reads every segment:
# with eighteen of them, which 3,000 commits of one document each leave, it takes twice to six times as long as with
# one. So all are merged into one whenever the commits since the last merge are an eighth of all: a step every few
# commits, which takes 0.1 ms of CPU time a commit, however large the index is; and in one go when the store is closed.

SEARCHED = (Collection.CHUNKS, Collection.ENTITIES)
_TABLES = tuple(f"{item.value}_terms" for item in SEARCHED)
_MARK = "terms_merged"
_STEP_COMMITS = 8
# Pages of 4 KB; a step takes up to 30 ms.
_STEP_PAGES = 512
_GROWTH = 1 / 8
_CLOSING_GROWTH = 1 / 64
_LEAST_COMMITS = 64


def merge_step(connection: apsw.Connection, version: int) -> None:
    """Within a writing transaction that commits `version`, run the due part of the merging."""
    if version % _STEP_COMMITS:
        return
    begins = _is_due(connection, version, _GROWTH, _LEAST_COMMITS)
    for table in _TABLES:
        # A negative number of pages starts to merge all segments, a positive one continues.
        pages = -_STEP_PAGES if begins else _STEP_PAGES
        connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
    if begins:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_MARK, version))


def is_merge_due(connection: apsw.Connection) -> bool:
    """Whether the segments should be merged now, when the store is closed."""
    return _is_due(connection, data_version(connection), _CLOSING_GROWTH, _STEP_COMMITS)


def merge_all(connection: apsw.Connection) -> None:
    """Within a writing transaction, merge all segments of each table into one."""
    for table in _TABLES:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_MARK, data_version(connection)))


def _is_due(connection: apsw.Connection, version: int, growth: float, least: int) -> bool:
    merged = int(fetch_value(connection, "SELECT value FROM meta WHERE name = ?", (_MARK,)) or 0)
    return version - merged >= least + growth * merged


# Full text: posting lists rank rows by terms.

_MAX_TERMS = 256
# Equal scores at the limit are ordered by id up to this many rows.
_MOST_EQUALS = 10_000
# Up to this many ids are looked up one by one, as they are likely cached; more are read by one statement.
_FEW_EQUALS = 1_000


class SqliteTextStore(TextStore):
    """One index and one FTS5 table per collection."""

    def __init__(self, database: Database, accelerators: Mapping[Collection, TextAccelerator], ids: IdMemory) -> None:
        self._database = database
        self._accelerators = accelerators
        self._ids = ids

    async def search(
        self, collection: Collection, terms: Sequence[str], limit: int, allowed: KeySet | None = None
    ) -> list[Hit]:
        """Exact over all or the allowed rows. Uses at most 256 distinct terms; orders up to 10,000 equals by id."""
        wanted = list(dict.fromkeys(terms))[:_MAX_TERMS]
        if not wanted or limit < 1 or collection not in SEARCHED:
            return []
        accelerator = self._accelerators[collection]

        def find(connection: apsw.Connection) -> list[Hit]:
            found = accelerator.search(connection, wanted, limit, allowed)
            if len(found) > limit + _FEW_EQUALS:
                equals = [key for key, score in found if score == found[-1][1]]
                better = found[: len(found) - len(equals)]
                first = first_by_id(connection, equals[:_MOST_EQUALS], limit - len(better))
                found = [*better, *((key, found[-1][1]) for key in first)]
            ids = accelerator.find_ids(connection, self._ids.at(connection), [key for key, _ in found])
            hits = (Hit(ids[key], score) for key, score in found if key in ids)
            return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]

        return await self._database.read(find)

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """The first by id are returned, of the first thousand stored where very many rows hold a phrase.

        Terms of a phrase after the 256th are ignored.
        """
        if not any(phrases) or limit < 1 or collection not in SEARCHED:
            return [[] for _ in phrases]
        most = max(limit, _FEW_EQUALS)

        def find(connection: apsw.Connection) -> list[list[str]]:
            met = (list(islice(phrase_keys(connection, collection, phrase), most)) for phrase in phrases)
            found = [first_by_id(connection, keys, limit) if limit < len(keys) else keys for keys in met]
            ids = self._ids.at(connection).find_ids(connection, {key for keys in found for key in keys})
            return [[ids[key] for key in keys] for keys in found]

        return await self._database.read(find)

    async def hold_phrases(self, collection: Collection, phrases: Sequence[Sequence[str]]) -> list[bool]:
        """Reads one row per phrase."""

        def find(connection: apsw.Connection) -> list[bool]:
            return [any(True for _ in phrase_keys(connection, collection, phrase)) for phrase in phrases]

        return await self._database.read(find)


def phrase_keys(connection: apsw.Connection, collection: Collection, phrase: Sequence[str]) -> Iterator[int]:
    """Yield the keys whose terms hold this phrase, ascending; each row is read lazily."""
    if phrase and collection in SEARCHED:
        table = f"{collection.value}_terms"
        match = '"' + " ".join(phrase[:_MAX_TERMS]).replace('"', '""') + '"'
        rows = connection.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid", (match,))
        yield from (key for (key,) in rows)


def write_texts(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int], version: int) -> None:
    """Apply the full-text part of a changeset."""
    for collection in SEARCHED:
        name = collection.value
        gone = [keys[id_] for id_ in changeset.removed[collection] if id_ in keys]
        connection.executemany(f"DELETE FROM {name}_terms WHERE rowid = ?", singles(gone))
        connection.executemany(f"DELETE FROM {name}_words WHERE key = ?", singles(gone))
        rows = [(keys[entry.id], " ".join(entry.terms)) for entry in changeset.texts.get(collection, ())]
        connection.executemany(f"INSERT OR REPLACE INTO {name}_terms (rowid, terms) VALUES (?, ?)", rows)
        connection.executemany(f"INSERT OR REPLACE INTO {name}_words VALUES (?, ?)", rows)
        log_changes(connection, f"{name}_terms", version, (*gone, *(key for key, _ in rows)))


class SqliteVectorStore(VectorStore):
    """One table and one accelerator per collection."""

    def __init__(self, database: Database, accelerators: Mapping[Collection, VectorAccelerator], ids: IdMemory) -> None:
        self._database = database
        self._ids = ids
        self._accelerators = accelerators

    async def search(
        self,
        collection: Collection,
        vector: NDArray[np.float32],
        limit: int,
        min_cosine: float,
        allowed: KeySet | None = None,
    ) -> list[Hit]:
        """Searches all vectors, or those of the allowed keys."""
        return await self._database.read(
            lambda connection: self._find_nearest(connection, collection, vector, limit, min_cosine, allowed)
        )

    async def rank(
        self, collection: Collection, vector: NDArray[np.float32], ids: Sequence[str], limit: int
    ) -> list[Hit]:
        if not ids or limit < 1:
            return []

        def find(connection: apsw.Connection) -> list[Hit]:
            keys = self._ids.at(connection).find_keys(connection, ids).values()
            allowed = KeySet(np.sort(np.fromiter(keys, np.int64, len(keys))))
            return self._find_nearest(connection, collection, vector, limit, -1.0, allowed)

        return await self._database.read(find)

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        if not ids:
            return {}

        def read(connection: apsw.Connection) -> dict[str, NDArray[np.float32]]:
            # A query that began before the switch to another embedding must not be compared with later vectors.
            self._accelerators[collection].check_embedding(connection)
            keys = self._ids.at(connection).find_keys(connection, ids)
            by_key = {keys[id_]: id_ for id_ in ids if id_ in keys}
            rows = _stored(connection, collection, list(by_key)) if by_key else []
            if not rows:
                return {}
            matrix = np.frombuffer(b"".join([vector for _, vector in rows]), np.float32).reshape(len(rows), -1)
            return dict(zip([by_key[key] for key, _ in rows], matrix, strict=True))

        return await self._database.read(read)

    def _find_nearest(
        self,
        connection: apsw.Connection,
        collection: Collection,
        vector: NDArray[np.float32],
        limit: int,
        min_cosine: float,
        allowed: KeySet | None,
    ) -> list[Hit]:
        vector = np.ascontiguousarray(vector, np.float32)
        accelerator = self._accelerators[collection]
        few = accelerator.few(connection)
        if few is None:
            candidates = accelerator.search(connection, vector, count_candidates(limit), allowed)
            keys, scores = _score(connection, collection, candidates, vector, limit)
        else:
            keys, matrix = few
            if allowed is not None:
                are_allowed = allowed.holds(keys)
                keys, matrix = keys[are_allowed], matrix[are_allowed]
            scores = cosines(matrix, vector)
        least = max(min_cosine, np.partition(scores, -limit)[-limit] if 0 < limit < len(scores) else -np.inf)
        best = np.flatnonzero(scores >= least)
        found: list[int] = keys[best].tolist()
        ids = self._ids.at(connection).find_ids(connection, found)
        hits = [Hit(ids[key], score) for key, score in zip(found, scores[best].tolist(), strict=True)]
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]


def _stored(connection: apsw.Connection, collection: Collection, keys: Sequence[int] | NDArray[np.int64]) -> list[Row]:
    """Return keys and vectors of the keys that are stored, in order; at least one key must be given."""
    query = f"""SELECT stored.key, stored.vector FROM carray(?) AS wanted
                CROSS JOIN {collection.value}_vector AS stored ON stored.key = wanted.value"""
    return fetch(connection, query, (array(keys),))


def _score(
    connection: apsw.Connection, collection: Collection, candidates: Candidates, vector: NDArray[np.float32], limit: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the keys of stored candidates that may be among the best `limit`, and their scores."""
    keys, scores = _exact_scores(connection, collection, candidates.keys[: count_first(limit)], vector)
    late = late_candidates(candidates, keys, scores, limit)
    late_keys, late_scores = _exact_scores(connection, collection, late, vector)
    return np.concatenate((keys, late_keys)), np.concatenate((scores, late_scores))


def _exact_scores(
    connection: apsw.Connection, collection: Collection, keys: NDArray[np.int64], vector: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return those of the keys that are stored, ascending, and their scores."""
    if not len(keys):
        return keys, np.empty(0, np.float32)
    found, matrix = _matrix(_stored(connection, collection, np.sort(keys)), len(vector))
    return found, cosines(matrix, vector)


def _matrix(rows: Sequence[Row], dimension: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the keys and the vectors of rows with both."""
    vectors = np.frombuffer(b"".join([vector for _, vector in rows]), np.float32).reshape(len(rows), dimension)
    return np.array([key for key, _ in rows], np.int64), vectors


def write_vectors(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int], version: int) -> None:
    """Apply the vector part of a changeset."""
    for collection in Collection:
        table = f"{collection.value}_vector"
        gone = [keys[id_] for id_ in changeset.removed[collection] if id_ in keys]
        connection.executemany(f"DELETE FROM {table} WHERE key = ?", ((key,) for key in gone))
        batch = changeset.vectors.get(collection)
        put = [keys[id_] for id_ in batch.ids] if batch else []
        if batch:
            matrix = np.ascontiguousarray(batch.vectors, np.float32)
            rows = ((key, row.tobytes()) for key, row in zip(put, matrix, strict=True))
            connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", rows)
        if changed := sorted({*gone, *put}):
            # If a change of embedding is in progress, the next vectors of these ids are out of date.
            query = f"DELETE FROM next_{table} WHERE key = ?"
            connection.executemany(query, ((key,) for key in changed))
            log_changes(connection, collection.value, version, changed)
