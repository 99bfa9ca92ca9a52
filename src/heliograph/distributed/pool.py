"""The workers of one pipeline, on the side of the store: started when needed, given tasks, replaced when lost.

Workers' notices are handled here: progress is passed on, costs are counted, and replies of chat models are stored
before a worker continues, so that no reply is paid for twice. A task whose worker is lost goes to another one, alone;
after a few attempts it fails with an `IngestError`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import heliograph.distributed.messages as messages
from heliograph.chat.base import ChatMeter
from heliograph.errors import ClusterUnavailable, HeliographError, IngestError
from heliograph.ingest.intake import OUTAGES
from heliograph.ingest.reading import ChunkProgress
from heliograph.observing import OBSERVER, ModelCalls
from heliograph.settings import RaySettings
from heliograph.stores.base import ReplyCache

_log = logging.getLogger(__name__)


class WatchedDocument:
    """Passes the progress of one document on, each chunk once, however often the document is restarted."""

    def __init__(self, progress: ChunkProgress) -> None:
        self._progress = progress
        self._expected: int | None = None
        self._told = 0
        self._read = 0

    def begin(self, count: int) -> None:
        """Record that reading the document starts, from its first chunk on."""
        self._read = 0
        if self._expected is None:
            self._expected = count
            self._progress.begin_chunks(count)

    def read_one(self) -> None:
        """Record that one more chunk was read."""
        self._read += 1
        if self._told < self._read <= (self._expected or 0):
            self._told += 1
            self._progress.finish_chunk()

    def finish(self, count: int) -> None:
        """Record that all chunks were read, whatever was reported before."""
        if self._expected is None:
            self.begin(count)
        for _ in range(self._told, count):
            self._told += 1
            self._progress.finish_chunk()


class Coordinator:
    """Handles notices; used from one event loop."""

    def __init__(self, replies: ReplyCache | None, meter: ChatMeter) -> None:
        self._replies = replies
        self._meter = meter
        self._watched: dict[int, WatchedDocument] = {}

    @contextmanager
    def watching(self, number: int, progress: ChunkProgress) -> Generator[WatchedDocument]:
        """Pass the progress of a document on within the block, and yield its record."""
        watch = self._watched[number] = WatchedDocument(progress)
        try:
            yield watch
        finally:
            del self._watched[number]

    async def take(self, notices: Iterable[messages.Notice]) -> list[messages.NoticeAnswer]:
        """Handle notices, and return the answers to those that ask."""
        questions: list[messages.ReplyQuestion] = []
        for notice in notices:
            if isinstance(notice, messages.ReplyQuestion):
                questions.append(notice)
                continue
            try:
                match notice:
                    case messages.ChunksBegun(number, count):
                        if watch := self._watched.get(number):
                            watch.begin(count)
                    case messages.ChunkRead(number):
                        if watch := self._watched.get(number):
                            watch.read_one()
                    case messages.CallsCounted(purpose, count):
                        self._meter.count(purpose, count)
                    case messages.TextsEmbedded(usage):
                        OBSERVER.get().tell_model_calls(ModelCalls("embedding", "document", calls=1, usage=usage))
            except Exception:  # noqa: BLE001 (news that cannot be told on must not leave questions unanswered)
                _log.exception("what a worker told cannot be told on: %s", type(notice).__name__)
        return await asyncio.gather(*map(self._answer, questions))

    async def _answer(self, question: messages.ReplyQuestion) -> messages.NoticeAnswer:
        """Return an answer, even on errors: the worker waits for one."""
        try:
            if self._replies is None:
                return messages.NoticeAnswer(question.ticket)
            if question.reply is None:
                return messages.NoticeAnswer(question.ticket, await self._replies.get_reply(question.key))
            await self._replies.put_reply(question.reply)
        except HeliographError as error:
            return messages.NoticeAnswer(question.ticket, error=error)
        except Exception as error:  # noqa: BLE001 (nobody else would hear of it)
            _log.exception("a worker's question cannot be answered")
            told = f"{type(error).__name__}: {error}"
            failure = HeliographError(f"kept replies cannot be used ({told}), which is a defect; please report it")
            return messages.NoticeAnswer(question.ticket, error=failure)
        return messages.NoticeAnswer(question.ticket)


# Concurrent embeddings per worker that a commit waits for: one runs while the next is on its way.
_EMBEDDINGS_PER_WORKER = 2
# How long a worker may take to close its models; then it is killed.
_CLOSE_SECONDS = 2.0
# Workers that may be lost in a row without a finished task, per worker and in addition, before no more are started.
_LOSSES_PER_WORKER = 10
_LOSSES_ANYWAY = 20
# Delay before starting one again for which there was no room.
_REST_SECONDS = 30.0


_KNOWN = (HeliographError, messages.WorkerLostError, TimeoutError)


class TaskKind(StrEnum):
    """Kinds of tasks; each has its own slots, since documents can only be finished if embeddings go on."""

    READ = "read"
    EMBED = "embed"


@dataclass(eq=False, slots=True)
class _Member:
    """One worker and its load."""

    worker: messages.Worker
    under_way: dict[TaskKind, int] = field(default_factory=lambda: dict.fromkeys(TaskKind, 0))
    is_reserved: bool = False
    attending: asyncio.Task[None] | None = None

    @property
    def load(self) -> int:
        return sum(self.under_way.values())


class WorkerPool:
    """Runs tasks on workers; used from one event loop."""

    def __init__(
        self, launcher: messages.Launcher, setup: messages.WorkerSetup, settings: RaySettings, coordinator: Coordinator
    ) -> None:
        """Store the parts; start no worker yet."""
        self._launcher = launcher
        self._setup = setup
        self._settings = settings
        self._coordinator = coordinator
        self._places = {TaskKind.READ: settings.documents_per_worker, TaskKind.EMBED: _EMBEDDINGS_PER_WORKER}
        self._members: list[_Member] = []
        self._recruiting: set[asyncio.Task[None]] = set()
        self._resting: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._failure: HeliographError | None = None
        self._size = 0
        self._losses = 0
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        """Whether there are workers now."""
        return bool(self._members)

    async def run(self, what: str, kind: TaskKind, method: str, *arguments: object, number: int | None = None) -> Any:
        """Return the result of a method of a worker, from its `WorkEnd`.

        `what` names the subject of the task in messages. The worker knows it by `number`; there it is cancelled when
        the caller is.

        Raises:
            IngestError: The task's worker was lost, more often than is retried.
            ClusterUnavailable: There is no worker and none can be started.
            HeliographError: Errors of the method itself.
        """
        tries = self._settings.max_retries + 1
        for attempt in range(tries):
            try:
                async with self._place(kind, alone=attempt > 0) as member:
                    try:
                        outcome: messages.WorkEnd = await member.worker.call(method, *arguments)
                    except asyncio.CancelledError:
                        if number is not None:
                            member.worker.tell("give_up", number)
                        raise
                    except messages.WorkerLostError:
                        await self._replace(member)
                        raise
            except messages.WorkerLostError as error:
                _log.warning("the worker with %s was lost (try %d of %d): %s", what, attempt + 1, tries, error)
                last = error
                continue
            self._losses = 0
            await self._coordinator.take(outcome.notices)
            if outcome.error is not None:
                raise outcome.error
            return outcome.value
        raise IngestError(
            f"{what} ended the worker that was at it {tries} times in a row ({last}); it may need more memory than "  # pyright: ignore[reportPossiblyUnboundVariable]
            "there is, or harm what reads it; take it in without ray to see more, or raise ray.max_retries"
        )

    async def close(self) -> None:
        """End all workers and release the cluster; calls that wait for a worker raise `ClusterUnavailable`."""
        self._is_closed = True
        if coming := self._recruiting | self._resting:
            for task in coming:
                task.cancel()
            await asyncio.wait(coming)

        async def close_one(worker: messages.Worker) -> None:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await worker.call("close")
            except (messages.WorkerLostError, HeliographError, TimeoutError) as error:
                _log.debug("a worker is ended without its own doing: %s", error or type(error).__name__)
            except Exception:  # noqa: BLE001 (a defect in one must not keep the others, and the cluster, open)
                _log.exception("a worker did not close")

        await asyncio.gather(*(close_one(member.worker) for member in self._members))
        for member in list(self._members):
            await self._dismiss(member)
        await self._notify()
        await self._launcher.close()

    @asynccontextmanager
    async def _place(self, kind: TaskKind, *, alone: bool) -> AsyncGenerator[_Member]:
        """Wait for a worker with a free slot of a kind, or for one without other tasks."""
        async with self._opening:
            if not (self._members or self._recruiting or self._is_closed):
                self._size, self._losses, self._failure = await self._launcher.open(), 0, None
                for _ in range(self._size):
                    self._recruit()
        async with self._changed:
            member = await self._find(kind, alone=alone)
            member.under_way[kind] += 1
        try:
            if alone:
                async with self._changed:
                    # Lost workers are found by calling them.
                    await self._changed.wait_for(lambda: member.load == 1 or member not in self._members)
            yield member
        finally:
            member.under_way[kind] -= 1
            member.is_reserved = member.is_reserved and not alone
            await asyncio.shield(self._notify())

    async def _find(self, kind: TaskKind, *, alone: bool) -> _Member:
        while True:
            free = [item for item in self._members if not item.is_reserved]
            if not alone:
                free = [item for item in free if item.under_way[kind] < self._places[kind]]
            if free:
                member = min(free, key=lambda item: item.load)
                member.is_reserved = alone
                return member
            if self._is_closed:
                raise ClusterUnavailable("the workers were ended while a document waited for one; open them again")
            if not self._members and not self._recruiting:
                raise self._failure or ClusterUnavailable("all workers are lost and none could be started again")
            await self._changed.wait()

    def _recruit(self) -> None:
        task = asyncio.create_task(self._start_one())
        self._recruiting.add(task)
        task.add_done_callback(self._recruiting.discard)

    async def _start_one(self) -> None:
        worker: messages.Worker | None = None
        try:
            async with asyncio.timeout(self._settings.start_timeout_seconds):
                worker = await self._launcher.start(self._setup)
                await _open(worker)
        except Exception as error:  # noqa: BLE001 (nobody awaits this, and those who wait for a worker are told)
            self._failure = self._start_failure(error)
            # Log a defect with its traceback.
            _log.warning(
                "a worker could not be started: %s",
                error or type(error).__name__,
                exc_info=None if isinstance(error, _KNOWN) else error,
            )
            if worker is not None:
                worker.kill()
            if isinstance(error, messages.WorkerLostError | TimeoutError):
                task = asyncio.create_task(self._rest())
                self._resting.add(task)
                task.add_done_callback(self._resting.discard)
        else:
            member = _Member(worker)
            member.attending = asyncio.create_task(self._attend(member))
            self._members.append(member)
        finally:
            # Free its slot among the starting workers before others look.
            current = asyncio.current_task()
            if current is not None:
                self._recruiting.discard(current)
            await self._notify()

    async def _rest(self) -> None:
        await asyncio.sleep(_REST_SECONDS)
        # Without any worker, the next task starts over.
        if self._members and len(self._members) + len(self._recruiting) < self._size:
            self._recruit()

    def _start_failure(self, error: Exception) -> HeliographError:
        if isinstance(error, HeliographError):
            # It concerns no document, so it must not make one fail.
            return error if isinstance(error, OUTAGES) else ClusterUnavailable(f"no worker can be started: {error}")
        if isinstance(error, TimeoutError):
            return ClusterUnavailable(
                f"no worker could be started within {self._settings.start_timeout_seconds:g} s; see that the cluster "
                "has a free core for each (ray.workers), or raise ray.start_timeout_seconds"
            )
        if isinstance(error, messages.WorkerLostError):
            return ClusterUnavailable(
                f"a worker ended while it was started ({error}); see that heliograph {self._setup.version} and what it "
                "needs are installed on every machine of the cluster"
            )
        return ClusterUnavailable(
            f"no worker can be started ({type(error).__name__}: {error}), which is a defect; the log has more, please "
            "report it"
        )

    async def _attend(self, member: _Member) -> None:
        """Handle the messages of a worker for as long as it lives."""
        answers: list[messages.NoticeAnswer] = []
        try:
            while True:
                answers = await self._coordinator.take(await member.worker.call("attend", answers))
        except (messages.WorkerLostError, ClusterUnavailable) as error:
            _log.debug("a worker is not attended any more: %s", error)
        except Exception:  # noqa: BLE001 (nobody awaits this)
            # Unattended it would wait for answers for ever, and so would its callers.
            _log.exception("a worker cannot be attended, which is a defect; another takes its place")
        await self._replace(member)

    async def _replace(self, member: _Member) -> None:
        """Dismiss a lost worker and start another one, once."""
        if self._is_closed or member not in self._members:
            return
        self._losses += 1
        await self._dismiss(member)
        if self._losses <= _LOSSES_ANYWAY + _LOSSES_PER_WORKER * self._size:
            self._recruit()
        else:
            self._failure = ClusterUnavailable(
                f"{self._losses} workers in a row were lost before any was done with a task; see their logs, and that "
                "the machines of the cluster have memory enough"
            )
        await self._notify()

    async def _dismiss(self, member: _Member) -> None:
        self._members.remove(member)
        attending, member.attending = member.attending, None
        member.worker.kill()
        if attending is not None and attending is not asyncio.current_task():
            attending.cancel()
            await asyncio.wait([attending])

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def _open(worker: messages.Worker) -> None:
    outcome: messages.WorkEnd = await worker.call("open")
    if outcome.error is not None:
        raise outcome.error
