"""Live progress: one stream of server-sent events per client.

A stream ends when its client disconnects or the service stops. Another process may be running the jobs, so their state
is read from the store of the workspace, at short intervals while work goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.responses import Response

from heliograph.errors import OverloadedError
from heliograph.server.openapi import responses
from heliograph.server.requests import CurrentService, Drain, Reader, Workspace
from heliograph.server.responses import LineResponse, Write, failure_body
from heliograph.service.service import Service
from heliograph.wire.documents import JobResponse, WorkEvent

router = APIRouter(tags=["state"])

_EVENTS = "text/event-stream"
_BUSY_SECONDS = 0.4
_IDLE_SECONDS = 1.5
# Proxies close connections that are silent for longer.
_SIGN_OF_LIFE_SECONDS = 15.0
# The schema of one event, for a media type that is a sequence of them (OpenAPI 3.2).
_EVENT = {
    "type": "object",
    "properties": {
        "event": {"enum": ["work", "error"]},
        "data": {"type": "string", "description": "A `WorkEvent` as JSON, or a problem."},
    },
    "required": ["event", "data"],
}
_EXAMPLE = 'event: work\ndata: {"documents":{"processed":35},"jobs":[],"latest":null}\n\n'
_MOST_FOLLOWERS = 200
_RETRY_AFTER_SECONDS = 30.0


@router.get(
    "/api/v1/events",
    summary="Follow what is under way",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events: `work` now and whenever something changed, with a `WorkEvent` as its "
            "data; `error` is the last, with a problem.",
            "content": {_EVENTS: {"itemSchema": _EVENT, "example": _EXAMPLE}},
        },
        **responses(404, 429, 503),
    },
)
async def follow_work(_: Reader, workspace: Workspace, service: CurrentService, request: Request) -> Response:
    """Stream the number of documents by status and the unfinished jobs, as server-sent events.

    Refused with 429 when too many clients follow already; `GET /documents/jobs` returns the same when polled.
    """
    drain = cast("Drain", request.app.state.drain)

    async def write_events(write: Write) -> None:
        with _counted(request):
            told, told_at = b"", 0.0
            while True:
                is_last = drain.has_begun
                event = await _read_work(service, workspace)
                data = to_json(event)
                if data != told:
                    write(b"event: work\ndata: " + data + b"\n\n")
                    told, told_at = data, time.monotonic()
                elif time.monotonic() - told_at > _SIGN_OF_LIFE_SECONDS:
                    write(b":\n\n")
                    told_at = time.monotonic()
                if is_last:
                    return
                await asyncio.sleep(_BUSY_SECONDS if event.jobs else _IDLE_SECONDS)

    def fail(error: Exception) -> bytes:
        return b"event: error\ndata: " + to_json(failure_body(request, error)) + b"\n\n"

    return LineResponse(write_events, fail, _EVENTS)


async def _read_work(service: Service, workspace: str) -> WorkEvent:
    async with service.workspaces.use(workspace) as engine:
        stats = await engine.stats()
    state = await service.jobs.state(workspace, 0)
    latest, _ = await service.jobs.page(workspace, 0, 1)
    documents = {status.value: count for status, count in stats.documents.items()}
    return WorkEvent(
        documents=documents,
        jobs=tuple(map(JobResponse.model_validate, state.jobs)),
        latest=JobResponse.model_validate(latest[0]) if latest else None,
    )


@contextmanager
def _counted(request: Request) -> Generator[None]:
    """Count a follower while its stream is open; each costs a few reads a second."""
    state = request.app.state
    followers = getattr(state, "followers", 0)
    if followers >= _MOST_FOLLOWERS:
        told = f"{followers} clients follow already; ask for /documents/jobs now and then"
        raise OverloadedError(told, _RETRY_AFTER_SECONDS)
    state.followers = followers + 1
    try:
        yield
    finally:
        state.followers -= 1
