"""Several engines as one store: the truth and what nobody else serves at home, other roles where they are served.

Each engine follows the store in the background, and questions reach it only while it is in step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import SettingsError, StoreUnavailable
from heliograph.filters import Filter
from heliograph.models import Stats
from heliograph.stores.base import (
    CachedReply,
    Fold,
    GraphStore,
    Hit,
    ReplyCache,
    Store,
    StoreView,
    TextStore,
    VectorStore,
)
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.composed.projector import Projector
from heliograph.stores.projection import CacheProjection, GraphProjection, Projection, TextProjection, VectorProjection

_LOGGER = logging.getLogger(__name__)

# Gates stand between questions and an engine: nobody asks one that is away or unfinished.
#
# Such a question fails at once with `StoreUnavailable` and says why, where it would otherwise wait for an engine that
# does not answer, or read half a graph. A call that finds the engine away closes the gate; it opens when the engine has
# been reached again and is up to date.


class Gate:
    """A role of another engine: calls of its methods go through while the engine is in step.

    Args:
        projector: Knows whether it is.
        role: What is called.
    """

    def __init__(self, projector: Projector, role: object) -> None:
        self._projector = projector
        self._role = role

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._role, name)

        async def ask(*args: Any, **kwargs: Any) -> Any:
            self._check()
            try:
                found = await method(*args, **kwargs)
            except StoreUnavailable as error:
                self._projector.note_failure(error)
                raise
            # What began to be made anew meanwhile may have been read in part.
            self._check()
            return found

        return ask

    def _check(self) -> None:
        projector = self._projector
        if trouble := projector.trouble:
            raise StoreUnavailable(f"{projector.name!r} cannot be asked now: {trouble}")


class GatedVectorStore(VectorStore):
    """Vectors beside the store with the truth, which has each of them, too: read by id they come from there.

    They are as exact there and cost less than as text over HTTP.

    Args:
        vectors: The gate to the other engine.
        home: The vectors of the store with the truth.
    """

    def __init__(self, vectors: VectorStore, home: VectorStore) -> None:
        self._vectors = vectors
        self._home = home

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        return await self._vectors.search(collection, vector, limit, min_score)

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        return await self._home.get_vectors(collection, ids)


# Replies of models in another engine, and at home while that is out of reach: no reply that was paid for is lost.
#
# What is not found in the other engine is looked for at home, where there may also be replies from before it was set
# up.


class TwofoldReplyCache(ReplyCache):
    """A cache beside the store with the truth, and that store's own.

    Args:
        cache: Where replies are kept.
        home: Where they are kept while it is out of reach.
    """

    def __init__(self, cache: ReplyCache, home: ReplyCache) -> None:
        self._cache = cache
        self._home = home

    async def get_reply(self, key: str) -> CachedReply | None:
        try:
            found = await self._cache.get_reply(key)
        except StoreUnavailable as error:
            _LOGGER.debug("a reply is looked for at home: %s", error)
            found = None
        return found or await self._home.get_reply(key)

    async def put_reply(self, reply: CachedReply) -> None:
        try:
            await self._cache.put_reply(reply)
        except StoreUnavailable as error:
            _LOGGER.debug("a reply is kept at home: %s", error)
            await self._home.put_reply(reply)

    async def delete_replies(self, cache_type: str | None = None) -> int:
        """See `ReplyCache`; fails where the other engine is out of reach, since its replies would come back."""
        return await self._cache.delete_replies(cache_type) + await self._home.delete_replies(cache_type)

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        found = {item.key: item for item in await self._home.list_replies(after, limit)}
        found |= {item.key: item for item in await self._cache.list_replies(after, limit)}
        return [found[key] for key in islice(sorted(found), limit)]


# How long opening waits for engines that have much to take in, and a commit for those that are slow.
_OPEN_SECONDS = 30.0
_COMMIT_SECONDS = 5.0
# How long a commit waits for an engine that is slow and as far behind as it may be.
_LAG_SECONDS = 30.0


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
        self.records = home.records
        self.graph, self.vectors, self.text, self.replies = home.graph, home.vectors, home.text, home.replies
        for projector, projection in zip(self._projectors, projections, strict=True):
            self._serve(projector, projection)
        self.curations = home.curations
        self.names = home.names
        self.inspection = home.inspection
        self.reembedding = home.reembedding
        self.outbox = home.outbox
        self.followers = self._projectors
        self.embedding = home.embedding

    @property
    def projections(self) -> list[Projection]:
        """What stands beside the home store, as it is, for whoever looks into an engine."""
        return [projector.projection for projector in self._projectors]

    @property
    def truth(self) -> Store:
        """See `Store`; commits through it are followed by the other engines, too."""
        seen = copy(self)
        seen.graph, seen.vectors, seen.text = self._home.graph, self._home.vectors, self._home.text
        return seen

    async def open(self) -> ComposedStore:
        """Bring the projections up to date as far as they are in reach, and go on trying with the others.

        Raises:
            StoreAccessDenied: An engine refuses who asks.
            StoreError: An engine is there and cannot serve; nothing goes on.
        """
        try:
            await asyncio.gather(*(projector.start(_OPEN_SECONDS) for projector in self._projectors))
        except BaseException:
            await self._stop()
            raise
        return self

    async def apply(self, changeset: Changeset) -> int:
        """See `Store`.

        Raises:
            StoreUnavailable: Also when a projection is too far behind.
        """
        await self._check_lag()
        version = await self._home.apply(changeset)
        await self._follow()
        return version

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """See `Store`; reads at home."""
        return self._home.view(filter_, fold)

    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        return self._home.ingest_lock()

    async def get_data_version(self) -> int:
        return await self._home.get_data_version()

    async def get_stats(self) -> Stats:
        return await self._home.get_stats()

    async def clear(self) -> int:
        version = await self._home.clear()
        await self._follow()
        return version

    async def vacuum(self) -> None:
        """See `Store`; of the home store, the other engines give room back by themselves."""
        await self._home.vacuum()

    async def backup(self, path: Path) -> None:
        """See `Store`; holds the truth, from which all else is made anew."""
        await self._home.backup(path)

    async def close(self) -> None:
        await self._stop()
        for projection in self.projections:
            await projection.close()
        await self._home.close()

    def describe(self) -> Mapping[str, str]:
        described = dict(self._home.describe())
        for projection in self.projections:
            described |= {f"{projection.name}: {key}": value for key, value in projection.describe().items()}
        return described

    def _serve(self, projector: Projector, projection: Projection) -> None:
        gate = Gate(projector, projection)
        match projection:
            case GraphProjection():
                self.graph = cast("GraphStore", gate)
            case VectorProjection():
                self.vectors = GatedVectorStore(cast("VectorStore", gate), self._home.vectors)
            case TextProjection():
                self.text = cast("TextStore", gate)
            case CacheProjection():
                self.replies = TwofoldReplyCache(cast("ReplyCache", gate), self._home.replies)
            case _:
                raise SettingsError(f"{projection.name!r} serves neither graph nor vectors nor text nor replies")

    async def _check_lag(self) -> None:
        for projector in self._projectors:
            if await self._is_too_far(projector):
                # One that is slow, not away, is given time: nothing else slows down who commits.
                if not projector.is_away:
                    await projector.wait(_LAG_SECONDS)
                if await self._is_too_far(projector):
                    self._refuse(projector)

    async def _is_too_far(self, projector: Projector) -> bool:
        return projector.is_behind and await projector.measure_lag() >= self._max_lag

    def _refuse(self, projector: Projector) -> None:
        reason = projector.trouble or "it is slower than commits come"
        raise StoreUnavailable(
            f"{projector.name!r} is {self._max_lag} commits behind or more ({reason}); bring it back, or raise "
            "store.max_lag"
        )

    async def _follow(self) -> None:
        await asyncio.gather(*(projector.follow(_COMMIT_SECONDS) for projector in self._projectors))

    async def _stop(self) -> None:
        for projector in self._projectors:
            await projector.stop()
