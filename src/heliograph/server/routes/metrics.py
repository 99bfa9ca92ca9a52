"""Metrics for Prometheus: of each workspace for who may enter it, of the process for who may enter every one."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from heliograph.monitoring.monitoring import render_metrics
from heliograph.server.dependencies import CurrentPrincipal, CurrentService, find_workspace
from heliograph.service.principal import Role

router = APIRouter(tags=["state"])

_EXAMPLE = """# HELP heliograph_doc_count Documents, in any status.
# TYPE heliograph_doc_count gauge
heliograph_doc_count{workspace="default"} 128.0
"""
_SHAPE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The metrics.", "content": {"text/plain": {"example": _EXAMPLE}}}
}


@router.get("/metrics", response_class=Response, responses=_SHAPE, summary="Metrics for Prometheus")
async def metrics(request: Request, principal: CurrentPrincipal, service: CurrentService) -> Response:
    """Return metrics in Prometheus' text format, or as OpenMetrics if `Accept` asks for it.

    Several workers are told of by their sums, whichever of them answers. Credentials that are bound to workspaces are
    shown those alone, and nothing of the process as a whole.
    """
    # One that is named and may not be entered is refused, as everywhere; naming none asks for all there are to see.
    principal.require(Role.READ, find_workspace(request, "") or None)
    states = await service.states.read(principal.may_enter)
    sees_all = principal.workspaces is None
    shown = service.monitoring.metrics if sees_all else None
    if shown is not None:
        service.refresh_gauges()
    accept = request.headers.get("Accept", "")
    text, media_type = await asyncio.to_thread(render_metrics, shown, states, accept)
    return Response(text, headers={"Content-Type": media_type})
