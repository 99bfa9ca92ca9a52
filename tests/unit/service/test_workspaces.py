from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph.embedding.base import EmbeddingMeter
from heliograph.engine import AsyncHeliograph, Given
from heliograph.errors import ConflictError, InvalidRequestError, ModelUnavailable, NotFoundError, StoreUnavailable
from heliograph.service.workspaces import Workspaces
from heliograph.settings import EmbeddingSettings, Settings, StoreSettings
from heliograph.stores.registry import drop_workspace
from heliograph.testing.fakes import FakeEmbeddingModel


def make(folder: Path, **server: int) -> Workspaces:
    settings = Settings.load(store={"data_dir": folder}, server=server)
    return Workspaces(settings, Given(embedding=FakeEmbeddingModel(16)))


@pytest.fixture
async def workspaces(tmp_path: Path) -> AsyncGenerator[Workspaces]:
    made = make(tmp_path)
    await made.open()
    yield made
    await made.close()


async def test_local_model_is_loaded_before_anybody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = FakeEmbeddingModel(16)

    async def build(_: EmbeddingSettings) -> EmbeddingMeter:
        return EmbeddingMeter(model)

    monkeypatch.setattr("heliograph.service.workspaces.build_embedding_model", build)
    made = Workspaces(Settings.load(store={"data_dir": tmp_path}))
    await made.open()
    async with asyncio.timeout(10):
        while not model.calls:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await made.close()
    model.fail_next(ModelUnavailable("the weights are damaged", is_transient=False))
    await made.open()
    async with asyncio.timeout(10):
        while "the weights are damaged" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await made.close()
    assert not any(record.exc_info for record in caplog.records)


async def test_defects_of_what_nobody_awaits_are_logged_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = FakeEmbeddingModel(16)
    model.fail_next(ZeroDivisionError("a defect of the model"))  # pyright: ignore[reportArgumentType]

    async def build(_: EmbeddingSettings) -> EmbeddingMeter:
        return EmbeddingMeter(model)

    async def fail(_: AsyncHeliograph) -> None:
        raise ZeroDivisionError("a defect of the engine")

    monkeypatch.setattr("heliograph.service.workspaces.build_embedding_model", build)
    made = Workspaces(Settings.load(store={"data_dir": tmp_path}))
    await made.open()
    async with asyncio.timeout(10):
        while "a defect of the model" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0)
    async with made.use() as engine:
        pass
    with monkeypatch.context() as patch:
        patch.setattr(AsyncHeliograph, "close", fail)
        await made.close()
    await engine.close()
    assert caplog.text.count("Traceback") == 2
    assert "a defect of the engine" in caplog.text


async def test_model_that_is_paid_for_is_not_asked_before_anybody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FakeEmbeddingModel(16)

    async def build(_: EmbeddingSettings) -> EmbeddingMeter:
        return EmbeddingMeter(model)

    monkeypatch.setattr("heliograph.service.workspaces.build_embedding_model", build)
    paid = Workspaces(Settings.load(store={"data_dir": tmp_path}, embedding={"provider": "openai", "model": "m"}))
    await paid.open()
    await asyncio.sleep(0)
    await paid.close()
    assert model.calls == []


async def test_workspace_is_made_once(workspaces: Workspaces) -> None:
    await workspaces.create("research")
    with pytest.raises(ConflictError, match="research"):
        await workspaces.create("research")
    assert await workspaces.names() == ["default", "research"]


async def test_unknown_workspace_is_not_made_by_looking(workspaces: Workspaces) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        async with workspaces.use("nowhere"):
            pass
    assert await workspaces.names() == ["default"]


@pytest.mark.parametrize("name", ["../x", ".service", "a/b", "a\nb", "x" * 65, "a\x00b", " ", "a b"])
async def test_names_that_are_none_are_refused(workspaces: Workspaces, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        async with workspaces.use(name, creates=True):
            pass


async def test_names_too_alike_are_refused(workspaces: Workspaces) -> None:
    await workspaces.create("Research")
    with pytest.raises(ConflictError, match="too like"):
        await workspaces.create("research")
    with pytest.raises(NotFoundError):
        async with workspaces.use("research"):
            pass


async def test_use_within_use_goes_on(workspaces: Workspaces) -> None:
    async with workspaces.use() as outer, workspaces.use() as inner:
        assert outer is inner


async def test_removal_waits_for_users_and_lets_none_in(workspaces: Workspaces) -> None:
    await workspaces.create("research")
    async with workspaces.use("research") as engine:
        removal = asyncio.create_task(workspaces.remove("research"))
        await asyncio.sleep(0.05)
        with pytest.raises(NotFoundError, match="being removed"):
            async with workspaces.use("research", creates=True):
                pass
        with pytest.raises(ConflictError):
            await workspaces.remove("research")
        await engine.insert("Hester kept the light.", sources=["a.md"])
        assert not removal.done()
    await removal
    assert await workspaces.names() == ["default"]
    async with workspaces.use("research", creates=True) as engine:
        assert (await engine.stats()).chunks == 0


async def test_steps_come_before_removal(workspaces: Workspaces) -> None:
    seen: list[str] = []

    async def step(name: str) -> None:
        seen.append(name)

    workspaces.call_before_removal(step)
    await workspaces.create("research")
    await workspaces.remove("research")
    assert seen == ["research"]


async def test_default_workspace_stays(workspaces: Workspaces) -> None:
    with pytest.raises(ConflictError, match="default"):
        await workspaces.remove("default")


async def test_workspace_made_again_by_another_process_is_opened_again(tmp_path: Path) -> None:
    one, other = make(tmp_path), make(tmp_path)
    await one.open()
    await other.open()
    await one.create("research")
    async with other.use("research") as engine:
        await engine.insert("Hester kept the light.", sources=["a.md"])
    await one.remove("research")
    with pytest.raises(NotFoundError):
        async with other.use("research"):
            pass
    await one.create("research")
    async with other.use("research") as engine:
        assert (await engine.stats()).chunks == 0
        await engine.insert("Tobias wound the clock.", sources=["b.md"])
    async with one.use("research") as engine:
        assert (await engine.stats()).chunks == 1
    await one.close()
    await other.close()


async def test_no_write_into_a_removed_workspace_is_acknowledged(tmp_path: Path) -> None:
    one, other = make(tmp_path), make(tmp_path)
    await one.open()
    await other.open()
    await one.create("research")
    async with other.use("research") as engine:
        await one.remove("research")
        with pytest.raises(StoreUnavailable, match="removed"):
            await engine.insert("Hester kept the light.", sources=["a.md"])
    await one.close()
    await other.close()


async def test_idle_workspaces_beyond_the_limit_are_closed(tmp_path: Path) -> None:
    workspaces = make(tmp_path, max_open_workspaces=2)
    await workspaces.open()
    async with workspaces.use("a", creates=True):
        for name in ("b", "c", "d", "b", "c"):
            async with workspaces.use(name, creates=True) as engine:
                await engine.stats()
            assert workspaces.open_count <= 2
    await workspaces.close()
    with pytest.raises(StoreUnavailable):
        async with workspaces.use("a"):
            pass


async def test_removals_that_begin_together_are_one(workspaces: Workspaces) -> None:
    """All look for the workspace before any begins; the folder must not vanish under who made it again."""
    await workspaces.create("gone")
    outcomes = await asyncio.gather(*(workspaces.remove("gone") for _ in range(4)), return_exceptions=True)
    refused = [outcome for outcome in outcomes if outcome is not None]
    assert len(refused) == 3
    assert all(isinstance(outcome, (ConflictError, NotFoundError)) for outcome in refused)


async def test_removal_waits_for_an_engine_that_is_being_closed_as_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_close = asyncio.Event()
    close, drop, steps = AsyncHeliograph.close, drop_workspace, list[str]()

    async def close_late(engine: AsyncHeliograph) -> None:
        await may_close.wait()
        await close(engine)
        steps.append(f"closed {engine.settings.store.workspace}")

    async def drop_noted(store: StoreSettings) -> None:
        steps.append(f"dropped {store.workspace}")
        await drop(store)

    async def let_close(_: str) -> None:
        may_close.set()

    monkeypatch.setattr(AsyncHeliograph, "close", close_late)
    monkeypatch.setattr("heliograph.service.workspaces.drop_workspace", drop_noted)
    workspaces = make(tmp_path, max_open_workspaces=1)
    await workspaces.open()
    workspaces.call_before_removal(let_close)
    for name in ("a", "b"):
        await workspaces.create(name)
    await workspaces.remove("a")
    await workspaces.close()
    assert steps.index("closed a") < steps.index("dropped a")


async def test_many_open_and_remove_at_once(workspaces: Workspaces) -> None:
    outcomes: list[str] = []

    async def once(number: int) -> None:
        try:
            if number % 4 == 3:
                await workspaces.remove("busy")
                outcomes.append("removed")
            else:
                async with workspaces.use("busy", creates=True) as engine:
                    await engine.stats()
                outcomes.append("used")
        except (NotFoundError, ConflictError):
            outcomes.append("refused")

    await workspaces.create("busy")
    await asyncio.gather(*(once(number) for number in range(40)))
    assert len(outcomes) == 40
    assert "removed" in outcomes
    async with workspaces.use("busy", creates=True) as engine:
        assert (await engine.stats()).chunks == 0
