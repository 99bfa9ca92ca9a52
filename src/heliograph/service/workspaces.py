"""The workspaces that one process serves: opened when first asked for, shared by requests, closed when long idle.

Models are opened once and lent to every workspace; each workspace keeps its own store, cache of replies and counts.
A workspace that is being removed is given to nobody.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from heliograph.chat.registry import connect_chat_model
from heliograph.embedding.registry import build_embedding_model
from heliograph.engine import AsyncHeliograph
from heliograph.errors import ConflictError, NotFoundError, StoreUnavailable
from heliograph.opening import Given, with_store
from heliograph.rerank.registry import build_reranker
from heliograph.settings import Settings
from heliograph.stores.registry import drop_workspace, find_workspaces

__all__ = ["Workspaces"]


@dataclass(slots=True)
class _Open:
    engine: AsyncHeliograph
    users: int = 0


class Workspaces:
    """Lends engines, one per workspace.

        async with workspaces.use("research") as kb:
            await kb.query("...")

    Args:
        settings: Of every workspace; `store.workspace` names the default one.
        given: Models to use in place of those of the settings; they stay the caller's to close.
    """

    def __init__(self, settings: Settings, given: Given | None = None) -> None:
        self.settings = settings
        self._given = given or Given()
        self._models = Given()
        self._stack = AsyncExitStack()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._removing: set[str] = set()
        self._is_open = False

    @property
    def default(self) -> str:
        """The workspace of requests that name none."""
        return self.settings.store.workspace

    async def open(self) -> None:
        """Make the models ready and open the default workspace.

        Raises:
            SettingsError: The settings do not go together.
            StoreError: The default workspace cannot be opened.
            ModelError: A model cannot be made ready.
        """
        async with AsyncExitStack() as stack:
            self._models = await self._open_models(stack)
            self._stack = stack.pop_all()
        self._is_open = True
        try:
            await self.create(self.default, may_exist=True)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all workspaces, then the models; closing twice does nothing."""
        self._is_open = False
        while self._open:
            _, entry = self._open.popitem()
            await entry.engine.close()
        await self._stack.aclose()

    async def names(self) -> list[str]:
        """Return the names of all workspaces, open or not, sorted."""
        found = await find_workspaces(self.settings.store)
        return [name for name in found if name not in self._removing]

    async def exists(self, name: str) -> bool:
        """Whether there is such a workspace."""
        return name not in self._removing and (name in self._open or name in await self.names())

    async def create(self, name: str, *, may_exist: bool = False) -> None:
        """Make a workspace.

        Raises:
            ConflictError: There is one of this name, and it may not exist.
            SettingsError: It is no name for a workspace.
            StoreError: It cannot be made.
        """
        if not may_exist and await self.exists(name):
            raise ConflictError(f"there is a workspace {name!r} already")
        async with self.use(name, creates=True):
            pass

    async def remove(self, name: str) -> None:
        """Delete a workspace with everything in it, once all who use it are done.

        Raises:
            ConflictError: It is the default workspace, or is being removed.
            NotFoundError: There is none of this name.
            StoreError: It cannot be removed.
        """
        if name == self.default:
            raise ConflictError(f"{name!r} is the default workspace; clear it instead")
        if not await self.exists(name):
            raise NotFoundError(f"there is no workspace {name!r}")
        self._removing.add(name)
        try:
            await self._close_when_idle(name)
            await drop_workspace(with_store(self.settings, None, name).store)
        finally:
            self._removing.discard(name)

    @asynccontextmanager
    async def use(self, name: str | None = None, *, creates: bool = False) -> AsyncGenerator[AsyncHeliograph]:
        """Lend the engine of a workspace for the length of a block.

        Args:
            name: The workspace; None means the default one.
            creates: Whether it is made if it is not there.

        Raises:
            NotFoundError: It is not there and not to be made.
            SettingsError: It is no name for a workspace.
            StoreError: It cannot be opened.
        """
        entry = await self._take(name or self.default, creates)
        try:
            yield entry.engine
        finally:
            entry.users -= 1

    async def _take(self, name: str, creates: bool) -> _Open:
        async with self._locks.setdefault(name, asyncio.Lock()):
            if not self._is_open:
                raise StoreUnavailable("the service is closed; it takes no requests any more")
            if name in self._removing:
                raise NotFoundError(f"the workspace {name!r} is being removed")
            if name not in self._open:
                self._open[name] = _Open(await self._open_engine(name, creates))
            entry = self._open[name]
            entry.users += 1
            self._open.move_to_end(name)
        await self._close_idle()
        return entry

    async def _open_engine(self, name: str, creates: bool) -> AsyncHeliograph:
        settings = with_store(self.settings, None, name)
        if not creates and not await self.exists(name):
            raise NotFoundError(f"there is no workspace {name!r}; create it first")
        return await AsyncHeliograph(
            settings=settings,
            chat=self._models.chat,
            embedding=self._models.embedding,
            reranker=self._models.reranker,
            extractor=self._models.extractor,
        ).open()

    async def _open_models(self, stack: AsyncExitStack) -> Given:
        models = self._given
        if models.embedding is None:
            embedding = await build_embedding_model(self.settings.embedding)
            stack.push_async_callback(embedding.close)
            models = replace(models, embedding=embedding)
        if models.chat is None and (chat := connect_chat_model(self.settings.chat)):
            stack.push_async_callback(chat.close)
            models = replace(models, chat=chat)
        if models.reranker is None and (reranker := await build_reranker(self.settings.rerank)):
            stack.push_async_callback(reranker.close)
            models = replace(models, reranker=reranker)
        return models

    async def _close_idle(self) -> None:
        idle = [name for name, entry in self._open.items() if not entry.users]
        for name in idle[: max(0, len(self._open) - self.settings.server.max_open_workspaces)]:
            await self._close_when_idle(name)

    async def _close_when_idle(self, name: str) -> None:
        async with self._locks.setdefault(name, asyncio.Lock()):
            entry = self._open.get(name)
            while entry is not None and entry.users:
                await asyncio.sleep(0.05)
            if entry is not None:
                del self._open[name]
                await entry.engine.close()
