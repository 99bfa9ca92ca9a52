from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.embedding.base import EmbeddingInfo
from heliograph.ids import entity_key, name_to_entity_id
from heliograph.settings import StoreSettings
from heliograph.stores.graph import keys_of, name_match, pieces_within, terms_of
from heliograph.stores.sqlite import schema
from heliograph.stores.sqlite.store import SqliteStore
from heliograph.testing.examples import DIMENSION, example_changeset

_NAMES_MIGRATION = 8
_INFO = EmbeddingInfo("example", DIMENSION, 512)
_LETTERS = st.text(alphabet="ab c深学Z-\"'é🛰", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("names", "text", "match"),
    [
        (["Graph"], "GRAPH", 0),
        (["Other", "Graph store"], "graph", 1),
        (["Heliograph"], "graph", 2),
        (["Heliograph"], "graf", None),
        (["Heliograph"], " ", None),
        ([""], "", None),
    ],
)
def test_names_match_by_their_keys(names: list[str], text: str, match: int | None) -> None:
    assert name_match(names, text) == match


@given(_LETTERS, st.integers(0, 11), st.integers(3, 12))
def test_pieces_of_what_a_name_contains_are_among_those_of_the_name(name: str, start: int, length: int) -> None:
    key = entity_key(name)
    part = entity_key(key[start : start + length])
    if len(part) < 3 or part not in key or any(len(word) < 3 for word in part.split()):
        return
    assert set(pieces_within(part)) <= set(terms_of(keys_of([name])).split())


async def _open(folder: Path) -> SqliteStore:
    return await SqliteStore.open(StoreSettings(data_dir=folder), _INFO)


async def test_store_of_an_earlier_version_gets_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "default").mkdir()
    connection = apsw.Connection(str(tmp_path / "default" / "heliograph.db"))
    with monkeypatch.context() as patch:
        patch.setattr(schema, "LATEST_VERSION", _NAMES_MIGRATION - 1)
        schema.migrate(connection, "old.db")
    for key, name, aliases in ((1, "Alpha Beta", "First\nLetters"), (2, "深度学习", "")):
        connection.execute("INSERT INTO identity VALUES (?, ?)", (key, name_to_entity_id(name)))
        connection.execute("INSERT INTO entity VALUES (?, ?, '', 0, 0, '', ?, '')", (key, name, aliases))
        connection.execute("INSERT INTO entity_degree VALUES (?, 0)", (key,))
    connection.close()
    store = await _open(tmp_path)
    assert await store.names.find_names("lpha", 9) == [name_to_entity_id("Alpha Beta")]
    assert await store.names.find_names("letters", 9) == [name_to_entity_id("Alpha Beta")]
    assert await store.names.find_names("学习", 9) == [name_to_entity_id("深度学习")]
    await store.close()


async def test_lost_names_are_found_and_made_anew(tmp_path: Path) -> None:
    store = await _open(tmp_path)
    await store.apply(example_changeset("a.md", ["Alpha", "Beta"]))
    (path,) = tmp_path.rglob("heliograph.db")
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM entity_name WHERE name = 'alpha'; INSERT INTO entity_name VALUES ('x', 999)")
    connection.close()
    assert len(await store.inspection.find_faults()) == 2
    await store.inspection.repair()
    assert await store.inspection.find_faults() == []
    assert await store.names.find_names("alpha", 9) == [name_to_entity_id("Alpha")]
    await store.close()
