"""Switching a file of SQLite to a write-ahead log."""

from __future__ import annotations

import time

import apsw

__all__ = ["use_wal"]

_WAL_TRIES = 100
_WAL_REST_SECONDS = 0.05


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
