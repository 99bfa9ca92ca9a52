from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from heliograph.engine import Given
from heliograph.errors import RateLimited, SettingsError, StoreUnavailable
from heliograph.ingest.models import NewDocument
from heliograph.models import DocumentStatus
from heliograph.service.jobs.jobs import Jobs, WorkspaceRunner
from heliograph.service.jobs.models import Job, JobKind, JobRequest, JobState
from heliograph.service.jobs.store import JobStore, Ownership
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

_rest = WorkspaceRunner._rest
TEXT = "The ESP32 speaks MQTT over TLS."


@asynccontextmanager
async def opened(folder: Path, embedding: FakeEmbeddingModel | None = None) -> AsyncGenerator[tuple[Workspaces, Jobs]]:
    settings = Settings.load(store={"data_dir": folder, "write_timeout_seconds": 0.2})
    workspaces = Workspaces(settings, Given(embedding=embedding or FakeEmbeddingModel()))
    await workspaces.open()
    jobs = Jobs(settings, workspaces)
    await jobs.open()
    try:
        yield workspaces, jobs
    finally:
        await jobs.close()
        await workspaces.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def settle(jobs: Jobs, workspace: str = "default") -> None:
    async def is_idle() -> bool:
        return not await jobs.count_unfinished(workspace)

    await until(is_idle)


async def until_asked(model: FakeEmbeddingModel) -> None:
    async def is_asked() -> bool:
        return bool(model.calls)

    await until(is_asked)


async def until_tried(jobs: Jobs) -> Job:
    async def is_tried() -> bool:
        return bool((await jobs.state("default")).jobs[0].attempts)

    await until(is_tried)
    return (await jobs.state("default")).jobs[0]


async def test_start_opens_no_workspace_without_work(tmp_path: Path) -> None:
    async with opened(tmp_path) as (workspaces, _):
        async with workspaces.use("idle", creates=True) as kb:
            await kb.insert(TEXT, sources=["a.md"])
        async with workspaces.use("busy", creates=True) as kb:
            await kb.enqueue([NewDocument(TEXT, "a.md")])
    async with opened(tmp_path) as (workspaces, jobs):

        async def has_looked() -> bool:
            return jobs._looking is not None and jobs._looking.done()

        await until(has_looked)
        assert set(workspaces.open_names) == {"default", "busy"}
        await settle(jobs, "busy")


async def test_documents_that_another_program_left_pending_are_processed_at_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as (workspaces, _), workspaces.use("other", creates=True) as kb:
        await kb.enqueue([NewDocument(TEXT, "a.md")])
    async with opened(tmp_path) as (workspaces, jobs), workspaces.use("other") as kb:

        async def is_processed() -> bool:
            return (await kb.documents()).documents[0].status is DocumentStatus.PROCESSED

        await until(is_processed)
        await settle(jobs, "other")


async def test_close_parks_what_runs_and_the_next_start_goes_on(tmp_path: Path) -> None:
    slow = FakeEmbeddingModel(delay_seconds=60)
    async with opened(tmp_path, slow) as (workspaces, jobs):
        async with workspaces.use() as kb:
            await jobs.enqueue("default", kb, [NewDocument(TEXT, "a.md")], "t1", "me")
        await until_asked(slow)
    async with opened(tmp_path) as (workspaces, jobs):
        await settle(jobs)
        (job,), _ = await jobs.page("default", 0, 10)
        assert (job.state, job.progress.counts) == (JobState.DONE, {"processed": 1})


async def test_another_process_that_ingests_is_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as (workspaces, jobs), workspaces.use() as kb:
        async with kb.store.ingest_lock():
            await jobs.enqueue("default", kb, [NewDocument(TEXT, "a.md")], "t1", "me")
            await until_tried(jobs)
        await settle(jobs)
        assert (await kb.documents()).documents[0].status is DocumentStatus.PROCESSED


async def test_service_that_asks_to_wait_is_given_its_time(tmp_path: Path) -> None:
    embedding = FakeEmbeddingModel()
    embedding.fail_next(RateLimited("too many calls", retry_after_seconds=30.0))
    async with opened(tmp_path, embedding) as (workspaces, jobs):
        async with workspaces.use() as kb:
            await jobs.enqueue("default", kb, [NewDocument(TEXT, "a.md")], "t1", "me")
        job = await until_tried(jobs)
        assert (job.due_at - job.created_at).total_seconds() >= 30
        assert "too many calls" in job.error


@pytest.mark.parametrize("methods", [("take_over",), ("begin", "postpone"), ("tell", "postpone"), ("end", "postpone")])
async def test_what_cannot_be_written_is_tried_again_after_growing_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[str, ...]
) -> None:
    rests: list[float] = []
    failed: list[int] = []

    def fail(*_: object) -> None:
        failed.append(len(rests))
        raise StoreUnavailable("the disk is full")

    async def rest(runner: WorkspaceRunner, seconds: float) -> None:
        rests.append(seconds)
        await _rest(runner, 0.0 if len(rests) < 4 else 3_600.0)

    async def has_rested() -> bool:
        return len(rests) >= 4

    async with opened(tmp_path) as (workspaces, jobs), workspaces.use() as kb:
        for method in methods:
            monkeypatch.setattr(JobStore, method, fail)
        monkeypatch.setattr(WorkspaceRunner, "_rest", rest)
        await jobs.enqueue("default", kb, [NewDocument(TEXT, "a.md")], "t1", "me")
        await until(has_rested)
        await jobs.submit("default", JobRequest(JobKind.PROCESS, "t2"))
        monkeypatch.undo()
    assert rests == [1.0, 2.0, 4.0, 8.0]
    # Every failure was followed by a rest, and closing did not wait for the last.
    assert sorted(set(failed)) == [0, 1, 2, 3]
    async with opened(tmp_path) as (workspaces, jobs), workspaces.use() as kb:
        await settle(jobs)
        assert (await kb.documents()).documents[0].status is DocumentStatus.PROCESSED


async def test_removed_workspace_takes_its_jobs_and_files_along(tmp_path: Path) -> None:
    slow = FakeEmbeddingModel(delay_seconds=60)
    async with opened(tmp_path, slow) as (workspaces, jobs):
        async with workspaces.use("other", creates=True) as kb:
            await jobs.enqueue("other", kb, [NewDocument(TEXT, "a.md")], "t1", "me")
        jobs.input_folder("other").path.mkdir()
        await until_asked(slow)
        async with asyncio.timeout(20):
            await workspaces.remove("other")
        assert not (tmp_path / "other").exists()
        await workspaces.create("other")
        assert await jobs.page("other", 0, 10) == ([], 0)


async def test_jobs_of_one_lane_keep_their_order_and_lanes_do_not_wait_for_one_another(tmp_path: Path) -> None:
    slow = FakeEmbeddingModel(delay_seconds=60)
    async with opened(tmp_path, slow) as (workspaces, jobs), workspaces.use() as kb:
        await jobs.enqueue("default", kb, [NewDocument(TEXT, "a.md")], "t1", "me")
        inputs = jobs.input_folder("default").path
        inputs.mkdir()
        for name in ("b.md", "c.md"):
            (inputs / name).write_text(f"{TEXT} {name}")
            await jobs.submit("default", JobRequest(JobKind.FILES, f"t-{name}", sources=(name,)))

        async def are_read() -> bool:
            return list(await jobs.count_unfinished("default")) == [JobKind.PROCESS]

        await until(are_read)
        read = sorted((await kb.documents()).documents, key=lambda item: item.created_at)
        assert [item.source for item in read] == ["a.md", "b.md", "c.md"]


@pytest.mark.parametrize("name", ["../other", "a/b", "", "\0", "." * 3])
async def test_name_that_is_none_reaches_no_folder(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path / "data") as (_, jobs):
        with pytest.raises(SettingsError):
            jobs.input_folder(name)
        with pytest.raises(SettingsError):
            await jobs.submit(name, JobRequest(JobKind.SCAN, "t"))


def test_only_one_owns_a_workspace_until_it_gives_up(tmp_path: Path) -> None:
    first, second = Ownership(tmp_path / "jobs.lock"), Ownership(tmp_path / "jobs.lock")
    assert first.take()
    assert first.take()
    assert not second.take()
    first.give_up()
    first.give_up()
    assert second.take()
    second.give_up()
