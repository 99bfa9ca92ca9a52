"""How often terms occur in a full-text table, remembered as long as nothing is committed.

The words that cost most to count are those that most questions hold. Whoever asks names the data version that it reads,
and what is known of another version is dropped, so a remembered number is the one that would be counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from heliograph.stores.sqlite.sql import fetch_value

__all__ = ["FrequencyMemory"]

T = TypeVar("T")

# Numbers by table and term; some 4 MB.
_MOST_KEPT = 32_768


class FrequencyMemory:
    """Numbers of one data version; may be used from any thread."""

    def __init__(self) -> None:
        # One attribute, so that a thread never sees a version with the numbers of another.
        self._latest: tuple[int, Frequencies] = (-1, Frequencies())

    def at(self, connection: apsw.Connection) -> Frequencies:
        """Return what is known of the moment that a connection reads."""
        version = int(fetch_value(connection, "SELECT value FROM meta WHERE name = 'data_version'"))
        known_version, known = self._latest
        if version != known_version:
            # Who still reads the version before goes on with what it has.
            known = Frequencies()
            self._latest = version, known
        return known


class Frequencies:
    """Numbers, each counted once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], Any] = {}

    def get(self, key: tuple[str, ...], count: Callable[[], T]) -> T:
        """Return what is remembered under a key, else what `count` gives, which is not None, and remember that."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            found = self._known[key] = count()
        return found
