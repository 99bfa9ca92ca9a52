"""Workers in this process, behind the same contract as those of a cluster: they can be lost, held back and counted.

What passes is pickled both ways, as it is on a cluster.
"""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from heliograph.chat.base import ChatMeter, ChatModel, wrap_chat_model
from heliograph.distributed.cluster import ClusterParts, open_cluster
from heliograph.distributed.messages import GivenModels, Launcher, Worker, WorkerLostError, WorkerSetup
from heliograph.distributed.worker import ReadingWorker
from heliograph.errors import HeliographError
from heliograph.extraction.base import Extractor, choose_extractor
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.settings import Settings
from heliograph.stores.base import Store
from heliograph.testing.fakes import FakeEmbeddingModel

KILLER = "this text ends its reader"


class Here(Worker):
    """A worker in this process; one that reads `KILLER` is lost, with all that is under way in it."""

    def __init__(self, setup: WorkerSetup, calls: Counter[str]) -> None:
        self._inner = ReadingWorker(setup)
        self._calls = calls
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._told: set[asyncio.Task[Any]] = set()
        self.under_way: Counter[str] = Counter()
        self.most_under_way: Counter[str] = Counter()

    async def call(self, method: str, *arguments: object) -> Any:
        self._calls[method] += 1
        self.under_way[method] += 1
        self.most_under_way[method] = max(self.most_under_way[method], self.under_way[method])
        work = asyncio.ensure_future(getattr(self._inner, method)(*pickle.loads(pickle.dumps(arguments))))
        try:
            if method == "read" and KILLER in str(arguments):
                self.kill()
            await asyncio.wait([work, self._gone], return_when=asyncio.FIRST_COMPLETED)
            if self._gone.done():
                raise WorkerLostError("its process has ended")
            return pickle.loads(pickle.dumps(work.result()))
        finally:
            work.cancel()
            self.under_way[method] -= 1

    def tell(self, method: str, *arguments: object) -> None:
        task = asyncio.ensure_future(getattr(self._inner, method)(*arguments))
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    def kill(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)


class HereLauncher(Launcher):
    """Starts workers in this process.

    Attributes:
        started: All workers, lost ones included.
        calls: Calls per method.
        failures: Raised by `start`, one each.
        opened: How often the cluster was reached.
    """

    def __init__(self, workers: int = 2) -> None:
        self._workers = workers
        self.started: list[Here] = []
        self.calls: Counter[str] = Counter()
        self.failures: list[HeliographError | WorkerLostError] = []
        self.opened = 0
        self.is_closed = False

    async def open(self) -> int:
        self.opened += 1
        return self._workers

    async def start(self, setup: WorkerSetup) -> Worker:
        if self.failures:
            raise self.failures.pop(0)
        worker = Here(pickle.loads(pickle.dumps(setup)), self.calls)
        self.started.append(worker)
        return worker

    async def close(self) -> None:
        self.is_closed = True


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens elsewhere."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def open_pipeline(
    store: Store,
    launcher: Launcher,
    stack: AsyncExitStack,
    *,
    chat: ChatModel | None = None,
    extractor: Extractor | None = None,
    meter: ChatMeter | None = None,
    **sections: Any,
) -> tuple[IngestPipeline, ClusterParts]:
    """Return a pipeline whose documents are read by workers, as `heliograph.engine` makes it."""
    settings = Settings.load(**{"ray": {"workers": 2, "start_timeout_seconds": 5}, **sections})
    embedding, meter = FakeEmbeddingModel(16, record=False), meter or ChatMeter()
    given = GivenModels(chat, embedding, extractor)
    cluster = open_cluster(settings, given, embedding, store.replies, meter, stack, launcher)
    wrapped = None if chat is None else wrap_chat_model(chat, settings.chat, store.replies, meter)
    pipeline = IngestPipeline(
        *(store, cluster.embedding, extractor or choose_extractor(settings.ingest, wrapped), wrapped, cluster.ingest),
        reader=cluster.reader,
        sources_at_once=cluster.sources_at_once,
    )
    return pipeline, cluster
