"""Retries: when, how often, and how long between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.calls.limit import RetryPolicy, call_with_retry
from heliograph.errors import ModelTimeout, ModelUnavailable, RateLimited


class Script:
    """Fails with each of the given errors in turn, then returns 'done'."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.waits: list[float] = []

    async def call(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def run(self, policy: RetryPolicy) -> str:
        return await call_with_retry(self.call, policy, sleep=self.sleep)


async def test_retry_returns_the_first_success() -> None:
    script = Script(ModelTimeout("slow"), ModelUnavailable("down", is_transient=True))
    assert await script.run(RetryPolicy(max_retries=4)) == "done"
    assert script.calls == 3


async def test_retry_gives_up_with_the_last_error_and_the_number_of_tries() -> None:
    errors = [RateLimited(f"busy {number}", retry_after_seconds=number) for number in range(3)]
    script = Script(*errors)
    with pytest.raises(RateLimited, match=r"^busy 2 \(gave up after 3 tries\)$") as caught:
        await script.run(RetryPolicy(max_retries=2))
    assert caught.value.retry_after_seconds == 2
    assert str(errors[2]) == "busy 2", "the error itself is left as it was"


async def test_retry_keeps_what_the_last_error_carries() -> None:
    script = Script(*[ModelUnavailable("down", is_transient=True)] * 2)
    with pytest.raises(ModelUnavailable) as caught:
        await script.run(RetryPolicy(max_retries=1))
    assert caught.value.is_transient


async def test_retry_leaves_an_error_that_will_not_pass_alone() -> None:
    script = Script(ModelTimeout("slow"), ModelUnavailable("no such model"))
    with pytest.raises(ModelUnavailable, match=r"^no such model$"):
        await script.run(RetryPolicy(max_retries=4))
    assert script.calls == 2


async def test_retry_of_none_calls_once_and_changes_no_message() -> None:
    script = Script(ModelTimeout("slow"))
    with pytest.raises(ModelTimeout, match=r"^slow$"):
        await script.run(RetryPolicy(max_retries=0))
    assert script.calls == 1
    assert script.waits == []


@pytest.mark.parametrize("make", [lambda: ValueError("ours"), asyncio.CancelledError])
async def test_retry_does_not_catch_what_is_no_model_error(make: Callable[[], BaseException]) -> None:
    error = make()
    script = Script(error)
    with pytest.raises(type(error)):
        await script.run(RetryPolicy(max_retries=4))
    assert script.calls == 1


async def test_retry_can_be_cancelled_while_it_waits() -> None:
    script = Script(RateLimited("busy", retry_after_seconds=100))
    task = asyncio.create_task(call_with_retry(script.call, RetryPolicy(max_retries=1)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert script.calls == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@given(retries=st.integers(0, 80), first=st.floats(0.001, 10), longest=st.floats(0.001, 60))
async def test_retry_waits_within_a_doubling_bound(retries: int, first: float, longest: float) -> None:
    script = Script(*[ModelTimeout("slow")] * retries)
    await script.run(RetryPolicy(retries, first_delay_seconds=first, max_delay_seconds=longest))
    assert len(script.waits) == retries
    assert all(0 <= wait <= min(longest, first * 2**place) for place, wait in enumerate(script.waits))


@given(asked=st.one_of(st.none(), st.floats(-5, 500)))
async def test_retry_waits_as_long_as_the_service_asks_up_to_the_cap(asked: float | None) -> None:
    policy = RetryPolicy(max_retries=1, first_delay_seconds=0.5, max_delay_seconds=2, max_retry_after_seconds=60)
    script = Script(RateLimited("busy", retry_after_seconds=asked))
    await script.run(policy)
    least = 0 if asked is None else min(max(asked, 0), 60)
    assert least <= script.waits[0] <= min(least + 0.5, 60)
