"""Several engines as one store: the truth and what nobody else serves at home, the other roles where they are served.

Every commit goes to the home store first; the projections follow at once. One that is out of reach falls behind, up to
a bound, and is brought up to date as soon as it is back. Under a filter everything is read at home, which has it all;
so do those who compute changes (`truth`), since what they compute must not depend on how far behind anything is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from pathlib import Path

from heliograph.errors import SettingsError, StoreError, StoreUnavailable
from heliograph.filters import Filter
from heliograph.models import Stats
from heliograph.stores.base import Fold, Store, StoreView
from heliograph.stores.changeset import Changeset
from heliograph.stores.composed.projector import Projector
from heliograph.stores.composed.replies import TwofoldReplyCache
from heliograph.stores.projection import CacheProjection, GraphProjection, Projection, VectorProjection

__all__ = ["ComposedStore"]

_LOGGER = logging.getLogger(__name__)
_RETRY_SECONDS = 5.0


class ComposedStore(Store):
    """A home store with projections beside it; closes all of them.

    Args:
        home: Holds the truth; must have an outbox.
        projections: One a role at the most.
        max_lag: Commits that a projection may be behind before further commits are refused.
    """

    def __init__(self, home: Store, projections: Sequence[Projection], max_lag: int) -> None:
        if home.outbox is None:
            raise SettingsError(f"the store {home.describe()!r} keeps no outbox, so nothing can stand beside it")
        self._home = home
        self._projectors = [Projector(home, home.outbox, projection) for projection in projections]
        self._max_lag = max_lag
        self._behind: dict[str, str] = {}
        self._retrying: asyncio.Task[None] | None = None
        self.records = home.records
        self.graph = next((item for item in projections if isinstance(item, GraphProjection)), home.graph)
        self.vectors = next((item for item in projections if isinstance(item, VectorProjection)), home.vectors)
        self.text = home.text
        self.curations = home.curations
        cache = next((item for item in projections if isinstance(item, CacheProjection)), None)
        self.replies = TwofoldReplyCache(cache, home.replies) if cache else home.replies
        self.names = home.names
        self.inspection = home.inspection
        self.reembedding = home.reembedding
        self.outbox = home.outbox
        self.followers = self._projectors
        self.embedding = home.embedding

    @property
    def truth(self) -> Store:
        """See `Store`; commits through it are followed by the other engines, too."""
        seen = copy(self)
        seen.graph, seen.vectors = self._home.graph, self._home.vectors
        return seen

    async def open(self) -> ComposedStore:
        """Bring the projections up to date as far as they are in reach, and go on trying with the others."""
        await self._catch_up()
        self._retrying = asyncio.create_task(self._keep_up())
        return self

    async def apply(self, changeset: Changeset) -> int:
        """See `Store`.

        Raises:
            StoreUnavailable: Also when a projection is too far behind.
        """
        await self._check_lag()
        version = await self._home.apply(changeset)
        await self._catch_up()
        return version

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """See `Store`; reads at home."""
        return self._home.view(filter_, fold)

    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        """See `Store`."""
        return self._home.ingest_lock()

    async def get_data_version(self) -> int:
        """See `Store`."""
        return await self._home.get_data_version()

    async def get_stats(self) -> Stats:
        """See `Store`."""
        return await self._home.get_stats()

    async def clear(self) -> int:
        """See `Store`."""
        version = await self._home.clear()
        await self._catch_up()
        return version

    async def vacuum(self) -> None:
        """See `Store`; of the home store, the other engines give room back by themselves."""
        await self._home.vacuum()

    async def backup(self, path: Path) -> None:
        """See `Store`; holds the truth, from which all else is made anew."""
        await self._home.backup(path)

    async def close(self) -> None:
        """See `Store`."""
        if self._retrying is not None:
            self._retrying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._retrying
            self._retrying = None
        for projector in self._projectors:
            await projector.projection.close()
        await self._home.close()

    def describe(self) -> Mapping[str, str]:
        """See `Store`."""
        described = dict(self._home.describe())
        for projector in self._projectors:
            described |= {f"{projector.projection.name}: {k}": v for k, v in projector.projection.describe().items()}
        return described

    async def _check_lag(self) -> None:
        for projector in self._projectors:
            name = projector.projection.name
            if name in self._behind and (lag := await projector.measure_lag()) >= self._max_lag:
                raise StoreUnavailable(
                    f"{name!r} is {lag} commits behind ({self._behind[name]}); bring it back, or raise store.max_lag"
                )

    async def _catch_up(self) -> None:
        for projector in self._projectors:
            name = projector.projection.name
            try:
                is_done = await projector.catch_up()
            except StoreError as error:
                if name not in self._behind:
                    _LOGGER.warning("%r cannot follow and falls behind: %s", name, error)
                self._behind[name] = str(error)
            else:
                if is_done and self._behind.pop(name, None):
                    _LOGGER.info("%r is up to date again", name)

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            await self._catch_up()
