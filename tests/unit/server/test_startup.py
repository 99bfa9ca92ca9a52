"""What is said when the service starts, cannot start, or is ended at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI

from heliograph.errors import HeliographError, SchemaMismatch
from heliograph.server.run import PlainStartup


class Lifespan:
    """One run of the lifespan protocol: what was sent, and what was reported."""

    def __init__(self) -> None:
        self.sent: list[dict[str, str]] = []
        self.reports: list[HeliographError | None] = []
        self.is_up = asyncio.Event()

    async def run(self, before: BaseException | None = None) -> None:
        @asynccontextmanager
        async def lifespan(_: FastAPI):
            if before is not None:
                raise before
            yield

        await PlainStartup(FastAPI(lifespan=lifespan), self.reports.append)(
            {"type": "lifespan"}, self._receive, self._send
        )

    async def _receive(self):
        if self.sent:
            await asyncio.Event().wait()
        return {"type": "lifespan.startup"}

    async def _send(self, message):
        self.sent.append(message)
        self.is_up.set()


async def test_known_reason_is_reported_in_place_of_its_traceback() -> None:
    run, error = Lifespan(), SchemaMismatch("the store 'kb' was built\nwith another embedding: reembed it")
    with pytest.raises(SchemaMismatch):
        await run.run(before=error)
    assert run.reports == [error]
    assert run.sent == [{"type": "lifespan.startup.failed", "message": ""}]


async def test_unknown_reason_keeps_its_traceback() -> None:
    run = Lifespan()
    with pytest.raises(ZeroDivisionError):
        await run.run(before=ZeroDivisionError("why"))
    assert run.reports == []
    (message,) = run.sent
    assert "Traceback" in message["message"]
    assert message["message"].rstrip().endswith("ZeroDivisionError: why")


async def test_start_is_reported_and_an_end_at_once_needs_no_traceback() -> None:
    run = Lifespan()
    task = asyncio.create_task(run.run())
    await run.is_up.wait()
    assert run.reports == [None]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [message["type"] for message in run.sent] == ["lifespan.startup.complete", "lifespan.shutdown.failed"]
    assert "Traceback" not in run.sent[-1]["message"]
