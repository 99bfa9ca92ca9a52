"""Ids as text outside, integer keys inside; those looked up last are remembered as long as nothing is committed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import apsw

from heliograph.errors import StoreDamaged
from heliograph.stores.sqlite.database import array, data_version, fetch, fetch_value, singles

# Ids and keys that were looked up last, remembered as long as nothing is committed.
#
# What one read of a question finds the next one asks for, and looking an id up among all takes a third of the pages
# that a question touches. Whoever asks names the data version that it reads, and what is known of another version is
# dropped, since a key may be given again.

# Ids; some 8 MB.
_MOST_KEPT = 32_768


class IdMemory:
    """Ids of one data version; may be used from any thread."""

    def __init__(self) -> None:
        # One attribute, so that a thread never sees a version with the ids of another.
        self._latest: tuple[int, KnownIds] = (-1, KnownIds())

    def at(self, connection: apsw.Connection) -> KnownIds:
        """Return what is known of the moment that a connection reads; it must be in a transaction."""
        version = data_version(connection)
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


def find_keys(connection: apsw.Connection, ids: Collection[str]) -> dict[str, int]:
    """Return the keys of the ids that are known."""
    if not ids:
        return {}
    query = (
        "SELECT identity.id, identity.key FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value"
    )
    return dict(fetch(connection, query, (array(ids),)))


def find_ids(connection: apsw.Connection, keys: Collection[int]) -> dict[int, str]:
    """Return the ids of keys that tables refer to.

    Raises:
        StoreDamaged: One has none: this table is damaged.
    """
    found = find_known_ids(connection, keys)
    if missing := set(keys) - found.keys():
        raise StoreDamaged(
            f"the store refers to key {min(missing)}, which has no id: its table of ids is damaged; run 'heliograph "
            "check --repair', and if that does not help, restore a backup or take the documents into a new workspace"
        )
    return found


def find_known_ids(connection: apsw.Connection, keys: Collection[int]) -> dict[int, str]:
    """Return the ids of those keys that have one."""
    if not keys:
        return {}
    query = (
        "SELECT identity.key, identity.id FROM carray(?) AS wanted CROSS JOIN identity ON identity.key = wanted.value"
    )
    return dict(fetch(connection, query, (array(keys),)))


def first_by_id(connection: apsw.Connection, keys: Collection[int], count: int) -> list[int]:
    """Return those of the keys whose ids come first; keys without an id are left out."""
    if not keys or count < 1:
        return []
    query = """SELECT key FROM carray(?) AS wanted CROSS JOIN identity ON identity.key = wanted.value
               ORDER BY id LIMIT ?"""
    return [key for (key,) in fetch(connection, query, (array(keys), count))]


def intern_ids(connection: apsw.Connection, ids: Iterable[str]) -> dict[str, int]:
    """Return a key for every id, giving new ones the next free keys."""
    wanted = dict.fromkeys(ids)
    keys = find_keys(connection, wanted)
    new = [id_ for id_ in wanted if id_ not in keys]
    if new:
        start = (fetch_value(connection, "SELECT max(key) FROM identity") or 0) + 1
        fresh = {id_: start + offset for offset, id_ in enumerate(new)}
        connection.executemany("INSERT INTO identity (id, key) VALUES (?, ?)", iter(fresh.items()))
        keys.update(fresh)
    return keys


def forget_keys(connection: apsw.Connection, keys: Iterable[int]) -> None:
    """Drop ids that no table refers to any more."""
    connection.executemany("DELETE FROM identity WHERE key = ?", singles(keys))
