"""One call of a tool, or one look at resources: who asks, in which workspace, what serves it, and its progress."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from heliograph.engine import AsyncHeliograph
from heliograph.ingest.models import Progress
from heliograph.service.access import Access
from heliograph.service.admission import Admission
from heliograph.service.jobs.jobs import Jobs
from heliograph.service.jobs.models import JobKind, JobRequest
from heliograph.service.principal import Principal, Role
from heliograph.service.workspaces import Workspaces

_LOG = logging.getLogger(__name__)

# Progress notifications of one call: what the engine tells between two awaits goes out one after the other.
#
# Nothing is sent to a client that did not ask. A client that reads slowly gets fewer of them, in order and never
# going down, and holds nobody up at the end.

SendProgress = Callable[[float, float | None, str | None], Awaitable[None]]

_MOST_WAITING = 64
_LAST_SECONDS = 1.0


class ProgressSender:
    """Sends how far one call is.

        async with sender.sending():
            await kb.query(question, progress=sender.tell_stage)

    Args:
        send: Sends one notification: progress, total and message; None if the client asked for none.
    """

    def __init__(self, send: SendProgress | None) -> None:
        self._send = send
        self._waiting: deque[tuple[float, float | None, str]] = deque(maxlen=_MOST_WAITING)
        self._news = asyncio.Event()
        self._is_over = False
        self._last = 0.0
        self._last_message = ""

    def tell_stage(self, name: str) -> None:
        """Tell that a stage of a question begins."""
        self._tell(self._last + 1, None, name.replace("_", " "))

    def tell_ingest(self, progress: Progress) -> None:
        """Tell how far documents are, counted in chunks."""
        total = progress.chunks_total
        text = (
            f"{progress.documents_done} of {progress.documents_total} documents, "
            f"{progress.chunks_done} of {total} chunks read"
        )
        self._tell(progress.chunks_done + progress.documents_done, total + progress.documents_total or None, text)

    def tell_count(self, what: str, count: int) -> None:
        """Tell that so many things of a kind were looked at."""
        self._tell(self._last + 1, None, f"{what}: {count:,}")

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """Send within the block; what still waits at its end is sent unless that takes long."""
        if self._send is None:
            yield
            return
        task = asyncio.create_task(self._run(self._send))
        try:
            yield
            self._is_over = True
            self._news.set()
            await asyncio.wait([task], timeout=_LAST_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                _LOG.debug("progress could not be sent: %r", error)

    def _tell(self, progress: float, total: float | None, message: str) -> None:
        if self._send is None or message == self._last_message:
            return
        # The protocol wants it to rise with each notification.
        self._last = max(progress, self._last + 1e-3) if self._last_message else progress
        self._last_message = message
        self._waiting.append((self._last, None if total is None else max(total, self._last), message))
        self._news.set()

    async def _run(self, send: SendProgress) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await send(*self._waiting.popleft())
            if self._is_over:
                return


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and where."""

    principal: Principal
    workspace: str


@dataclass(frozen=True, slots=True)
class Host:
    """The parts of the process that serve calls.

    Attributes:
        workspaces: Lends engines.
        admission: Lets questions through, so many at once.
        jobs: Works in the background; None where nothing does.
        access: Counts questions; None where nobody is asked who he is.
    """

    workspaces: Workspaces
    admission: Admission
    jobs: Jobs | None = None
    access: Access | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, or one look at resources.

    Attributes:
        host: Serves it.
        caller: Who asks, and where.
        progress: Told how far it is.
    """

    host: Host
    caller: Caller
    progress: ProgressSender = field(default_factory=lambda: ProgressSender(None))

    @asynccontextmanager
    async def engine(self, role: Role) -> AsyncGenerator[AsyncHeliograph]:
        """Lend the engine of the workspace to a caller with this role; a writer's own workspace is made if need be.

        Raises:
            PermissionDenied: The role, or the workspace, is not the caller's.
            NotFoundError: There is no such workspace.
            StoreError: It cannot be opened.
        """
        principal, workspace, workspaces = self.caller.principal, self.caller.workspace, self.host.workspaces
        principal.require(role, workspace)
        writes = role.includes(Role.WRITE)
        creates = writes and (principal.may_create(workspace) or workspace == workspaces.default)
        async with workspaces.use(workspace, creates=creates) as engine:
            yield engine

    @asynccontextmanager
    async def question(self) -> AsyncGenerator[AsyncHeliograph]:
        """Lend the engine for a question, once it is the caller's turn.

        Raises:
            OverloadedError: The caller asks too often, or too many wait.
            PermissionDenied: As in `engine`.
        """
        principal = self.caller.principal
        async with self.engine(Role.READ) as engine:
            if self.host.access is not None:
                await self.host.access.count_query(principal)
            async with self.host.admission.turn(principal.client):
                yield engine

    async def check_room(self, engine: AsyncHeliograph) -> None:
        """Check that documents may be taken in now.

        Raises:
            ConflictError: All documents are being deleted.
            OverloadedError: Too many documents wait.
        """
        if self.host.jobs is not None:
            await self.host.jobs.check_room(self.caller.workspace, engine)

    async def process_later(self, track_id: str) -> bool:
        """Have documents that wait processed in the background; False where nothing works there."""
        if self.host.jobs is None:
            return False
        request = JobRequest(JobKind.PROCESS, track_id, self.caller.principal.name)
        await self.host.jobs.submit(self.caller.workspace, request)
        return True
