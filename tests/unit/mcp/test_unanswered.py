from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from heliograph.mcp.stdio import Reading, Unanswered, Writing

FOREVER = 3_600.0


class Given:
    """A stream that ends after some items, and remembers what is sent."""

    def __init__(self, items: Sequence[SessionMessage | Exception] = ()) -> None:
        self._items = iter(items)
        self.sent: list[SessionMessage] = []

    async def __anext__(self) -> SessionMessage | Exception:
        for item in self._items:
            return item
        raise StopAsyncIteration

    async def send(self, item: SessionMessage) -> None:
        self.sent.append(item)


class Gone(Given):
    async def send(self, item: SessionMessage) -> None:
        raise BrokenPipeError("nobody reads any more")


def request(id_: int | str) -> SessionMessage:
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=id_, method="tools/call"))


def answer(id_: int | str) -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=id_, result={}))


def cancelled(id_: int | str) -> SessionMessage:
    params = {"requestId": id_}
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params))


async def read_all(stream: Reading) -> list[SessionMessage | Exception]:
    return [item async for item in stream]


async def begin(unanswered: Unanswered, *items: SessionMessage | Exception) -> asyncio.Task[object]:
    """Read everything, as far as it goes without answers."""
    reading = asyncio.create_task(read_all(unanswered.reading(Given(items), unanswered.writing(Given()))))
    for _ in range(5):
        await asyncio.sleep(0)
    return reading


async def test_end_comes_at_once_when_nothing_was_asked() -> None:
    note = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"))
    reading = await begin(Unanswered(FOREVER), note, ValueError("garbage"))
    assert reading.done()


async def test_end_waits_for_every_answer() -> None:
    unanswered, stream = Unanswered(FOREVER), Given()
    writing = unanswered.writing(stream)
    reading = await begin(unanswered, request(1), request("1"), request(2))
    await writing.send(answer(1))
    await writing.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/progress")))
    error = {"code": -1, "message": "failed"}
    await writing.send(SessionMessage(JSONRPCError.model_validate({"jsonrpc": "2.0", "id": 2, "error": error})))
    await asyncio.sleep(0)
    assert not reading.done()
    await writing.send(answer("1"))
    await reading
    assert len(stream.sent) == 4


async def test_cancelled_request_waits_for_no_answer() -> None:
    reading = await begin(Unanswered(FOREVER), request(1), cancelled(1), cancelled(7))
    assert reading.done()


async def test_answer_that_nobody_reads_is_not_waited_for() -> None:
    unanswered = Unanswered(FOREVER)
    writing: Writing = unanswered.writing(Gone())
    reading = await begin(unanswered, request(1))
    try:
        await writing.send(answer(1))
    except BrokenPipeError:
        await reading
    assert reading.done()


async def test_patience_has_an_end() -> None:
    await (await begin(Unanswered(0.01), request(1)))
