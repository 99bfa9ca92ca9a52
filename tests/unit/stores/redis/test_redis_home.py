"""Redis as the store that holds the truth: races, locks, crashes, whose keys they are, and what a commit costs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SchemaMismatch, SettingsError, StaleChangesetError, StoreUnavailable
from heliograph.filters import Equals
from heliograph.models import Document, DocumentStatus, EntityMention
from heliograph.settings import StoreSettings
from heliograph.stores.base import DocumentQuery, Store
from heliograph.stores.changeset import Changeset
from heliograph.stores.inspection import ScanKind
from heliograph.stores.listing import DocumentSort
from heliograph.stores.redis import lease
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.session import Command, CommitSession, Session
from heliograph.stores.registry import drop_workspace, find_workspaces, open_store
from heliograph.testing.examples import DIMENSION, example_changeset
from heliograph.testing.memory_store import MemoryStore
from heliograph.text.names import name_to_entity_id as entity
from tests.servers.redis import RedisServer, running_redis

_EMBEDDING = EmbeddingInfo("example", DIMENSION, 512)


@pytest.fixture
def settings(redis_server: RedisServer) -> StoreSettings:
    return StoreSettings(
        url=redis_server.url, workspace=f"w{uuid4().hex}", durability="normal", write_timeout_seconds=20
    )


@pytest.fixture
async def store(settings: StoreSettings) -> AsyncGenerator[Store]:
    store = await open_store(settings, _EMBEDDING)
    yield store
    await store.close()


@pytest.fixture
async def redis(settings: StoreSettings) -> AsyncGenerator[RedisConnection]:
    connection = RedisConnection(settings.url, settings.workspace, "store.url")
    yield connection
    await connection.close()


async def test_commits_of_two_processes_are_all_made(store: Store, settings: StoreSettings) -> None:
    other = await open_store(settings, _EMBEDDING)
    changesets = [example_changeset(f"{n}.md", ["Hub", f"E{n}"], [("Hub", f"E{n}", 1.0)]) for n in range(24)]
    versions = await asyncio.gather(*((store, other)[n % 2].apply(item) for n, item in enumerate(changesets)))
    await other.close()
    assert sorted(versions) == list(range(1, 25))
    assert (await store.get_stats()).documents == {DocumentStatus.PROCESSED: 24}
    assert [item.degree for item in await store.graph.get_entities([entity("Hub")])] == [24]
    assert await store.inspection.find_faults() == []


async def test_expected_version_lets_one_of_two_pass(store: Store, settings: StoreSettings) -> None:
    other = await open_store(settings, _EMBEDDING)
    outcomes = await asyncio.gather(
        *(held.apply(Changeset(expected_version=0)) for held in (store, other)), return_exceptions=True
    )
    await other.close()
    assert sorted(type(item).__name__ for item in outcomes) == ["StaleChangesetError", "int"]


async def test_commit_whose_answer_was_lost_is_not_made_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = CommitSession.commit

    async def lose(self: CommitSession, commands: Sequence[Command]) -> list[Any] | None:
        await real(self, commands)
        monkeypatch.setattr(CommitSession, "commit", real)
        return None

    monkeypatch.setattr(CommitSession, "commit", lose)
    changeset = replace(example_changeset("a.md", ["X"]), expected={entity("X"): 0})
    assert await store.apply(changeset) == 1
    assert await store.get_data_version() == 1


async def test_late_refusal_of_what_was_done_is_no_failure(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = CommitSession.commit

    async def fail(self: CommitSession, commands: Sequence[Command]) -> list[Any] | None:
        await real(self, commands)
        raise StoreUnavailable("no answer in time")

    monkeypatch.setattr(CommitSession, "commit", fail)
    assert await store.apply(example_changeset("a.md")) == 1
    assert await store.get_data_version() == 1


async def test_holder_of_a_lost_lock_commits_nothing(store: Store, redis: RedisConnection) -> None:
    async with store.ingest_lock():
        await redis.client.set(redis.key("lock", "ingest"), "process 7 on elsewhere\0token")
        with pytest.raises(StoreUnavailable, match="lost to process 7 on elsewhere"):
            await store.apply(example_changeset("a.md"))
    assert await store.get_data_version() == 0
    assert await redis.client.get(redis.key("lock", "ingest")) is not None


async def test_lock_that_lapsed_is_taken_again_by_its_holder(store: Store, redis: RedisConnection) -> None:
    key = redis.key("lock", "ingest")
    async with store.ingest_lock():
        await redis.client.delete(key)
        assert await store.apply(example_changeset("a.md")) == 1
        assert await redis.client.pttl(key) > 0
    assert await redis.client.get(key) is None


async def test_commit_outlasts_a_renewal_of_the_lock(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_RENEWAL_SECONDS", 0.0)
    renewed, tries = asyncio.Event(), list[CommitSession]()
    real_take, real_commit = lease.LeaseLock._take, CommitSession.commit

    async def take(self: lease.LeaseLock, held: lease.Lease) -> str | None:
        holder = await real_take(self, held)
        renewed.set()
        return holder

    async def commit(self: CommitSession, commands: Sequence[Command]) -> list[Any] | None:
        tries.append(self)
        renewed.clear()
        await renewed.wait()
        return await real_commit(self, commands)

    monkeypatch.setattr(lease.LeaseLock, "_take", take)
    monkeypatch.setattr(CommitSession, "commit", commit)
    async with store.ingest_lock():
        assert await store.apply(example_changeset("a.md")) == 1
    assert len(tries) == 1


async def test_commit_is_not_made_once_the_lock_was_taken(
    store: Store, redis: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    thief = lease.Lease(redis.key("lock", "ingest"), "process 7 on elsewhere\0token")
    real = CommitSession.commit

    async def commit(self: CommitSession, commands: Sequence[Command]) -> list[Any] | None:
        await redis.client.delete(thief.key)
        assert await Session(redis).read_one(*thief.take_command()) == thief.token
        return await real(self, commands)

    monkeypatch.setattr(CommitSession, "commit", commit)
    async with store.ingest_lock():
        with pytest.raises(StoreUnavailable, match="lost to process 7 on elsewhere"):
            await store.apply(example_changeset("a.md"))
    assert await store.get_data_version() == 0


async def test_second_holder_is_told_who_holds_the_lock(store: Store, settings: StoreSettings) -> None:
    other = await open_store(settings.model_copy(update={"write_timeout_seconds": 0.0}), _EMBEDDING)
    async with store.ingest_lock():
        with pytest.raises(StoreUnavailable, match=r"process \d+ on .*write_timeout_seconds"):
            async with other.ingest_lock():
                pytest.fail("it was held twice")
    async with other.ingest_lock():
        await other.close()


async def test_acknowledged_commits_outlive_a_kill(settings: StoreSettings) -> None:
    with running_redis() as server:
        store = await open_store(settings.model_copy(update={"url": server.url}), _EMBEDDING)
        for number in range(20):
            await store.apply(example_changeset(f"{number}.md", ["Hub", f"E{number}"], [("Hub", f"E{number}", 1.0)]))
        server.kill()
        with pytest.raises(StoreUnavailable, match="out of reach"):
            await store.apply(example_changeset("late.md"))
        server.start()
        assert (await store.get_stats()).documents == {DocumentStatus.PROCESSED: 20}
        assert await store.inspection.find_faults() == []
        assert await store.apply(example_changeset("late.md")) == 21
        await store.close()


async def test_graph_beside_the_store_in_the_same_keys_is_refused(settings: StoreSettings) -> None:
    with pytest.raises(SettingsError, match=r"leave store\.graph_url empty"):
        await open_store(settings.model_copy(update={"graph_url": settings.url}), _EMBEDDING)
    # However the address is written.
    same = settings.url.replace("127.0.0.1", "localhost").removesuffix("/0")
    with pytest.raises(SettingsError, match=r"leave store\.graph_url empty"):
        await open_store(settings.model_copy(update={"graph_url": same}), _EMBEDDING)


async def test_keys_of_a_graph_beside_another_store_are_not_taken(settings: StoreSettings, tmp_path: Path) -> None:
    embedded = StoreSettings(data_dir=tmp_path, workspace=settings.workspace, graph_url=settings.url)
    composed = await open_store(embedded, _EMBEDDING)
    await composed.apply(example_changeset("a.md", ["X"]))
    await composed.close()
    with pytest.raises(SettingsError, match="graph beside another store"):
        await open_store(settings, _EMBEDDING)


async def test_graph_in_another_database_follows(settings: StoreSettings) -> None:
    beside = settings.model_copy(update={"graph_url": settings.url.removesuffix("/0") + "/1"})
    store = await open_store(beside, _EMBEDDING)
    await store.apply(example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)]))
    assert [item.degree for item in await store.graph.get_entities([entity("X")])] == [1]
    assert dict(await store.get_lags()) == {store.followers[0].name: 0}
    assert await store.followers[0].find_differences() == []
    await store.clear()
    assert await store.graph.get_entities([entity("X")]) == []
    await store.close()


async def test_another_embedding_is_refused(store: Store, settings: StoreSettings) -> None:
    with pytest.raises(SchemaMismatch, match="built with the embedding 'example'"):
        await open_store(settings, EmbeddingInfo("other", DIMENSION, 512))
    reader = await open_store(settings, None)
    assert reader.embedding == store.embedding
    await reader.close()
    with pytest.raises(StoreUnavailable, match="index something"):
        await open_store(settings.model_copy(update={"workspace": f"w{uuid4().hex}"}), None)


async def test_workspaces_are_found_and_dropped_alone(store: Store, settings: StoreSettings) -> None:
    neighbour = settings.model_copy(update={"workspace": f"{settings.workspace}x"})
    other = await open_store(neighbour, _EMBEDDING)
    for held in (store, other):
        await held.apply(example_changeset("a.md", ["X"]))
    assert {settings.workspace, neighbour.workspace} <= set(await find_workspaces(settings))
    await drop_workspace(settings)
    assert settings.workspace not in await find_workspaces(settings)
    with pytest.raises(StoreUnavailable, match="was removed"):
        await store.apply(example_changeset("b.md"))
    assert (await other.get_stats()).chunks == 1
    await other.close()


async def test_nothing_is_left_of_a_dropped_workspace(
    store: Store, settings: StoreSettings, redis: RedisConnection
) -> None:
    await store.apply(example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)]))
    await drop_workspace(settings)
    assert [key async for page in redis.pages() for key in page] == []


async def test_strange_texts_come_back_as_they_went(store: Store) -> None:
    text = "a\0b \ud800 lone \U0001f600 知识"
    changeset = example_changeset("str\0ange \udfff.md", ["知识", "a:b"], [("知识", "a:b", 0.1)], text=text)
    await store.apply(changeset)
    (document,) = changeset.documents
    assert await store.records.get_documents([document.id]) == [document]
    assert await store.records.get_document_text(document.id) == text
    for length in range(len(text) + 2):
        assert await store.records.get_openings([document.id], length) == {document.id: text[:length]}
    assert await store.records.get_extractions([changeset.chunks[0].id]) == list(changeset.extractions)


async def test_documents_are_listed_as_in_memory(store: Store) -> None:
    memory, draw = MemoryStore(), random.Random(5)
    moments = [datetime(year, 1, 1, tzinfo=UTC) for year in (1950, 1999, 2020)]
    for batch in range(8):
        documents = tuple(_document(draw, moments) for _ in range(6))
        removed = tuple(f"doc-{draw.randrange(20)}" for _ in range(2))
        for held in (store, memory):
            await held.apply(Changeset(documents=documents, removed_documents=removed if batch % 2 else ()))
    for _ in range(150):
        query = _query(draw)
        assert await store.records.find_documents(query) == await memory.records.find_documents(query), query
    assert await store.inspection.list_batches(0, 9) == await memory.inspection.list_batches(0, 9)
    assert await store.inspection.find_faults() == []


def _document(draw: random.Random, moments: Sequence[datetime]) -> Document:
    return Document(
        *(f"doc-{draw.randrange(20)}", draw.choice(["a/x", "a/xy", "b/x", "b"]), "", draw.choice(["h1", "h2"])),
        status=draw.choice([DocumentStatus.PENDING, DocumentStatus.PROCESSED, DocumentStatus.FAILED]),
        metadata={"team": draw.choice(["red", "blue"])},
        track_id=draw.choice(["", "t1", "t2"]),
        created_at=draw.choice(moments),
        updated_at=draw.choice(moments),
        twin_of=draw.choice(["", "", "doc-1"]),
    )


def _query(draw: random.Random) -> DocumentQuery:
    sorts: list[DocumentSort] = ["created_at", "updated_at", "source", "id"]
    choices: dict[str, Callable[[], Any]] = {
        "statuses": lambda: tuple(draw.sample(list(DocumentStatus), draw.randint(1, 3))),
        "track_id": lambda: draw.choice(["", "t1", "none"]),
        "source_prefix": lambda: draw.choice(["", "a/", "a/x", "b"]),
        "filter": lambda: Equals("team", "red"),
        "content_hashes": lambda: ("h1", "h3"),
        "twin_of": lambda: draw.choice(["", "doc-1"]),
    }
    conditions = {name: choice() for name, choice in choices.items() if draw.random() < 0.15}
    page = {"offset": draw.randrange(12), "limit": draw.randrange(8)}
    return DocumentQuery(sort=draw.choice(sorts), descending=draw.random() < 0.5, **page, **conditions)


async def test_what_is_wrong_with_indexes_is_found_and_put_right(store: Store, redis: RedisConnection) -> None:
    changeset = example_changeset("a.md", ["Ann Lee", "Bonn"], [("Ann Lee", "Bonn", 2.0)], track="t")
    await store.apply(changeset)
    relation, document = changeset.relations[0], changeset.documents[0]
    await redis.client.hdel(redis.key("weights", relation.source_id), relation.target_id)
    await redis.client.srem(redis.key("neighbors", relation.source_id), relation.target_id)
    await redis.client.zrem(redis.key("documents", "", "source"), f"{document.source}\0{document.id}")
    await redis.client.delete(redis.key("names"))
    await redis.client.hdel(redis.key("owners"), changeset.chunks[0].id)
    faults = " ".join(await store.inspection.find_faults())
    for said in ("1 relations", "entities do not stand", "places of documents", "chunks have a document", "names"):
        assert said in faults
    await store.inspection.repair()
    assert await store.inspection.find_faults() == []
    assert await store.names.find_names("lee", 5) == [entity("Ann Lee")]
    assert (await store.records.find_documents(DocumentQuery(sort="source", track_id="t"))).total == 1
    assert [item.degree for item in await store.graph.get_entities([relation.source_id])] == [1]


async def test_cost_of_a_commit_does_not_grow_with_the_workspace(store: Store, redis: RedisConnection) -> None:
    async def cost(source: str) -> dict[str, int]:
        await redis.client.config_resetstat()
        await store.apply(example_changeset(source, ["Hub", source], [("Hub", source, 1.0)]))
        stats = await redis.client.info("commandstats")
        return {name.removeprefix("cmdstat_"): item["calls"] for name, item in stats.items()}

    first = await cost("0000.md")
    for number in range(60):
        await store.apply(example_changeset(f"{number}.md", ["Hub", f"E{number}"], [("Hub", f"E{number}", 1.0)]))
    later = await cost("9999.md")
    assert not {"keys", "scan", "smembers|all"} & set(later)
    assert sum(later.values()) <= 1.2 * sum(first.values())


async def test_removed_chunks_leave_no_mention(store: Store, redis: RedisConnection) -> None:
    changeset = example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)])
    moved = replace(changeset.extractions[0].entities[0], entity_id=entity("Y"))
    mentions: tuple[EntityMention, ...] = (moved, *changeset.extractions[0].entities[1:])
    await store.apply(replace(changeset, extractions=(replace(changeset.extractions[0], entities=mentions),)))
    assert await store.curations.find_mentioning_chunks([entity("X")]) == {
        changeset.chunks[0].id: changeset.documents[0].id
    }
    await store.apply(Changeset(removed_chunks=(changeset.chunks[0].id,)))
    assert await store.inspection.scan(ScanKind.MENTIONED_ENTITIES, "", 9) == []
    left = [key async for page in redis.pages() for key in page]
    assert [key for key in left if ":mentions:" in key or ":moved:" in key or ":said:" in key] == []


async def test_stale_rules_change_nothing(store: Store) -> None:
    with pytest.raises(StaleChangesetError, match="rules of the name"):
        await store.apply(Changeset(expected_rules={entity("X"): 3}))
    assert await store.get_data_version() == 0


async def test_vacuum_leaves_no_byte_of_what_was_deleted(settings: StoreSettings) -> None:
    with running_redis() as server:
        store = await open_store(settings.model_copy(update={"url": server.url}), _EMBEDDING)
        redis = RedisConnection(server.url, settings.workspace, "store.url")
        folder = Path(str((await redis.client.config_get("dir"))["dir"]))
        secret = example_changeset("secret.md", ["Xanadu"], text="the word is quizzaciously")
        await store.apply(secret)
        await store.apply(example_changeset("kept.md"))
        await store.apply(
            Changeset(
                removed_documents=(secret.documents[0].id,),
                removed_chunks=(secret.chunks[0].id,),
                removed_entities=(entity("Xanadu"),),
                entity_evidence=(replace(secret.entity_evidence[0], mention_count=0),),
            )
        )

        def held(word: bytes) -> bool:
            return any(word in path.read_bytes() for path in folder.rglob("*") if path.is_file())

        assert held(b"quizzaciously")
        await store.vacuum()
        for word in (b"quizzaciously", b"Xanadu", b"xanadu", b"secret.md"):
            assert not held(word)
        assert (await store.get_stats()).chunks == 1
        await redis.close()
        await store.close()
