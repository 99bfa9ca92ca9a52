"""What the contract does not say: walls, identities, limits of PostgreSQL, locks, indexes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from heliograph.calls.tasks import run_together
from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import InvalidRequestError, SchemaMismatch, StoreUnavailable
from heliograph.ids import name_to_entity_id as entity
from heliograph.models import Usage
from heliograph.settings import StoreSettings
from heliograph.stores.base import CachedReply, DocumentQuery, ScanKind
from heliograph.stores.changeset import Changeset, Collection, OutboxKind, TextEntry, VectorBatch
from heliograph.stores.postgres import schema, search
from heliograph.stores.registry import drop_workspace, find_workspaces
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector

from ....servers.postgres import PostgresServer
from .conftest import OpenStore


async def test_workspaces_do_not_see_one_another(open_store: OpenStore, postgres_database: str) -> None:
    one, other = await open_store(), await open_store(workspace="other-side")
    await other.clear()
    changeset = example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)])
    await one.apply(changeset)
    for kind in ScanKind:
        assert await other.inspection.scan(kind, "", 9) == []
    vector = unit_vector(entity("X"))
    assert await other.vectors.search(Collection.ENTITIES, vector, 9, -1.0) == []
    assert len(await one.text.search(Collection.CHUNKS, ["x"], 9)) == 1
    assert await other.text.search(Collection.CHUNKS, ["x"], 9) == []
    assert await other.names.find_names("x", 9) == []
    assert (await other.get_stats()).documents == {}
    await other.apply(example_changeset("a.md", ["X"], text="another text"))
    before = replace(await one.get_stats(), bytes_on_disk=0)
    await other.clear()
    assert replace(await one.get_stats(), bytes_on_disk=0) == before
    assert await one.records.get_document_text(changeset.documents[0].id) == "This is a.md: X, Y."
    settings = StoreSettings(url=postgres_database, workspace="other-side")
    assert "other-side" in await find_workspaces(settings)
    await other.close()
    await drop_workspace(settings)
    await drop_workspace(settings)
    assert "other-side" not in await find_workspaces(settings)
    assert replace(await one.get_stats(), bytes_on_disk=0) == before


async def test_size_is_shared_out_by_rows(open_store: OpenStore, postgres_server: PostgresServer) -> None:
    database = postgres_server.make_database()
    one, other = [await open_store(url=database, workspace=name) for name in ("one", "other")]
    for number in range(40):
        store = one if number % 4 == 0 else other
        await store.apply(example_changeset(f"{number}.md", [f"E{number}"], text=f"text {number}"))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ANALYZE")
        row = connection.execute("SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'").fetchone()
    small, large = (await one.get_stats()).bytes_on_disk, (await other.get_stats()).bytes_on_disk
    assert row is not None
    assert 0 < small + large <= row[0]
    # Thrice the documents; pages and what autovacuum has got to make it no exact ratio.
    assert 1.8 < large / small < 5.0


@pytest.mark.parametrize("info", [EmbeddingInfo("example", DIMENSION + 1, 512), EmbeddingInfo("x", DIMENSION, 512)])
async def test_another_embedding_is_refused(open_store: OpenStore, info: EmbeddingInfo) -> None:
    await open_store()
    with pytest.raises(SchemaMismatch, match="reembed"):
        await open_store(info)


async def test_vectors_of_another_length_are_refused(open_store: OpenStore) -> None:
    store = await open_store()
    changeset = example_changeset("a.md")
    batch = VectorBatch((changeset.chunks[0].id,), np.ones((1, DIMENSION + 1), np.float32))
    with pytest.raises(SchemaMismatch, match="dimension 13"):
        await store.apply(replace(changeset, vectors={Collection.CHUNKS: batch}))
    assert await store.records.get_documents([changeset.documents[0].id]) == []


async def test_workspace_that_is_not_there_cannot_be_opened_without_an_embedding(open_store: OpenStore) -> None:
    with pytest.raises(StoreUnavailable, match="no workspace"):
        await open_store(None)
    await open_store()
    assert (await (await open_store(None)).get_stats()).chunks == 0


async def test_newer_schema_is_refused(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await open_store()
    monkeypatch.setattr(schema, "LATEST_VERSION", schema.LATEST_VERSION - 1)
    with pytest.raises(SchemaMismatch, match="upgrade Heliograph"):
        await open_store()


async def test_other_embedding_in_place_is_noticed_by_whoever_has_the_old_one(open_store: OpenStore) -> None:
    store, late = await open_store(), await open_store()
    changeset = example_changeset("a.md", ["X"])
    await store.apply(changeset)
    wider = EmbeddingInfo("wide", 24, 512)
    await store.reembedding.begin(wider)
    for collection, id_ in ((Collection.CHUNKS, changeset.chunks[0].id), (Collection.ENTITIES, entity("X"))):
        await store.reembedding.put(collection, VectorBatch((id_,), np.eye(1, 24, dtype=np.float32)))
    await store.reembedding.finish()
    for call in (
        late.apply(changeset),
        late.vectors.search(Collection.CHUNKS, unit_vector("x"), 3, -1.0),
        late.vectors.get_vectors(Collection.CHUNKS, [changeset.chunks[0].id]),
    ):
        with pytest.raises(SchemaMismatch, match="anew"):
            await call
    again = await open_store(wider)
    (hit,) = await again.vectors.search(Collection.ENTITIES, np.eye(1, 24, dtype=np.float32)[0], 3, -1.0)
    assert hit.id == entity("X")


async def test_what_postgresql_cannot_hold_is_replaced_or_kept_as_bytes(open_store: OpenStore) -> None:
    store = await open_store()
    changeset = example_changeset("a.md")
    metadata = {"b\x00": ["\x00", "\\u0000", 1e16, 1.0], "a": 2**70, "odd": "\ud800"}
    (document,) = changeset.documents
    await store.apply(replace(changeset, documents=(replace(document, metadata=metadata, error="\x00"),)))
    (stored,) = await store.records.get_documents([document.id])
    kept = {"b\x00": ["\x00", "\\u0000", 1e16, 1.0], "a": 2**70}
    assert {key: value for key, value in stored.metadata.items() if key != "odd"} == kept
    assert list(stored.metadata) == ["b\x00", "a", "odd"]
    assert stored.error == "\ufffd"
    reply = CachedReply("a:b:c", "\x00 \ud800", "model", Usage(), datetime(2026, 1, 1, tzinfo=UTC))
    await store.replies.put_reply(reply)
    assert await store.replies.get_reply("a:b:c") == reply
    assert await store.records.get_document_text("\x00") is None
    assert await store.text.find_phrases(Collection.CHUNKS, [["\x00"], ["'", "\\"]], 5) == [[], []]


async def test_lock_is_held_by_one_at_a_time(open_store: OpenStore) -> None:
    one, other = await open_store(), await open_store()
    third = await open_store(workspace="free")
    async with one.ingest_lock(), third.ingest_lock():
        with pytest.raises(StoreUnavailable, match=r"heliograph \d+.* has been writing"):
            async with other.ingest_lock():
                pass
    async with other.ingest_lock():
        pass


async def test_lock_goes_with_a_connection_that_breaks(open_store: OpenStore, postgres_database: str) -> None:
    one, other = await open_store(), await open_store(write_timeout_seconds=5)
    async with one.ingest_lock():
        _terminate(postgres_database)
        async with other.ingest_lock():
            assert await other.get_data_version() == 0


async def test_call_after_connections_broke_succeeds(open_store: OpenStore, postgres_database: str) -> None:
    store = await open_store(pool_size=3)
    await asyncio.gather(*(store.get_stats() for _ in range(6)))
    _terminate(postgres_database)
    assert await store.get_data_version() == 0
    _terminate(postgres_database)
    assert await store.apply(example_changeset("a.md")) == 1
    _terminate(postgres_database)
    assert len((await store.records.find_documents(DocumentQuery())).documents) == 1


async def test_writer_waits_for_another_and_gives_up(open_store: OpenStore, postgres_database: str) -> None:
    store = await open_store()
    with psycopg.connect(postgres_database) as connection:
        connection.execute("SELECT 1 FROM heliograph_workspace FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="write_timeout_seconds"):
            await store.apply(example_changeset("a.md"))
    assert await store.apply(example_changeset("a.md")) == 1


async def test_large_collections_are_searched_by_an_index(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, postgres_database: str
) -> None:
    monkeypatch.setattr(search, "_WORTH_AN_INDEX", 300)
    store = await open_store()
    names = [f"Entity {number}" for number in range(1500)]
    await store.apply(example_changeset("a.md", names))
    index = search.index_name(store._database.workspace, Collection.ENTITIES, DIMENSION)
    vector = unit_vector("anything")
    exact = sorted(names, key=lambda name: -float(unit_vector(entity(name)) @ vector))[:20]
    hits = await store.vectors.search(Collection.ENTITIES, vector, 20, -1.0)
    assert len({hit.id for hit in hits} & set(map(entity, exact))) >= 19
    with psycopg.connect(postgres_database) as connection:
        connection.execute("ANALYZE lightrag_entities")
        used = connection.execute("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = %s", (index,))
        assert used.fetchone() is not None
    await store.apply(Changeset(removed_entities=tuple(entity(name) for name in exact[:5])))
    hits = await store.vectors.search(Collection.ENTITIES, vector, 10, -1.0)
    assert not {hit.id for hit in hits} & {entity(name) for name in exact[:5]}
    assert len(hits) == 10


async def test_long_vectors_are_indexed_as_halves(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_WORTH_AN_INDEX", 20)
    dimension = 2_050
    store = await open_store(EmbeddingInfo("long", dimension, 512))
    names = [f"Entity {number}" for number in range(40)]
    changeset = example_changeset("a.md", names)
    rows = np.random.default_rng(3).normal(size=(40, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ids = tuple(map(entity, names))
    await store.apply(replace(changeset, vectors={Collection.ENTITIES: VectorBatch(ids, rows)}))
    await store._indexer.build_if_due(Collection.ENTITIES)
    query = "SELECT indexdef FROM pg_indexes WHERE indexname = %s"
    name = search.index_name(store._database.workspace, Collection.ENTITIES, dimension)
    ((definition,),) = await store._database.fetch(query, (name,))
    assert "halfvec" in definition
    hits = await store.vectors.search(Collection.ENTITIES, rows[7], 3, -1.0)
    assert hits[0].id == ids[7]
    assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    assert np.array_equal((await store.vectors.get_vectors(Collection.ENTITIES, [ids[7]]))[ids[7]], rows[7])


async def test_index_of_a_former_embedding_is_dropped(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_WORTH_AN_INDEX", 1)
    store = await open_store()
    await store.apply(example_changeset("a.md", ["X"]))
    await store._indexer.build_if_due(Collection.ENTITIES)
    query = "SELECT count(*) FROM pg_indexes WHERE indexname LIKE %s"
    name = search.index_name(store._database.workspace, Collection.ENTITIES, None)
    assert await store._database.fetch(query, (f"{name}%",)) == [(1,)]
    await search.VectorIndexer(store._database, DIMENSION + 1).renew()
    assert await store._database.fetch(query, (f"{name}%",)) == [(0,)]


async def test_an_index_waits_for_the_end_of_an_ingest(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_WORTH_AN_INDEX", 10)
    monkeypatch.setattr(search, "_LOOK_EVERY", 10)
    monkeypatch.setattr(search, "_LOOK_EVERY_WHILE_FILLING", 2_000)
    store = await open_store(durability="normal")

    async def has_index(collection: Collection) -> bool:
        name = search.index_name(store._database.workspace, collection, DIMENSION)
        ((is_there,),) = await store._database.fetch("SELECT to_regclass(%s) IS NOT NULL", (name,))
        return bool(is_there)

    async with store.ingest_lock():
        for file in ("a.md", "b.md"):
            await store.apply(example_changeset(file, [f"Entity {number} of {file}" for number in range(900)]))
            assert not await has_index(Collection.ENTITIES)
        # What is added to it from now on would make every question wait too long.
        await store.apply(example_changeset("c.md", [f"Entity {number} of c" for number in range(300)]))
        assert await has_index(Collection.ENTITIES)
        relations = [("X", f"Y{number}", 1.0) for number in range(20)]
        await store.apply(example_changeset("d.md", ["X", *(target for _, target, _ in relations)], relations))
        assert not await has_index(Collection.RELATIONS)
    assert await has_index(Collection.RELATIONS)


async def test_frequent_terms_do_not_hide_rare_ones(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await open_store()
    for start in range(3):
        entries = [TextEntry(f"ent-{start}-{n}", ("common", "words", f"n{n % 7}")) for n in range(50)]
        await store.apply(Changeset(texts={Collection.ENTITIES: tuple(entries)}))
    await store.apply(Changeset(texts={Collection.ENTITIES: (TextEntry("ent-rare", ("rare", "words", "common")),)}))
    asked = ["common", "rare", "words", "n3"]
    exact = await store.text.search(Collection.ENTITIES, asked, 5)
    monkeypatch.setattr(search, "_MOST_RECORDS", (40, 2_000_000_000))
    assert await store.text.search(Collection.ENTITIES, asked, 5) == exact
    assert exact[0].id == "ent-rare"
    # Nothing is rare: what holds both comes first, and there is enough of it.
    hits = await store.text.search(Collection.ENTITIES, ["common", "words"], 151)
    assert len(hits) == 151


async def test_backup_is_left_to_the_operators(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store()
    with pytest.raises(InvalidRequestError, match="pg_dump"):
        await store.backup(tmp_path / "copy")


async def test_wrong_counts_are_found_and_repaired(open_store: OpenStore) -> None:
    store = await open_store()
    await store.apply(example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)]))
    name = store._database.workspace
    for query in (
        "UPDATE heliograph_degree SET degree = 7 WHERE workspace = %s",
        "UPDATE heliograph_posting SET records[1] = 9 WHERE workspace = %s AND collection = 'chunks' AND term = 'x'",
        "UPDATE heliograph_text_size SET terms = 0 WHERE workspace = %s AND collection = 'chunks'",
    ):
        await store._database.execute(_statement(query, name))
    assert len(await store.inspection.find_faults()) == 3
    await store.inspection.repair()
    assert await store.inspection.find_faults() == []


def _statement(query: str, *values: object):
    from heliograph.stores.postgres.database import Statement

    return Statement(query, values)


def _terminate(url: str) -> None:
    """Cut every other connection to the database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


async def test_outbox_tells_readers_what_changed(open_store: OpenStore) -> None:
    store = await open_store()
    outbox, changeset = store.outbox, example_changeset("a.md", ["X"])
    await store.apply(changeset)
    assert await outbox.read(-1, 9) == []
    await outbox.register("one")
    await outbox.register("one")
    assert [(entry.version, entry.kind) for entry in await outbox.read(-1, 9)] == [(1, OutboxKind.RESET)]
    await outbox.acknowledge("one", 1)
    assert dict(await outbox.get_readers()) == {"one": 1}
    version = await store.apply(changeset)
    entries = await outbox.read(1, 1)
    assert {entry.kind for entry in entries} >= {OutboxKind.DOCUMENTS, OutboxKind.CHUNKS, OutboxKind.ENTITIES}
    assert {entry.version for entry in entries} == {version}
    async with outbox.lock("one") as is_held, outbox.lock("one") as is_held_twice, outbox.lock("two") as is_free:
        assert (is_held, is_held_twice, is_free) == (True, False, True)
    await store.clear()
    assert [entry.kind for entry in await outbox.read(version, 9)] == [OutboxKind.RESET]
    await outbox.unregister("one")
    assert await outbox.read(-1, 9) == []


async def test_reader_that_is_cancelled_leaves_nothing_to_the_next(open_store: OpenStore) -> None:
    store = await open_store()

    async def read_twice() -> Any:
        return await store.read_written(lambda: run_together(*(store.records.get_documents(["x"]) for _ in range(2))))

    for turns in range(0, 600, 7):
        tasks = [asyncio.ensure_future(read()) for read in (read_twice, read_twice, store.get_stats)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            assert not isinstance(found, Exception)
        for _ in range(3):
            assert await read_twice() == ([], [])
