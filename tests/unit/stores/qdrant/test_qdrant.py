"""Qdrant, in the client's local mode: what is kept, whose it is, and what its failures are called."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client", reason="needs: pip install 'heliograph[qdrant]'")

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SchemaMismatch, SettingsError, StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores.changeset import Changeset, Collection, OutboxKind
from heliograph.stores.composed import ComposedStore
from heliograph.stores.qdrant import QdrantAddress, QdrantVectorProjection, connect
from heliograph.stores.registry import open_projection, open_store
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector

_EMBEDDING = EmbeddingInfo("example", DIMENSION, 512)


@pytest.fixture
async def vectors(tmp_path: Path) -> AsyncGenerator[QdrantVectorProjection]:
    opened = await QdrantVectorProjection.open(StoreSettings(data_dir=tmp_path), "qdrant::memory:", _EMBEDDING)
    yield opened
    await opened.close()


@pytest.fixture
async def store(tmp_path: Path, vectors: QdrantVectorProjection) -> AsyncGenerator[ComposedStore]:
    home = await open_store(StoreSettings(data_dir=tmp_path, durability="normal"), _EMBEDDING)
    opened = await ComposedStore(home, [vectors], 100).open()
    yield opened
    await opened.close()


async def payloads(vectors: QdrantVectorProjection, collection: str) -> list[dict[str, Any]]:
    points, _ = await vectors._client.scroll(collection, limit=100)
    return [dict(point.payload or {}) for point in points]


async def test_points_carry_the_fields_that_others_search_by(
    store: ComposedStore, vectors: QdrantVectorProjection
) -> None:
    changeset = example_changeset("a.md", ["ESP32", "MQTT"], [("ESP32", "MQTT", 2.0)])
    await store.apply(changeset)
    (chunk,) = await payloads(vectors, "knowledge_chunks")
    assert chunk["workspace"] == "default"
    assert chunk["doc_id"] == changeset.documents[0].id
    assert chunk["content"] == changeset.chunks[0].text
    assert chunk["chunk_index"] == 0
    assert chunk["entities"] == ["ESP32", "MQTT"]
    assert chunk["metadata"]["source"] == "a.md"
    assert chunk["created_at"] == changeset.documents[0].created_at.isoformat()
    entities = await payloads(vectors, "entities")
    assert {entity["name"] for entity in entities} == {"ESP32", "MQTT"}
    assert all(entity["doc_ids"] == [changeset.documents[0].id] for entity in entities)
    (relation,) = await payloads(vectors, "relations")
    assert {relation["source"], relation["target"]} == {"ESP32", "MQTT"}
    assert relation["weight"] == 2.0


async def test_changed_metadata_reaches_the_points_of_the_chunks(
    store: ComposedStore, vectors: QdrantVectorProjection
) -> None:
    changeset = example_changeset("a.md", ["ESP32"])
    await store.apply(changeset)
    await store.apply(Changeset(documents=(replace(changeset.documents[0], metadata={"team": "red"}),)))
    (chunk,) = await payloads(vectors, "knowledge_chunks")
    assert chunk["metadata"]["team"] == "red"
    assert chunk["content"] == changeset.chunks[0].text


async def test_removed_document_leaves_no_point(store: ComposedStore, vectors: QdrantVectorProjection) -> None:
    changeset = example_changeset("a.md", ["ESP32"])
    await store.apply(changeset)
    ids = [item.id for item in changeset.entities]
    removed = Changeset(
        removed_documents=(changeset.documents[0].id,),
        removed_chunks=tuple(chunk.id for chunk in changeset.chunks),
        removed_entities=tuple(ids),
    )
    await store.apply(removed)
    for collection in ("knowledge_chunks", "entities"):
        assert await payloads(vectors, collection) == []


async def test_workspaces_share_collections_and_nothing_else(
    vectors: QdrantVectorProjection, store: ComposedStore
) -> None:
    await store.apply(example_changeset("a.md", ["ESP32"]))
    other = QdrantVectorProjection(vectors._client, vectors._address, "other", _EMBEDDING)
    assert await other.search(Collection.CHUNKS, unit_vector("a.md"), 5, -1) == []
    assert await other.get_cursor() == -1
    await other.clear()
    assert len(await vectors.scan(OutboxKind.CHUNKS, "", 9)) == 1


async def test_collections_of_another_dimension_are_refused(tmp_path: Path) -> None:
    settings = StoreSettings(data_dir=tmp_path, vectors_url=f"qdrant://{tmp_path}/local")
    await (await open_projection("vectors", settings, _EMBEDDING)).close()
    with pytest.raises(SchemaMismatch, match=f"length {DIMENSION}, the embedding makes 3"):
        await open_store(settings, EmbeddingInfo("other", 3, 512))


@pytest.mark.parametrize(
    ("url", "warns"),
    [
        ("qdrant://:k@db.example", True),
        ("qdrants://:k@db.example", False),
        ("qdrant://db.example", False),
        ("qdrant://:k@127.0.0.1", False),
    ],
)
async def test_key_that_goes_unencrypted_is_warned_of_in_the_log(
    url: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await connect(QdrantAddress.parse(url)).close()
    assert [record.message.count("qdrants://") for record in caplog.records] == [1] * warns


async def test_server_out_of_reach_is_named_without_its_key(tmp_path: Path) -> None:
    settings = StoreSettings(data_dir=tmp_path, vectors_url="qdrant://:hunter2@127.0.0.1:9")
    with pytest.raises(StoreUnavailable, match=r"Qdrant at 'http://127.0.0.1:9' is out of reach") as caught:
        await open_projection("vectors", settings, _EMBEDDING)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("qdrant://db", QdrantAddress(url="http://db:6333")),
        ("qdrants://:k%2F1@db:443?prefix=x-", QdrantAddress(url="https://db:443", api_key="k/1", prefix="x-")),
        ("qdrant://[::1]:7?quantization=int8", QdrantAddress(url="http://[::1]:7", is_quantized=True)),
        ("qdrant:///data/q%20x?on_disk=true", QdrantAddress(path="/data/q x", on_disk=True)),
        ("qdrant::memory:", QdrantAddress(path=":memory:")),
    ],
)
def test_address_is_read(url: str, address: QdrantAddress) -> None:
    assert QdrantAddress.parse(url) == address


@pytest.mark.parametrize("url", ["qdrant:", "qdrant://h:x", "qdrant://h?colour=red", "qdrant://h?quantization=int4"])
def test_bad_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        QdrantAddress.parse(url)


def test_key_is_not_shown() -> None:
    assert "secret" not in repr(QdrantAddress.parse("qdrant://:secret@db"))
