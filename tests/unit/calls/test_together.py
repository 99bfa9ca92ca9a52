from __future__ import annotations

import asyncio

import pytest

from heliograph.calls.tasks import in_thread, run_at_once, run_together
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


def test_calls_run_one_after_the_other_where_no_event_loop_runs() -> None:
    met: list[str] = []

    async def meet(name: str) -> str:
        met.append(name)
        return name

    async def fail() -> str:
        raise ValueError("second")

    assert run_at_once(run_together(meet("a"), meet("b"))) == ("a", "b")
    with pytest.raises(ValueError, match="second"):
        run_at_once(run_together(meet("c"), fail(), meet("d")))
    assert met == ["a", "b", "c"]
    assert run_at_once(in_thread(str.upper, "e")) == "E"


async def test_a_coroutine_that_suspends_cannot_run_at_once() -> None:
    async def wait() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="outside its thread"):
        await asyncio.to_thread(run_at_once, wait())
