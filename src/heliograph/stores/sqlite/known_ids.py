"""Ids and keys that were looked up last, remembered as long as nothing is committed.

What one read of a question finds the next one asks for, and looking an id up among all takes a third of the pages that
a question touches. Whoever asks names the data version that it reads, and what is known of another version is dropped,
since a key may be given again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import apsw

from heliograph.stores.sqlite.identity import find_ids, find_keys
from heliograph.stores.sqlite.sql import fetch_value

# Ids; some 8 MB.
_MOST_KEPT = 32_768


class IdMemory:
    """Ids of one data version; may be used from any thread."""

    def __init__(self) -> None:
        # One attribute, so that a thread never sees a version with the ids of another.
        self._latest: tuple[int, KnownIds] = (-1, KnownIds())

    def at(self, connection: apsw.Connection) -> KnownIds:
        """Return what is known of the moment that a connection reads; it must be in a transaction."""
        version = int(fetch_value(connection, "SELECT value FROM meta WHERE name = 'data_version'"))
        known_version, known = self._latest
        if version != known_version:
            # Who still reads the version before goes on with what it has.
            known = KnownIds()
            self._latest = version, known
        return known


class KnownIds:
    """Ids and their keys, each looked up once; beyond a number of them all are forgotten."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._ids: dict[int, str] = {}

    def find_keys(self, connection: apsw.Connection, ids: Collection[str]) -> dict[str, int]:
        """Return the keys of the ids that are stored, in no order."""
        keys = self._keys
        found = {id_: keys[id_] for id_ in ids if id_ in keys}
        if len(found) < len(ids):
            read = find_keys(connection, [id_ for id_ in ids if id_ not in found])
            self.note({key: id_ for id_, key in read.items()})
            found |= read
        return found

    def find_ids(self, connection: apsw.Connection, keys: Collection[int]) -> dict[int, str]:
        """Return the ids of keys that tables refer to, in no order.

        Raises:
            StoreDamaged: One has none: the table of ids is damaged.
        """
        ids = self._ids
        found = {key: ids[key] for key in keys if key in ids}
        if len(found) < len(keys):
            read = find_ids(connection, [key for key in keys if key not in found])
            self.note(read)
            found |= read
        return found

    def note(self, ids: Mapping[int, str]) -> None:
        """Remember ids by key."""
        if len(self._ids) + len(ids) > _MOST_KEPT:
            # New ones, not emptied ones: another thread may be reading the old.
            self._keys, self._ids = {}, {}
        self._ids.update(ids)
        self._keys.update(zip(ids.values(), ids, strict=True))
