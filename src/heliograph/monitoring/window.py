"""Quantiles of what was measured lately."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["SlidingWindow"]


class SlidingWindow:
    """Keeps measurements for a while; safe to use from several threads.

    Args:
        seconds: How long one counts.
        max_count: How many are kept; of more, the latest.
        clock: Monotonic seconds.
    """

    def __init__(self, seconds: float, max_count: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._values: deque[tuple[float, float]] = deque(maxlen=max_count)
        self._lock = threading.Lock()

    def add(self, value: float) -> None:
        """Note a measurement."""
        with self._lock:
            self._values.append((self._clock(), value))

    def quantile(self, share: float) -> float | None:
        """Return the least value that at least this share of the measurements does not exceed; None without any.

        The nearest-rank definition: always one of the measurements, the largest for a share of 1.
        """
        with self._lock:
            oldest = self._clock() - self._seconds
            while self._values and self._values[0][0] < oldest:
                self._values.popleft()
            values = sorted(value for _, value in self._values)
        return values[max(0, math.ceil(share * len(values)) - 1)] if values else None
