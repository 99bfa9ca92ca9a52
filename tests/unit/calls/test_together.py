from __future__ import annotations

import asyncio

import pytest

from heliograph.calls.tasks import run_together
from heliograph.errors import StoreUnavailable


async def _after(event: asyncio.Event, value: int) -> int:
    await event.wait()
    return value


async def test_calls_run_at_the_same_time_and_keep_their_order() -> None:
    first, second = asyncio.Event(), asyncio.Event()

    async def opens() -> int:
        first.set()
        second.set()
        return 3

    assert await run_together(_after(second, 1), _after(first, 2), opens()) == (1, 2, 3)
    assert await run_together() == ()


async def test_first_failure_is_raised_alone_and_cancels_the_rest() -> None:
    waiting = asyncio.create_task(asyncio.Event().wait())

    async def waits() -> None:
        await waiting

    async def fails() -> None:
        raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable, match="gone"):
        await run_together(waits(), fails())
    assert waiting.cancelled()
