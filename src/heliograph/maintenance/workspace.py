"""What is done to a workspace as a whole: check, rebuild, reembed, clear, and restoring one from a backup."""

from __future__ import annotations

import asyncio
from pathlib import Path

from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import InvalidRequestError
from heliograph.ingest.folding import Folder
from heliograph.ingest.index_texts import index_limits
from heliograph.ingest.merging import FoldLimits
from heliograph.ingest.summary import DescriptionSummarizer
from heliograph.maintenance.check import Checker, CheckProgress
from heliograph.maintenance.followers import rebuild_role
from heliograph.maintenance.problems import CheckReport
from heliograph.maintenance.recount import Recounter
from heliograph.maintenance.reembed import Reembedder, ReembedProgress, ReembedReport
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.registry import open_store, restore_store

__all__ = ["Maintenance", "reembed_workspace", "restore_workspace"]


class Maintenance:
    """Looks after one open workspace.

    Args:
        store: The workspace.
        embedding: The model that fills it.
        chat: The model that summarises, if there is one.
        settings: Those of the ingest: what projections are depends on them.
    """

    def __init__(
        self, store: Store, embedding: EmbeddingModel, chat: ChatModel | None, settings: IngestSettings
    ) -> None:
        limit = index_limits(settings, embedding.info, has_chat=chat is not None)
        folder = Folder(FoldLimits(settings.max_fragments, settings.max_sources), limit)
        self._store = store
        self._checker = Checker(store, embedding, Recounter(store, folder, DescriptionSummarizer(chat, settings)))

    async def check(self, *, repair: bool = False, progress: CheckProgress | None = None) -> CheckReport:
        """Compare every projection with the truth; see `Checker.check`."""
        return await self._checker.check(repair=repair, progress=progress)

    async def rebuild(self, role: str | None = None, *, progress: CheckProgress | None = None) -> CheckReport:
        """Make every projection anew while no ingest runs, or one role's; see `Checker.rebuild` and `rebuild_role`."""
        if role is not None:
            return await rebuild_role(self._store, role)
        async with self._store.ingest_lock():
            return await self._checker.rebuild(progress=progress)

    async def clear(self) -> None:
        """Delete everything and give its room back, while no ingest runs."""
        async with self._store.ingest_lock():
            await self._store.clear()
            await self._store.vacuum()


async def reembed_workspace(
    store: StoreSettings,
    ingest: IngestSettings,
    embedding: EmbeddingModel,
    *,
    has_chat: bool,
    progress: ReembedProgress | None = None,
) -> ReembedReport:
    """Embed a workspace anew, whatever embedding fills it; who has it open meanwhile gets answers from the old one.

    Args:
        store: Where it is.
        ingest: How it is filled.
        embedding: The model that shall fill it.
        has_chat: Whether a chat model extracts.
        progress: Told the collection and how many are done.

    Raises:
        ConflictError: Others kept writing; run it again.
        ModelError: The model failed; a later run goes on from there.
        StoreError: There is no such workspace, or it failed.
    """
    opened = await open_store(store, None)
    try:
        limit = index_limits(ingest, embedding.info, has_chat=has_chat)
        return await Reembedder(opened, embedding, limit).run(progress)
    finally:
        await opened.close()


async def restore_workspace(store: StoreSettings, backup: str | Path) -> None:
    """Make the workspace that the settings name from a backup.

    Raises:
        ConflictError: There is such a workspace already.
        InvalidRequestError: The file is no backup that can be used, or the back end brings none back.
        StoreUnavailable: The workspace cannot be written.
    """
    path = Path(backup)
    if not await asyncio.to_thread(path.is_file):
        raise InvalidRequestError(f"there is no file {str(path)!r}; check the path of the backup")
    await restore_store(store, path)
