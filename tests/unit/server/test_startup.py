"""What is said when the service cannot start."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI

from heliograph.errors import SchemaMismatch
from heliograph.server.startup import PlainStartup


async def failure_of(error: Exception) -> str:
    @asynccontextmanager
    async def lifespan(_: FastAPI):
        raise error
        yield

    told = []

    async def receive():
        return {"type": "lifespan.startup"}

    async def send(message):
        told.append(message)

    with pytest.raises(type(error)):
        await PlainStartup(FastAPI(lifespan=lifespan))({"type": "lifespan"}, receive, send)
    (message,) = told
    return message["message"]


async def test_known_reason_is_told_in_its_own_words() -> None:
    told = await failure_of(SchemaMismatch("the store 'kb' was built\nwith another embedding: reembed it"))
    assert told == "cannot start: the store 'kb' was built\nwith another embedding: reembed it"


async def test_unknown_reason_keeps_its_traceback() -> None:
    told = await failure_of(ZeroDivisionError("why"))
    assert "Traceback" in told
    assert told.rstrip().endswith("ZeroDivisionError: why")
