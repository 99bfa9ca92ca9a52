"""A workspace that another process removes, and makes again under the same name, on every back end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from heliograph import AsyncHeliograph
from heliograph.embedding.base import EmbeddingInfo
from heliograph.engine import Given
from heliograph.errors import NotFoundError, StoreUnavailable
from heliograph.filters import SourcePrefix
from heliograph.ingest.merging import EvidenceFold
from heliograph.models import Document
from heliograph.service.workspaces import Workspaces
from heliograph.settings import IngestSettings, Settings, StoreSettings
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.registry import (
    drop_workspace,
    find_workspaces,
    open_store,
    workspace_identity,
    workspace_upkeep,
)
from heliograph.testing.examples import DIMENSION, example_changeset
from heliograph.testing.fakes import FakeEmbeddingModel
from heliograph.text.analysis import terms

INFO = EmbeddingInfo("example", DIMENSION, 512)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreSettings:
    """Settings of a workspace that is not there yet."""
    name = f"w{uuid4().hex[:12]}"
    if request.param == "sqlite":
        return StoreSettings(data_dir=tmp_path, workspace=name, durability="normal")
    # Looked at anew by every request.
    monkeypatch.setattr("heliograph.stores.postgres.upkeep.IDENTITY_SECONDS", 1e-9)
    url = request.getfixturevalue("postgres_database")
    return StoreSettings(url=url, workspace=name, durability="normal", pool_size=2)


@pytest.fixture
async def two(store: StoreSettings) -> AsyncGenerator[tuple[Workspaces, Workspaces]]:
    """Two services over the same store, as two processes have them."""
    settings = Settings.load().model_copy(update={"store": store})
    pair = [Workspaces(settings, Given(embedding=FakeEmbeddingModel(16))) for _ in range(2)]
    for one in pair:
        await one.open()
    yield pair[0], pair[1]
    for one in pair:
        await one.close()
    await drop_workspace(store)


async def test_identity_is_that_of_one_making(store: StoreSettings) -> None:
    async def identify() -> object:
        return await asyncio.to_thread(workspace_identity, store)

    assert await identify() is None
    seen: list[object] = []
    async with AsyncExitStack() as stack:
        for _ in range(2):
            # Left open, as services do: a file that is open keeps its number.
            opened = await open_store(store, INFO)
            stack.push_async_callback(opened.close)
            seen.append(await identify())
            await opened.apply(example_changeset("a.md", ["Ann"]))
            await (await open_store(store, INFO)).close()
            assert await identify() == seen[-1]
            await drop_workspace(store)
            assert await identify() is None
    assert seen[0] is not None
    assert seen[0] != seen[1]
    assert store.workspace not in await find_workspaces(store)


async def test_workspace_is_looked_at_without_being_opened(store: StoreSettings) -> None:
    upkeep, other = workspace_upkeep(store), store.model_copy(update={"workspace": store.workspace.upper()})
    assert not await asyncio.to_thread(upkeep.has_workspace, store)
    opened = await open_store(store, INFO)
    assert await asyncio.to_thread(upkeep.has_workspace, store)
    assert not await asyncio.to_thread(upkeep.has_workspace, other)
    assert not await asyncio.to_thread(upkeep.may_have_waiting, store)
    await opened.apply(example_changeset("a.md", ["Ann"]))
    assert not await asyncio.to_thread(upkeep.may_have_waiting, store)
    await opened.apply(Changeset(documents=(Document("doc-b", "b.md"),)))
    assert await asyncio.to_thread(upkeep.may_have_waiting, store)
    await opened.close()
    assert await asyncio.to_thread(upkeep.may_have_waiting, store)
    await drop_workspace(store)
    assert not await asyncio.to_thread(upkeep.has_workspace, store)


async def find(engine: AsyncHeliograph, source: str) -> list[str]:
    """Return the chunks of a source that have a word; a store keeps what a filter leaves, by data version."""
    view = engine.store.view(SourcePrefix(source), EvidenceFold.of(IngestSettings()))
    return [hit.id for hit in await view.text.search(Collection.CHUNKS, terms("light"), 9)]


async def test_workspace_made_again_elsewhere_is_opened_again(two: tuple[Workspaces, Workspaces]) -> None:
    one, other = two
    name = f"research-{uuid4().hex[:8]}"
    await one.create(name)
    async with other.use(name) as engine:
        await engine.insert("Hester kept the light.", sources=["a.md"])
        assert len(await find(engine, "a.md")) == 1
        version = (await engine.stats()).data_version
    await one.remove(name)
    with pytest.raises(NotFoundError):
        async with other.use(name):
            pass
    await one.create(name)
    async with one.use(name) as engine:
        await engine.insert("Tobias wound the light.", sources=["b.md"])
    async with other.use(name) as engine:
        # The version alone tells nothing.
        assert (await engine.stats()).data_version == version
        assert await find(engine, "a.md") == []
        assert len(await find(engine, "b.md")) == 1
    await one.remove(name)


async def test_no_write_into_a_removed_workspace_is_acknowledged(two: tuple[Workspaces, Workspaces]) -> None:
    one, other = two
    name = f"research-{uuid4().hex[:8]}"
    await one.create(name)
    async with other.use(name) as engine:
        await drop_workspace(engine.settings.store)
        with pytest.raises(StoreUnavailable, match="removed"):
            await engine.insert("Hester kept the light.", sources=["a.md"])
