from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.monitoring.monitoring import SlidingWindow


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_empty_window_has_no_quantile() -> None:
    assert SlidingWindow(60).quantile(0.99) is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantile_is_the_least_that_covers_the_share(values: list[float], share: float) -> None:
    window = SlidingWindow(60)
    for value in values:
        window.add(value)
    found = window.quantile(share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) * (1 - 1e-12)
    smaller = [value for value in values if value < found]
    assert sum(value <= max(smaller) for value in values) < share * len(values) if smaller else True


def test_what_is_older_than_the_window_is_forgotten() -> None:
    clock = Clock()
    window = SlidingWindow(60, clock=clock)
    window.add(9.0)
    clock.now = 61.0
    window.add(1.0)
    assert window.quantile(1.0) == 1.0
    clock.now = 200.0
    assert window.quantile(1.0) is None


@pytest.mark.parametrize("count", [3, 5])
def test_window_keeps_the_latest(count: int) -> None:
    window = SlidingWindow(60, max_count=2)
    for value in range(count):
        window.add(float(value))
    assert window.quantile(0.0) == count - 2
