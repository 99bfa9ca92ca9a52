"""Running several calls concurrently: none outlives its caller, and a single error is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ParamSpec, TypeVar, overload

T = TypeVar("T")


async def gather_or_cancel(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results in order; if one fails or the caller is cancelled, cancel the others first.

    Raises:
        Exception: The first failure, itself and not in a group.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    failed = next((task for task in tasks if not task.cancelled() and task.exception()), None)
    return [failed.result()] if failed else [task.result() for task in tasks]


# Running several calls concurrently, with a single error.

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@overload
async def run_together(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B], /) -> tuple[A, B]: ...
@overload
async def run_together(
    first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B], third: Coroutine[Any, Any, C], /
) -> tuple[A, B, C]: ...
@overload
async def run_together(*calls: Coroutine[Any, Any, T]) -> tuple[T, ...]: ...
async def run_together(*calls: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """Return all results, in order. When a call fails, the others are cancelled and the first error is raised.

    In a thread without an event loop (see `run_at_once`) they run one after the other.
    """
    if len(calls) == 1:
        return (await calls[0],)
    if not has_event_loop():
        left = list(calls)
        try:
            return tuple([await left.pop(0) for _ in calls])
        finally:
            for call in left:
                call.close()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return tuple(task.result() for task in tasks)


# Running coroutines in a thread without an event loop, where none suspends: all data they await is at hand.

P = ParamSpec("P")


def has_event_loop() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, since all that it reads is at hand in this thread.

    Raises:
        RuntimeError: It suspended; it is closed.
    """
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError("a coroutine waited for something outside its thread")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a slow function in a thread; in a thread without an event loop, run it directly."""
    return await asyncio.to_thread(function, *args, **kwargs) if has_event_loop() else function(*args, **kwargs)
