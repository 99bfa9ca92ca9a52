"""The workspaces in a PostgreSQL database: listing them, checking for waiting documents, removing one; all blocks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from heliograph.errors import InvalidRequestError
from heliograph.models import WAITING_STATUSES
from heliograph.settings import StoreSettings
from heliograph.stores.postgres.database import parse_address, translate_errors
from heliograph.stores.postgres.schema import TABLES
from heliograph.stores.postgres.search import INDEXES, index_patterns

# For how long an identity may be cached: reading it takes a connection.
IDENTITY_SECONDS = 2.0
_CONNECT_SECONDS = 10
_OF_WORKSPACES = (*TABLES, "heliograph_outbox_reader")


def find_workspaces(settings: StoreSettings) -> list[str]:
    """Return the names of the workspaces in the database, sorted; empty if it has no tables of ours. Blocks.

    Raises:
        StoreUnavailable: The server cannot be reached.
    """
    return [name for (name,) in _fetch(settings, "SELECT name FROM heliograph_workspace ORDER BY name")]


def workspace_identity(settings: StoreSettings) -> int | None:
    """Return a number that changes if the workspace is removed and created again; None if it does not exist. Blocks.

    Raises:
        StoreUnavailable: The server cannot be reached.
    """
    rows = _fetch(settings, "SELECT made FROM heliograph_workspace WHERE name = %s", settings.workspace)
    return rows[0][0] if rows else None


def has_workspace(settings: StoreSettings) -> bool:
    """Whether the workspace that the settings name exists; blocks, and raises as `workspace_identity`."""
    return workspace_identity(settings) is not None


def may_have_waiting(settings: StoreSettings) -> bool:
    """Whether documents of the workspace wait to be processed; blocks, and raises as `workspace_identity`."""
    query = "SELECT 1 FROM heliograph_document WHERE workspace = %s AND status = ANY(%s) LIMIT 1"
    return bool(_fetch(settings, query, settings.workspace, list(WAITING_STATUSES)))


def drop_workspace(settings: StoreSettings) -> None:
    """Remove the workspace that the settings name with all its data; it must not be open anywhere. Blocks.

    Raises:
        StoreUnavailable: The server cannot be reached.
    """
    with _connect(settings) as connection:
        if connection is None:
            return
        # Commits begin by the lock of this row. Without it, the data may belong to projections beside another store.
        row = "DELETE FROM heliograph_workspace WHERE name = %s"
        if not connection.execute(row, (settings.workspace,)).rowcount:
            return
        for table in _OF_WORKSPACES:
            connection.execute(f"DELETE FROM {table} WHERE workspace = %s".encode(), (settings.workspace,))
        for (name,) in connection.execute(INDEXES, (index_patterns(settings.workspace),)).fetchall():
            connection.execute(f"DROP INDEX IF EXISTS {name}".encode())


def restore_workspace(settings: StoreSettings, backup: Path) -> None:  # noqa: ARG001
    """Refuse: backups of a server are restored by its own tools."""
    raise InvalidRequestError(
        "the store 'postgresql' brings no backups back, its operators do; restore the database itself with pg_restore"
    )


def salvage_workspace(settings: StoreSettings) -> None:
    """Do nothing: the server looks after its files."""


def _fetch(settings: StoreSettings, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query; empty if the database has no tables of ours."""
    with _connect(settings) as connection:
        return connection.execute(query.encode(), values).fetchall() if connection else []


@contextmanager
def _connect(settings: StoreSettings) -> Generator[psycopg.Connection | None]:
    """Yield a connection to the database, or None if it has no tables of ours."""
    address = parse_address(settings.url)
    with (
        translate_errors(address.label),
        psycopg.connect(address.conninfo, connect_timeout=_CONNECT_SECONDS) as connection,
    ):
        row = connection.execute("SELECT to_regclass('heliograph_workspace') IS NOT NULL").fetchone()
        yield connection if row and row[0] else None
