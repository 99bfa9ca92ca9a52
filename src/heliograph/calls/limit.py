"""Bounds of calls to models: concurrency with priorities, time-outs, and retries of transient failures."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from heliograph.errors import ModelError, ModelTimeout, RateLimited


class PriorityLimiter:
    """Limits concurrent callers; lower priority numbers first, then in order of arrival.

    A steady stream of callers with a low number delays the others for as long as it lasts. For use within one event
    loop.

    Raises:
        ValueError: `max_concurrency` is less than 1.
    """

    def __init__(self, max_concurrency: int) -> None:
        if max_concurrency < 1:
            raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency!r}")
        self._free = max_concurrency
        self._arrivals = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def slot(self, priority: int) -> AsyncGenerator[None]:
        """Wait for a slot and hold it until the block is left."""
        # A free slot means that there are no waiters: slots are only freed when no waiter is left to take them.
        if self._free:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (priority, next(self._arrivals), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release()
                raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


# Retrying a call after a transient failure.
#
# Decides how long to wait and when to give up; the error itself says whether it is transient
# (`ModelError.is_transient`). The input is a function that starts the call again, the result is that of the call or the
# last error. Cancellation is never delayed: it ends the wait as it ends the call.

T = TypeVar("T")

# 2 ** 64 first delays are longer than any cap; a larger exponent would only overflow.
_MAX_DOUBLINGS = 64


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to retry, and how long to wait before each retry.

    Attributes:
        max_retries: Retries after the first attempt; 0 means none.
        first_delay_seconds: Longest wait before the second attempt; it doubles with every further one.
        max_retry_after_seconds: Longest wait that a service may ask for; a longer one is capped.
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
    """Call until it succeeds, fails permanently, or the attempts are used up.

    Returns:
        The result of the first successful call.

    Raises:
        ModelError: The first failure that is not transient, unchanged; or the last one, its message saying how many
            attempts there were.
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
        # A copy, because the raiser may keep the error and raise it again.
        final = copy(error)
        final.args = (f"{error} (gave up after {policy.max_retries + 1} tries)",)
        raise final from error


def _delay_seconds(error: ModelError, tries: int, policy: RetryPolicy) -> float:
    """Return the wait after the given number of attempts.

    Full jitter (Marc Brooker, "Exponential Backoff And Jitter", AWS 2015) keeps callers that failed together from
    retrying together. A wait that the service asked for is only ever lengthened, or the next attempt would fail.
    """
    asked = error.retry_after_seconds if isinstance(error, RateLimited) else None
    if asked is not None:
        spread = random.uniform(0, policy.first_delay_seconds)  # noqa: S311 (spreads load, guards nothing)
        return min(max(asked, 0.0) + spread, policy.max_retry_after_seconds)
    longest = policy.first_delay_seconds * 2.0 ** min(tries - 1, _MAX_DOUBLINGS)
    return random.uniform(0, min(longest, policy.max_delay_seconds))  # noqa: S311


class CallGuard:
    """All bounds of the calls to one model: each call is retried, waits for a slot, and has a time-out.

    Args:
        max_concurrency: Concurrent calls; None sets no bound.
        timeout_seconds: Longest wait for one reply, once it has a slot; None waits without limit.
        retries: How often to retry, and how long to wait before it.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        max_concurrency: int | None = None,
        timeout_seconds: float | None = None,
        retries: RetryPolicy = RetryPolicy(0),
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.retries = retries
        self._limiter = None if max_concurrency is None else PriorityLimiter(max_concurrency)
        self._timeout_seconds = timeout_seconds
        self._sleep = sleep

    async def call(self, start: Callable[[], Awaitable[T]], failure: str, priority: int = 0) -> T:
        """Return the result of a call, within all bounds; `start` starts each attempt, lower priority first.

        `failure` is the message of a time-out: what did not happen, such as "x gave no reply".

        Raises:
            ModelError: As `call_with_retry`; a `ModelTimeout` if it takes too long.
        """

        async def attempt() -> T:
            async with self.slot(priority):
                return await self.within(start(), failure)

        return await self.retry(attempt)

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry transient failures, without the other bounds; see `call_with_retry`."""
        return await call_with_retry(attempt, self.retries, sleep=self._sleep)

    def slot(self, priority: int) -> AbstractAsyncContextManager[None]:
        """Wait for a slot and hold it until the block is left."""
        return nullcontext() if self._limiter is None else self._limiter.slot(priority)

    async def within(self, reply: Awaitable[T], failure: str) -> T:
        """Wait for a reply up to the time-out, then cancel it and raise `ModelTimeout`."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await reply
        except TimeoutError:
            raise ModelTimeout(
                f"{failure} within {self._timeout_seconds or 0:g} seconds; try again, or raise `timeout_seconds`"
            ) from None
