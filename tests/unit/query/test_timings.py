from __future__ import annotations

import pytest

from heliograph import observing as timings
from heliograph.observing import StageClock


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(100))
    monkeypatch.setattr(timings.time, "perf_counter", lambda: float(next(seconds)))


@pytest.mark.usefixtures("ticks")
def test_stages_add_up_and_may_hold_others() -> None:
    clock = StageClock()
    for _ in range(2):
        with clock.measure("outer"), clock.measure("inner"):
            pass
    assert clock.read() == {"inner": 2.0, "outer": 6.0, "total": 9.0}


@pytest.mark.usefixtures("ticks")
def test_stage_that_fails_is_measured_too() -> None:
    clock = StageClock()
    with pytest.raises(KeyError), clock.measure("search"):
        raise KeyError
    assert clock.read() == {"search": 1.0, "total": 3.0}
