"""Wrappers that every reranker over a network needs: a limit on calls at once, retries, a timeout.

`wrap_reranker` puts them on in the one order that works: retries outside the limit, so that a call which waits to be
tried again holds no slot, and the limit outside the timeout, so that waiting in line does not count. A provider does
nothing but call its service once and translate its errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from heliograph.calls.limit import PriorityLimiter
from heliograph.calls.retry import RetryPolicy, call_with_retry
from heliograph.errors import ModelTimeout, ModelUnavailable, RateLimited
from heliograph.rerank.base import Reranker, RerankHit

# Only queries rerank, so all calls are equal and wait in order of arrival.
_PRIORITY = 0


class WrapperReranker(Reranker):
    """Passes everything to the reranker inside; subclasses change what they are about and nothing else.

    Args:
        inner: The reranker inside; it is closed with its wrapper.
    """

    def __init__(self, inner: Reranker) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The inner reranker's: a wrapper does not change scores."""
        return self.inner.name

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return the inner reranker's hits."""
        return await self.inner.rerank(query, documents, top_n)

    async def close(self) -> None:
        """Close the inner reranker."""
        await self.inner.close()


class LimitedReranker(WrapperReranker):
    """Lets at most so many calls run at once.

    Args:
        inner: The reranker to call.
        max_concurrency: Calls at once; at least 1.
    """

    def __init__(self, inner: Reranker, max_concurrency: int) -> None:
        super().__init__(inner)
        self._limiter = PriorityLimiter(max_concurrency)

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return the inner reranker's hits, after waiting for a slot."""
        async with self._limiter.slot(_PRIORITY):
            return await self.inner.rerank(query, documents, top_n)


class RetryingReranker(WrapperReranker):
    """Tries again by a policy after a failure that may pass.

    Someone waits for the answer, and the search has an order of its own, so a service that asks to wait longer than
    the policy allows is not waited for at all.

    Args:
        inner: The reranker to call.
        policy: How often and how long to wait.
        sleep: Waits that many seconds.
    """

    def __init__(
        self, inner: Reranker, policy: RetryPolicy, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        super().__init__(inner)
        self._policy = policy
        self._sleep = sleep

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return the hits of the first call that succeeds."""
        return await call_with_retry(lambda: self._try(query, documents, top_n), self._policy, sleep=self._sleep)

    async def _try(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        try:
            return await self.inner.rerank(query, documents, top_n)
        except RateLimited as error:
            if (error.retry_after_seconds or 0) > self._policy.max_retry_after_seconds:
                raise ModelUnavailable(f"{error} (it asks to wait {error.retry_after_seconds:.0f} seconds)") from error
            raise


class TimedReranker(WrapperReranker):
    """Cancels a call that takes too long.

    Args:
        inner: The reranker to call.
        timeout_seconds: Longest wait for one reply.
    """

    def __init__(self, inner: Reranker, timeout_seconds: float) -> None:
        super().__init__(inner)
        self._timeout_seconds = timeout_seconds

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return the inner reranker's hits.

        Raises:
            ModelTimeout: They did not come in time.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self.inner.rerank(query, documents, top_n)
        except TimeoutError:
            raise ModelTimeout(
                f"reranker {self.name!r} gave no reply within {self._timeout_seconds:g} seconds; "
                "try again, or raise `timeout_seconds`"
            ) from None


def wrap_reranker(model: Reranker, timeout_seconds: float, max_concurrency: int, policy: RetryPolicy) -> Reranker:
    """Return a reranker within all wrappers.

    Args:
        model: The provider.
        timeout_seconds: Longest wait for one reply.
        max_concurrency: Calls at once; at least 1.
        policy: How often to try again.
    """
    return RetryingReranker(LimitedReranker(TimedReranker(model, timeout_seconds), max_concurrency), policy)
