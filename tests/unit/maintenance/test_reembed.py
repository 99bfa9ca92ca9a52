"""Another embedding takes the place of the present one, in place and in any number of sittings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph
from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, Embeddings
from heliograph.errors import ConflictError, ModelUnavailable, SchemaMismatch, StoreUnavailable
from heliograph.maintenance.workspace import reembed_workspace
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores.changeset import Collection
from heliograph.testing.fakes import FakeEmbeddingModel

from .conftest import TEXTS


class OtherEmbedding(FakeEmbeddingModel):
    """A model of another name and dimension, which may fail after some texts."""

    def __init__(self, dimension: int = 24, fails_after: int = 10**9) -> None:
        super().__init__(dimension)
        self._texts_left = fails_after

    @property
    def info(self) -> EmbeddingInfo:
        return EmbeddingInfo(f"other-{super().info.dimension}", super().info.dimension, 512)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        self._texts_left -= len(texts)
        if self._texts_left < 0:
            raise ModelUnavailable("the embedding service is down")
        return await super().embed(texts, kind)


async def reembed(folder: Path, embedding: OtherEmbedding):
    return await reembed_workspace(StoreSettings(data_dir=folder), IngestSettings(), embedding, has_chat=False)


async def fill(folder: Path) -> None:
    async with AsyncHeliograph(folder, embedding=FakeEmbeddingModel()) as kb:
        await kb.insert(list(TEXTS.values()), sources=list(TEXTS))


async def vectors_of(kb: AsyncHeliograph) -> dict[str, list[float]]:
    ids = [chunk.id for document in (await kb.documents()).documents for chunk in await kb.chunks(document.id)]
    found = await kb.store.vectors.get_vectors(Collection.CHUNKS, ids)
    return {id_: vector.tolist() for id_, vector in found.items()}


async def test_reembedded_workspace_equals_one_made_with_that_model(tmp_path: Path) -> None:
    await fill(tmp_path / "a")
    report = await reembed(tmp_path / "a", OtherEmbedding())
    assert (report.chunks, report.entities > 5, report.relations > 5) == (3, True, True)
    with pytest.raises(SchemaMismatch, match="reembed"):
        await AsyncHeliograph(tmp_path / "a", embedding=FakeEmbeddingModel()).open()
    async with AsyncHeliograph(tmp_path / "b", embedding=OtherEmbedding()) as fresh:
        await fresh.insert(list(TEXTS.values()), sources=list(TEXTS))
        async with AsyncHeliograph(tmp_path / "a", embedding=OtherEmbedding()) as kb:
            assert await vectors_of(kb) == await vectors_of(fresh)
            found = (await kb.query_data("Who makes the ESP32?"))["data"]["chunks"]
            assert found == (await fresh.query_data("Who makes the ESP32?"))["data"]["chunks"]


async def test_old_embedding_answers_until_the_switch_and_is_refused_after_it(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        await kb.insert(list(TEXTS.values()), sources=list(TEXTS))
        await kb.query_data("Who makes the ESP32?")
        with pytest.raises(ModelUnavailable):
            await reembed(tmp_path, OtherEmbedding(fails_after=4))
        assert (await kb.query_data("Who makes the ESP32?"))["status"] == "success"
        await kb.insert("Ghent is a city in Belgium.", sources=["d.md"])
        assert (await reembed(tmp_path, OtherEmbedding())).chunks == 1
        with pytest.raises(SchemaMismatch, match="embedded anew"):
            await kb.query_data("Who makes the ESP32?")
        entities = [entity.id for entity in await kb.entities()]
        with pytest.raises(SchemaMismatch, match="embedded anew"):
            await kb.store.vectors.get_vectors(Collection.ENTITIES, entities)
        with pytest.raises(SchemaMismatch, match="embedded anew"):
            await kb.view({"source_prefix": "d"}).vectors.get_vectors(Collection.ENTITIES, entities)
        with pytest.raises(SchemaMismatch, match="embedded anew"):
            await kb.insert("Bruges is a city in Belgium.", sources=["e.md"])


async def test_commit_takes_its_next_vector_away(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        await kb.insert(list(TEXTS.values()), sources=list(TEXTS))
        with pytest.raises(ModelUnavailable):
            await reembed(tmp_path, OtherEmbedding(fails_after=4))
        reembedding = kb.store.reembedding
        assert await reembedding.find_pending(Collection.CHUNKS, "", 9) == []
        await kb.insert("# Cities\n\nShanghai is large.", sources=["c.md"])
        assert len(await reembedding.find_pending(Collection.CHUNKS, "", 9)) == 1
        with pytest.raises(ConflictError, match="begin again"):
            await reembedding.finish()


async def test_another_model_starts_over(tmp_path: Path) -> None:
    await fill(tmp_path)
    with pytest.raises(ModelUnavailable):
        await reembed(tmp_path, OtherEmbedding(fails_after=4))
    assert (await reembed(tmp_path, OtherEmbedding(dimension=32))).chunks == 3


async def test_missing_workspace_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no workspace"):
        await reembed(tmp_path / "nowhere", OtherEmbedding())
