"""Metrics of several processes that serve together, kept in files of one folder, so that any of them tells of all.

Each worker counts in memory that is mapped from files of its own (prometheus_client's mode for several processes, which
is chosen by an environment variable before it is imported). What a worker has counted stays when it dies, what it has
in hand does not: a worker holds a lock for as long as it lives. The folder is made for one run, so nothing is left over
from an earlier one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector

__all__ = ["OwnProcess", "SharedMetrics", "shared_folder"]

_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_LIVE = "gauge_live"
# Of all workers the first start; everything else adds up.
_EARLIEST = ("process_start_time_seconds",)


@contextmanager
def shared_folder() -> Generator[Path]:
    """Make a folder for the metrics of the processes that are started meanwhile, and delete it in the end."""
    with TemporaryDirectory(prefix="heliograph-metrics-") as name:
        descriptor = os.open(name, os.O_RDONLY)
        try:
            # Keeps whoever tidies temporary files from it.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            # For children alone: this process has chosen already.
            os.putenv(_VARIABLE, name)
            yield Path(name)
        finally:
            os.unsetenv(_VARIABLE)
            os.close(descriptor)


class SharedMetrics:
    """What all workers of a folder have counted.

    Args:
        folder: The folder that they share.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: int | None = None

    def join(self) -> None:
        """Be one of the living until the process ends."""
        path = self._alive_file(os.getpid())
        self._own = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._own, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Be none of them any more; doing it twice does nothing."""
        if self._own is not None:
            os.close(self._own)
            self._own = None

    def collect(self) -> Iterable[Metric]:
        """Return the sums over all workers; of what is in hand, over those that live."""
        files = [path for path in sorted(self._folder.glob("*.db")) if path.stat().st_size and self._counts(path)]
        return MultiProcessCollector.merge([str(path) for path in files], accumulate=True)

    def _counts(self, path: Path) -> bool:
        return not path.name.startswith(_LIVE) or self._is_alive(int(path.stem.rpartition("_")[2]))

    def _is_alive(self, pid: int) -> bool:
        if pid == os.getpid():
            return self._own is not None
        try:
            descriptor = os.open(self._alive_file(pid), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            # Shared, so that two who look at once do not take one another for the worker.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _alive_file(self, pid: int) -> Path:
        return self._folder / f"alive_{pid}"


class OwnProcess:
    """Memory, processor time, open files and garbage collection of this process, as metrics that can be shared.

    Args:
        registry: Gets them.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._collectors = ProcessCollector(registry=None), GCCollector(registry=CollectorRegistry())
        self._metrics: dict[str, Counter | Gauge] = {}
        self._before: dict[tuple[str, ...], float] = {}

    def refresh(self) -> None:
        """Look at the process."""
        for collector in self._collectors:
            for family in collector.collect():
                self._take(family)

    def _take(self, family: Metric) -> None:
        for sample in family.samples:
            metric = self._metrics.get(family.name) or self._make(family, tuple(sample.labels))
            one = metric.labels(**sample.labels) if sample.labels else metric
            if isinstance(one, Gauge):
                one.set(sample.value)
            else:
                key = (family.name, *sample.labels.values())
                one.inc(max(0.0, sample.value - self._before.get(key, 0.0)))
                self._before[key] = sample.value

    def _make(self, family: Metric, labels: tuple[str, ...]) -> Counter | Gauge:
        if family.type == "counter":
            made: Counter | Gauge = Counter(family.name, family.documentation, labels, registry=self._registry)
        else:
            mode = "livemin" if family.name in _EARLIEST else "livesum"
            made = Gauge(family.name, family.documentation, labels, registry=self._registry, multiprocess_mode=mode)
        self._metrics[family.name] = made
        return made
