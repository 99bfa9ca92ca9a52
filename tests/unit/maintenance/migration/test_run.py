"""Moving a workspace: what arrives is what was there, however often the way was broken off."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError, StoreError
from heliograph.maintenance.migration import migrate_workspace
from heliograph.models import CurationKind
from heliograph.settings import StoreSettings
from heliograph.stores.base import CurationQuery, DocumentQuery, ScanKind, Store
from heliograph.stores.changeset import Changeset
from heliograph.stores.registry import open_store

from ....contract.congruence import World, answer, make_operations, make_questions, see
from .conftest import INFO, fill


async def opened(settings: StoreSettings) -> Store:
    return await open_store(settings, INFO)


async def expect_alike(one: StoreSettings, other: StoreSettings) -> None:
    """Compare all that both hold, and what they answer."""
    worlds = [World(await opened(settings)) for settings in (one, other)]
    seen = [await see(world) for world in worlds]
    for question in make_questions(12, seed=3):
        left, right = [await answer(world, question) for world in worlds]
        assert left == right, question
    moments = [await _moments(world.store) for world in worlds]
    for world in worlds:
        await world.store.close()
    assert seen[0] == seen[1]
    assert moments[0] == moments[1]


async def _moments(store: Store) -> object:
    ids = [await store.inspection.scan(kind, "", 1000) for kind in (ScanKind.ENTITIES, ScanKind.RELATIONS)]
    documents = (await store.records.find_documents(DocumentQuery(limit=1000))).documents
    return documents, await store.graph.get_entities(ids[0]), await store.graph.get_relations(ids[1])


async def test_everything_arrives_as_it_was(source_settings: StoreSettings, target_settings: StoreSettings) -> None:
    await fill(source_settings)
    report = await migrate_workspace(source_settings, target_settings)
    counts = {item.kind: item.count for item in report.kinds}
    assert min(counts.values()) > 0
    assert counts["replies"] == 2
    assert counts["relations"] == counts["relation vectors"]
    assert report.remade_texts == 0
    await expect_alike(source_settings, target_settings)


async def test_moved_workspace_goes_on_as_the_old_one(
    source_settings: StoreSettings, target_settings: StoreSettings
) -> None:
    await fill(source_settings)
    await migrate_workspace(source_settings, target_settings)
    worlds = [World(await opened(settings)) for settings in (source_settings, target_settings)]
    for operation in make_operations(40, seed=12):
        outcomes = [await world.do(operation) for world in worlds]
        assert outcomes[0] == outcomes[1], operation
    for world in worlds:
        await world.store.close()
    worlds = [World(await opened(settings)) for settings in (source_settings, target_settings)]
    seen = [await see(world) for world in worlds]
    for world in worlds:
        await world.store.close()
    assert seen[0] == seen[1]


@pytest.mark.parametrize("commits", [0, 1, 3, 5, 7])
async def test_run_that_was_broken_off_goes_on(
    source_settings: StoreSettings, target_settings: StoreSettings, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(source_settings)
    target = await opened(target_settings)
    kind, left, real = type(target), commits, type(target).apply
    await target.close()

    async def apply(store: Store, changeset: Changeset) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise StoreError("the cable was cut; mend it")
        return await real(store, changeset)  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patch:
        patch.setattr(kind, "apply", apply)
        with pytest.raises(StoreError, match="cable"):
            await migrate_workspace(source_settings, target_settings)
    report = await migrate_workspace(source_settings, target_settings)
    assert bool(report.copied)
    await expect_alike(source_settings, target_settings)
    assert (await migrate_workspace(source_settings, target_settings)).copied == 0


async def test_what_does_not_arrive_as_it_was_is_told(
    source_settings: StoreSettings, target_settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(source_settings, 10)
    target = await opened(target_settings)
    kind, real = type(target), type(target).apply
    await target.close()

    async def apply(store: Store, changeset: Changeset) -> int:
        return await real(store, replace(changeset, vectors={}))  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(kind, "apply", apply)
    with pytest.raises(StoreError, match="the chunks did not arrive"):
        await migrate_workspace(source_settings, target_settings)


async def test_source_that_is_written_to_meanwhile_is_no_damage(
    source_settings: StoreSettings, target_settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(source_settings, 10)
    source, target = World(await opened(source_settings)), await opened(target_settings)
    kind, real = type(target), type(target).apply
    await target.close()
    names = (f"Zed {number}" for number in count())

    async def apply(store: Store, changeset: Changeset) -> int:
        version = await real(store, changeset)
        if store is not source.store and changeset.entities:
            await source.curator.create_entity(next(names), type="person", description="by hand", author="me")
        return version

    monkeypatch.setattr(kind, "apply", apply)
    with pytest.raises(ConflictError, match="wrote to the source meanwhile"):
        await migrate_workspace(source_settings, target_settings)
    await source.store.close()


async def test_what_changed_between_two_runs_is_taken_over(
    source_settings: StoreSettings, target_settings: StoreSettings
) -> None:
    await fill(source_settings)
    await migrate_workspace(source_settings, target_settings)
    world = World(await opened(source_settings))
    page = await world.store.records.find_documents(DocumentQuery(limit=1))
    source = page.documents[0].source
    for operation in make_operations(80, seed=13):
        if operation.verb == "insert" and operation.arguments[0] == source:
            await world.do(operation)
    await world.store.close()
    await migrate_workspace(source_settings, target_settings)
    await expect_alike(source_settings, target_settings)


async def test_target_that_holds_something_else_is_left_alone(
    source_settings: StoreSettings, target_settings: StoreSettings
) -> None:
    await fill(source_settings, 10)
    # The same sources, taken in on their own, are not the same documents.
    await fill(target_settings, 12)
    before = await _moments_of(target_settings)
    with pytest.raises(ConflictError, match="not from the source"):
        await migrate_workspace(source_settings, target_settings)
    assert await _moments_of(target_settings) == before


async def test_target_with_corrections_of_its_own_is_left_alone(
    source_settings: StoreSettings, target_settings: StoreSettings
) -> None:
    await fill(source_settings, 10)
    world = World(await opened(target_settings))
    await world.curator.create_entity("Zed", type="person", description="by hand", author="me")
    found = await world.store.curations.find_curations(CurationQuery())
    assert [item.kind for item in found.curations] == [CurationKind.CREATE_ENTITY]
    await world.store.close()
    with pytest.raises(ConflictError, match="curations"):
        await migrate_workspace(source_settings, target_settings)


async def test_places_are_looked_at_first(tmp_path: Path, source_settings: StoreSettings) -> None:
    with pytest.raises(NotFoundError, match="no workspace"):
        await migrate_workspace(source_settings, StoreSettings(data_dir=tmp_path / "other"))
    assert not (tmp_path / "other").exists()
    with pytest.raises(InvalidRequestError, match="where it is"):
        await migrate_workspace(source_settings, source_settings)


async def _moments_of(settings: StoreSettings) -> object:
    store = await opened(settings)
    found = await _moments(store)
    await store.close()
    return found
