"""Who is working on which document, within one process.

Two tasks never work on one document at once: the second waits until the first is done with it. Claims are taken for
all documents of a call together, so that no two calls wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

__all__ = ["Claim", "Claims"]


class Claim:
    """Documents that one task works on."""

    def __init__(self, held: dict[str, asyncio.Future[None]], ids: Iterable[str]) -> None:
        self._held = held
        self._done = {id_: asyncio.get_running_loop().create_future() for id_ in ids}
        held.update(self._done)

    def release(self, id_: str) -> None:
        """Let others have a document; does nothing if it was released already."""
        done = self._done.pop(id_, None)
        if done is not None:
            del self._held[id_]
            done.set_result(None)

    def release_all(self) -> None:
        """Let others have all that is left."""
        for id_ in list(self._done):
            self.release(id_)


class Claims:
    """The documents that are being worked on."""

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Future[None]] = {}

    def is_claimed(self, id_: str) -> bool:
        """Whether somebody works on this document."""
        return id_ in self._held

    @asynccontextmanager
    async def claim(self, ids: Iterable[str]) -> AsyncGenerator[Claim]:
        """Wait until nobody works on any of these, then hold them all until they are released or this ends."""
        wanted = set(ids)
        while busy := [self._held[id_] for id_ in wanted if id_ in self._held]:
            await asyncio.wait(busy)
        claim = Claim(self._held, wanted)
        try:
            yield claim
        finally:
            claim.release_all()
