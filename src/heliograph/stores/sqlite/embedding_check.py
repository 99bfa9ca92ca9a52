"""Which embedding fills the store: read from it, and compared with what a process opened it for."""

from __future__ import annotations

import apsw

from heliograph.errors import SchemaMismatch
from heliograph.stores.sqlite.sql import fetch

PRESENT = ("embedding_name", "embedding_dimension")


def stored_embedding(connection: apsw.Connection) -> tuple[str, int] | None:
    """Return name and dimension of the embedding that filled the store; None if it is new."""
    return read_embedding(connection, PRESENT)


def read_embedding(connection: apsw.Connection, names: tuple[str, str]) -> tuple[str, int] | None:
    """Return a name and a dimension that are kept under these two names; None if they are not."""
    stored = dict(fetch(connection, "SELECT name, value FROM meta WHERE name IN (?, ?)", names))
    return (str(stored[names[0]]), int(stored[names[1]])) if len(stored) == len(names) else None


def check_embedding(connection: apsw.Connection, expected: tuple[str, int]) -> None:
    """Compare the store's embedding with the one it was opened for.

    Raises:
        SchemaMismatch: Another process has embedded the store anew since.
    """
    stored = stored_embedding(connection)
    if stored != expected:
        raise SchemaMismatch(
            f"the store was embedded anew with {stored!r} since it was opened with {expected!r}; "
            "configure that embedding and open the store again"
        )
