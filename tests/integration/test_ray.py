"""Documents read on a real Ray cluster on loopback; skipped where Ray is not installed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Generator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from heliograph import AsyncHeliograph, Settings
from heliograph.chat.base import ChatReply, ChatRequest
from heliograph.distributed.messages import WorkerLostError
from heliograph.distributed.ray_cluster import RayLauncher, translate
from heliograph.errors import CancelledIngestError, ClusterUnavailable
from heliograph.ingest.models import Outcome, Progress
from heliograph.models import DocumentStatus
from heliograph.settings import RaySettings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

from ..unit.ingest.world import snapshot

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed; pip install 'heliograph[ray]'"),
]

REPLY = """{"entities": [{"name": "Hester Tarrant", "type": "person", "description": "Keeps the light."},
{"name": "Gannet Head", "type": "location", "description": "A light."}], "relationships":
[{"source": "Hester Tarrant", "target": "Gannet Head", "keywords": "keeping", "description": "She keeps it."}]}"""
NAMES = ("Hester Tarrant", "Tobias Fenn", "Nell Tarrant", "Gannet Head", "Carrow Quay")


@pytest.fixture(scope="module")
def cluster() -> Generator[None]:
    """One cluster for all tests here: engines join what their process is connected to."""
    launcher = RayLauncher(RaySettings(workers=2, start_timeout_seconds=300))
    asyncio.run(launcher.open())
    yield
    asyncio.run(launcher.close())


def write_files(folder: Path, count: int) -> list[str]:
    paths = [folder / f"note{number}.html" for number in range(count)]
    for number, path in enumerate(paths):
        said = "".join(
            f"<h2>Part {part}</h2><p>{NAMES[(number + part) % 5]} met {NAMES[part % 5]} on day {number}.</p>"
            for part in range(4)
        )
        path.write_text(f"<h1>Note {number}</h1>{said}", "utf-8")
    return list(map(str, paths))


def opened(folder: Path, engine: str, **given: Any) -> AsyncHeliograph:
    settings = Settings.load(ray={"workers": 2, "start_timeout_seconds": 300})
    given.setdefault("embedding", FakeEmbeddingModel(16, record=False))
    return AsyncHeliograph(folder, settings=settings, engine=engine, **given)


async def test_a_cluster_that_is_not_there_is_told_of_at_once() -> None:
    with pytest.raises(ClusterUnavailable, match=r"at '127.0.0.1:9' cannot be reached .*ray status"):
        await RayLauncher(RaySettings(address="127.0.0.1:9")).open()


async def test_every_exception_of_ray_is_translated() -> None:
    exceptions = import_module("ray.exceptions")
    kinds = [kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 20
    for kind in kinds:
        if issubclass(kind, exceptions.RayError) and not issubclass(kind, exceptions.RayTaskError):
            said = type(kind.__name__, (kind,), {"__init__": lambda _: None, "__str__": lambda _: "said so"})()
            assert isinstance(translate(said), ClusterUnavailable | WorkerLostError), kind
    assert isinstance(translate(exceptions.WorkerCrashedError()), WorkerLostError)
    assert isinstance(translate(exceptions.RaySystemError("it is gone")), ClusterUnavailable)


@pytest.mark.usefixtures("cluster")
async def test_ray_gives_what_one_process_gives(tmp_path: Path) -> None:
    files = write_files(tmp_path, 6)
    states: list[Any] = []
    for engine in ("ray", "local"):
        async with opened(tmp_path / engine, engine) as kb:
            report = await kb.insert_files(files)
            assert {item.outcome for item in report.results} == {Outcome.PROCESSED}
            states.append(await snapshot(kb.store))
    assert states[0] == states[1]


@pytest.mark.usefixtures("cluster")
async def test_a_run_goes_on_when_a_worker_is_killed(tmp_path: Path) -> None:
    chat = _RecordingChatModel(tmp_path / "calls", seconds=0.1)
    killed: list[int] = []

    def watch(progress: Progress) -> None:
        if progress.documents_done and not killed:
            killed.append(chat.calls()[-1])
            os.kill(killed[0], signal.SIGKILL)

    async with opened(tmp_path / "kb", "ray", chat=chat) as kb:
        report = await kb.insert_files(write_files(tmp_path, 8), progress=watch)
        assert killed
        assert {item.outcome for item in report.results} == {Outcome.PROCESSED}
        kept = len(await kb.store.replies.list_replies("", 1_000))
        assert kb.usage().total.calls >= kept
    # What was under way in the killed process is asked again, and nothing else.
    assert kept <= len(chat.calls()) <= kept + 4


@pytest.mark.usefixtures("cluster")
async def test_a_cancelled_run_is_resumed_and_pays_for_no_reply_twice(tmp_path: Path) -> None:
    chat = _RecordingChatModel(tmp_path / "calls", seconds=0.3)
    async with opened(tmp_path / "kb", "ray", chat=chat) as kb:
        run = asyncio.create_task(kb.insert([f"{NAMES[n % 5]} wrote letter {n}." for n in range(12)]))
        await until(lambda: len(chat.calls()) > 6)
        kb.cancel()
        with pytest.raises(CancelledIngestError):
            await run
    async with opened(tmp_path / "kb", "ray", chat=chat) as kb:
        assert (await kb.stats()).documents[DocumentStatus.PENDING] > 0
        kept, paid = len(await kb.store.replies.list_replies("", 1_000)), len(chat.calls())
        assert kept > 0
        report = await kb.resume()
        assert {item.outcome for item in report.results} == {Outcome.PROCESSED}
        assert len(chat.calls()) - paid == len(await kb.store.replies.list_replies("", 1_000)) - kept


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class _RecordingChatModel(FakeChatModel):
    """Writes the process of every call into a file, which workers share."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(REPLY, delay_seconds=seconds)
        self._path = path

    def calls(self) -> list[int]:
        return [int(line) for line in self._path.read_text("utf-8").split()] if self._path.exists() else []

    async def complete(self, request: ChatRequest) -> ChatReply:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        return await super().complete(request)
