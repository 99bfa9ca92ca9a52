"""Runs several awaitables at once, so that none outlives the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

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
