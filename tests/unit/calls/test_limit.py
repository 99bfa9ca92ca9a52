"""The limiter: never too many, never too few, in the right order."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.calls.limit import PriorityLimiter


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Users:
    """Tasks that hold a slot until told to leave, and the order in which they came in."""

    def __init__(self, limiter: PriorityLimiter) -> None:
        self.limiter = limiter
        self.entered: list[str] = []
        self.inside = 0
        self.leave: dict[str, asyncio.Event] = {}

    def start(self, name: str, priority: int = 0) -> asyncio.Task[None]:
        self.leave[name] = asyncio.Event()
        return asyncio.create_task(self._use(name, priority))

    async def _use(self, name: str, priority: int) -> None:
        async with self.limiter.slot(priority):
            self.entered.append(name)
            self.inside += 1
            try:
                await self.leave[name].wait()
            finally:
                self.inside -= 1


async def test_limiter_lets_in_as_many_as_it_has_slots() -> None:
    users = Users(PriorityLimiter(2))
    tasks = [users.start(name) for name in "abc"]
    await settle()
    assert users.entered == ["a", "b"]
    for name in "abc":
        users.leave[name].set()
    await asyncio.gather(*tasks)
    assert users.entered == ["a", "b", "c"]


async def test_limiter_lets_lower_numbers_go_first_and_equals_by_arrival() -> None:
    users = Users(PriorityLimiter(1))
    tasks = [users.start("holder")]
    await settle()
    for name, priority in (("index-1", 10), ("query-1", 0), ("index-2", 10), ("query-2", 0)):
        tasks.append(users.start(name, priority))
        await settle()
    for event in users.leave.values():
        event.set()
    await asyncio.gather(*tasks)
    assert users.entered == ["holder", "query-1", "query-2", "index-1", "index-2"]


async def test_limiter_lets_nobody_slip_in_before_those_who_wait() -> None:
    users = Users(PriorityLimiter(1))
    first = users.start("first")
    await settle()
    waiter = users.start("waiter", 10)
    await settle()
    users.leave["first"].set()
    await first
    # The slot is the waiter's already, though it has not run yet.
    late = users.start("late", 10)
    await settle()
    assert users.entered == ["first", "waiter"]
    for event in users.leave.values():
        event.set()
    await asyncio.gather(waiter, late)


async def test_limiter_skips_a_waiter_that_was_cancelled() -> None:
    users = Users(PriorityLimiter(1))
    holder = users.start("holder")
    await settle()
    cancelled, waiter = users.start("cancelled"), users.start("waiter")
    await settle()
    cancelled.cancel()
    users.leave["holder"].set()
    await settle()
    assert users.entered == ["holder", "waiter"]
    users.leave["waiter"].set()
    await asyncio.gather(holder, waiter)


async def test_limiter_passes_on_the_slot_of_one_cancelled_in_its_turn() -> None:
    users = Users(PriorityLimiter(1))
    async with users.limiter.slot(0):
        unlucky, waiter = users.start("unlucky"), users.start("waiter")
        await settle()
    # The slot is handed over, but its new owner has not run yet.
    unlucky.cancel()
    await settle()
    assert users.entered == ["waiter"]
    users.leave["waiter"].set()
    await waiter


async def test_limiter_frees_the_slot_of_a_block_that_raises() -> None:
    limiter = PriorityLimiter(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="inside"):
            async with limiter.slot(0):
                raise ValueError("inside")


@pytest.mark.parametrize("slots", [0, -1])
def test_limiter_refuses_less_than_one_slot(slots: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        PriorityLimiter(slots)


@given(slots=st.integers(1, 4), users=st.integers(1, 30), seed=st.integers(0, 2**32))
async def test_limiter_loses_no_slot_however_callers_come_and_go(slots: int, users: int, seed: int) -> None:
    chance = random.Random(seed)
    limiter = PriorityLimiter(slots)
    inside, most = 0, 0

    async def use(steps_before: int, steps_inside: int, priority: int) -> None:
        nonlocal inside, most
        for _ in range(steps_before):
            await asyncio.sleep(0)
        async with limiter.slot(priority):
            inside += 1
            most = max(most, inside)
            try:
                for _ in range(steps_inside):
                    await asyncio.sleep(0)
            finally:
                inside -= 1

    tasks = [
        asyncio.create_task(use(chance.randrange(6), chance.randrange(6), chance.choice([0, 10]))) for _ in range(users)
    ]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        if chance.random() < 0.3:
            chance.choice(tasks).cancel()
    assert inside == 0
    assert most <= slots

    # All slots are there again: that many can come in at once.
    after = Users(limiter)
    holders = [after.start(str(number)) for number in range(slots + 1)]
    await settle()
    assert after.inside == slots
    for event in after.leave.values():
        event.set()
    await asyncio.gather(*holders)
