from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import OverloadedError
from heliograph.service.admission import Admission


class _Callers:
    """Callers that hold their turns until they are told to go."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.order: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str) -> None:
        """Let callers come in order; the client is the first letter of a name."""
        for name in names:
            self.gates[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._ask(name))
            await _settle()

    async def go(self, name: str) -> None:
        self.gates[name].set()
        await self.tasks[name]
        await _settle()

    async def give_up(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.gather(self.tasks[name], return_exceptions=True)
        await _settle()

    async def _ask(self, name: str) -> None:
        async with self.admission.turn(name[0]):
            self.order.append(name)
            await self.gates[name].wait()


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def _finish(callers: _Callers) -> None:
    for gate in callers.gates.values():
        gate.set()
    await asyncio.gather(*callers.tasks.values(), return_exceptions=True)


async def test_admission_lets_so_many_through_at_once() -> None:
    callers = _Callers(Admission(2, 10))
    await callers.come("a1", "a2", "a3")
    assert callers.order == ["a1", "a2"]
    assert (callers.admission.running, callers.admission.waiting) == (2, 1)
    await callers.go("a1")
    assert callers.order == ["a1", "a2", "a3"]
    await _finish(callers)
    assert (callers.admission.running, callers.admission.waiting) == (0, 0)


async def test_admission_refuses_who_is_one_too_many() -> None:
    callers = _Callers(Admission(1, 1))
    await callers.come("a1", "a2", "b1")
    with pytest.raises(OverloadedError, match="1 questions are being answered and 1 wait") as caught:
        await callers.tasks["b1"]
    assert 1 <= caught.value.retry_after_seconds <= 60
    await _finish(callers)


async def test_admission_without_a_queue_refuses_at_once() -> None:
    callers = _Callers(Admission(1, 0))
    await callers.come("a1", "a2")
    with pytest.raises(OverloadedError):
        await callers.tasks["a2"]
    await _finish(callers)


async def test_admission_goes_round_among_clients() -> None:
    callers = _Callers(Admission(1, 10))
    await callers.come("x0", "a1", "a2", "a3", "b1", "c1", "b2")
    for name in ("x0", "a1", "b1", "c1", "a2", "b2", "a3"):
        await callers.go(name)
    assert callers.order == ["x0", "a1", "b1", "c1", "a2", "b2", "a3"]


async def test_admission_skips_who_gave_up() -> None:
    callers = _Callers(Admission(1, 10))
    await callers.come("x0", "a1", "b1")
    await callers.give_up("a1")
    assert callers.admission.waiting == 1
    await callers.go("x0")
    assert callers.order == ["x0", "b1"]
    await _finish(callers)


async def test_admission_passes_on_a_turn_given_up_in_its_very_moment() -> None:
    callers = _Callers(Admission(1, 10))
    await callers.come("x0", "a1", "b1")
    callers.gates["x0"].set()
    await asyncio.sleep(0)
    callers.tasks["a1"].cancel()
    await _settle()
    assert callers.order[-1] == "b1"
    await _finish(callers)
    assert callers.admission.running == 0


async def test_admission_gives_back_the_turn_of_a_question_that_fails() -> None:
    admission = Admission(1, 0)
    with pytest.raises(RuntimeError, match="failed"):
        async with admission.turn("a"):
            raise RuntimeError("failed")
    assert admission.running == 0


async def test_admission_gives_places_of_the_greedy_to_those_with_fewer() -> None:
    callers = _Callers(Admission(1, 4))
    await callers.come("a0", "a1", "a2", "a3", "a4", "b1", "c1", "b2")
    refused = {name for name, task in callers.tasks.items() if task.done() and task.exception()}
    assert refused == {"a4", "a3", "b2"}
    for name in ("a0", "a1", "b1", "c1", "a2"):
        await callers.go(name)
    assert (callers.admission.running, callers.admission.waiting) == (0, 0)


async def test_admission_loses_no_turn_with_who_is_refused_and_gives_up_at_once() -> None:
    callers = _Callers(Admission(1, 2))
    await callers.come("a0", "a1", "a2")
    coming = asyncio.create_task(callers.come("b1"))
    await asyncio.sleep(0)
    callers.tasks["a2"].cancel()
    await coming
    await _settle()
    assert callers.admission.running == 1
    await _finish(callers)
    assert (callers.admission.running, callers.admission.waiting) == (0, 0)


@given(st.lists(st.sampled_from(["come a", "come b", "go", "give up"]), max_size=40), st.integers(1, 3))
def test_admission_never_loses_a_turn(steps: Sequence[str], limit: int) -> None:
    asyncio.run(_play(steps, limit))


async def _play(steps: Sequence[str], limit: int) -> None:
    callers = _Callers(Admission(limit, 5))
    for number, step in enumerate(steps):
        open_ = [name for name, task in callers.tasks.items() if not task.done()]
        if step.startswith("come"):
            await callers.come(f"{step[-1]}{number}")
        elif step == "go" and (held := [name for name in open_ if name in callers.order]):
            await callers.go(held[0])
        elif step == "give up" and open_:
            await callers.give_up(open_[-1])
        admission = callers.admission
        assert admission.running <= limit
        assert admission.waiting == 0 or admission.running == limit
    await _finish(callers)
    assert (callers.admission.running, callers.admission.waiting) == (0, 0)
