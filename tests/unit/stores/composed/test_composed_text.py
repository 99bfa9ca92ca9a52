"""Full text beside a store: the terms it is given are those that the store with the truth was given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import StoreUnavailable
from heliograph.maintenance.check import check_follower, rebuild_role
from heliograph.settings import StoreSettings
from heliograph.stores.changeset import Changeset, Collection, chunk_terms
from heliograph.stores.composed import ComposedStore
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION, example_changeset
from tests.memory_projection import MemoryTextProjection

_EMBEDDING = EmbeddingInfo("example", DIMENSION, 512)


async def _open(folder: Path, text: MemoryTextProjection) -> ComposedStore:
    home = await open_store(StoreSettings(data_dir=folder, durability="normal"), _EMBEDDING)
    return await ComposedStore(home, [text], 100).open()


async def test_terms_are_those_at_home(tmp_path: Path) -> None:
    text = MemoryTextProjection()
    store = await _open(tmp_path, text)
    made = [example_changeset(f"{name}.md", [f"Grey {name}"], text=f"{name} walks") for name in ("owl", "fox")]
    for changeset in made:
        await store.apply(changeset)
    for collection in (Collection.CHUNKS, Collection.ENTITIES):
        given = {entry.id: list(entry.terms) for changeset in made for entry in changeset.texts[collection]}
        assert text.terms(collection) == given
    assert await store.truth.text.search(Collection.CHUNKS, ["owl"], 9)
    assert [hit.id for hit in await store.text.search(Collection.CHUNKS, ["owl"], 9)] == [made[0].chunks[0].id]
    await store.close()


async def test_new_title_is_followed_though_no_chunk_changed(tmp_path: Path) -> None:
    store = await _open(tmp_path, MemoryTextProjection())
    made = example_changeset("a.md", ["Owl"])
    await store.apply(made)
    titled = replace(made.documents[0], title="Penguin")
    entry = chunk_terms(titled.title, made.chunks[0])
    await store.apply(Changeset(documents=(titled,), texts={Collection.CHUNKS: (entry,)}))
    for seen in (store, store.truth):
        assert [hit.id for hit in await seen.text.search(Collection.CHUNKS, ["penguin"], 9)] == [entry.id]
    await store.close()


async def test_text_that_is_away_refuses_and_one_that_differs_is_filled_anew(tmp_path: Path) -> None:
    text = MemoryTextProjection()
    store = await _open(tmp_path, text)
    changeset = example_changeset("a.md", ["Owl"])
    await store.apply(changeset)
    text.remove(Collection.CHUNKS, [changeset.chunks[0].id])
    (problem,) = (await check_follower(store.followers[0])).problems
    assert "chunks there are 1 missing" in problem.message
    assert (await rebuild_role(store, "text")).is_clean
    assert len(await store.text.search(Collection.CHUNKS, ["owl"], 9)) == 1
    text.is_down = True
    await store.apply(example_changeset("b.md", ["Owl"]))
    with pytest.raises(StoreUnavailable, match="cannot be asked now"):
        await store.text.search(Collection.CHUNKS, ["owl"], 9)
    with pytest.raises(StoreUnavailable, match="cannot be asked now"):
        await store.text.find_phrases(Collection.CHUNKS, [("owl",)], 9)
    assert len(await store.truth.text.search(Collection.CHUNKS, ["owl"], 9)) == 2
    await store.close()
