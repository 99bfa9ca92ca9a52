"""The small parts that keep tasks apart: locks, the shared entry, and gathering."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from heliograph.calls.tasks import gather_or_cancel
from heliograph.ingest.intake import SharedEntry, WorkLocks


async def test_claim_waits_for_all_its_ids_and_takes_them_together() -> None:
    locks = WorkLocks()
    order: list[str] = []

    async def second() -> None:
        async with locks.claim(["b", "c"]):
            order.append("second")

    async with locks.claim(["a", "b"]) as release:
        waiting = asyncio.create_task(second())
        await asyncio.sleep(0)
        assert locks.is_claimed("a")
        assert not locks.is_claimed("c")
        order.append("first")
        release("a")
        assert not locks.is_claimed("a")
        release("b")
        await waiting
    assert order == ["first", "second"]
    assert not locks.is_claimed("b")


async def test_releasing_late_does_not_take_the_claim_of_another() -> None:
    locks = WorkLocks()
    async with locks.claim(["a"]) as release:
        release("a")
        async with locks.claim(["a"]):
            release("a")
            assert locks.is_claimed("a")


async def test_cancelled_waiter_leaves_locks_alone() -> None:
    locks = WorkLocks()

    async def wait() -> None:
        async with locks.claim(["a"]):
            pass

    async with locks.claim(["a"]):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert locks.is_claimed("a")
    assert not locks.is_claimed("a")


async def test_entry_is_opened_once_and_again_after_a_refusal() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def exclusive() -> AsyncGenerator[None]:
        events.append("in")
        if len(events) == 1:
            raise TimeoutError
        yield
        events.append("out")

    entry = SharedEntry(exclusive)
    with pytest.raises(TimeoutError):
        async with entry.enter():
            pass
    async with entry.enter(), entry.enter():
        assert events == ["in", "in"]
    assert events == ["in", "in", "out"]


async def test_gather_returns_results_in_order() -> None:
    async def after(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    assert await gather_or_cancel(after(seconds) for seconds in (0.002, 0.0, 0.001)) == [0.002, 0.0, 0.001]
    assert await gather_or_cancel(after(seconds) for seconds in ()) == []


async def test_gather_cancels_the_others_when_one_fails() -> None:
    cancelled = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("one")

    with pytest.raises(KeyError, match="one"):
        await gather_or_cancel([wait(), fail()])
    assert cancelled.is_set()


async def test_run_that_starts_while_the_last_one_closes_opens_the_section_anew() -> None:
    is_open = False
    opened = 0
    closing, may_close = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def exclusive() -> AsyncGenerator[None]:
        nonlocal is_open, opened
        assert not is_open
        is_open = True
        opened += 1
        try:
            yield
        finally:
            closing.set()
            await may_close.wait()
            is_open = False

    async def run() -> bool:
        async with entry.enter():
            return is_open

    entry = SharedEntry(exclusive)
    first = asyncio.create_task(run())
    await closing.wait()
    second = asyncio.create_task(run())
    await asyncio.sleep(0)
    may_close.set()
    assert await asyncio.gather(first, second) == [True, True]
    assert (opened, is_open) == (2, False)


async def test_section_is_closed_when_those_who_leave_and_who_wait_are_cancelled_together() -> None:
    is_open = False
    may_open = asyncio.Event()

    @asynccontextmanager
    async def exclusive() -> AsyncGenerator[None]:
        nonlocal is_open
        await may_open.wait()
        is_open = True
        asyncio.get_running_loop().call_soon(cancel)
        try:
            yield
        finally:
            await asyncio.sleep(0)
            is_open = False

    def cancel() -> None:
        for task in runs:
            task.cancel()

    async def run() -> None:
        async with entry.enter():
            pass

    entry = SharedEntry(exclusive)
    runs = [asyncio.create_task(run()) for _ in range(2)]
    await asyncio.sleep(0)
    may_open.set()
    ended = await asyncio.gather(*runs, return_exceptions=True)
    assert all(isinstance(error, asyncio.CancelledError) for error in ended)
    assert not is_open


async def test_failure_to_close_is_raised_by_the_run_that_left() -> None:
    @asynccontextmanager
    async def exclusive() -> AsyncGenerator[None]:
        yield
        raise TimeoutError

    with pytest.raises(TimeoutError):
        async with SharedEntry(exclusive).enter():
            pass
