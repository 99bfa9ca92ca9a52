"""What the processes of a service remember together: attempts within a window, and sessions that were ended.

One small SQLite file that only this user may read. What has passed its time is dropped as new things come. Subjects of
attempts are kept as digests, since people type passwords where names belong.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw

from heliograph.errors import StoreUnavailable
from heliograph.stores.wal import DAMAGE, transaction, use_wal

T = TypeVar("T")

_BUSY_MILLISECONDS = 5_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS attempt (
    subject BLOB NOT NULL, batch INTEGER NOT NULL, at REAL NOT NULL, until REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS attempt_subject ON attempt (subject, at);
CREATE INDEX IF NOT EXISTS attempt_until ON attempt (until);
CREATE TABLE IF NOT EXISTS ended_session (id TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
"""


class Ledger:
    """The file at `path`, made if it is not there; its folder must be.

    Args:
        path: Of the file.
        clock: Tells seconds since the epoch.

    Raises:
        StoreUnavailable: It cannot be opened.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        with self._translated():
            path.touch(mode=0o600)
            self._connection = apsw.Connection(str(path))
            self._connection.set_busy_timeout(_BUSY_MILLISECONDS)
            use_wal(self._connection)
            # Survives a crash of the process, which is all that counts of attempts; an ended session is synced.
            self._connection.pragma("synchronous", "normal")
            self._connection.execute(_SCHEMA)
            # Reads do not wait for writes, not even for those of this process; only for a file that is being recovered.
            self._reader = apsw.Connection(str(path))
            self._reader.set_busy_timeout(_BUSY_MILLISECONDS)

    async def attempt(self, most: Mapping[str, int], window_seconds: float) -> float:
        """Count one attempt by each of some subjects, unless one has made as many as it may within the window.

        Args:
            most: How many each subject may make.
            window_seconds: The window, which ends now.

        Returns:
            0, or in how many seconds the attempt would be counted; then nothing was counted.

        Raises:
            StoreUnavailable: The file fails.
        """
        counted = {_digest(subject): limit for subject, limit in most.items()}
        return await self._run(lambda: self._attempt(counted, window_seconds))

    async def forget(self, subjects: Collection[str]) -> None:
        """Forget the attempts that were made by all of these subjects together.

        Raises:
            StoreUnavailable: The file fails.
        """
        await self._run(lambda: self._forget(list(map(_digest, subjects))))

    async def end_session(self, session: str, until: float) -> None:
        """Remember that a session was ended, until no token of it can be good any more (seconds since the epoch).

        Raises:
            StoreUnavailable: The file fails; the session may go on.
        """
        await self._run(lambda: self._end_session(session, until))

    def is_ended(self, session: str) -> bool:
        """Whether a session was ended, by whichever process; reads one row.

        Raises:
            StoreUnavailable: The file fails.
        """
        with self._translated():
            rows = self._reader.execute("SELECT 1 FROM ended_session WHERE id = ?", (session,)).fetchall()
        return bool(rows)

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        with self._lock:
            self._reader.close()
            self._connection.close()

    async def _run(self, work: Callable[[], T]) -> T:
        def locked() -> T:
            with self._lock, self._translated():
                return work()

        return await asyncio.to_thread(locked)

    def _attempt(self, most: Mapping[bytes, int], window_seconds: float) -> float:
        now = self._clock()
        with transaction(self._connection):
            self._connection.execute("DELETE FROM attempt WHERE until <= ?", (now,))
            waits = [self._wait(subject, limit, window_seconds, now) for subject, limit in most.items()]
            if max(waits) > 0:
                return max(waits)
            batch = secrets.randbits(62)
            rows = [(subject, batch, now, now + window_seconds) for subject in most]
            self._connection.executemany("INSERT INTO attempt VALUES (?, ?, ?, ?)", rows)
        return 0.0

    def _wait(self, subject: bytes, most: int, window_seconds: float, now: float) -> float:
        query = "SELECT at FROM attempt WHERE subject = ? AND at > ? ORDER BY at DESC LIMIT 1 OFFSET ?"
        rows = self._connection.execute(query, (subject, now - window_seconds, most - 1)).fetchall()
        return float(str(rows[0][0])) + window_seconds - now if rows else 0.0

    def _forget(self, subjects: Sequence[bytes]) -> None:
        marks = ", ".join("?" * len(subjects))
        batches = (
            f"SELECT batch FROM attempt WHERE subject IN ({marks}) GROUP BY batch "  # noqa: S608 (marks alone)
            f"HAVING count(DISTINCT subject) = {len(set(subjects))}"
        )
        with transaction(self._connection):
            self._connection.execute(f"DELETE FROM attempt WHERE batch IN ({batches})", tuple(subjects))  # noqa: S608

    def _end_session(self, session: str, until: float) -> None:
        self._connection.pragma("synchronous", "full")
        try:
            with transaction(self._connection):
                self._connection.execute("DELETE FROM ended_session WHERE until <= ?", (self._clock(),))
                self._connection.execute("INSERT OR REPLACE INTO ended_session VALUES (?, ?)", (session, until))
        finally:
            self._connection.pragma("synchronous", "normal")

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except DAMAGE as error:
            raise StoreUnavailable(
                f"the file of sessions {str(self._path)!r} is damaged ({error}); stop the service, delete the file and "
                "start again: people stay logged in, but sessions that were ended are good again until they expire, "
                "unless 'token_secret' beside it, or server.token_secret where that is set, goes, too"
            ) from error
        except (apsw.Error, OSError) as error:
            raise StoreUnavailable(
                f"the file of sessions {str(self._path)!r} failed ({error}); check the disk and permissions of its "
                "folder"
            ) from error


def _digest(subject: str) -> bytes:
    return hashlib.sha256(subject.encode("utf-8", "surrogatepass")).digest()
