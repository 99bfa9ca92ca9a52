"""Whether the service lives, and whether it can serve.

`/health` never fails and asks for nothing, so that whoever watches a process may; who has credentials is told more.
`/ready` opens a store and reads from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import asdict
from typing import TypeVar
from urllib.parse import urlsplit

from fastapi import APIRouter, Request

from heliograph._version import __version__
from heliograph.errors import HeliographError
from heliograph.server.dependencies import CurrentService, ReadEngine, Reader, Workspace
from heliograph.server.openapi import responses
from heliograph.server.routes.auth import API_VERSION
from heliograph.service.jobs.models import JobState
from heliograph.service.principal import Principal
from heliograph.service.service import Service
from heliograph.settings import Settings
from heliograph.wire.service import (
    AlertState,
    Configuration,
    Figures,
    FollowerState,
    Health,
    LatencyFigures,
    ModelFigures,
    Queues,
    Ready,
)

_LOG = logging.getLogger(__name__)

_READ_SECONDS = 1.0

_T = TypeVar("_T")

router = APIRouter(tags=["state"])


@router.get("/health", response_model_exclude_none=True, summary="Whether the service lives")
async def health(request: Request, service: CurrentService, workspace: Workspace) -> Health:
    """Say that the process lives and whether jobs run; with credentials, also how it is configured and how it fares.

    Folders are told only to an admin of all workspaces. Never contains a secret.
    """
    known = Health(
        core_version=__version__,
        api_version=API_VERSION,
        auth_mode="enabled" if service.access.has_accounts else "disabled",
    )
    principal: Principal | None = getattr(request.state, "principal", None)
    may_enter = principal is not None and principal.may_enter(workspace)
    if may_enter or workspace == service.workspaces.default:
        known = known.model_copy(update=await _pipeline(service, workspace))
    if principal is None or not may_enter:
        return known
    alerts, engines = await asyncio.gather(_alerts(service, principal), _soon(service.states.engines(workspace)))
    is_degraded = any(alert.state == "firing" for alert in alerts) or any(item.trouble for item in engines or ())
    details = {
        "configuration": _configuration(service.settings, workspace),
        "queues": _queues(service),
        "condition": "degraded" if is_degraded else "ok",
        "alerts": alerts,
        "engines": None if engines is None else [FollowerState(**asdict(item)) for item in engines],
    }
    if principal.is_operator:
        details |= _folders(service.settings)
    return known.model_copy(update=details)


@router.get("/ready", summary="Whether the service can serve", responses=responses(503))
async def ready(engine: ReadEngine, workspace: Workspace) -> Ready:
    """Read from the store of the workspace, models being open; 503 says what is not there yet."""
    stats = await engine.stats()
    return Ready(workspace=workspace, data_version=stats.data_version)


@router.get("/api/v1/figures", summary="What was asked and spent since the start")
async def figures(principal: Reader, service: CurrentService) -> Figures:
    """Return how long questions took by mode, and what models cost, since the process was started.

    Of the process as a whole, so only for credentials that may enter every workspace; others get empty lists. Times are
    those of the worker that answers, costs those of all workers.
    """
    if principal.workspaces is not None:
        return Figures(latencies=[], models=[])
    spent = await asyncio.to_thread(service.monitoring.metrics.spent)
    return Figures(
        latencies=[LatencyFigures(**asdict(item)) for item in service.monitoring.latencies()],
        models=[
            ModelFigures(
                model=item.model,
                purpose=item.purpose,
                calls=item.calls,
                failures=item.failures,
                input_tokens=item.usage.input_tokens,
                output_tokens=item.usage.output_tokens,
            )
            for item in spent
        ],
    )


async def _soon(reading: Awaitable[_T]) -> _T | None:
    """Return what is read, or None where it fails or takes long: who asks whether the process lives does not wait."""
    try:
        async with asyncio.timeout(_READ_SECONDS):
            return await reading
    except (HeliographError, TimeoutError) as error:
        _LOG.warning("a part of the state cannot be read: %r", error)
        return None


async def _pipeline(service: Service, workspace: str) -> dict[str, bool]:
    """Return whether jobs run or wait; nothing if these cannot be read."""
    state = await _soon(service.jobs.state(workspace, 0))
    if state is None:
        return {}
    is_busy = any(job.state is JobState.RUNNING for job in state.jobs)
    return {"pipeline_busy": is_busy, "pipeline_active": bool(state.counts)}


def _queues(service: Service) -> Queues:
    return Queues(
        queries_running=service.admission.running,
        queries_waiting=service.admission.waiting,
        open_workspaces=service.workspaces.open_count,
    )


async def _alerts(service: Service, principal: Principal) -> list[AlertState]:
    """Return the alerts of the process, with the freshness of what may be entered."""
    freshness = await _soon(service.states.freshness_seconds(principal.may_enter))
    return [AlertState(**asdict(alert)) for alert in service.monitoring.alerts(freshness)]


def _folders(settings: Settings) -> dict[str, str]:
    inputs = settings.server.input_dir
    return {
        "working_directory": str(settings.store.data_dir),
        "input_directory": "" if inputs is None else str(inputs),
    }


def _configuration(settings: Settings, workspace: str) -> Configuration:
    chat, embedding, rerank = settings.chat, settings.embedding, settings.rerank
    has_reranker = bool(rerank.provider or rerank.base_url)
    scheme = settings.store.url.partition(":")[0]
    return Configuration(
        llm_binding="openai" if chat.model else "",
        llm_binding_host=_host(chat.base_url),
        llm_model=chat.model,
        embedding_binding=embedding.provider,
        embedding_binding_host=_host(embedding.base_url),
        embedding_model=embedding.model or embedding.provider,
        rerank_binding=(rerank.provider or "any") if has_reranker else None,
        rerank_binding_host=_host(rerank.base_url) if has_reranker else None,
        rerank_model=rerank.model if has_reranker else None,
        enable_rerank=has_reranker and settings.query.enable_rerank,
        enable_llm_cache=settings.query.cache_answers,
        enable_llm_cache_for_extract=chat.cache,
        workspace=workspace,
        kv_storage=scheme,
        doc_status_storage=scheme,
        graph_storage=scheme,
        vector_storage=scheme,
        max_async=chat.max_concurrency,
        max_parallel_insert=settings.ingest.max_parallel_documents,
        summary_max_tokens=settings.ingest.summary_tokens,
        summary_context_size=settings.ingest.summary_context_tokens,
        summary_language=settings.ingest.language,
        force_llm_summary_on_merge=settings.ingest.summary_fragments,
        cosine_threshold=settings.query.min_score or 0.0,
        min_rerank_score=rerank.min_score,
        related_chunk_number=settings.query.related_chunks,
    )


def _host(url: str) -> str:
    """Return an address without what may be secret in it: name and password, path and query."""
    parts = urlsplit(url)
    if not parts.hostname:
        return ""
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
