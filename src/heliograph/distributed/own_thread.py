"""A thread that lives until it is told to end, for work whose thread must not go away.

Linux ends the processes of a Ray cluster together with the thread that started them, and threads of an event loop's
pool end with the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread

__all__ = ["OwnThread"]

_Order = tuple[Callable[[], None], Future[None]]


class OwnThread:
    """Runs one piece of work after the other; it does not keep the process from ending."""

    def __init__(self, name: str) -> None:
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        Thread(target=self._serve, name=name, daemon=True).start()

    def run(self, work: Callable[[], None]) -> None:
        """Do something there and wait until it is done; what it raises is raised here."""
        done: Future[None] = Future()
        self._orders.put((work, done))
        done.result()

    def end(self) -> None:
        """Let the thread go when it has done what it was given."""
        self._orders.put(None)

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            work, done = order
            try:
                work()
            except BaseException as error:  # noqa: BLE001 (it is raised where the work was given)
                done.set_exception(error)
            else:
                done.set_result(None)
