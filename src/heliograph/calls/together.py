"""Several calls under way at once, with one error out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


@overload
async def run_together(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B], /) -> tuple[A, B]: ...
@overload
async def run_together(*calls: Coroutine[Any, Any, T]) -> tuple[T, ...]: ...
async def run_together(*calls: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """Return all results, in order. When a call fails, the others are cancelled and the first error is raised."""
    if len(calls) == 1:
        return (await calls[0],)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return tuple(task.result() for task in tasks)
