"""The jobs of one workspace, kept durably: accepting, beginning, ending, cancelling, and looking at them.

What was accepted is on disk when `add` returns. Progress is written now and then by whoever runs a job, so that every
process can tell it. Old finished jobs and messages are dropped. All methods block and may be called from any thread.
Whoever may read the workspace reads why a job failed and what happened; so no folders of the machine are kept in that.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
from pydantic import TypeAdapter

from heliograph.errors import ConflictError, NotFoundError, OverloadedError
from heliograph.service.jobs.job_file import JobFile
from heliograph.service.jobs.models import (
    UNFINISHED,
    Job,
    JobKind,
    JobProgress,
    JobRequest,
    JobState,
    PipelineState,
)
from heliograph.service.principal import without_folders

_FIELDS = (
    *("id", "request", "state", "done", "total", "counts", "problems", "error", "attempts", "due_at", "cancelled_by"),
    *("created_at", "started_at", "finished_at"),
)
_JOB = TypeAdapter(Job)
_MOST_FINISHED = 1_000
_MOST_MESSAGES = 1_000
_MOST_MESSAGE_LENGTH = 1_000
_RETRY_AFTER_SECONDS = 10.0
# Two of these at once would do the same.
_ONE_AT_A_TIME = (JobKind.PROCESS, JobKind.RETRY, JobKind.SCAN, JobKind.CLEAR)


class JobStore:
    """The jobs of one workspace.

    Args:
        folder: The folder of the workspace, which must be there.
    """

    def __init__(self, folder: Path) -> None:
        self._file = JobFile(folder)

    def exists(self) -> bool:
        """Whether any job was ever accepted here."""
        return self._file.exists()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    def remove(self) -> None:
        """Forget all jobs, with the file."""
        self._file.remove()

    def add(self, request: JobRequest, max_waiting: int | None = None) -> Job:
        """Accept a job; what waits to do the same for the whole workspace already is returned in its place.

        Args:
            request: What to do.
            max_waiting: Refused if more wait; None accepts what follows from a job in any case.

        Raises:
            ConflictError: Everything is about to be deleted.
            OverloadedError: Too many jobs wait.
            StoreUnavailable: It cannot be written.
        """
        with self._file.transaction() as connection:
            if request.kind in _ONE_AT_A_TIME:
                where = "WHERE state = 'waiting' AND kind = ? AND cancelled_by = ''"
                if same := _select(connection, where, values=(request.kind.value,)):
                    return same[0]
            if max_waiting is not None:
                _check_room(connection, max_waiting)
            id_, now = f"job-{secrets.token_hex(12)}", time.time()
            query = """INSERT INTO job (id, kind, track_id, request, state, due_at, created_at)
                       VALUES (?, ?, ?, ?, 'waiting', ?, ?)"""
            connection.execute(query, (id_, request.kind.value, request.track_id, _encode(request), now, now))
            _drop_old(connection)
            return _get(connection, id_)

    def get(self, id_: str) -> Job:
        """Return a job.

        Raises:
            NotFoundError: There is none of this id.
        """
        with self._file.reading() as connection:
            return _get(connection, id_)

    def page(self, offset: int, limit: int) -> tuple[list[Job], int]:
        """Return jobs, latest first, and how many there are in all."""
        with self._file.reading() as connection:
            total = connection.execute("SELECT count(*) FROM job").get
            jobs = _select(connection, "WHERE 1", "ORDER BY sequence DESC LIMIT ? OFFSET ?", (limit, offset))
        return jobs, int(total)

    def of_track(self, track_id: str) -> list[Job]:
        """Return the jobs of one batch in order."""
        with self._file.reading() as connection:
            return _select(connection, "WHERE track_id = ?", values=(track_id,))

    def count_unfinished(self) -> dict[JobKind, int]:
        """Return how many jobs wait or run, per kind that has any."""
        with self._file.reading() as connection:
            return _count_unfinished(connection)

    def upcoming(self) -> list[Job]:
        """Return, in order, what runs, what is to be cancelled, and of each kind what comes next, due and not."""
        with self._file.reading() as connection:
            return _upcoming(connection)

    def state(self, most_messages: int) -> PipelineState:
        """Return what is under way and what happened last."""
        with self._file.reading() as connection:
            jobs, counts = _upcoming(connection), _count_unfinished(connection)
            query = "SELECT moment, text FROM message ORDER BY sequence DESC LIMIT ?"
            rows: list[Any] = connection.execute(query, (most_messages,)).fetchall()
            messages = tuple((datetime.fromtimestamp(moment, UTC), str(text)) for moment, text in reversed(rows))
        return PipelineState(tuple(jobs), counts, messages)

    def take_over(self) -> None:
        """Let what a dead process was running wait again; only who runs the jobs may call this."""
        with self._file.transaction(durable=False) as connection:
            connection.execute("UPDATE job SET state = 'waiting' WHERE state = 'running'")

    def begin(self, id_: str) -> None:
        """Note that a job runs now."""
        with self._file.transaction(durable=False) as connection:
            query = "UPDATE job SET state = 'running', started_at = ?, error = '' WHERE id = ?"
            connection.execute(query, (time.time(), id_))

    def report(self, id_: str, progress: JobProgress) -> None:
        """Note how far a job is."""
        with self._file.transaction(durable=False) as connection:
            query = "UPDATE job SET done = ?, total = ?, counts = ?, problems = ? WHERE id = ?"
            connection.execute(query, (*_progress_row(progress), id_))

    def end(self, id_: str, state: JobState, error: str = "") -> None:
        """Note how a job ended. The metadata it brought is with its documents by now, and goes when they do."""
        with self._file.transaction() as connection:
            query = """UPDATE job SET state = ?, error = ?, finished_at = ?,
                       request = json_replace(request, '$.metadata', NULL) WHERE id = ?"""
            connection.execute(query, (state.value, without_folders(error), time.time(), id_))

    def park(self, id_: str, error: str = "", attempts: int = 0, delay_seconds: float = 0.0) -> None:
        """Let a job wait, to be tried (again) after a delay."""
        with self._file.transaction(durable=False) as connection:
            query = "UPDATE job SET state = 'waiting', error = ?, attempts = ?, due_at = ? WHERE id = ?"
            connection.execute(query, (without_folders(error), attempts, time.time() + delay_seconds, id_))

    def cancel(self, id_: str, author: str) -> Job:
        """Ask for a job to be cancelled: at once if it waits, else whoever runs it does so.

        Raises:
            NotFoundError: There is none of this id.
        """
        with self._file.transaction() as connection:
            job = _get(connection, id_)
            if job.is_unfinished:
                connection.execute("UPDATE job SET cancelled_by = ? WHERE id = ?", (author or "somebody", id_))
            return _get(connection, id_)

    def cancel_all(self, kinds: Sequence[JobKind], author: str) -> int:
        """Ask for all unfinished jobs of some kinds to be cancelled; return how many those are."""
        with self._file.transaction() as connection:
            query = "UPDATE job SET cancelled_by = ? WHERE state IN ('waiting', 'running') AND kind = ?"
            before = connection.total_changes()
            connection.executemany(query, [(author or "somebody", kind.value) for kind in kinds])
            return connection.total_changes() - before

    def tell(self, text: str) -> None:
        """Add a message of what happened."""
        with self._file.transaction(durable=False) as connection:
            query = "INSERT INTO message (moment, text) VALUES (?, ?)"
            connection.execute(query, (time.time(), without_folders(text)[:_MOST_MESSAGE_LENGTH]))
            query = "DELETE FROM message WHERE sequence <= (SELECT max(sequence) FROM message) - ?"
            connection.execute(query, (_MOST_MESSAGES,))

    def read_files(self) -> dict[str, tuple[int, int]]:
        """Return modification time in nanoseconds and size, per name, of files as they were last read."""
        with self._file.reading() as connection:
            rows: list[Any] = connection.execute("SELECT name, modified_ns, size FROM read_file").fetchall()
        return {name: (modified, size) for name, modified, size in rows}

    def note_read(self, files: Mapping[str, tuple[int, int]]) -> None:
        """Note files as they were when they were read."""
        with self._file.transaction(durable=False) as connection:
            rows = [(name, *stamp) for name, stamp in files.items()]
            connection.executemany("INSERT OR REPLACE INTO read_file VALUES (?, ?, ?)", rows)

    def forget_read(self, names: Sequence[str] | None = None) -> None:
        """Forget files that were read; None forgets all."""
        with self._file.transaction() as connection:
            if names is None:
                connection.execute("DELETE FROM read_file")
            else:
                connection.executemany("DELETE FROM read_file WHERE name = ?", [(name,) for name in names])


def _select(connection: apsw.Connection, where: str, order: str = "ORDER BY sequence", values: Any = ()) -> list[Job]:
    query = f"SELECT {', '.join(_FIELDS)} FROM job {where} {order}"  # noqa: S608 (all are constants of this file)
    return [_job(row) for row in connection.execute(query, values)]


def _upcoming(connection: apsw.Connection) -> list[Job]:
    first = "SELECT min(sequence) FROM job WHERE state = 'waiting' AND cancelled_by = '' AND due_at"
    # Of many that are to be cancelled, some at a time.
    gone = "SELECT sequence FROM job WHERE state = 'waiting' AND cancelled_by <> '' ORDER BY sequence LIMIT 100"
    where = f"""WHERE state = 'running' OR sequence IN ({gone})
                OR sequence IN ({first} <= :now GROUP BY kind) OR sequence IN ({first} > :now GROUP BY kind)"""
    return _select(connection, where, values={"now": time.time()})


def _count_unfinished(connection: apsw.Connection) -> dict[JobKind, int]:
    query = "SELECT kind, count(*) FROM job WHERE state IN ('waiting', 'running') GROUP BY kind"
    rows: list[Any] = connection.execute(query).fetchall()
    return {JobKind(kind): count for kind, count in rows}


def _get(connection: apsw.Connection, id_: str) -> Job:
    found = _select(connection, "WHERE id = ?", values=(id_,))
    if not found:
        raise NotFoundError(f"there is no job {id_!r} in this workspace; it may be long finished")
    return found[0]


def _check_room(connection: apsw.Connection, max_waiting: int) -> None:
    query = "SELECT count(*) FROM job WHERE kind = ? AND state IN ('waiting', 'running')"
    if connection.execute(query, (JobKind.CLEAR.value,)).get:
        raise ConflictError("all documents are being deleted; try again when that is done")
    waiting: Any = connection.execute("SELECT count(*) FROM job WHERE state = 'waiting'").get
    if waiting >= max_waiting:
        raise OverloadedError(
            f"{waiting:,} jobs wait already; try again later, or raise server.max_waiting_jobs",
            _RETRY_AFTER_SECONDS,
        )


def _drop_old(connection: apsw.Connection) -> None:
    states = ", ".join(f"'{state.value}'" for state in UNFINISHED)
    query = f"""DELETE FROM job WHERE state NOT IN ({states}) AND sequence <= (
                SELECT sequence FROM job WHERE state NOT IN ({states}) ORDER BY sequence DESC LIMIT 1 OFFSET ?)"""  # noqa: S608
    connection.execute(query, (_MOST_FINISHED,))


def _job(row: tuple[Any, ...]) -> Job:
    values = dict(zip(_FIELDS, row, strict=True))
    progress = {name: values.pop(name) for name in ("done", "total", "counts", "problems")}
    progress |= {name: json.loads(progress[name]) for name in ("counts", "problems")}
    # Held to the types, as a damaged file may give any value.
    return _JOB.validate_python(values | {"request": json.loads(values["request"]), "progress": progress})


def _progress_row(progress: JobProgress) -> tuple[int, int, str, str]:
    problems = list(map(without_folders, progress.problems))
    return progress.done, progress.total, json.dumps(dict(progress.counts)), json.dumps(problems)


def _encode(request: JobRequest) -> str:
    return json.dumps(asdict(request), ensure_ascii=True)
