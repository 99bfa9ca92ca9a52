"""Keeping the full text of FTS5, by which phrases are found, in few parts.

FTS5 adds a part with every commit and merges parts of like size now and then. A search looks into every part: with
eighteen of them, as they are left by 3,000 commits of one document each, it takes twice to six times as long as with
one. So all are merged into one whenever an eighth of the commits was made since the last time, a step every few
commits, which takes 0.1 ms of CPU time a commit, however large the index is; and in one go when the store is closed.
"""

from __future__ import annotations

import apsw

from heliograph.stores.sqlite.sql import fetch_value

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
    return _is_due(connection, _version(connection), _CLOSING_GROWTH, _STEP_COMMITS)


def merge_all(connection: apsw.Connection) -> None:
    """Within a writing transaction, merge all parts of each table into one."""
    for table in _SEARCHED:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    _note(connection, _version(connection))


def _is_due(connection: apsw.Connection, version: int, growth: float, least: int) -> bool:
    merged = int(fetch_value(connection, "SELECT value FROM meta WHERE name = ?", (_MARK,)) or 0)
    return version - merged >= least + growth * merged


def _command(connection: apsw.Connection, table: str, pages: int) -> None:
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))


def _note(connection: apsw.Connection, version: int) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_MARK, version))


def _version(connection: apsw.Connection) -> int:
    return int(fetch_value(connection, "SELECT value FROM meta WHERE name = 'data_version'"))
