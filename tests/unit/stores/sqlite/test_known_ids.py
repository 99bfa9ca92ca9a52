"""Ids and keys that are remembered: each looked up once, of one data version, within a bound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from heliograph.errors import StoreUnavailable
from heliograph.stores.sqlite import database as known_ids
from heliograph.stores.sqlite.database import IdMemory, KnownIds, forget_keys, give_keys
from heliograph.stores.sqlite.schema import migrate


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    path = tmp_path / "a.db"
    connection = apsw.Connection(str(path))
    migrate(connection, str(path))
    yield connection
    connection.close()


def test_what_was_looked_up_is_not_looked_up_again(connection: apsw.Connection) -> None:
    keys = give_keys(connection, ["ent-1", "ent-2"])
    known = KnownIds()
    assert known.find_keys(connection, ["ent-2", "ent-2", "ent-9"]) == {"ent-2": keys["ent-2"]}
    assert known.find_ids(connection, keys.values()) == {key: id_ for id_, key in keys.items()}
    connection.execute("DELETE FROM identity")
    assert known.find_keys(connection, list(keys)) == keys
    with pytest.raises(StoreUnavailable, match="damaged"):
        known.find_ids(connection, [99])


def test_a_key_that_is_given_again_is_of_the_new_id(connection: apsw.Connection) -> None:
    memory, keys = IdMemory(), give_keys(connection, ["ent-old"])
    before = memory.at(connection)
    assert before.find_keys(connection, ["ent-old"]) == keys
    assert memory.at(connection) is before
    forget_keys(connection, keys.values())
    assert give_keys(connection, ["ent-new"]) == {"ent-new": keys["ent-old"]}
    connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'data_version'")
    assert memory.at(connection).find_ids(connection, keys.values()) == {keys["ent-old"]: "ent-new"}
    assert memory.at(connection).find_keys(connection, ["ent-old"]) == {}


def test_memory_is_bounded(connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "_MOST_KEPT", 10)
    keys = give_keys(connection, [f"ent-{number}" for number in range(50)])
    known = KnownIds()
    for id_, key in keys.items():
        assert known.find_keys(connection, [id_]) == {id_: key}
        assert known.find_ids(connection, [key]) == {key: id_}
    assert len(known._ids) <= 10
    assert len(known._keys) <= 10
