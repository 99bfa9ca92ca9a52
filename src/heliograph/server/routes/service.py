"""The service itself: health and metrics, log-in, and its workspaces.

`/health` never fails and needs no credentials, so that any monitor can call it; callers with credentials get more.
`/ready` opens a store and reads from it. `/metrics` shows a workspace to callers who may enter it, and the process to
those who may enter all of them. Credentials that are bound to workspaces see only these.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from fastapi import APIRouter, Form, Path, Request, Response

import heliograph.wire.service as wire
from heliograph._version import __version__
from heliograph.errors import AuthenticationError, ConflictError, HeliographError, InvalidRequestError, NotFoundError
from heliograph.monitoring.monitoring import render_metrics
from heliograph.server.openapi import responses
from heliograph.server.requests import (
    CurrentPrincipal,
    CurrentService,
    ReadEngine,
    Reader,
    Workspace,
    address_of,
    credentials_of,
    find_workspace,
)
from heliograph.service.access import Principal, Role, looks_like_token
from heliograph.service.jobs.models import JobState
from heliograph.service.service import Service
from heliograph.wire.documents import pipeline_response

_LOG = logging.getLogger(__name__)

_READ_SECONDS = 1.0

_T = TypeVar("_T")

router = APIRouter()

# The version of LightRAG's interface that is served.
API_VERSION = "0344"


@router.get("/health", tags=["state"], response_model_exclude_none=True, summary="Whether the service lives")
async def health(request: Request, service: CurrentService, workspace: Workspace) -> wire.Health:
    """Report that the process is alive and whether jobs run; with credentials, also its configuration and state.

    Only an admin of all workspaces gets paths of folders. Never contains a secret.
    """
    known = wire.Health(**_about(service))
    principal: Principal | None = getattr(request.state, "principal", None)
    may_enter = principal is not None and principal.may_enter(workspace)
    if may_enter or workspace == service.workspaces.default:
        state = await _soon(service.jobs.state(workspace, 0))
        if state is not None:
            told = pipeline_response(state)
            pipeline = {
                "pipeline_busy": any(job.state is JobState.RUNNING for job in state.jobs),
                "pipeline_active": told.busy,
                "pipeline_scanning": told.scanning,
                "pipeline_destructive_busy": told.destructive_busy,
                "pipeline_pending_enqueues": told.pending_enqueues,
            }
            known = known.model_copy(update=pipeline)
    if principal is None or not may_enter:
        return known
    # The alerts of the process, with the freshness of the workspaces that the caller may enter.
    states = service.states
    freshness, followers = await asyncio.gather(
        _soon(states.freshness_seconds(principal.may_enter)), _soon(states.followers(workspace))
    )
    alerts = [wire.AlertState(**asdict(alert)) for alert in service.monitoring.alerts(freshness)]
    is_degraded = any(alert.state == "firing" for alert in alerts) or any(trouble for *_, trouble in followers or ())
    details = {
        "configuration": _configuration(service, workspace),
        "queues": wire.Queues(
            queries_running=service.admission.running,
            queries_waiting=service.admission.waiting,
            open_workspaces=service.workspaces.open_count,
        ),
        "server_mode": "uvicorn",
        "workers": service.settings.server.workers,
        "condition": "degraded" if is_degraded else "ok",
        "alerts": alerts,
        "engines": followers
        and [wire.FollowerState(name=name, lag=lag, trouble=trouble) for name, lag, trouble in followers],
    }
    if principal.is_operator:
        inputs = service.settings.server.input_dir
        details |= {
            "working_directory": str(service.settings.store.data_dir),
            "input_directory": "" if inputs is None else str(inputs),
        }
    return known.model_copy(update=details)


@router.get("/ready", tags=["state"], summary="Whether the service can serve", responses=responses(503))
async def ready(engine: ReadEngine, workspace: Workspace) -> wire.Ready:
    """Read from the workspace's store with all models open; 503 says what is not ready yet."""
    stats = await engine.stats()
    return wire.Ready(workspace=workspace, data_version=stats.data_version)


@router.get("/api/v1/figures", tags=["state"], summary="What was asked and spent since the start")
async def figures(principal: Reader, service: CurrentService) -> wire.Figures:
    """Return latencies of questions by mode, and costs of models, since the process was started.

    They concern the process as a whole, so only credentials that may enter every workspace get them; others get empty
    lists. Times are those of the worker that answers, costs those of all workers.
    """
    if principal.workspaces is not None:
        return wire.Figures(latencies=[], models=[])
    spent = await asyncio.to_thread(service.monitoring.spent)
    return wire.Figures(
        latencies=[
            wire.LatencyFigures(mode=mode, count=count, p50=p50, p95=p95, p99=p99)
            for mode, (count, p50, p95, p99) in service.monitoring.latencies().items()
        ],
        models=[wire.ModelFigures.model_validate(item, from_attributes=True) for item in spent],
    )


async def _soon(reading: Awaitable[_T]) -> _T | None:
    """Await a reading and return it, or None if it fails or takes long: a liveness check must not wait."""
    try:
        async with asyncio.timeout(_READ_SECONDS):
            return await reading
    except (HeliographError, TimeoutError) as error:
        _LOG.warning("a part of the state cannot be read: %r", error)
        return None


def _configuration(service: Service, workspace: str) -> wire.Configuration:
    settings = service.settings
    chat, embedding, rerank = settings.chat, settings.embedding, settings.rerank
    has_reranker = bool(rerank.provider or rerank.base_url)
    storages = ("kv", "doc_status", "graph", "vector")
    given: dict[str, Any] = {
        "llm_binding": "openai" if chat.model else "",
        "llm_binding_host": _host(chat.base_url),
        "embedding_binding_host": _host(embedding.base_url),
        "embedding_model": embedding.model or embedding.provider,
        "rerank_binding": (rerank.provider or "any") if has_reranker else None,
        "rerank_binding_host": _host(rerank.base_url) if has_reranker else None,
        "rerank_model": rerank.model if has_reranker else None,
        "enable_rerank": has_reranker and settings.query.enable_rerank,
        "workspace": workspace,
        **{f"{role}_storage": settings.store.url.partition(":")[0] for role in storages},
        "cosine_threshold": service.workspaces.min_cosine,
        # By LightRAG's names, and by the short ones that this service has had.
        "storage_workspaces": {role + ending: workspace for role in storages for ending in ("", "_storage")},
    }
    return wire.Configuration.model_validate(SimpleNamespace(**dict(settings), **given), from_attributes=True)


def _host(url: str) -> str:
    """Return an address without its possibly secret parts: name and password, path and query."""
    parts = urlsplit(url)
    if not parts.hostname:
        return ""
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


# Log-in: log in with a password, verify a token, log out.

_OPEN = "Nobody logs in here; everybody is a guest."
_KEY_ONLY = "Nobody logs in here; a key is needed."
_MAX_NAME = 256
_MAX_PASSWORD = 1024


@router.get("/auth-status", tags=["access"], response_model_exclude_none=True, summary="Whether people log in")
async def auth_status(service: CurrentService) -> wire.AuthStatus:
    """Say whether there are accounts; if there are none, with a guest's token for pages that need one."""
    if service.access.has_accounts:
        return wire.AuthStatus(**_about(service), auth_configured=True)
    guest: dict[str, Any] = {"access_token": service.access.guest_token(), "token_type": "bearer"}
    message = _OPEN if service.access.is_open else _KEY_ONLY
    return wire.AuthStatus(**_about(service), auth_configured=False, **guest, message=message)


@router.post("/login", tags=["access"], summary="Log in", responses=responses(401, 429))
async def log_in(
    request: Request,
    service: CurrentService,
    username: Annotated[str, Form(max_length=_MAX_NAME, description="Name of the account.")],
    password: Annotated[str, Form(max_length=_MAX_PASSWORD, description="Its password.")],
    grant_type: Annotated[str, Form(pattern="^password$", description="Always `password`.")] = "password",  # noqa: ARG001
) -> wire.LoginReply:
    """Return a token for a name and its password; a guest's token where there are no accounts."""
    if service.access.has_accounts:
        token = await service.access.log_in(username, password, address_of(request))
        message = "Login successful"
    else:
        token = service.access.guest_token()
        message = _OPEN if service.access.is_open else _KEY_ONLY
    return wire.LoginReply(**_about(service), access_token=token, message=message)


def _about(service: Service) -> dict[str, Any]:
    """Return the common beginning of replies about the service: its versions, and whether there is a log-in."""
    auth_mode = "enabled" if service.access.has_accounts else "disabled"
    return {"core_version": __version__, "api_version": API_VERSION, "auth_mode": auth_mode}


@router.get("/auth/verify", tags=["access"], summary="Whose credentials these are")
async def verify(principal: CurrentPrincipal) -> wire.VerifyReply:
    """Return the principal of this request's credentials, and its permissions."""
    workspaces = None if principal.workspaces is None else sorted(principal.workspaces)
    return wire.VerifyReply(username=principal.name, role=principal.role.value, workspaces=workspaces)


@router.post("/logout", tags=["access"], summary="Log out", responses=responses(400, 401))
async def log_out(request: Request, service: CurrentService, _: CurrentPrincipal) -> wire.LogoutReply:
    """End the session of the token in `Authorization`, permanently, including every token renewed from it."""
    bearer = credentials_of(request).bearer
    if not looks_like_token(bearer):
        raise InvalidRequestError("only a token can be given back; send it as `Authorization: Bearer`")
    try:
        await service.access.log_out(bearer)
    except AuthenticationError:
        if not service.access.is_open:
            raise
    return wire.LogoutReply(message="logged out")


# Workspaces: list, create, count, delete.

_Name = Annotated[str, Path(pattern=r"^[\w][\w.\-]{0,63}$", description="Name of the workspace.")]


@router.get("/workspaces", tags=["workspaces"], summary="List workspaces")
async def list_workspaces(principal: CurrentPrincipal, service: CurrentService) -> wire.WorkspaceList:
    """Return the workspaces that the credentials may enter, by name."""
    default = service.workspaces.default
    names = [name for name in await service.workspaces.names() if principal.may_enter(name)]
    rows = tuple(wire.WorkspaceRow(name=name, is_default=name == default) for name in names)
    return wire.WorkspaceList(workspaces=rows, default=default)


@router.post("/workspaces", tags=["workspaces"], status_code=201, summary="Make a workspace", responses=responses(409))
async def create_workspace(
    new: wire.NewWorkspace, principal: CurrentPrincipal, service: CurrentService
) -> wire.WorkspaceReply:
    """Create an empty workspace; 409 if there is one of this name."""
    principal.require(Role.ADMIN, new.name)
    await service.workspaces.create(new.name)
    return wire.WorkspaceReply(message="created", name=new.name)


@router.put(
    "/workspaces/{name}",
    tags=["workspaces"],
    summary="Make sure that there is a workspace",
    responses={201: {"model": wire.WorkspaceReply, "description": "It was made."}, **responses(409)},
)
async def ensure_workspace(
    name: _Name, principal: CurrentPrincipal, service: CurrentService, response: Response
) -> wire.WorkspaceReply:
    """Create a workspace if there is none of this name: 201 if it was created, 200 if it existed."""
    principal.require(Role.ADMIN, name)
    try:
        await service.workspaces.create(name)
    except ConflictError:
        if not await service.workspaces.exists(name):
            raise
        return wire.WorkspaceReply(message="was there", name=name)
    response.status_code = 201
    return wire.WorkspaceReply(message="created", name=name)


@router.get("/workspaces/{name}", tags=["workspaces"], summary="Count what a workspace holds", responses=responses(404))
async def workspace_stats(name: _Name, principal: CurrentPrincipal, service: CurrentService) -> wire.WorkspaceStats:
    """Return how many documents, chunks, entities and relations a workspace holds."""
    principal.require(Role.READ, name)
    async with service.workspaces.use(name) as engine:
        stats = await engine.stats()
    documents = {status.value: count for status, count in stats.documents.items() if count}
    return wire.WorkspaceStats.from_records(stats, name=name, documents=documents)


@router.delete("/workspaces/{name}", tags=["workspaces"], summary="Delete a workspace", responses=responses(404, 409))
async def delete_workspace(name: _Name, principal: CurrentPrincipal, service: CurrentService) -> wire.WorkspaceReply:
    """Delete a workspace with all its data, once its requests in progress are done; never the default one."""
    principal.require(Role.ADMIN, name)
    if not await service.workspaces.exists(name):
        raise NotFoundError(f"there is no workspace {name!r}")
    await service.workspaces.remove(name)
    return wire.WorkspaceReply(message="deleted", name=name)


# Metrics for Prometheus.

_EXAMPLE = """# HELP heliograph_doc_count Documents, in any status.
# TYPE heliograph_doc_count gauge
heliograph_doc_count{workspace="default"} 128.0
"""
_SHAPE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The metrics.", "content": {"text/plain": {"example": _EXAMPLE}}}
}


@router.get("/metrics", tags=["state"], response_class=Response, responses=_SHAPE, summary="Metrics for Prometheus")
async def metrics(request: Request, principal: CurrentPrincipal, service: CurrentService) -> Response:
    """Return metrics in Prometheus' text format, or as OpenMetrics if `Accept` asks for it.

    With several workers, any of them returns the sums over all. Credentials that are bound to workspaces get only
    these, and no metrics of the process as a whole.
    """
    # A named workspace that may not be entered is refused, as everywhere; without a name, all visible ones are shown.
    principal.require(Role.READ, find_workspace(request, "") or None)
    states = await service.states.read(principal.may_enter)
    sees_all = principal.workspaces is None
    shown = service.monitoring if sees_all else None
    if shown is not None:
        service.refresh_gauges()
    accept = request.headers.get("Accept", "")
    text, media_type = await asyncio.to_thread(render_metrics, shown, states, accept)
    return Response(text, headers={"Content-Type": media_type})
