"""How long the stages of a question take, in seconds by the wall clock.

A stage that runs twice adds up; stages inside another count in both, so the sum may exceed `total`. Who observes the
engine is told of each stage as `query.<stage>`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from heliograph.observing import stage as observed_stage

# Is told which stage begins.
Progress = Callable[[str], None]


class StageClock:
    """Measures one question; `total` runs from when the clock is made."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, stage: str) -> Generator[None]:
        """Add the time that the block takes to a stage, whether it succeeds or not."""
        started = time.perf_counter()
        try:
            with observed_stage(f"query.{stage}"):
                yield
        finally:
            self._seconds[stage] = self._seconds.get(stage, 0.0) + time.perf_counter() - started

    def read(self) -> Mapping[str, float]:
        """Return the seconds of every stage so far, in the order in which they first ended, and `total`."""
        return {**self._seconds, "total": time.perf_counter() - self._started}
