"""What a tool or resource works with: who asks, in which workspace, and the parts of the process that serve it.

Engines are lent by `Workspaces` for one call. Whether the caller's role suffices is checked here, before anything is
lent; rates and turns are those of the other faces of the process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from heliograph.engine import AsyncHeliograph
from heliograph.mcp.progress import ProgressSender
from heliograph.service.access.access import Access
from heliograph.service.admission import Admission
from heliograph.service.jobs.jobs import Jobs
from heliograph.service.jobs.models import JobKind, JobRequest
from heliograph.service.principal import Principal, Role
from heliograph.service.workspaces import Workspaces


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
