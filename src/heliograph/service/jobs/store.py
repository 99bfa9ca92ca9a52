"""The jobs of one workspace, stored durably in one file, and the lock that decides which process runs them."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
from pydantic import TypeAdapter

import heliograph.errors as errors
from heliograph.errors import without_folders
from heliograph.service.jobs.models import (
    UNFINISHED,
    DocumentVersion,
    Job,
    JobKind,
    JobProgress,
    JobRequest,
    JobState,
    PipelineState,
)
from heliograph.stores.sql import SmallFile

# Job ownership: the process that holds a lock on a file runs the jobs; the lock is released when its holder dies.


class Ownership:
    """The right to run the jobs of one workspace, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the right if it is free; return whether this process holds it now.

        Raises:
            NotFoundError: The workspace was removed.
            StoreUnavailable: The file system refuses locks, or the file cannot be created.
        """
        if self._descriptor is not None:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            raise errors.NotFoundError(f"there is no workspace {self._path.parent.name!r}; it was removed") from error
        except OSError as error:
            raise errors.StoreUnavailable(f"the lock {str(self._path)!r} cannot be made: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise errors.StoreUnavailable(
                f"the file system refuses locks ({error.strerror}); use a local disk"
            ) from error
        self._descriptor = descriptor
        return True

    def give_up(self) -> None:
        """Release the right to other processes; does nothing if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


# The file that holds the jobs of one workspace: its tables.
#
# It is in the folder of the workspace, so that it is deleted with it. Every process of the service has it open; a
# connection to a file that was removed meanwhile is dropped.

_NAME = "jobs.db"
# In order; the version of a file is the number of migrations that ran.
_MIGRATIONS = (
    """
CREATE TABLE job (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, track_id TEXT NOT NULL,
  request TEXT NOT NULL, state TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0, total INTEGER NOT NULL DEFAULT 0,
  counts TEXT NOT NULL DEFAULT '{}', problems TEXT NOT NULL DEFAULT '[]', error TEXT NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0, due_at REAL NOT NULL, cancelled_by TEXT NOT NULL DEFAULT '',
  created_at REAL NOT NULL, started_at REAL, finished_at REAL
);
CREATE INDEX job_by_state ON job (state, sequence);
CREATE INDEX job_by_track ON job (track_id);
CREATE TABLE message (sequence INTEGER PRIMARY KEY AUTOINCREMENT, moment REAL NOT NULL, text TEXT NOT NULL);
-- Files of the input folder as they were when they were last read.
CREATE TABLE read_file (name TEXT PRIMARY KEY, modified_ns INTEGER NOT NULL, size INTEGER NOT NULL) WITHOUT ROWID;
""",
    """
-- Which texts documents had: who gave each, and when; the texts themselves are not kept.
CREATE TABLE version (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, document_id TEXT NOT NULL, moment REAL NOT NULL, author TEXT NOT NULL,
  track_id TEXT NOT NULL, length INTEGER NOT NULL, content_hash TEXT NOT NULL
);
CREATE INDEX version_by_document ON version (document_id, sequence);
""",
    "CREATE INDEX version_by_track ON version (track_id, document_id);",
)


# The jobs of one workspace, stored durably: accepting, starting, ending, cancelling and listing them.
#
# An accepted job is on disk when `add` returns. The process that runs a job writes its progress now and then, so that
# every process can show it. Old finished jobs and messages are dropped. All methods block and may be called from any
# thread. Every reader of the workspace can read errors and messages, so they hold no paths of the machine.

_FIELDS = (
    *("id", "request", "state", "done", "total", "counts", "problems", "error", "attempts", "due_at", "cancelled_by"),
    *("created_at", "started_at", "finished_at"),
)
_JOB = TypeAdapter(Job)
_MOST_FINISHED = 1_000
_MOST_MESSAGES = 1_000
_MOST_MESSAGE_LENGTH = 1_000
_RETRY_AFTER_SECONDS = 10.0
# Kinds of which a second waiting job would do the same.
_ONE_AT_A_TIME = (JobKind.PROCESS, JobKind.RETRY, JobKind.SCAN, JobKind.CLEAR)
_UNFINISHED = f"state IN ({', '.join(repr(state.value) for state in UNFINISHED)})"


class JobStore(SmallFile):
    """The jobs of one workspace, whose folder must exist; `NotFoundError` where it was removed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder / _NAME,
            _MIGRATIONS,
            "the list of jobs",
            "move the file away and start again: documents and uploads are kept elsewhere, those that wait are "
            "processed, and a scan reads the uploads that were not read yet",
        )

    def exists(self) -> bool:
        """Whether any job was ever accepted here."""
        return self.path.is_file()

    def failure(self, error: Exception) -> errors.HeliographError:
        """A removed workspace is not reported as damage."""
        if not self.path.parent.is_dir():
            return errors.NotFoundError(f"there is no workspace {self.path.parent.name!r}; it was removed")
        return super().failure(error)

    def add(self, request: JobRequest, max_waiting: int | None = None) -> Job:
        """Accept a job; a waiting job that does the same for the whole workspace is returned instead.

        It is refused if `max_waiting` jobs wait already; None always accepts, for jobs that follow from another job.

        Raises:
            ConflictError: Everything is about to be deleted.
            OverloadedError: Too many jobs wait.
            StoreUnavailable: It cannot be written.
        """
        with self.transaction() as connection:
            if request.kind in _ONE_AT_A_TIME:
                where = "WHERE state = 'waiting' AND kind = ? AND cancelled_by = ''"
                for same in _select(connection, where, values=(request.kind.value,)):
                    # A job for all documents covers a request for some.
                    if same.request.document_ids in ((), request.document_ids):
                        return same
            if max_waiting is not None:
                if JobKind.CLEAR in _count_unfinished(connection):
                    raise errors.ConflictError("all documents are being deleted; try again when that is done")
                waiting: Any = connection.execute("SELECT count(*) FROM job WHERE state = 'waiting'").get
                if waiting >= max_waiting:
                    raise errors.OverloadedError(
                        f"{waiting:,} jobs wait already; try again later, or raise server.max_waiting_jobs",
                        _RETRY_AFTER_SECONDS,
                    )
            id_, now = f"job-{secrets.token_hex(12)}", time.time()
            query = """INSERT INTO job (id, kind, track_id, request, state, due_at, created_at)
                       VALUES (?, ?, ?, ?, 'waiting', ?, ?)"""
            encoded = json.dumps(asdict(request))
            connection.execute(query, (id_, request.kind.value, request.track_id, encoded, now, now))
            old = f"""DELETE FROM job WHERE NOT {_UNFINISHED} AND sequence <= (
                SELECT sequence FROM job WHERE NOT {_UNFINISHED} ORDER BY sequence DESC LIMIT 1 OFFSET ?)"""
            connection.execute(old, (_MOST_FINISHED,))
            return _get(connection, id_)

    def get(self, id_: str) -> Job:
        """Return a job; raises `NotFoundError` if there is none of this id."""
        with self.reading() as connection:
            return _get(connection, id_)

    def page(self, offset: int, limit: int) -> tuple[list[Job], int]:
        """Return jobs, latest first, and how many there are in all."""
        with self.reading() as connection:
            total = connection.execute("SELECT count(*) FROM job").get
            jobs = _select(connection, "WHERE 1", "ORDER BY sequence DESC LIMIT ? OFFSET ?", (limit, offset))
        return jobs, int(total)

    def of_track(self, track_id: str) -> list[Job]:
        """Return the jobs of one batch in order."""
        with self.reading() as connection:
            return _select(connection, "WHERE track_id = ?", values=(track_id,))

    def count_unfinished(self) -> dict[JobKind, int]:
        """Return how many jobs wait or run, per kind that has any."""
        with self.reading() as connection:
            return _count_unfinished(connection)

    def unread_files(self) -> set[str]:
        """Return the names of uploads that jobs will read, or are reading."""
        query = f"SELECT value FROM job, json_each(job.request, '$.sources') WHERE {_UNFINISHED} AND kind = ?"
        with self.reading() as connection:
            return {str(name) for (name,) in connection.execute(query, (JobKind.FILES.value,))}

    def upcoming(self) -> list[Job]:
        """Return, in order, running or cancelled jobs, and the next one of each kind, due or not."""
        with self.reading() as connection:
            return _upcoming(connection)

    def state(self, most_messages: int) -> PipelineState:
        """Return the unfinished jobs and the latest messages."""
        with self.reading() as connection:
            jobs, counts = _upcoming(connection), _count_unfinished(connection)
            query = "SELECT moment, text FROM message ORDER BY sequence DESC LIMIT ?"
            rows: list[Any] = connection.execute(query, (most_messages,)).fetchall()
            messages = tuple((datetime.fromtimestamp(moment, UTC), str(text)) for moment, text in reversed(rows))
        return PipelineState(tuple(jobs), counts, messages)

    def take_over(self) -> None:
        """Make jobs that a dead process was running wait again; only the owner of the jobs may call this."""
        with self.transaction(durable=False) as connection:
            connection.execute("UPDATE job SET state = 'waiting' WHERE state = 'running'")

    def begin(self, id_: str) -> None:
        """Record that a job is running."""
        with self.transaction(durable=False) as connection:
            query = "UPDATE job SET state = 'running', started_at = ?, error = '' WHERE id = ?"
            connection.execute(query, (time.time(), id_))

    def report(self, id_: str, progress: JobProgress) -> None:
        """Record the progress of a job."""
        with self.transaction(durable=False) as connection:
            query = "UPDATE job SET done = ?, total = ?, counts = ?, problems = ? WHERE id = ?"
            counts, problems = dict(progress.counts), list(map(without_folders, progress.problems))
            values = (progress.done, progress.total, json.dumps(counts), json.dumps(problems), id_)
            connection.execute(query, values)

    def end(self, id_: str, state: JobState, error: str = "") -> None:
        """Record how a job ended. Its details of documents are stored with them by now, and deleted with them."""
        with self.transaction() as connection:
            query = """UPDATE job SET state = ?, error = ?, finished_at = ?, request = json_replace(
                         request, '$.metadata', NULL, '$.content_hashes', json('{}')) WHERE id = ?"""
            connection.execute(query, (state.value, without_folders(error), time.time(), id_))

    def postpone(self, id_: str, error: str = "", attempts: int = 0, delay_seconds: float = 0.0) -> None:
        """Make a job wait, to be retried after a delay."""
        with self.transaction(durable=False) as connection:
            query = "UPDATE job SET state = 'waiting', error = ?, attempts = ?, due_at = ? WHERE id = ?"
            connection.execute(query, (without_folders(error), attempts, time.time() + delay_seconds, id_))

    def cancel(self, id_: str, author: str) -> Job:
        """Record who cancels an unfinished job; the process that runs the jobs ends it when it next looks.

        Raises:
            NotFoundError: There is none of this id.
        """
        with self.transaction() as connection:
            job = _get(connection, id_)
            if job.is_unfinished:
                connection.execute("UPDATE job SET cancelled_by = ? WHERE id = ?", (author or "somebody", id_))
            return _get(connection, id_)

    def cancel_all(self, kinds: Sequence[JobKind], author: str) -> int:
        """Request the cancellation of all unfinished jobs of some kinds; return how many there are."""
        with self.transaction() as connection:
            query = f"UPDATE job SET cancelled_by = ? WHERE {_UNFINISHED} AND kind = ?"
            before = connection.total_changes()
            connection.executemany(query, [(author or "somebody", kind.value) for kind in kinds])
            return connection.total_changes() - before

    def tell(self, text: str) -> None:
        """Add a message."""
        with self.transaction(durable=False) as connection:
            query = "INSERT INTO message (moment, text) VALUES (?, ?)"
            connection.execute(query, (time.time(), without_folders(text)[:_MOST_MESSAGE_LENGTH]))
            query = "DELETE FROM message WHERE sequence <= (SELECT max(sequence) FROM message) - ?"
            connection.execute(query, (_MOST_MESSAGES,))

    def read_files(self) -> dict[str, tuple[int, int]]:
        """Return modification time in nanoseconds and size, per name, of files when they were last read."""
        with self.reading() as connection:
            rows: list[Any] = connection.execute("SELECT name, modified_ns, size FROM read_file").fetchall()
        return {name: (modified, size) for name, modified, size in rows}

    def note_read(self, files: Mapping[str, tuple[int, int]]) -> None:
        """Record the state of files when they were read."""
        with self.transaction(durable=False) as connection:
            rows = [(name, *stamp) for name, stamp in files.items()]
            connection.executemany("INSERT OR REPLACE INTO read_file VALUES (?, ?, ?)", rows)

    def forget_read(self, names: Sequence[str] | None = None) -> None:
        """Delete the records of read files; None deletes all."""
        with self.transaction() as connection:
            if names is None:
                connection.execute("DELETE FROM read_file")
            else:
                connection.executemany("DELETE FROM read_file WHERE name = ?", [(name,) for name in names])

    def note_versions(self, versions: Sequence[DocumentVersion]) -> None:
        """Record the current texts of documents; one that a document has already is not recorded again."""
        query = """INSERT INTO version (document_id, moment, author, track_id, length, content_hash)
                   SELECT ?, ?, ?, ?, ?, ? WHERE ?6 IS NOT (
                     SELECT content_hash FROM version WHERE document_id = ?1 ORDER BY sequence DESC LIMIT 1)"""
        rows = [
            (item.document_id, item.created_at.timestamp(), item.author, item.track_id, item.length, item.content_hash)
            for item in versions
        ]
        with self.transaction(durable=False) as connection:
            connection.executemany(query, rows)

    def versions(self, document_id: str, limit: int) -> list[DocumentVersion]:
        """Return the texts that a document had, latest first; those not inserted through the service are missing."""
        query = """SELECT document_id, author, track_id, length, content_hash, moment FROM version
                   WHERE document_id = ? ORDER BY sequence DESC LIMIT ?"""
        with self.reading() as connection:
            rows: list[Any] = connection.execute(query, (document_id, limit)).fetchall()
        return [
            DocumentVersion(id_, author, track_id, length, content_hash, datetime.fromtimestamp(moment, UTC))
            for id_, author, track_id, length, content_hash, moment in rows
        ]

    def documents_of_track(self, track_id: str, limit: int) -> list[str]:
        """Return the ids of documents that had a text of this batch."""
        query = "SELECT DISTINCT document_id FROM version WHERE track_id = ? LIMIT ?"
        with self.reading() as connection:
            return [id_ for (id_,) in connection.execute(query, (track_id, limit))]

    def forget_versions(self, document_ids: Sequence[str] | None = None) -> None:
        """Delete the recorded texts of documents; None deletes all."""
        with self.transaction() as connection:
            if document_ids is None:
                connection.execute("DELETE FROM version")
            else:
                query = "DELETE FROM version WHERE document_id = ?"
                connection.executemany(query, [(document_id,) for document_id in document_ids])


def _select(connection: apsw.Connection, where: str, order: str = "ORDER BY sequence", values: Any = ()) -> list[Job]:
    query = f"SELECT {', '.join(_FIELDS)} FROM job {where} {order}"
    jobs: list[Job] = []
    for row in connection.execute(query, values):
        found: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
        progress = {name: found.pop(name) for name in ("done", "total", "counts", "problems")}
        progress |= {name: json.loads(progress[name]) for name in ("counts", "problems")}
        # Validated, as a damaged file may hold any value.
        jobs.append(_JOB.validate_python(found | {"request": json.loads(found["request"]), "progress": progress}))
    return jobs


def _upcoming(connection: apsw.Connection) -> list[Job]:
    first = "SELECT min(sequence) FROM job WHERE state = 'waiting' AND cancelled_by = '' AND due_at"
    # In batches, as many may have been cancelled.
    gone = "SELECT sequence FROM job WHERE state = 'waiting' AND cancelled_by <> '' ORDER BY sequence LIMIT 100"
    where = f"""WHERE state = 'running' OR sequence IN ({gone})
                OR sequence IN ({first} <= :now GROUP BY kind) OR sequence IN ({first} > :now GROUP BY kind)"""
    return _select(connection, where, values={"now": time.time()})


def _count_unfinished(connection: apsw.Connection) -> dict[JobKind, int]:
    query = f"SELECT kind, count(*) FROM job WHERE {_UNFINISHED} GROUP BY kind"
    rows: list[Any] = connection.execute(query).fetchall()
    return {JobKind(kind): count for kind, count in rows}


def _get(connection: apsw.Connection, id_: str) -> Job:
    found = _select(connection, "WHERE id = ?", values=(id_,))
    if not found:
        raise errors.NotFoundError(f"there is no job {id_!r} in this workspace; it may be long finished")
    return found[0]
