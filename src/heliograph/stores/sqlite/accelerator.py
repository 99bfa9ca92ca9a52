"""What makes searching one collection fast: an index made from rows of the database, that may be deleted any time.

It catches up with the database before every search by replaying the changes logged since the data version it stands
at. One file per index saves the next process the work; the `accelerator` table says at which version the file stands,
which process wrote it and what its checksum is, and only a process whose own index is that file's continuation may
append to it. A missing, damaged or foreign file is made again from the database. Kinds of indexes are subclasses; the
log and the table name each index (`name`).
"""

from __future__ import annotations

import logging
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import apsw
import numpy as np

from heliograph.stores.key_sets import Keys
from heliograph.stores.sqlite.sql import Row, array, fetch, fetch_one, fetch_value

IndexT = TypeVar("IndexT")

_LOGGER = logging.getLogger(__name__)
_BATCH = 4096
# Changes older than this many commits are forgotten once the file holds them; who is further behind builds anew.
_KEPT_VERSIONS = 10_000


class Accelerator(ABC, Generic[IndexT]):
    """One index and its file. All methods block; call them from a reading thread.

    Args:
        path: The file.
        name: What the log of changes and the table of files call the index.
        table: Holds what is indexed, by `key`.
        column: What of a row is indexed.
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
        """Return what tells the file from one that was damaged, if reading it does not; else nothing.

        Raises:
            OSError: It cannot be read.
        """

    @abstractmethod
    def _read(self, writers: Sequence[str]) -> IndexT | None:
        """Return what the file holds, written by one of these; None if it is of no use.

        Raises:
            OSError: It cannot be read.
            ValueError: It is damaged.
        """

    @abstractmethod
    def _write(self, index: IndexT, writer: str, *, continues: bool) -> None:
        """Bring the file up to date, or write it anew unless it continues the one that is there."""

    @abstractmethod
    def _fork(self, index: IndexT) -> IndexT:
        """Return the index to change: the same, or one that those who search now do not see."""

    @abstractmethod
    def _remove(self, index: IndexT, keys: Keys) -> None:
        """Take out what is there of these keys."""

    @abstractmethod
    def _add(self, index: IndexT, rows: Sequence[Row]) -> None:
        """Put rows of key and column, under keys that are not there."""

    @abstractmethod
    def _count(self, index: IndexT, keys: Keys) -> tuple[int, int]:
        """Return how many of the keys are in the index, and how many there are in all."""

    @abstractmethod
    def _is_far(self, connection: apsw.Connection, behind: int, index: IndexT | None) -> bool:
        """Whether a file that lacks this many changes, at least one, is worth saving; None if nothing is in memory."""

    def _check(self, connection: apsw.Connection) -> None:
        """Raise if what is in the database must not be mixed with what is in memory."""

    @property
    def file_name(self) -> str:
        """The name of the file."""
        return self._path.name

    def lock_path(self) -> Path:
        """Return the lock file to hold from `claim` to `record`."""
        return self._path.with_name(f"{self._name}.lock")

    def is_due(self, connection: apsw.Connection) -> bool:
        """Whether saving now is worth it."""
        query = "SELECT coalesce(sum(length(keys)), 0) / 8 FROM vector_change WHERE collection = ? AND version > ?"
        behind = int(fetch_value(connection, query, (self._name, self._recorded(connection).version)))
        index = self._index
        if index is not None and not self._writer:
            # There was no file of use: it lacks all that is in memory, whenever that was logged.
            behind = max(behind, self._count(index, np.empty(0, np.int64))[1])
        return behind > 0 and self._is_far(connection, behind, index)

    def claim(self, connection: apsw.Connection) -> bool:
        """Within a writing transaction, take over the file; return whether it continues this index.

        The claim is committed before the file is touched: whoever else had this file in memory will then write it
        anew instead of appending to it, even if this process dies in between.
        """
        recorded = self._recorded(connection)
        version, writer = recorded.version, recorded.writer
        continues = writer == self._writer
        if version == 0 and writer and not continues:
            # Another process has found indexes faulty, and what is in memory here may be one of them.
            with self._lock:
                self._index = None
        self._writer = secrets.token_hex(8)
        # Until the version is recorded, the file is the one before or the new one.
        writers = " ".join([self._writer, *writer.split()[:1]])
        self._record(connection, _Recorded(version, writers, recorded.checksum))
        return continues

    def sync(self, connection: apsw.Connection, *, continues: bool) -> tuple[int, str]:
        """Bring the file up to date and return the data version it then stands at, and its checksum."""
        with self._lock:
            # Who reads the file now takes over its writer's name, but has claimed it under a new one.
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
        """Within a writing transaction, note that the file stands at `version`, and its checksum."""
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
        """Within a writing transaction, have every process build the index anew when it is next opened."""
        self._record(connection, _Recorded(0, secrets.token_hex(8), ""))
        with self._lock:
            self._index = None

    def is_file_whole(self, connection: apsw.Connection) -> bool:
        """Whether the file, if there is one of use, is what was written."""
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
        """Read and compare all that the file holds; raises as `_read`, or `IndexError`."""
        self._read(writers)

    def _refuse(self) -> None:
        """Have the index made anew, whatever the file holds, since that was found to be damaged while it was used."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        _LOGGER.warning("building %s again, it is damaged", self._path.name)
        self._index, self._is_refused = None, True

    def _is_ahead(self, connection: apsw.Connection) -> bool:
        """Whether another thread has brought the index to a later version than the connection reads."""
        return self._version > _data_version(connection)

    def _catch_up(self, connection: apsw.Connection) -> IndexT:
        with self._lock:
            return self._caught_up(connection)

    def _caught_up(self, connection: apsw.Connection) -> IndexT:
        try:
            return self._brought_up(connection)
        except IndexError:
            # What the file says of itself was right, but a part of it is not; so it is seen when it is changed.
            self._drop()
            return self._brought_up(connection)

    def _brought_up(self, connection: apsw.Connection) -> IndexT:
        current = _data_version(connection)
        if self._index is None or current - self._version > _KEPT_VERSIONS:
            self._index = self._load(connection, current)
        if self._version < current:
            self._check(connection)
            index = self._fork(self._index)
            self._replay(connection, index)
            self._index, self._version = index, current
        return self._index

    def _load(self, connection: apsw.Connection, current: int) -> IndexT:
        recorded = self._recorded(connection)
        self._version, self._writer = 0, ""
        # A claim without a version: whoever wrote the file first died before it could say what is in it.
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
            changed = self._changed_since(connection)
            if not len(changed):
                return
            # A key that changed is taken out first, so replaying a change twice, or one undone since, is harmless.
            self._remove(index, changed)
            query = f"""SELECT key, {self._column} FROM carray(?) AS wanted
                        CROSS JOIN {self._table} ON key = wanted.value"""
            rows = connection.execute(query, (array(changed),))
        while batch := list(islice(rows, _BATCH)):
            self._add(index, batch)

    def _changed_since(self, connection: apsw.Connection) -> Keys:
        query = "SELECT keys FROM vector_change WHERE collection = ? AND version > ?"
        rows = fetch(connection, query, (self._name, self._version))
        return np.unique(np.frombuffer(b"".join(keys for (keys,) in rows), "<i8").astype(np.int64))

    def _recorded(self, connection: apsw.Connection) -> _Recorded:
        query = "SELECT version, writer, checksum FROM accelerator WHERE collection = ?"
        row = fetch_one(connection, query, (self._name,))
        return _Recorded(*row) if row else _Recorded(0, "", "")

    def _record(self, connection: apsw.Connection, recorded: _Recorded) -> None:
        connection.execute("INSERT OR REPLACE INTO accelerator VALUES (?, ?, ?, ?)", (self._name, *recorded))


class _Recorded(NamedTuple):
    """What the database says of a file: the data version it stands at, who wrote it, what its checksum is."""

    version: int
    writer: str
    checksum: str


def log_changes(connection: apsw.Connection, name: str, version: int, keys: Iterable[int]) -> None:
    """Within the transaction that commits `version`, note which rows of an index it puts or removes; if any."""
    changed = sorted(set(keys))
    if changed:
        row = (name, version, np.array(changed, "<i8").tobytes())
        connection.execute("INSERT INTO vector_change VALUES (?, ?, ?)", row)


def _data_version(connection: apsw.Connection) -> int:
    return int(fetch_value(connection, "SELECT value FROM meta WHERE name = 'data_version'"))
