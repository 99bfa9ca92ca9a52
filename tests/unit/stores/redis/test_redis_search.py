"""What is searched on Redis as the home: views beside commits, replies of models, faults that are found and mended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")

from heliograph.embedding.base import EmbeddingInfo
from heliograph.filters import Equals, Not, Sources
from heliograph.ids import document_id
from heliograph.ingest.evidence_fold import EvidenceFold
from heliograph.ingest.merging import FoldLimits
from heliograph.models import Usage
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store, StoreView
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.redis import catalogue, scoped_search, text_search
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.session import Session
from heliograph.stores.registry import open_store
from heliograph.stores.replies import CachedReply
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector
from heliograph.text.names import name_to_entity_id as entity
from tests.servers.redis import RedisServer

OpenStore = Callable[[], Awaitable[Store]]
_FOLD = EvidenceFold(FoldLimits(10, 10), 1000)
_MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def workspace() -> str:
    return f"w{uuid4().hex}"


@pytest.fixture
async def open_home(redis_server: RedisServer, workspace: str) -> AsyncGenerator[OpenStore]:
    opened: list[Store] = []

    async def open_one() -> Store:
        settings = StoreSettings(url=redis_server.url, workspace=workspace, durability="normal", pool_size=4)
        opened.append(await open_store(settings, EmbeddingInfo("example", DIMENSION, 512)))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def session(redis_server: RedisServer, workspace: str) -> AsyncGenerator[Session]:
    connection = RedisConnection(redis_server.url, workspace, "store.url")
    yield Session(connection)
    await connection.close()


async def _names(view: StoreView) -> list[str]:
    return [item.name for item in await view.graph.list_entities(0, 100)]


async def test_view_of_one_process_follows_the_commits_of_another(
    open_home: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await open_home(), await open_home()
    view = two.view(Not(Equals("source", "b.md")), _FOLD)
    assert await _names(view) == []
    await one.apply(example_changeset("a.md", ["X", "Y"], [("X", "Y", 1.0)]))
    await one.apply(example_changeset("b.md", ["X", "Z"], [("X", "Z", 1.0)]))
    assert await _names(view) == ["X", "Y"]
    (document,) = await one.records.get_documents([document_id("a.md")])
    await one.apply(Changeset(documents=(replace(document, metadata={"source": "b.md"}),)))
    assert await _names(view) == []
    assert await view.text.search(Collection.CHUNKS, ["md"], 9) == []
    monkeypatch.setattr(catalogue, "_MOST_REPLAYED", 0)
    await one.apply(Changeset(documents=(document,)))
    assert await _names(view) == ["X", "Y"]
    await one.clear()
    assert await _names(view) == []


async def test_view_of_very_many_documents_keeps_none_of_them(
    open_home: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_home()
    monkeypatch.setattr(catalogue, "_MOST_KEPT", 3)
    monkeypatch.setattr(catalogue, "_PAGE", 2)
    for number in range(8):
        await store.apply(example_changeset(f"{number}.md", [f"N{number}"]))
        assert len(await _names(store.view(Not(Equals("source", "0.md")), _FOLD))) == number


async def test_hits_of_a_view_are_its_own_however_large_it_is(
    open_home: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_home()
    for number in range(30):
        await store.apply(example_changeset(f"{number}.md", [f"Thing {number}"], text=f"common words {number}"))
    monkeypatch.setattr(text_search, "_LEAST_NAMED", 2)
    views = [store.view(Sources([f"{number}.md" for number in range(count)]), _FOLD) for count in (3, 25)]
    for most in (20_000, 1):
        monkeypatch.setattr(scoped_search, "_MOST_LISTED", most)
        for view, count in zip(views, (3, 25), strict=True):
            assert len(await view.text.search(Collection.CHUNKS, ["common"], 99)) == count
            assert len(await view.text.search(Collection.ENTITIES, ["thing"], 99)) == count
            assert len((await view.text.find_phrases(Collection.CHUNKS, [["common", "word"]], 99))[0]) == count
            (found,) = await view.text.find_phrases(Collection.ENTITIES, [["thing", "2"]], 99)
            assert found == [entity("Thing 2")]


async def test_views_answer_while_others_commit(open_home: OpenStore) -> None:
    one, two = await open_home(), await open_home()
    await one.apply(example_changeset("kept.md", ["Hub", "Spoke"], [("Hub", "Spoke", 1.0)]))

    async def write() -> None:
        for number in range(30):
            await one.apply(example_changeset(f"{number % 3}.md", ["Hub", f"N{number}"], [("Hub", f"N{number}", 1.0)]))

    async def ask() -> None:
        view = two.view(Sources(["kept.md"]), _FOLD)
        for _ in range(15):
            (hub,) = await view.graph.get_entities([entity("Hub")])
            assert (hub.description, hub.degree) == ("Hub in kept.md", 1)
            around = await view.graph.get_neighbourhood(entity("Hub"), 2, 9)
            assert [item.name for item in around.entities] == ["Hub", "Spoke"]
            (path,) = await view.graph.find_shortest_paths(entity("Hub"), entity("Spoke"), 3, 3)
            assert len(path.relations) == 1
            hits = await view.vectors.search(Collection.ENTITIES, unit_vector("q"), 9, -1.0)
            assert {hit.id for hit in hits} == {entity("Hub"), entity("Spoke")}

    await asyncio.gather(write(), ask(), ask())


def _reply(key: str, subject_id: str = "", text: str = "text") -> CachedReply:
    return CachedReply(key, text, "model", Usage(3, 4), _MOMENT, subject_id)


async def test_replies_come_back_whatever_a_model_wrote(open_home: OpenStore) -> None:
    replies = (await open_home()).replies
    odd = _reply("default:extract:1", "chunk-1", "broken \udc80 \x00 你好\r\n")
    await replies.put_reply(odd)
    assert await replies.get_reply(odd.key) == odd
    assert await replies.list_replies("", 9) == [odd]
    assert await replies.list_replies(odd.key, 9) == []


async def test_reply_is_dropped_with_what_it_is_about_now(open_home: OpenStore, session: Session) -> None:
    store = await open_home()
    changeset = example_changeset("a.md")
    chunk = changeset.chunks[0].id
    await store.apply(changeset)
    await store.replies.put_reply(_reply("default:extract:1", chunk))
    await store.replies.put_reply(_reply("default:extract:1", "chunk-other"))
    await store.replies.put_reply(_reply("default:extract:2", chunk))
    await store.replies.put_reply(_reply("default:extract:3", chunk))
    await store.apply(Changeset(removed_chunks=(chunk,), kept_replies=("default:extract:3",)))
    assert [item.key for item in await store.replies.list_replies("", 9)] == ["default:extract:1", "default:extract:3"]
    assert (await store.get_stats()).cached_replies == 2
    assert await store.replies.delete_replies() == 2
    left = [key async for key in session.connection.client.scan_iter(f"{session.keys.prefix}*")]
    assert not [key for key in left if "reply:" in key or "subject:" in key or "type:" in key]


async def test_faults_of_what_is_searched_are_found_and_mended(open_home: OpenStore, session: Session) -> None:
    store, keys = await open_home(), session.keys
    for number in range(4):
        await store.apply(example_changeset(f"{number}.md", ["X", f"N{number}"], [("X", f"N{number}", 1.0)]))
    assert await store.inspection.find_faults() == []
    breaches = {
        "postings": ("DEL", keys.of("postings", "chunks", "md")),
        "counts": ("HINCRBY", keys.of("terms", "entities", "size"), "terms", 1),
        "of entities": ("HDEL", keys.of("terms", "entities", "numbers"), entity("X")),
        "vectors of": ("DEL", keys.of("ids", "entity_vectors")),
        "count for": ("DEL", keys.counted),
    }
    for word, breach in breaches.items():
        await session.write([breach])
        assert word in " ".join(await store.inspection.find_faults())
        await store.inspection.repair()
        assert await store.inspection.find_faults() == []
        assert len(await store.text.search(Collection.CHUNKS, ["md"], 9)) == 4
        assert [hit.id for hit in await store.text.search(Collection.ENTITIES, ["x"], 9)] == [entity("X")]
        assert len(await store.vectors.search(Collection.ENTITIES, unit_vector("q"), 9, -1.0)) == 5
        assert len(await _names(store.view(Sources(["1.md"]), _FOLD))) == 2
