"""The contract of whatever carries workers: a cluster that starts them, and one worker that is called.

`WorkerLostError` is between a launcher and the pool; nobody else sees it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from heliograph.distributed.messages import WorkerSetup

__all__ = ["Launcher", "Worker", "WorkerLostError"]


class WorkerLostError(Exception):
    """A worker's process has ended, or its machine is gone; says what is known of it."""


class Worker(ABC):
    """One process with a `ReadingWorker` in it."""

    @abstractmethod
    async def call(self, method: str, *arguments: object) -> Any:
        """Return what a method of the worker returns; many may be called at once.

        Raises:
            WorkerLostError: The worker is gone.
            ClusterUnavailable: The cluster is.
        """

    @abstractmethod
    def tell(self, method: str, *arguments: object) -> None:
        """Call a method and do not wait for it; does nothing if the worker is gone."""

    @abstractmethod
    def kill(self) -> None:
        """End the process at once; does nothing if it has ended."""


class Launcher(ABC):
    """Starts workers."""

    @abstractmethod
    async def open(self) -> int:
        """Reach the cluster, or start one, and return how many workers it shall have.

        Raises:
            ClusterUnavailable: It cannot be reached or started.
        """

    @abstractmethod
    async def start(self, setup: WorkerSetup) -> Worker:
        """Return a new worker, which may still be waiting for its place.

        Raises:
            ClusterUnavailable: It cannot be started, or what it is made of cannot be sent.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of the cluster, and end it if it was started here; closing twice does nothing."""
