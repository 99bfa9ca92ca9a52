"""Roles in PostgreSQL beside another store: walls to homes, what other programs see, indexes, another embedding."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg
import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SchemaMismatch, SettingsError, StoreAccessDenied, StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.stores.postgres import schema, search
from heliograph.stores.postgres.search import mark
from heliograph.stores.projection import VectorProjection
from heliograph.stores.registry import drop_workspace, find_workspaces, open_projection, open_store
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector
from heliograph.testing.projection_contract import example_change
from tests.servers.postgres import PostgresServer

INFO = EmbeddingInfo("example", DIMENSION, 512)
ROLES = ("graph", "vectors", "text")
Open = Callable[..., Awaitable[Store]]


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    return postgres_server.make_database()


@pytest.fixture
def settings(tmp_path: Path, database: str) -> StoreSettings:
    urls = {f"{role}_url": database for role in ROLES}
    return StoreSettings.model_validate({"data_dir": tmp_path, "durability": "normal", "pool_size": 2} | urls)


@pytest.fixture
async def vectors(settings: StoreSettings) -> AsyncGenerator[VectorProjection]:
    projection = await open_projection("vectors", settings, INFO)
    assert isinstance(projection, VectorProjection)
    yield projection
    await projection.close()


def _rows(database: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database) as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.mark.parametrize("role", ROLES)
async def test_role_in_the_home_database_is_refused(role: str, database: str) -> None:
    settings = StoreSettings.model_validate({"url": database, f"{role}_url": database})
    with pytest.raises(SettingsError, match=rf"leave store\.{role}_url empty"):
        await open_store(settings, INFO)
    store = await open_store(StoreSettings(url=database), INFO)
    assert not store.followers
    await store.close()


async def test_roles_are_no_workspace_and_no_home_is_made_among_them(settings: StoreSettings, database: str) -> None:
    store = await open_store(settings, INFO)
    await store.apply(example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)]))
    at_home = StoreSettings(url=database)
    assert await find_workspaces(at_home) == []
    for embedding in (INFO, None):
        with pytest.raises(SettingsError, match="vectors of the workspace 'default'"):
            await open_store(at_home, embedding)
    await drop_workspace(at_home)
    assert [await follower.find_differences() for follower in store.followers] == [[]] * len(ROLES)
    other = await open_store(StoreSettings(url=database, workspace="other"), INFO)
    assert (await other.get_stats()).chunks == 0
    await other.close()
    await store.close()
    await drop_workspace(settings)
    # What was emptied leaves room for a home.
    await (await open_store(at_home, INFO)).close()
    assert await find_workspaces(at_home) == ["default", "other"]


async def test_database_of_an_earlier_version_is_brought_up_to_date(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(schema, "LATEST_VERSION", 3)
        await (await open_store(StoreSettings(url=database), INFO)).close()
    texts = {f"chunk-{n}": ("owl",) * (n % 3) + (f"n{n % 7}", "river") for n in range(450)}
    with psycopg.connect(database) as connection:
        for id_, terms in texts.items():
            connection.execute(
                "INSERT INTO heliograph_chunks_terms VALUES ('default', %s, array_to_tsvector(%s::text[]), %s, %s)",
                (id_, list(terms), mark(terms), len(terms)),
            )
        size = len(texts), sum(map(len, texts.values()))
        connection.execute("INSERT INTO heliograph_text_size VALUES ('default', 'chunks', %s, %s)", size)
    store = await open_store(StoreSettings(url=database), INFO)
    assert _rows(database, "SELECT max(number) FROM heliograph_migration") == [(schema.LATEST_VERSION,)]
    assert await store.inspection.find_faults() == []
    new = await open_store(StoreSettings(url=database, workspace="new"), INFO)
    entries = tuple(TextEntry(id_, terms) for id_, terms in texts.items())
    await new.apply(Changeset(texts={Collection.CHUNKS: entries}))
    for asked in (["owl"], ["n3", "owl", "river"], ["nothing"]):
        hits = await store.text.search(Collection.CHUNKS, asked, 500)
        assert hits == await new.text.search(Collection.CHUNKS, asked, 500)
        assert bool(hits) == ("nothing" not in asked)
    await store.close()
    await new.close()


async def test_tables_of_vectors_hold_what_others_look_for(vectors: VectorProjection, database: str) -> None:
    change = example_change("a.md", ["X", "Y"], [("X", "Y", 1.0)])
    await vectors.apply(change)
    entities = _rows(database, "SELECT entity_name, content FROM lightrag_entities ORDER BY entity_name")
    assert entities == [("X", "X\nX in a.md"), ("Y", "Y\nY in a.md")]
    relations = _rows(database, "SELECT src_id, tgt_id, content FROM lightrag_relationships")
    assert relations == [("X", "Y", "links\tX\tY\tX and Y in a.md")]
    chunks = _rows(database, "SELECT full_doc_id, content FROM lightrag_chunks")
    assert chunks == [(change.documents[0].id, "This is a.md: X, Y.")]


async def test_what_has_no_vector_any_more_is_not_kept(vectors: VectorProjection) -> None:
    change = example_change("a.md", ["X", "Y"], [("X", "Y", 1.0)])
    await vectors.apply(change)
    await vectors.apply(replace(change, vectors={}))
    kinds = sorted(vectors.kinds)
    assert [await vectors.scan(kind, "", 9) for kind in kinds] == [[]] * len(kinds)


async def test_index_is_built_when_all_is_there_and_goes_with_it(
    vectors: VectorProjection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_WORTH_AN_INDEX", 3)
    names = [f"N{number}" for number in range(5)]
    await vectors.apply(example_change("a.md", names))
    indexes = "SELECT indexname FROM pg_indexes WHERE indexname LIKE '%_hnsw_%'"
    assert _rows(database, indexes) == []
    await vectors.set_cursor(1)
    ((index,),) = _rows(database, indexes)
    assert str(index).startswith("lightrag_entities")
    (hit,) = await vectors.search(Collection.ENTITIES, unit_vector("x"), 1, -1.0)
    assert await vectors.get_vectors(Collection.ENTITIES, [hit.id])
    await vectors.clear()
    assert _rows(database, indexes) == []


async def test_vectors_of_another_embedding_are_not_compared(
    vectors: VectorProjection, settings: StoreSettings
) -> None:
    change = example_change("a.md", ["X"])
    await vectors.apply(change)
    wide = EmbeddingInfo("wide", 24, 512)
    other = await open_projection("vectors", settings, wide)
    assert isinstance(other, VectorProjection)
    with pytest.raises(SchemaMismatch, match="anew"):
        await other.search(Collection.ENTITIES, np.eye(1, 24, dtype=np.float32)[0], 3, -1.0)
    await other.clear()
    id_ = change.entities[0].id
    wider = {Collection.ENTITIES: {id_: np.eye(1, 24, dtype=np.float32)[0]}}
    await other.apply(replace(change, vectors=wider))
    (hit,) = await other.search(Collection.ENTITIES, np.eye(1, 24, dtype=np.float32)[0], 3, -1.0)
    assert hit.id == id_
    with pytest.raises(SchemaMismatch, match="anew"):
        await vectors.search(Collection.ENTITIES, unit_vector("x"), 3, -1.0)
    with pytest.raises(SchemaMismatch, match="dimension"):
        await other.apply(change)
    await other.close()


async def test_refused_user_and_missing_database_are_told_apart(settings: StoreSettings, database: str) -> None:
    user = database.replace("postgresql://postgres", f"postgresql://nobody-{secrets.token_hex(3)}")
    assert user != database
    with pytest.raises(StoreAccessDenied, match="refuses the user"):
        await open_store(settings.model_copy(update={"vectors_url": user}), INFO)
    with pytest.raises(SettingsError, match=r"store\.vectors_url is no address"):
        await open_store(settings.model_copy(update={"vectors_url": "postgresql://[x/y"}), INFO)
    nowhere = database.replace("/test_", "/none_")
    store = await open_store(settings.model_copy(update={"vectors_url": nowhere}), INFO)
    (trouble,) = [text for name, text in store.get_troubles().items() if name.startswith("vectors:")]
    assert "does not exist" in trouble
    with pytest.raises(StoreUnavailable):
        await store.vectors.search(Collection.CHUNKS, unit_vector("x"), 3, -1.0)
    await store.close()
