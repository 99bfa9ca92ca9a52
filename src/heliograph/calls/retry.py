"""Trying a call again after a failure that may pass.

Owns how long to wait and when to give up; whether a failure may pass is the error's own word
(`ModelError.is_transient`). What comes in is a function that starts the call afresh, what goes out is its result or
the last error. Cancellation is never delayed: it ends the wait as it ends the call.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass
from typing import TypeVar

from heliograph.errors import ModelError, RateLimited

T = TypeVar("T")

# 2 ** 64 first delays are longer than any cap; a larger exponent would only overflow.
_MAX_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to try again, and how long to wait before it.

    Attributes:
        max_retries: Further tries after the first; 0 means none.
        first_delay_seconds: Longest wait before the second try; it doubles with every further one.
        max_delay_seconds: Longest wait of our own choosing.
        max_retry_after_seconds: Longest wait that a service may ask for; a longer wish is cut to this.
    """

    max_retries: int
    first_delay_seconds: float = 0.5
    max_delay_seconds: float = 30.0
    max_retry_after_seconds: float = 120.0


async def call_with_retry(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """Call until it succeeds, fails for good, or the tries are used up.

    Args:
        call: Starts the call afresh each time.
        policy: How often and how long.
        sleep: Waits that many seconds.

    Returns:
        What the first successful call returned.

    Raises:
        ModelError: The first failure that will not pass, as it came; or the last one, its message saying how many
            tries there were.
    """
    for tries in range(1, policy.max_retries + 1):
        try:
            return await call()
        except ModelError as error:
            if not error.is_transient:
                raise
            delay_seconds = _delay_seconds(error, tries, policy)
        await sleep(delay_seconds)
    try:
        return await call()
    except ModelError as error:
        if not error.is_transient or not policy.max_retries:
            raise
        raise _with_tries(error, policy.max_retries + 1) from error


def _delay_seconds(error: ModelError, tries: int, policy: RetryPolicy) -> float:
    """Return the wait after the given number of tries.

    Full jitter (Marc Brooker, "Exponential Backoff And Jitter", AWS 2015) keeps callers that failed together from
    coming back together. A wait that the service asked for is only ever lengthened, or the next try is lost.
    """
    asked = error.retry_after_seconds if isinstance(error, RateLimited) else None
    if asked is not None:
        spread = random.uniform(0, policy.first_delay_seconds)  # noqa: S311 (spreads load, guards nothing)
        return min(max(asked, 0.0) + spread, policy.max_retry_after_seconds)
    longest = policy.first_delay_seconds * 2.0 ** min(tries - 1, _MAX_DOUBLINGS)
    return random.uniform(0, min(longest, policy.max_delay_seconds))  # noqa: S311


def _with_tries(error: ModelError, tries: int) -> ModelError:
    # A copy, because whoever raised the error may hold on to it and raise it again.
    final = copy(error)
    final.args = (f"{error} (gave up after {tries} tries)",)
    return final
