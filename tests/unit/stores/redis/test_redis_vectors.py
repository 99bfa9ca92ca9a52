"""Vectors on Redis: what one process knows of what others commit, and the second set of vectors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from uuid import uuid4

import numpy as np
import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError, SchemaMismatch
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.stores.redis import changes, vector_index
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.session import Session
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector
from tests.servers.redis import RedisServer

OpenStore = Callable[..., Awaitable[Store]]
_NEXT = EmbeddingInfo("next", DIMENSION - 2, 512)


@pytest.fixture
def workspace() -> str:
    return f"w{uuid4().hex}"


@pytest.fixture
async def open_home(redis_server: RedisServer, workspace: str) -> AsyncGenerator[OpenStore]:
    opened: list[Store] = []

    async def open_one(name: str = "example", dimension: int = DIMENSION) -> Store:
        settings = StoreSettings(url=redis_server.url, workspace=workspace, durability="normal", pool_size=4)
        opened.append(await open_store(settings, EmbeddingInfo(name, dimension, 512)))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def session(redis_server: RedisServer, workspace: str) -> AsyncGenerator[Session]:
    connection = RedisConnection(redis_server.url, workspace, "store.url")
    yield Session(connection)
    await connection.close()


def _batch(ids: list[str], dimension: int = DIMENSION) -> VectorBatch:
    rows = np.stack([np.resize(unit_vector(f"v {id_}"), dimension) for id_ in ids])
    return VectorBatch(tuple(ids), (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))


def _vectors(*ids: str) -> Changeset:
    return Changeset(vectors={Collection.CHUNKS: _batch(list(ids))})


async def _found(store: Store, limit: int = 1_000) -> set[str]:
    return {hit.id for hit in await store.vectors.search(Collection.CHUNKS, unit_vector("q"), limit, -1.0)}


async def test_other_processes_see_every_commit_at_once(open_home: OpenStore) -> None:
    one, two = await open_home(), await open_home()
    for number in range(20):
        await one.apply(_vectors(f"c{number}", f"d{number}"))
        if number % 4 == 3:
            await two.apply(Changeset(removed_chunks=(f"c{number}",)))
        expected = {f"d{n}" for n in range(number + 1)} | {f"c{n}" for n in range(number + 1) if n % 4 != 3}
        assert await _found(two) == await _found(one) == expected


async def test_ranking_is_that_of_the_exact_vectors(open_home: OpenStore) -> None:
    store = await open_home()
    ids = [f"c{number:04}" for number in range(1_500)]
    batch = _batch(ids)
    await store.apply(Changeset(vectors={Collection.CHUNKS: batch}))
    for seed in range(10):
        vector = unit_vector(f"question {seed}")
        cosines = batch.vectors @ vector
        order = np.argsort(-cosines, kind="stable")[:20]
        hits = await store.vectors.search(Collection.CHUNKS, vector, 20, -1.0)
        assert [hit.id for hit in hits] == [ids[place] for place in order]
        assert [hit.score for hit in hits] == pytest.approx(cosines[order].tolist(), abs=1e-6)


async def test_equals_come_by_id(open_home: OpenStore) -> None:
    store = await open_home()
    ids = [f"c{number:02}" for number in range(60)]
    vectors = np.repeat(unit_vector("same")[None, :], len(ids), axis=0)
    await store.apply(Changeset(vectors={Collection.CHUNKS: VectorBatch(tuple(ids[::-1]), vectors)}))
    hits = await store.vectors.search(Collection.CHUNKS, unit_vector("same"), 5, -1.0)
    assert [hit.id for hit in hits] == ids[:5]


async def test_index_too_far_behind_is_read_anew(open_home: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = await open_home(), await open_home()
    await one.apply(_vectors("a", "b", "c"))
    assert await _found(two) == {"a", "b", "c"}
    monkeypatch.setattr(vector_index, "_MOST_REPLAYED", 2)
    monkeypatch.setattr(vector_index, "_PAGE", 2)
    await one.apply(Changeset(removed_chunks=("a", "b")))
    await one.apply(_vectors("d", "e"))
    assert await _found(two) == {"c", "d", "e"}


async def test_log_of_changes_is_bounded(
    open_home: OpenStore, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_KEPT_VERSIONS", 3)
    one, two = await open_home(), await open_home()
    await one.apply(_vectors("gone", "kept"))
    assert await _found(two) == {"gone", "kept"}
    await one.apply(Changeset(removed_chunks=("gone",)))
    for number in range(6):
        await one.apply(_vectors(f"c{number}"))
    assert await session.read_one("ZCARD", session.keys.changed_vectors(Collection.CHUNKS)) <= 4
    assert await _found(two) == {"kept", *(f"c{number}" for number in range(6))}


async def test_index_is_read_anew_after_clear_and_after_redis_was_put_back(
    open_home: OpenStore, session: Session
) -> None:
    one, two = await open_home(), await open_home()
    await one.apply(_vectors("a"))
    assert await _found(two) == {"a"}
    await one.clear()
    await one.apply(_vectors("b"))
    assert await _found(two) == {"b"}
    keys = [key async for key in session.connection.client.scan_iter(f"{session.keys.prefix}*")]
    kept = {key: await session.read_bytes([("DUMP", key)]) for key in keys}
    await one.apply(_vectors("lost"))
    assert await _found(two) == {"b", "lost"}
    keys = [key async for key in session.connection.client.scan_iter(f"{session.keys.prefix}*")]
    await session.write([("DEL", *keys)])
    await session.write([("RESTORE", key, 0, dumped) for key, (dumped,) in kept.items()])
    await one.apply(_vectors("other"))
    assert await _found(two) == await _found(one) == {"b", "other"}


async def test_searches_beside_commits_miss_nothing(open_home: OpenStore) -> None:
    one, two = await open_home(), await open_home()
    ids = [f"c{number}" for number in range(200)]
    await one.apply(_vectors(*ids))

    async def write() -> None:
        for start in range(0, 200, 10):
            await one.apply(_vectors(*ids[start : start + 10]))

    async def search(store: Store) -> None:
        for _ in range(25):
            assert await _found(store) == set(ids)

    await asyncio.gather(write(), search(one), search(two), search(two))


async def test_switch_to_another_embedding_is_seen_by_who_has_the_old_one(open_home: OpenStore) -> None:
    store, other = await open_home(), await open_home()
    await store.apply(example_changeset("a.md", ["X"], []))
    await store.apply(_vectors("c1", "c2"))
    assert len(await _found(other)) == 3
    pending = {item: await store.reembedding.find_pending(item, "", 9) for item in Collection}
    await store.reembedding.begin(_NEXT)
    for collection, ids in pending.items():
        for id_ in ids:
            await store.reembedding.put(collection, _batch([id_], _NEXT.dimension))
    await store.apply(Changeset(removed_chunks=("c2",)))
    await store.reembedding.finish()
    for one in (store, other):
        with pytest.raises(SchemaMismatch, match="embedded anew"):
            await _found(one)
        with pytest.raises(SchemaMismatch):
            await one.vectors.get_vectors(Collection.CHUNKS, ["c1"])
        with pytest.raises(SchemaMismatch):
            await one.apply(_vectors("c3"))
    renewed = await open_home(_NEXT.name, _NEXT.dimension)
    hits = await renewed.vectors.search(Collection.CHUNKS, _batch(["c1"], _NEXT.dimension).vectors[0], 9, -1.0)
    assert hits[0].id == "c1"
    assert len(hits) == 2
    assert await renewed.reembedding.find_pending(Collection.CHUNKS, "", 9) == sorted(hit.id for hit in hits)


async def test_second_set_belongs_to_who_began_last(open_home: OpenStore) -> None:
    one, two = await open_home(), await open_home()
    await one.apply(_vectors(*(f"c{number}" for number in range(5))))
    await one.reembedding.begin(_NEXT)
    await one.reembedding.put(Collection.CHUNKS, _batch(["c0"], _NEXT.dimension))
    assert await one.reembedding.find_pending(Collection.CHUNKS, "c1", 2) == ["c2", "c3"]
    await two.reembedding.begin(_NEXT)
    assert await two.reembedding.find_pending(Collection.CHUNKS, "", 2) == ["c1", "c2"]
    await two.reembedding.begin(EmbeddingInfo("third", 4, 512))
    assert await two.reembedding.find_pending(Collection.CHUNKS, "", 2) == ["c0", "c1"]
    with pytest.raises(ConflictError, match="third"):
        await one.reembedding.put(Collection.CHUNKS, _batch(["c1"], _NEXT.dimension))
    with pytest.raises(ConflictError):
        await one.reembedding.finish()
