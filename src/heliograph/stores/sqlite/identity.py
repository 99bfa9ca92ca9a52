"""Ids as text outside, integer keys inside: each id is stored once and every table refers to its key."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import apsw

from heliograph.errors import StoreDamaged
from heliograph.stores.sqlite.sql import array, fetch, fetch_value, singles


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
