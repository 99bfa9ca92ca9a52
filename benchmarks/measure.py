"""Clocks and counters: CPU time, bytes written, memory, growth; and keeping a process to one core."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["BytesWritten", "Stopwatch", "bytes_written", "folder_bytes", "growth_exponent", "peak_memory_mib", "pin"]

_IO = Path("/proc/self/io")
_STATUS = Path("/proc/self/status")
_STAT = Path("/proc/stat")
_LOOK_SECONDS = 0.5


def pin() -> str:
    """Keep this process and its future threads to one core, where the system can, and say so.

    Must come before a library makes its pool of threads. CPU time is then what one core spends; without it,
    a pool that waits by spinning would be counted as work.
    """
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned (the system has no call for it)"
    os.sched_setaffinity(0, {_idlest_core(os.sched_getaffinity(0))})
    return "pinned to one core with sched_setaffinity"


def _idlest_core(cores: set[int]) -> int:
    """Return the core that did least in the last half second."""
    before = _idle_ticks()
    time.sleep(_LOOK_SECONDS)
    after = _idle_ticks()
    return max(cores, key=lambda core: after.get(core, 0) - before.get(core, 0))


def _idle_ticks() -> dict[int, int]:
    lines = (line.split() for line in _STAT.read_text("ascii").splitlines())
    return {int(line[0][3:]): int(line[4]) for line in lines if line and line[0][:3] == "cpu" and line[0][3:].isdigit()}


class Stopwatch:
    """CPU milliseconds of this process, user and system, all threads; one entry per `lap`."""

    def __init__(self) -> None:
        self.laps: list[float] = []

    @contextmanager
    def lap(self) -> Generator[None]:
        """Time a block."""
        start = time.process_time_ns()
        yield
        self.laps.append((time.process_time_ns() - start) / 1e6)

    def median(self, blocks: int = 1) -> float:
        """Return the median in milliseconds, of several consecutive blocks of laps the least.

        What else runs on a shared machine, on the same core's other thread for one, slows for seconds at a time and
        only ever adds; blocks that are shorter than that tell it from the cost itself.
        """
        return min(statistics.median(block) for block in np.array_split(self.laps, blocks) if len(block))

    def spread(self) -> str:
        """Return the median of all laps and the range of their middle nine tenths, for a note."""
        low, middle, high = np.percentile(self.laps, (5, 50, 95))
        return f"of all: median {middle:.3g}, 5-95% {low:.3g}-{high:.3g}"


@dataclass(frozen=True, slots=True)
class BytesWritten:
    """Bytes given to the system by `write` calls, and bytes that it passed on towards the disk."""

    calls: int
    storage: int

    def since(self, earlier: BytesWritten) -> BytesWritten:
        """Return what was written in between."""
        return BytesWritten(self.calls - earlier.calls, self.storage - earlier.storage)


def bytes_written() -> BytesWritten | None:
    """Return what this process has written so far; None where the system does not count."""
    try:
        lines = _IO.read_text("ascii").splitlines()
    except OSError:
        return None
    counts = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
    return BytesWritten(counts["wchar"], counts["write_bytes"])


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def peak_memory_mib() -> float:
    """Return the largest resident size that this process ever had, in MiB."""
    try:
        lines = _STATUS.read_text("ascii").splitlines()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1024 / (1024 if sys.platform == "darwin" else 1)
    # Not `ru_maxrss`: on Linux a process begins with that of its parent.
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def growth_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of cost over size on logarithmic axes (least squares): 1 is linear, 2 quadratic."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
