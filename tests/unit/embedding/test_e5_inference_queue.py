from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from heliograph.embedding.e5.model import InferenceQueue
from heliograph.errors import ModelUnavailable


@pytest.fixture
def queue() -> Iterator[InferenceQueue]:
    opened = InferenceQueue("test")
    yield opened
    opened.close()


@pytest.fixture
def gate(queue: InferenceQueue) -> Iterator[Callable[[], None]]:
    """Keeps the thread busy until called."""
    started, freed = threading.Event(), threading.Event()
    queue.submit([lambda: (started.set(), freed.wait(10))], "document")
    started.wait(10)
    yield freed.set
    freed.set()


def test_results_and_errors_reach_their_futures(queue: InferenceQueue) -> None:
    good, bad = queue.submit([lambda: 1, lambda: 1 // 0], "document")
    assert good.result(10) == 1
    assert isinstance(bad.exception(10), ZeroDivisionError)
    assert queue.submit([lambda: 2], "query")[0].result(10) == 2


def test_queries_go_first_and_batches_take_turns(queue: InferenceQueue, gate: Callable[[], None]) -> None:
    done: list[str] = []
    futures = []
    for batch, size, kind in (("a", 40, "document"), ("b", 3, "document"), ("q", 3, "query"), ("r", 1, "query")):
        futures += queue.submit([partial(done.append, f"{batch}{number}") for number in range(size)], kind)
    gate()
    for future in futures:
        future.result(10)
    assert done[:4] == ["q0", "r0", "q1", "q2"]
    # Pages come one after the other; of a long document, those that came after it need not await the end.
    assert done[4:] == [
        *(f"a{place}" for place in range(16)),
        "b0",
        "b1",
        "b2",
        *(f"a{place}" for place in range(16, 40)),
    ]


def test_batch_that_joins_late_does_not_overtake(queue: InferenceQueue) -> None:
    done: list[str] = []
    first = queue.submit([partial(done.append, f"a{number}") for number in range(3)], "document")
    for future in first:
        future.result(10)
    started, freed = threading.Event(), threading.Event()
    queue.submit([lambda: (started.set(), freed.wait(10))], "document")
    started.wait(10)
    waiting = queue.submit([partial(done.append, "b0")], "document")
    joined = queue.submit([partial(done.append, "c0"), partial(done.append, "c1")], "document")
    freed.set()
    for future in (*waiting, *joined):
        future.result(10)
    assert done[3:] == ["b0", "c0", "c1"]


def test_cancelled_jobs_are_skipped(queue: InferenceQueue, gate: Callable[[], None]) -> None:
    done: list[int] = []
    futures = queue.submit([partial(done.append, number) for number in range(3)], "document")
    futures[1].cancel()
    gate()
    futures[2].result(10)
    assert done == [0, 2]


def test_close_fails_what_waits_and_refuses_more(queue: InferenceQueue, gate: Callable[[], None]) -> None:
    waiting = queue.submit([lambda: 1], "document")[0]
    closing = threading.Thread(target=queue.close)
    closing.start()
    assert isinstance(waiting.exception(10), ModelUnavailable)
    gate()
    closing.join(10)
    with pytest.raises(ModelUnavailable, match="closed"):
        queue.submit([lambda: 1], "query")


def test_jobs_run_side_by_side_on_as_many_threads_as_allowed() -> None:
    queue = InferenceQueue("test", 2)
    meeting = threading.Barrier(2, timeout=10)
    first, second = queue.submit([meeting.wait, meeting.wait], "document")
    assert {first.result(10), second.result(10)} == {0, 1}
    more = queue.submit([threading.current_thread] * 20, "document")
    assert len({future.result(10) for future in more}) <= 2
    queue.close()


def test_queue_that_was_never_used_can_be_closed_twice() -> None:
    queue = InferenceQueue("test")
    queue.close()
    queue.close()
