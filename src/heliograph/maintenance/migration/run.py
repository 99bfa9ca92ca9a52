"""Moving a workspace from one store to another: opens both, copies, compares, and has projections follow.

Stores that hold the truth are read and written through their contracts, so any pair will do. What stands beside the
target (other engines) is made from it afterwards. Replies kept in a cache beside the source go into the target itself,
where they are found as well: a cache that both share belongs to the target from then on, and begins empty.
"""

from __future__ import annotations

import contextlib
from contextlib import AsyncExitStack
from dataclasses import replace

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import InvalidRequestError, NotFoundError, StoreUnavailable
from heliograph.maintenance.migration.copying import WorkspaceCopy
from heliograph.maintenance.migration.report import MigrationProgress, MigrationReport
from heliograph.settings import StoreSettings, hide_password
from heliograph.stores.base import Store
from heliograph.stores.composed.replies import TwofoldReplyCache
from heliograph.stores.projection import CacheProjection
from heliograph.stores.registry import find_workspaces, open_projection, open_store
from heliograph.stores.replies import ReplyCache

__all__ = ["migrate_workspace"]


async def migrate_workspace(
    source: StoreSettings, target: StoreSettings, progress: MigrationProgress | None = None
) -> MigrationReport:
    """Copy a workspace into another store, everything with the ids and moments it has; no model is called.

    A run that was broken off is run again and goes on. The source stays as it is; nobody may write to it meanwhile.

    Args:
        source: The workspace.
        target: Where it is copied to: nothing, an empty workspace, or what an earlier run has copied of it.
        progress: Told what is copied or compared, and how much of it is.

    Raises:
        ConflictError: The target holds something else, or somebody wrote to the source meanwhile.
        InvalidRequestError: Both are one.
        NotFoundError: There is no such workspace.
        SchemaMismatch: The target is filled with another embedding.
        StoreError: A store failed, or what arrived is not what was sent; a later run goes on.
    """
    if _place(source) == _place(target):
        raise InvalidRequestError(
            f"the workspace {source.workspace!r} is to be moved to where it is; name another place"
        )
    if source.workspace not in await find_workspaces(source):
        place = hide_password(source.url)
        raise NotFoundError(
            f"there is no workspace {source.workspace!r} at {place!r}; check the source and its options"
        )
    async with AsyncExitStack() as stack:
        here = await open_store(_alone(source), None)
        stack.push_async_callback(here.close)
        embedding = _embedding_of(here)
        there = await open_store(_alone(target), embedding)
        stack.push_async_callback(there.close)
        replies = await _open_replies(source, here, embedding, stack)
        report = await WorkspaceCopy(here, replies, there, progress or _say_nothing).run()
    return replace(report, lags=await _fill_projections(target, embedding))


def _embedding_of(store: Store) -> EmbeddingInfo:
    """Return what fills a store, as far as stores must know it; nothing is embedded."""
    if store.embedding is None:
        raise InvalidRequestError(f"the store {store.describe()!r} does not say which embedding fills it; export it")
    return EmbeddingInfo(*store.embedding, max_input_tokens=1)


def _place(settings: StoreSettings) -> tuple[object, ...]:
    folder = settings.data_dir.resolve() if settings.url.startswith("sqlite:") else None
    return settings.url, folder, settings.workspace


def _alone(settings: StoreSettings) -> StoreSettings:
    return settings.model_copy(update={"graph_url": "", "vectors_url": "", "text_url": "", "cache_url": ""})


async def _open_replies(
    settings: StoreSettings, home: Store, embedding: EmbeddingInfo, stack: AsyncExitStack
) -> ReplyCache:
    """Return where the replies of a workspace are kept: at home, unless a cache beside it has followed it."""
    if not settings.cache_url or home.outbox is None:
        return home.replies
    cache = await open_projection("cache", settings, embedding)
    stack.push_async_callback(cache.close)
    has_followed = cache.name in await home.outbox.get_readers()
    if has_followed and isinstance(cache, CacheProjection):
        return TwofoldReplyCache(cache, home.replies)
    return home.replies


async def _fill_projections(settings: StoreSettings, embedding: EmbeddingInfo) -> dict[str, int]:
    """Bring what stands beside a store up to date, as far as it is in reach; return how far behind each one is."""
    store = await open_store(settings, embedding)
    try:
        for follower in store.followers:
            # What is away joins when the workspace is opened with it there.
            with contextlib.suppress(StoreUnavailable):
                await follower.finish()
        return dict(await store.get_lags())
    finally:
        await store.close()


def _say_nothing(_kind: str, _count: int) -> None:
    return
