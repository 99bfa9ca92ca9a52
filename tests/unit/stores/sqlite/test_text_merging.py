from __future__ import annotations

from pathlib import Path

import apsw

from heliograph.stores.changeset import Collection
from heliograph.stores.sqlite.database import Row, fetch
from heliograph.stores.sqlite.schema import migrate
from heliograph.stores.sqlite.search import is_merge_due, merge_all, merge_step
from heliograph.testing.examples import example_changeset

from .conftest import OpenStore

COMMITS = 300
# Four levels of up to three parts of like size, and the one that holds all of them.
MOST_PARTS = 13


def _commit(connection: apsw.Connection, version: int, *, merging: bool) -> None:
    connection.execute("BEGIN IMMEDIATE")
    words = f"common word{version} group{version % 7}"
    connection.execute("INSERT INTO chunks_terms (rowid, terms) VALUES (?, ?)", (version, words))
    connection.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
    if merging:
        merge_step(connection, version)
    connection.execute("COMMIT")


def _filled(*, merging: bool) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    migrate(connection, "memory")
    if not merging:
        connection.execute("INSERT INTO chunks_terms (chunks_terms, rank) VALUES ('crisismerge', 16)")
    for version in range(1, COMMITS + 1):
        _commit(connection, version, merging=merging)
    return connection


def _parts(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(DISTINCT segid) FROM chunks_terms_idx").get)


def _found(connection: apsw.Connection, words: str) -> list[Row]:
    query = "SELECT rowid, rank FROM chunks_terms WHERE chunks_terms MATCH ? ORDER BY rowid"
    return fetch(connection, query, (words,))


def test_many_small_commits_leave_few_parts_and_the_same_hits() -> None:
    merged, plain = _filled(merging=True), _filled(merging=False)
    assert _parts(merged) <= MOST_PARTS < _parts(plain)
    for words in ("common", "word17", '"common word280"', "group3 OR word5", "missing"):
        assert _found(merged, words) == _found(plain, words)


def test_all_parts_become_one_and_are_left_alone_until_enough_is_new() -> None:
    connection = _filled(merging=False)
    assert is_merge_due(connection)
    merge_all(connection)
    assert _parts(connection) == 1
    assert not is_merge_due(connection)
    _commit(connection, COMMITS + 1, merging=True)
    assert not is_merge_due(connection)
    for version in range(COMMITS + 2, COMMITS + 20):
        _commit(connection, version, merging=True)
    assert is_merge_due(connection)


async def test_closing_merges_what_many_commits_left(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store()
    for number in range(20):
        await store.apply(example_changeset(f"{number}.md", [f"Owl {number}"]))
    found = await store.text.search(Collection.ENTITIES, ["owl"], 50)
    await store.close()
    connection = apsw.Connection(str(tmp_path / "default" / "heliograph.db"))
    assert _parts(connection) == 1
    connection.close()
    store = await open_store()
    assert found
    assert await store.text.search(Collection.ENTITIES, ["owl"], 50) == found
