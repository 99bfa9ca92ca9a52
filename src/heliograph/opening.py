"""Opening what an engine is made of: store, models, and the rooms that use them, in the order of their needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from heliograph.chat.base import ChatModel
from heliograph.chat.meter import ChatMeter
from heliograph.chat.registry import build_chat_model, wrap_chat_model
from heliograph.distributed.opening import GivenModels, open_cluster
from heliograph.documents.sources import SourceReader
from heliograph.embedding.base import EmbeddingModel
from heliograph.embedding.registry import build_embedding_model
from heliograph.errors import HeliographError, InvalidRequestError, SettingsError, StoreUnavailable
from heliograph.functions import (
    ChatFunction,
    EmbeddingFunction,
    RerankFunction,
    as_chat_model,
    as_embedding_model,
    as_reranker,
)
from heliograph.ingest.curation import Curator
from heliograph.ingest.duplicates import DuplicateFinder
from heliograph.ingest.evidence_fold import EvidenceFold
from heliograph.ingest.extraction.base import Extractor
from heliograph.ingest.extraction.choosing import choose_extractor
from heliograph.ingest.given import GraphInserter
from heliograph.ingest.graph_curation import CurationRooms
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.maintenance.workspace import Maintenance
from heliograph.query.engine import QueryEngine
from heliograph.query.plan import readable_tokens
from heliograph.rerank.base import Reranker
from heliograph.rerank.registry import build_reranker
from heliograph.settings import IngestSettings, Settings, StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.registry import open_store

__all__ = ["Given", "Opening", "Rooms", "open_rooms", "with_engine", "with_store"]

_LOG = logging.getLogger(__name__)
_CLOSED = "this Heliograph was closed; open() opens it again"
_NOT_OPEN = "this Heliograph is not open yet; await open(), or use it inside `async with`, before this is asked for"


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller brings in place of what the settings name; it stays the caller's to close."""

    chat: ChatModel | ChatFunction | None = None
    embedding: EmbeddingModel | EmbeddingFunction | None = None
    reranker: Reranker | RerankFunction | None = None
    extractor: Extractor | None = None


@dataclass(frozen=True, slots=True)
class Rooms:
    """What is open.

    Attributes:
        store: The workspace.
        ingest: Takes documents in.
        query: Answers questions.
        maintenance: Looks after the workspace as a whole.
        meter: Counts what chat models cost.
        sources: Reads files and addresses.
        curation: Corrects the graph by hand.
    """

    store: Store
    ingest: IngestPipeline
    query: QueryEngine
    maintenance: Maintenance
    meter: ChatMeter
    sources: SourceReader
    curation: CurationRooms


class Opening:
    """What an engine has open, and the event loop that it is used from.

    Locks and connections belong to a loop, so a second one is refused while the first runs. A loop that ends, or an
    engine that nobody holds any more, closes what was opened in it; the next loop opens all anew.
    """

    def __init__(self, settings: Settings, given: Given) -> None:
        self._settings, self._given = settings, given
        self._held: AsyncGenerator[Rooms] | None = None
        self._rooms: Rooms | None = None
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened_in: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()

    async def open(self) -> Rooms:
        """Open all rooms, or do nothing if they are open in this loop; raises as `open_rooms`."""
        return await self._open(again=True)

    async def use(self) -> Rooms:
        """Return what is open; the first use opens it.

        Raises:
            InvalidRequestError: It is asked for in another event loop than that which uses it.
            StoreUnavailable: It was closed.
            HeliographError: As `open_rooms` raises.
        """
        if self._rooms is not None and self._opened_in is asyncio.get_running_loop():
            return self._rooms
        return await self._open(again=False)

    async def close(self) -> None:
        """Close what was opened; closing twice does nothing. Only `open` opens it again."""
        self._refuse_other_loop()
        self._is_closed = True
        async with self._turn:
            held, self._held, self._rooms = self._held, None, None
            if held is not None:
                await held.aclose()
        self._loop = None

    async def _open(self, *, again: bool) -> Rooms:
        self._refuse_other_loop()
        async with self._turn:
            if again:
                self._is_closed = False
            elif self._is_closed:
                raise StoreUnavailable(_CLOSED)
            if self._opened_in is not self._loop:
                await self._leave_ended_loop()
            if self._rooms is None:
                held = _hold_rooms(self._settings, self._given)
                self._rooms = await anext(held)
                self._held, self._opened_in = held, self._loop
            return self._rooms

    async def _leave_ended_loop(self) -> None:
        held, self._held, self._rooms = self._held, None, None
        try:
            if held is not None:
                await held.aclose()
        except (HeliographError, RuntimeError) as error:
            # Connections are lost with their loop; what belongs to none was closed all the same.
            _LOG.info("not all that an event loop left open could be closed in the next: %s", error)

    @property
    def rooms(self) -> Rooms:
        """What is open, where nothing can be awaited.

        Raises:
            InvalidRequestError: It is asked for in another event loop than that which uses it.
            StoreUnavailable: Nothing is.
        """
        self._refuse_other_loop()
        return self.rooms_in_any_loop

    @property
    def rooms_in_any_loop(self) -> Rooms:
        """What is open, to read what belongs to no loop."""
        if self._rooms is None:
            raise StoreUnavailable(_CLOSED if self._is_closed else _NOT_OPEN)
        return self._rooms

    def _refuse_other_loop(self) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._loop is None or not self._loop.is_running():
            if self._loop is not running:
                self._loop, self._turn = running, asyncio.Lock()
        elif self._loop is not running:
            raise InvalidRequestError(
                "this engine was opened in another event loop; call it there (asyncio.run_coroutine_threadsafe), or "
                "use Heliograph, which many threads may share"
            )


async def _hold_rooms(settings: Settings, given: Given) -> AsyncGenerator[Rooms]:
    """Open all rooms, give them once, and close them when this is closed, as asyncio does when the loop ends."""
    async with AsyncExitStack() as stack:
        yield await open_rooms(settings, given, stack)


async def open_rooms(settings: Settings, given: Given, stack: AsyncExitStack) -> Rooms:
    """Open store and models, in the order in which they need one another.

    Args:
        settings: What to open.
        given: What to use in place of it.
        stack: Closes what was opened.

    Raises:
        SettingsError: The settings do not go together.
        StoreError: The store cannot be opened.
        ModelError: A model cannot be made ready.
    """
    models = GivenModels(
        None if given.chat is None else as_chat_model(given.chat),
        None if given.embedding is None else await as_embedding_model(given.embedding),
        given.extractor,
    )
    embedding = models.embedding
    if embedding is None:
        embedding = await build_embedding_model(settings.embedding)
        stack.push_async_callback(embedding.close)
    store = await open_store(settings.store, embedding.info)
    stack.push_async_callback(store.close)
    meter = ChatMeter()
    chat = _open_chat(settings, models.chat, store, meter, stack)
    truth = store.truth
    ingest, sources = _open_ingest(settings, models, store, embedding, chat, meter, stack)
    reranker = await _open_reranker(settings, given, stack)
    fold, readable = EvidenceFold.of(settings.ingest), readable_tokens(settings.chat) if chat else None
    query = QueryEngine(store, embedding, chat, reranker, settings.query, settings.rerank, fold, readable)
    maintenance = Maintenance(truth, embedding, chat, settings.ingest)
    curator = Curator(truth, ingest.committer)
    duplicates = DuplicateFinder(truth, curator, settings.resolution)
    if settings.resolution.merge_duplicates:
        ingest.call_after_insert(duplicates.merge_new)
    curation = CurationRooms(store, curator, duplicates, GraphInserter(ingest))
    return Rooms(store, ingest, query, maintenance, meter, sources, curation)


def _open_ingest(
    settings: Settings,
    given: GivenModels,
    store: Store,
    embedding: EmbeddingModel,
    chat: ChatModel | None,
    meter: ChatMeter,
    stack: AsyncExitStack,
) -> tuple[IngestPipeline, SourceReader]:
    """Return what takes documents in and what reads their sources, in this process or on a cluster."""
    extractor = given.extractor or choose_extractor(settings.ingest, chat)
    if settings.ingest.engine == "local":
        sources = SourceReader(settings.documents, settings.ingest.max_document_characters)
        stack.callback(sources.close)
        return IngestPipeline(store.truth, embedding, extractor, chat, settings.ingest), sources
    replies = store.replies if settings.chat.cache else None
    cluster = open_cluster(settings, given, embedding, replies, meter, stack)
    stack.callback(cluster.sources.close)
    ingest = IngestPipeline(
        *(store.truth, cluster.embedding, extractor, chat, cluster.ingest),
        reader=cluster.reader,
        sources_at_once=cluster.sources_at_once,
    )
    return ingest, cluster.sources


def _open_chat(
    settings: Settings, given: ChatModel | None, store: Store, meter: ChatMeter, stack: AsyncExitStack
) -> ChatModel | None:
    replies = store.replies if settings.chat.cache else None
    if given is not None:
        return wrap_chat_model(given, settings.chat, replies, meter)
    chat = build_chat_model(settings.chat, replies, meter)
    if chat is not None:
        stack.push_async_callback(chat.close)
    return chat


async def _open_reranker(settings: Settings, given: Given, stack: AsyncExitStack) -> Reranker | None:
    if given.reranker is not None:
        return as_reranker(given.reranker)
    reranker = await build_reranker(settings.rerank)
    if reranker is not None:
        stack.push_async_callback(reranker.close)
    return reranker


def with_store(
    settings: Settings, data_dir: str | Path | None, workspace: str | None, url: str | None = None
) -> Settings:
    """Return settings with another folder, workspace or back end, if they are given.

    Raises:
        SettingsError: They are not valid.
    """
    given = {"data_dir": data_dir, "workspace": workspace, "url": url}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        return settings
    try:
        store = StoreSettings.model_validate(settings.store.model_dump() | changes)
    except ValidationError as error:
        problems = "; ".join(f"{item['loc'][0]}: {item['msg']}, got {item['input']!r}" for item in error.errors())
        raise SettingsError(f"the store cannot be opened like this: {problems}") from None
    return settings.model_copy(update={"store": store})


def with_engine(settings: Settings, engine: str | None) -> Settings:
    """Return settings with another engine for reading documents, if one is given.

    Raises:
        SettingsError: There is no such engine.
    """
    if engine is None:
        return settings
    if engine not in get_args(IngestSettings.model_fields["engine"].annotation):
        raise SettingsError(f"there is no engine {engine!r}; take 'local' or 'ray'")
    return settings.model_copy(update={"ingest": settings.ingest.model_copy(update={"engine": engine})})
