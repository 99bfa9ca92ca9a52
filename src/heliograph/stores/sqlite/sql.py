"""Running statements: rows as typed tuples, many ids or keys as one argument."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

Row = tuple[Any, ...]


def array(values: Collection[int] | Collection[str] | NDArray[np.int64]) -> Any:
    """Return values as one SQL argument, to be read by `carray(?)`; there must be at least one."""
    if isinstance(values, np.ndarray):
        return apsw.carray(values)
    if isinstance(next(iter(values)), str):
        # A string of C ends at NUL, which no stored text holds.
        return apsw.carray(tuple(str(value).replace("\0", "\ufffd") for value in values))
    return apsw.carray(np.fromiter(map(int, values), np.int64, len(values)))


def fetch(connection: apsw.Connection, query: str, values: Any = ()) -> list[Row]:
    """Return all rows."""
    return connection.execute(query, values).fetchall()


def fetch_one(connection: apsw.Connection, query: str, values: Any = ()) -> Row | None:
    """Return the first row, or None."""
    return connection.execute(query, values).fetchone()


def fetch_value(connection: apsw.Connection, query: str, values: Any = ()) -> Any:
    """Return the first column of the first row, or None."""
    row = fetch_one(connection, query, values)
    return row[0] if row else None


def singles(values: Iterable[int]) -> Iterable[tuple[int]]:
    """Return each value as the one argument of a statement."""
    return ((value,) for value in values)
