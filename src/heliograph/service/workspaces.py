"""The workspaces that one process serves: opened on first use, shared by requests, closed when long idle.

Models are opened once and shared by all workspaces; each workspace has its own store, reply cache, counts, and limit of
concurrent chat calls. A workspace that is being removed is lent to no request. If another process removed a workspace,
and perhaps created it again, its store's identity shows that, and it is opened again.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import unicodedata
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from heliograph.chat.base import connect_chat_model
from heliograph.embedding.base import EmbeddingModel, build_embedding_model
from heliograph.engine import AsyncHeliograph, Given, with_store
from heliograph.errors import ConflictError, HeliographError, InvalidRequestError, NotFoundError, StoreUnavailable
from heliograph.functions import as_embedding_model
from heliograph.rerank.base import build_reranker
from heliograph.settings import Settings, StoreSettings
from heliograph.stores.registry import drop_workspace, find_workspaces, identifier, workspace_upkeep

_LOG = logging.getLogger(__name__)

# How long requests may keep using a workspace after the service closes, or after it was removed.
_LAST_SECONDS = 5.0
_FIRST_TEXT = "ready"
_NAME = re.compile(r"\w[\w.\-]{0,63}")

RemovalStep = Callable[[str], Awaitable[None]]


@dataclass(slots=True, eq=False)
class _Open:
    """An open engine."""

    engine: AsyncHeliograph
    identify: Callable[[StoreSettings], object]
    identity_seconds: float
    identity: object = None
    identified_at: float = 0.0
    users: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def enter(self) -> None:
        self.users += 1
        self.idle.clear()

    def leave(self) -> None:
        self.users -= 1
        if not self.users:
            self.idle.set()


class Workspaces:
    """Keeps engines open, one per workspace, and lends them to requests.

    async with workspaces.use("research") as kb:
        await kb.query("...")

    Args:
        settings: Of every workspace; `store.workspace` names the default one.
        given: Models to use in place of those of the settings; they stay the caller's to close.

    Attributes:
        min_cosine: The one in force: `query.min_cosine`, else that of the embedding.
    """

    min_cosine: float

    def __init__(self, settings: Settings, given: Given | None = None) -> None:
        self.settings = settings
        self._given = given or Given()
        self._models = Given()
        self._stack = AsyncExitStack()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._removing: set[str] = set()
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._abandoned: set[asyncio.Task[None]] = set()
        self._before_removal: list[RemovalStep] = []
        self._is_open = False

    @property
    def default(self) -> str:
        """The workspace of requests that name none."""
        return self.settings.store.workspace

    @property
    def open_count(self) -> int:
        """How many workspaces this process has open."""
        return len(self._open)

    @property
    def open_names(self) -> list[str]:
        """Names of the workspaces that this process has open, least recently used first."""
        return list(self._open)

    async def open(self) -> None:
        """Prepare the models and open the default workspace; raises as `open_parts` of the engine does."""
        async with AsyncExitStack() as stack:
            models = self._given
            if models.embedding is not None:
                embedding = await as_embedding_model(models.embedding)
            else:
                embedding = await build_embedding_model(self.settings.embedding)
                stack.push_async_callback(embedding.close)
                if self.settings.embedding.provider == "e5":
                    warming = asyncio.create_task(_warm(embedding))
                    stack.push_async_callback(_end, warming)
            models = replace(models, embedding=embedding)
            least = self.settings.query.min_cosine
            self.min_cosine = embedding.info.min_score if least is None else least
            if models.chat is None and (chat := connect_chat_model(self.settings.chat)):
                stack.push_async_callback(chat.close)
                models = replace(models, chat=chat)
            if models.reranker is None and (reranker := await build_reranker(self.settings.rerank)):
                stack.push_async_callback(reranker.close)
                models = replace(models, reranker=reranker)
            self._models = models
            self._stack = stack.pop_all()
        self._is_open = True
        try:
            await self.create(self.default, may_exist=True)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all workspaces, each once its users are done or a grace period has passed, then the models.

        Closing twice does nothing.
        """
        self._is_open = False
        entries = list(self._open.items())
        self._open.clear()
        closing = [_close(name, entry, _LAST_SECONDS) for name, entry in entries]
        await asyncio.gather(*closing, *self._closing.values(), *self._abandoned)
        await self._stack.aclose()

    def call_before_removal(self, step: RemovalStep) -> None:
        """Register a callback that gets the name of each workspace to be removed, for example to end its jobs.

        By then no request can get the workspace any more; current users are waited for afterwards.
        """
        self._before_removal.append(step)

    async def names(self) -> list[str]:
        """Return the names of all workspaces, open or not, sorted."""
        found = await find_workspaces(self.settings.store)
        return [name for name in found if name not in self._removing]

    async def exists(self, name: str) -> bool:
        """Whether there is such a workspace."""
        if _NAME.fullmatch(name) is None or name in self._removing:
            return False
        store = with_store(self.settings, None, name).store
        return await asyncio.to_thread(workspace_upkeep(store).has_workspace, store)

    async def create(self, name: str, *, may_exist: bool = False) -> None:
        """Create a workspace.

        Raises:
            ConflictError: There is one of this name, and it may not exist.
            InvalidRequestError: The name is not valid.
            StoreError: It cannot be created.
        """
        if not may_exist and await self.exists(name):
            raise ConflictError(f"there is a workspace {name!r} already")
        async with self.use(name, creates=True):
            pass

    async def remove(self, name: str) -> None:
        """Delete a workspace with all its data, once all its users are done.

        Raises:
            ConflictError: It is the default workspace, or is being removed.
            NotFoundError: There is none of this name.
            StoreError: It cannot be removed.
        """
        if name == self.default:
            raise ConflictError(f"{name!r} is the default workspace; clear it instead")
        exists = await self.exists(name)
        # Checked last: another removal may have begun meanwhile, and the first to end would free the name.
        if name in self._removing:
            raise ConflictError(f"the workspace {name!r} is being removed already")
        if not exists:
            raise NotFoundError(f"there is no workspace {name!r}")
        self._removing.add(name)
        try:
            for step in self._before_removal:
                await step(name)
            async with self._lock(name):
                entry = self._open.pop(name, None)
            if entry is not None:
                await _close(name, entry)
            elif (closing := self._closing.get(name)) is not None:
                await asyncio.wait([closing])
            await drop_workspace(with_store(self.settings, None, name).store)
        finally:
            self._removing.discard(name)

    @asynccontextmanager
    async def use(self, name: str | None = None, *, creates: bool = False) -> AsyncGenerator[AsyncHeliograph]:
        """Yield the engine of a workspace, None being the default one; it stays open until the block is left.

        Raises:
            NotFoundError: It does not exist and is not to be created.
            InvalidRequestError: The name is not valid.
            StoreError: It cannot be opened.
        """
        entry = await self._take(name or self.default, creates)
        try:
            yield entry.engine
        finally:
            entry.leave()

    def _lock(self, name: str) -> asyncio.Lock:
        """Return the lock under which a workspace is opened; it is never held while waiting for users."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def _take(self, name: str, creates: bool) -> _Open:
        if not _NAME.fullmatch(name):
            raise InvalidRequestError(
                f"{name[:80]!r} is no name for a workspace; use up to 64 letters, digits, '_', '.' and '-'"
            )
        async with self._lock(name):
            entry = self._open.get(name)
            if entry is not None and await _is_gone(entry) and self._open.pop(name, None):
                task = asyncio.create_task(_close(name, entry, _LAST_SECONDS))
                self._abandoned.add(task)
                task.add_done_callback(self._abandoned.discard)
            self._check_available(name)
            # It may have been closed meanwhile, because too many were open.
            entry = self._open.get(name)
            if entry is None:
                entry = await self._open_entry(name, creates)
            entry.enter()
            self._open.move_to_end(name)
        idle = [name for name, entry in self._open.items() if not entry.users]
        for idle_name in idle[: max(0, len(self._open) - self.settings.server.max_open_workspaces)]:
            task = asyncio.create_task(_close(idle_name, self._open.pop(idle_name)))
            self._closing[idle_name] = task
            task.add_done_callback(lambda _, name=idle_name: self._closing.pop(name, None))
        return entry

    def _check_available(self, name: str) -> None:
        if not self._is_open:
            raise StoreUnavailable("the service is closed; it takes no requests any more")
        if name in self._removing:
            raise NotFoundError(f"the workspace {name!r} is being removed")

    async def _open_entry(self, name: str, creates: bool) -> _Open:
        if (closing := self._closing.get(name)) is not None:
            await asyncio.wait([closing])
        if name != self.default or not creates:
            await self._check_name(name, creates)
        engine = await AsyncHeliograph(
            settings=with_store(self.settings, None, name),
            chat=self._models.chat,
            embedding=self._models.embedding,
            reranker=self._models.reranker,
            extractor=self._models.extractor,
        ).open()
        try:
            entry = _Open(engine, *identifier(engine.settings.store))
            entry.identity, entry.identified_at = await _identify(entry), time.monotonic()
            # It may have been removed while it was opened.
            self._check_available(name)
        except BaseException:
            await engine.close()
            raise
        self._open[name] = entry
        return entry

    async def _check_name(self, name: str, creates: bool) -> None:
        # Look up this name only, since there may be thousands of others.
        if await self.exists(name):
            return
        if not creates:
            raise NotFoundError(f"there is no workspace {name!r}; create it first")
        # Some file systems treat names that differ only in case, or in the encoding of accents, as equal.
        for other in await self.names():
            if len({unicodedata.normalize("NFKC", item).casefold() for item in (name, other)}) == 1:
                raise ConflictError(f"there is a workspace {other!r}, too like {name!r}; choose another name")


async def _is_gone(entry: _Open) -> bool:
    """Return whether another process removed a workspace, and may have created another of its name."""
    now = time.monotonic()
    if now - entry.identified_at < entry.identity_seconds:
        return False
    entry.identified_at = now
    try:
        return await _identify(entry) != entry.identity
    except StoreUnavailable:
        # Its users get the error themselves.
        return False


async def _identify(entry: _Open) -> object:
    settings = entry.engine.settings.store
    return await asyncio.to_thread(entry.identify, settings) if entry.identity_seconds else entry.identify(settings)


async def _warm(embedding: EmbeddingModel) -> None:
    """Load a local model, which otherwise loads with the first text, while the service opens its port."""
    try:
        await embedding.embed([_FIRST_TEXT], "document")
    except HeliographError as error:
        _LOG.error("questions and documents will fail: %s", error)
    except Exception:  # noqa: BLE001 (nobody awaits this; what is a defect must not vanish)
        _LOG.exception("the embedding model could not be made ready; questions and documents may fail")


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def _close(name: str, entry: _Open, patience_seconds: float | None = None) -> None:
    """Close an engine once no request uses it, or after waiting long enough."""
    if entry.users:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_seconds):
                await entry.idle.wait()
    try:
        await entry.engine.close()
    except HeliographError as error:
        _LOG.warning("the workspace %r was not closed cleanly: %s", name, error)
    except Exception:  # noqa: BLE001 (a defect in one must not keep the others, and the models, open)
        _LOG.exception("the workspace %r was not closed cleanly", name)
