from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heliograph.filters import SourcePrefix
from heliograph.ids import name_to_entity_id as entity
from heliograph.ingest.merging import EvidenceFold
from heliograph.settings import IngestSettings
from heliograph.stores.candidates import CandidateIndex
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.sqlite.store import SqliteStore
from heliograph.stores.view import KeySet
from heliograph.testing.examples import DIMENSION, example_changeset, unit_vector

from .conftest import OpenStore

FOLD = EvidenceFold.of(IngestSettings())
NAMES = [f"Entity {number}" for number in range(300)]
# From so many vectors on they are not all compared.
FEW = "heliograph.stores.sqlite.search._MOST_COMPARED"


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FEW, 0)


async def _nearest(store: SqliteStore, name: str) -> str:
    (hit,) = await store.vectors.search(Collection.ENTITIES, unit_vector(entity(name)), 1, 0.9)
    return hit.id


async def _fill(store: SqliteStore) -> None:
    await store.apply(example_changeset("a.md", NAMES))
    assert await _nearest(store, "Entity 3") == entity("Entity 3")


async def test_file_is_written_on_close_and_continued(open_store: OpenStore, tmp_path: Path) -> None:
    store = await open_store()
    await _fill(store)
    await store.close()
    file = tmp_path / "default" / "entities.turbovec"
    first = file.stat().st_size
    for number in range(3):
        store = await open_store()
        await store.apply(example_changeset(f"b{number}.md", [f"New {number}"]))
        assert await _nearest(store, f"New {number}") == entity(f"New {number}")
        assert await _nearest(store, "Entity 3") == entity("Entity 3")
        await store.close()
    assert file.stat().st_size < first * 1.5


@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage"])
async def test_file_is_built_again_when_it_cannot_be_used(open_store: OpenStore, tmp_path: Path, damage: str) -> None:
    store = await open_store()
    await _fill(store)
    await store.close()
    file = tmp_path / "default" / "entities.turbovec"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:1000] if damage == "truncated" else b"garbage" * 1000)
    store = await open_store()
    assert await _nearest(store, "Entity 299") == entity("Entity 299")


async def test_first_search_of_a_process_compares_some_more_without_an_index(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FEW, 100)
    monkeypatch.setattr(CandidateIndex, "is_any_made", False)
    store = await open_store()
    await _fill(store)
    assert not CandidateIndex.is_any_made
    await store.apply(example_changeset("b.md", ["Fresh"]))
    assert await _nearest(store, "Fresh") == entity("Fresh")
    assert await _nearest(store, "Entity 299") == entity("Entity 299")
    assert CandidateIndex.is_any_made


async def test_other_processes_see_each_others_vectors(open_store: OpenStore) -> None:
    one, two = await open_store(), await open_store()
    await _fill(one)
    assert await _nearest(two, "Entity 5") == entity("Entity 5")
    await two.apply(example_changeset("b.md", ["Fresh"]))
    assert await _nearest(one, "Fresh") == entity("Fresh")
    await one.apply(Changeset(removed_entities=(entity("Fresh"),)))
    assert await two.vectors.search(Collection.ENTITIES, unit_vector(entity("Fresh")), 1, 0.99) == []


async def test_two_processes_that_save_in_turn_spoil_nothing(open_store: OpenStore) -> None:
    await _fill(first := await open_store())
    await first.close()
    one, two = await open_store(), await open_store()
    for store, name in ((one, "From One"), (two, "From Two")):
        await store.apply(example_changeset(f"{name}.md", [name]))
        await _nearest(store, name)
    await one.close()
    await two.close()
    last = await open_store()
    for name in ("From One", "From Two", "Entity 0", "Entity 299"):
        assert await _nearest(last, name) == entity(name)


async def test_save_that_is_cut_short_is_made_up_for(open_store: OpenStore) -> None:
    store = await open_store()
    await _fill(store)
    accelerator = store._accelerators[Collection.ENTITIES]
    continues = await store._database.write(accelerator.claim)
    await store._database.read(lambda connection: accelerator.sync(connection, continues=continues))
    await store._database.close()  # as if killed before `record`

    again = await open_store()
    await again.apply(example_changeset("b.md", ["Later"]))
    for name in ("Entity 1", "Later"):
        assert await _nearest(again, name) == entity(name)


async def test_process_far_behind_builds_anew(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.stores.sqlite.search._KEPT_VERSIONS", 3)
    one, two = await open_store(), await open_store()
    await _fill(one)
    await _nearest(two, "Entity 0")
    await one.apply(Changeset(removed_entities=(entity("Entity 9"),)))
    for number in range(6):
        await one.apply(example_changeset(f"b{number}.md", [f"New {number}"]))
    await one.close()
    assert await _nearest(two, "New 5") == entity("New 5")
    assert await two.vectors.search(Collection.ENTITIES, unit_vector(entity("Entity 9")), 1, 0.99) == []


async def test_dimension_needs_no_multiple_of_eight(open_store: OpenStore) -> None:
    store = await open_store()
    await store.apply(example_changeset("a.md", ["X", "Y"]))
    assert DIMENSION % 8 != 0
    hits = await store.vectors.search(Collection.ENTITIES, unit_vector(entity("X")), 5, 0.5)
    assert hits[0].score == pytest.approx(1.0, abs=1e-5)


async def test_file_that_cannot_be_written_does_not_stop_closing(
    open_store: OpenStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store()
    await _fill(store)
    file = tmp_path / "default" / "entities.turbovec"
    file.mkdir()
    await store.close()
    assert "could not be saved" in caplog.text
    file.rmdir()
    store = await open_store()
    assert await _nearest(store, "Entity 3") == entity("Entity 3")
    await store.close()
    assert file.is_file()


async def test_few_vectors_are_all_compared_and_need_no_index(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FEW, 301)
    store = await open_store()
    await _fill(store)
    await store.apply(example_changeset("b.md", ["Fresh"]))
    assert await _nearest(store, "Fresh") == entity("Fresh")
    await store.apply(Changeset(removed_entities=(entity("Fresh"),)))
    assert await store.vectors.search(Collection.ENTITIES, unit_vector(entity("Fresh")), 1, 0.99) == []
    await store.close()
    assert not [*(tmp_path / "default").glob("*.turbovec")]

    store = await open_store()
    await store.apply(example_changeset("c.md", ["One More", "Too Many"]))
    for name in ("Entity 3", "Too Many"):
        assert await _nearest(store, name) == entity(name)
    await store.close()
    assert (tmp_path / "default" / "entities.turbovec").is_file()


@pytest.mark.parametrize("is_filtered", [False, True])
async def test_index_finds_what_comparing_all_vectors_finds(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, is_filtered: bool
) -> None:
    store = await open_store()
    await store.apply(example_changeset("a.md", NAMES[::2]))
    await store.apply(example_changeset("b.md", NAMES[1::2]))
    read = store.view(SourcePrefix("a"), FOLD).vectors if is_filtered else store.vectors
    found = []
    for few in (1_000, 0):
        monkeypatch.setattr(FEW, few)
        found.append(await read.search(Collection.ENTITIES, unit_vector(entity("Entity 8")), 20, -1.0))
    assert found[0] == found[1]
    assert len(found[0]) == 20


def test_the_nearest_are_the_same_however_many_are_asked_for() -> None:
    vectors = np.random.default_rng(7).standard_normal((2_000, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = CandidateIndex(DIMENSION)
    index.add(np.arange(2_000, dtype=np.uint64), vectors)
    allowed = KeySet(np.arange(0, 2_000, 2))
    for among in (None, allowed):
        ranked = index.search(vectors[0], 900, among)
        for limit in (20, 31, 40, 61, 66, 67, 80, 125, 130, 134, 300):
            found = index.search(vectors[0], limit, among)
            assert found.keys.tolist() == ranked.keys[:limit].tolist()
            assert np.array_equal(found.scores, ranked.scores[:limit])


def test_allowed_keys_may_have_no_vector() -> None:
    index = CandidateIndex(DIMENSION)
    index.add(np.arange(500, dtype=np.uint64), np.tile(unit_vector("a"), (500, 1)))
    found = index.search(unit_vector("a"), 3, KeySet(np.array([*range(400, 410), 900])))
    assert set(found.keys.tolist()) <= set(range(400, 410))
