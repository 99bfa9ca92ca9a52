"""What all files of SQLite have in common: a write-ahead log, transactions, and what damage looks like."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

import apsw

_WAL_TRIES = 100
_WAL_REST_SECONDS = 0.05

# What reading a damaged file of small records comes to: pages or tables that are none, or values that cannot be.
DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, ValueError, TypeError, LookupError, ArithmeticError)


def use_wal(connection: apsw.Connection) -> None:
    """Switch a file to a write-ahead log; processes that begin a new one at once refuse each other without waiting.

    Raises:
        apsw.BusyError: Another process has kept it for five seconds.
    """
    for tries_left in reversed(range(_WAL_TRIES)):
        try:
            if connection.pragma("journal_mode") != "wal":
                connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if not tries_left:
                raise
            time.sleep(_WAL_REST_SECONDS)
        else:
            return


@contextmanager
def transaction(connection: apsw.Connection, begin: str = "BEGIN IMMEDIATE") -> Generator[None]:
    """Commit what the block does, or none of it; what the block or the commit raises comes out as it is."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk or an I/O error has rolled back already; a second failure must not hide the first.
        if connection.in_transaction:
            with suppress(apsw.Error):
                connection.execute("ROLLBACK")
        raise
