"""Has one projection follow its store in the background, at a pace that neither floods an engine nor holds up commits.

One task does it. It runs when a commit asks for it, and every few seconds anyway, since other processes commit, too,
and engines come back. After a failure it rests that long, whoever asks: that bounds how often an engine that is away is
tried. A commit waits for the run that takes it in, as long as the engine keeps up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from heliograph.errors import StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.stores.composed.projector import Projector

_LOGGER = logging.getLogger(__name__)
_RETRY_SECONDS = 5.0


class Following:
    """A projection that is kept in step until it is told to stop.

    Args:
        projector: Brings it up to date.
    """

    def __init__(self, projector: Projector) -> None:
        self.projector = projector
        self._is_wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._is_late = False
        self._is_reported = False

    @property
    def is_behind(self) -> bool:
        """Whether it is away, or slower than commits come, so that its lag may grow."""
        return self.projector.is_away or self._is_late

    async def start(self, wait_seconds: float) -> None:
        """Reach the engine and begin; one that is out of reach is tried again from then on.

        Args:
            wait_seconds: How long to wait until it is up to date, if it is in reach.

        Raises:
            StoreAccessDenied: The engine refuses who asks.
            StoreError: It cannot serve.
        """
        try:
            await self.projector.prepare()
        except StoreAccessDenied:
            raise
        except StoreUnavailable:
            self._report()
            self._task = asyncio.create_task(self._go_on(_RETRY_SECONDS))
        else:
            self._task = asyncio.create_task(self._go_on(0.0))
            await self.wait(wait_seconds)

    async def follow(self, wait_seconds: float) -> None:
        """Have it take in what was committed; waits for that, unless it is behind or being made anew anyway."""
        if self.projector.is_away:
            return
        if self._is_late or self.projector.trouble:
            self._is_wanted.set()
        else:
            await self.wait(wait_seconds)

    async def wait(self, seconds: float) -> None:
        """Wait until it has taken in what was committed until now, or has failed, but no longer than this."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._is_wanted.set()
        self._is_late = not (await asyncio.wait((done,), timeout=seconds))[0]

    def note_failure(self, error: Exception) -> None:
        """Look at once whether the engine is away, as a question found that it is."""
        self.projector.note_failure(error)
        self._report()
        self._is_wanted.set()

    async def stop(self) -> None:
        """End the task; what it has not taken in is taken in by whoever comes next."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _go_on(self, rest_seconds: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_seconds):
                    await self._is_wanted.wait()
            rest_seconds = _RETRY_SECONDS
            self._is_wanted.clear()
            waiting, self._waiting = self._waiting, []
            await self._run()
            self._release(waiting)
            self._is_late = False
            if self.projector.is_away:
                # Whoever came meanwhile waits in vain, and is no reason to try at once.
                self._release(self._waiting)
                self._is_wanted.clear()

    async def _run(self) -> None:
        try:
            await self.projector.catch_up()
        except StoreError as error:
            _LOGGER.debug("%r was tried: %s", self.projector.name, error)
        except Exception:
            # Nobody awaits this task: without it the engine would be left behind in silence.
            _LOGGER.exception("%r cannot follow, which is a defect", self.projector.name)
        self._report()

    def _release(self, waiting: list[asyncio.Future[None]]) -> None:
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def _report(self) -> None:
        """Log when it goes away, and when it is back."""
        name = self.projector.name
        if self.projector.is_away and not self._is_reported:
            _LOGGER.warning("%r cannot follow and falls behind: %s", name, self.projector.trouble)
        elif self._is_reported and not self.projector.is_away:
            _LOGGER.info("%r is up to date again", name)
        self._is_reported = self.projector.is_away
