"""The facade: opens the rooms of one workspace in order and passes questions and documents on to them.

Does no work of its own. Owns what it opened: `close` (or leaving `async with`) closes store and models in reverse
order; a model or store that the caller passed in stays the caller's to close.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from heliograph.chat.base import ChatModel
from heliograph.chat.meter import ChatMeter, ChatUsage
from heliograph.chat.registry import build_chat_model, wrap_chat_model
from heliograph.documents.files import find_files
from heliograph.embedding.base import EmbeddingModel
from heliograph.embedding.registry import build_embedding_model
from heliograph.errors import SettingsError, StoreUnavailable
from heliograph.ingest.batch import new_documents
from heliograph.ingest.extraction.base import Extractor
from heliograph.ingest.extraction.chat import ChatExtractor
from heliograph.ingest.extraction.local import LocalExtractor
from heliograph.ingest.extraction.none import NoExtractor
from heliograph.ingest.files import insert_files
from heliograph.ingest.models import DeleteReport, IngestReport, NewDocument
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.ingest.progress import Progress
from heliograph.models import Chunk, Document, Entity, GraphPath, Relation, Stats, Subgraph
from heliograph.query.engine import QueryEngine
from heliograph.query.models import Answer, QueryParam
from heliograph.query.streaming import AnswerStream
from heliograph.rerank.base import Reranker
from heliograph.settings import Settings, StoreSettings
from heliograph.stores.base import DocumentPage, DocumentQuery, Store
from heliograph.stores.registry import open_store
from heliograph.text.names import name_to_entity_id, names_to_relation_id

__all__ = ["AsyncHeliograph"]


class AsyncHeliograph:
    """One workspace: documents in, answers out.

        async with AsyncHeliograph("kb") as kb:
            await kb.insert("ESP32 speaks MQTT over TLS.", sources=["notes.md"])
            answer = await kb.query("What does ESP32 speak?")

    Safe to use from many tasks of one event loop.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        workspace: str | None = None,
        settings: Settings | None = None,
        chat: ChatModel | None = None,
        embedding: EmbeddingModel | None = None,
        reranker: Reranker | None = None,
        extractor: Extractor | None = None,
    ) -> None:
        """Note what to open; nothing is opened yet.

        Args:
            data_dir: Folder of the store; None means that of the settings.
            workspace: Name of the workspace; None means that of the settings.
            settings: None reads `heliograph.toml` and the environment.
            chat: Chat model in place of the one in the settings; gets the same wrappers, stays the caller's to close.
            embedding: Embedding model in place of the one in the settings; stays the caller's to close.
            reranker: Reranker; stays the caller's to close.
            extractor: Extractor in place of the one in the settings.

        Raises:
            SettingsError: A setting is not valid.
        """
        self.settings = _with_store(settings or Settings.load(), data_dir, workspace)
        self._given = _Given(chat, embedding, reranker, extractor)
        self._stack = AsyncExitStack()
        self._rooms: _Rooms | None = None

    async def open(self) -> Self:
        """Open store and models; opening twice does nothing.

        Raises:
            StoreError: The store cannot be opened.
            ModelError: The embedding model cannot be made ready.
        """
        if self._rooms is None:
            async with AsyncExitStack() as stack:
                rooms = await _open_rooms(self.settings, self._given, stack)
                self._stack = stack.pop_all()
            self._rooms = rooms
        return self

    async def close(self) -> None:
        """Finish what is under way and close what was opened; closing twice does nothing."""
        self._rooms = None
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Documents

    async def insert(
        self,
        documents: str | NewDocument | Sequence[str | NewDocument],
        *,
        sources: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
        track_id: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Take documents in and return when each is processed, unchanged or failed.

        A known id or source is an update: the same text changes nothing, another replaces it in one commit.

        Args:
            documents: Texts, or `NewDocument`s.
            sources: Source of each text, for citations; one a text.
            ids: Id of each text; None derives it from source or text.
            metadata: Free JSON of each text.
            track_id: Name of the batch; None makes one up.
            progress: Called now and then with how far it is.

        Raises:
            InvalidRequestError: The lists differ in length.
            ModelError: A model is out of reach; documents not finished stay pending for `resume`.
            StoreError: The store failed; nothing acknowledged is lost.
        """
        batch = new_documents(documents, sources, ids, metadata)
        return await self._open_rooms_or_fail.ingest.insert(batch, track_id=track_id, progress=progress)

    async def insert_files(
        self,
        paths: Iterable[str | Path],
        *,
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Take in text and Markdown files; folders are walked. `metadata` goes over what the files themselves say.

        Raises:
            IngestError: A path does not exist.
            ModelError: As in `insert`.
            StoreError: As in `insert`.
        """
        files = await asyncio.to_thread(find_files, list(paths))
        limit = self.settings.ingest.max_document_characters
        return await insert_files(self._open_rooms_or_fail.ingest, files, limit, progress, metadata)

    async def resume(self, *, progress: Callable[[Progress], None] | None = None) -> IngestReport:
        """Take up what a crash or a cancel left behind."""
        return await self._open_rooms_or_fail.ingest.resume(progress=progress)

    async def retry(self, *, progress: Callable[[Progress], None] | None = None) -> IngestReport:
        """Try failed documents, and the failed chunks of partial ones, once more."""
        return await self._open_rooms_or_fail.ingest.retry(progress=progress)

    def cancel(self) -> None:
        """Stop the ingest under way; what is not finished stays pending for `resume`."""
        self._open_rooms_or_fail.ingest.cancel()

    async def delete(self, document_ids: str | Sequence[str]) -> DeleteReport:
        """Delete documents and all that only they said; unknown ids are reported, not an error."""
        ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
        return await self._open_rooms_or_fail.ingest.delete(ids)

    async def documents(self, query: DocumentQuery | None = None) -> DocumentPage:
        """Return one page of documents."""
        return await self.store.records.find_documents(query or DocumentQuery())

    async def document(self, document_id: str) -> Document | None:
        """Return one document, or None."""
        found = await self.store.records.get_documents([document_id])
        return found[0] if found else None

    async def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks in order; empty if there is no such document."""
        return await self.store.records.get_document_chunks(document_id)

    # Questions

    async def query(self, question: str, param: QueryParam | None = None) -> Answer:
        """Answer a question.

        Raises:
            InvalidRequestError: The question or a parameter cannot be served; says which and why.
            ModelError: A model is out of reach or failed; never turned into an answer.
            StoreError: The store failed.
        """
        return await self._open_rooms_or_fail.query.query(question, param or QueryParam())

    async def query_data(self, question: str, param: QueryParam | None = None) -> dict[str, Any]:
        """Return what was retrieved, as LightRAG's `/query/data` does; raises as `query` does."""
        return await self._open_rooms_or_fail.query.query_data(question, param or QueryParam())

    async def query_stream(self, question: str, param: QueryParam | None = None) -> AnswerStream:
        """Return what was retrieved at once and the answer piece by piece; raises as `query` does."""
        return await self._open_rooms_or_fail.query.stream(question, param or QueryParam())

    async def clear_cache(self, cache_type: str | None = None) -> int:
        """Drop cached replies (`extract`, `summary`, `keywords`, `query`; None drops all); return how many."""
        return await self.store.replies.delete_replies(cache_type)

    # Graph

    async def entity(self, name: str) -> Entity | None:
        """Return the entity that a name stands for, or None."""
        found = await self.store.graph.get_entities([name_to_entity_id(name)])
        return found[0] if found else None

    async def relation(self, name: str, other: str) -> Relation | None:
        """Return the relation between two entities, in either order, or None."""
        found = await self.store.graph.get_relations([names_to_relation_id(name, other)])
        return found[0] if found else None

    async def entities(self, *, offset: int = 0, limit: int = 100) -> list[Entity]:
        """Return entities, best connected first."""
        return await self.store.graph.list_entities(offset, limit)

    async def neighbours(self, name: str, *, depth: int = 1, max_entities: int = 1000) -> Subgraph:
        """Return what lies within `depth` relations of an entity; empty if there is no such entity."""
        return await self.store.graph.get_neighbourhood(name_to_entity_id(name), depth, max_entities)

    async def paths(self, name: str, other: str, *, max_length: int = 6, limit: int = 5) -> list[GraphPath]:
        """Return the shortest paths between two entities, strongest first; empty if there is none."""
        ends = name_to_entity_id(name), name_to_entity_id(other)
        return await self.store.graph.find_shortest_paths(*ends, max_length, limit)

    # State

    async def stats(self) -> Stats:
        """Return the counts of this workspace."""
        return await self.store.get_stats()

    def usage(self) -> ChatUsage:
        """Return the calls and tokens that chat models have spent since opening, per purpose."""
        return self._open_rooms_or_fail.meter.usage()

    @property
    def store(self) -> Store:
        """The store, for what has no method here."""
        return self._open_rooms_or_fail.store

    @property
    def _open_rooms_or_fail(self) -> _Rooms:
        if self._rooms is None:
            raise StoreUnavailable("this Heliograph is closed; use it inside `with`, or call open() first")
        return self._rooms


@dataclass(frozen=True, slots=True)
class _Given:
    """What the caller brings in place of what the settings name."""

    chat: ChatModel | None
    embedding: EmbeddingModel | None
    reranker: Reranker | None
    extractor: Extractor | None


@dataclass(frozen=True, slots=True)
class _Rooms:
    """What is open."""

    store: Store
    ingest: IngestPipeline
    query: QueryEngine
    meter: ChatMeter


async def _open_rooms(settings: Settings, given: _Given, stack: AsyncExitStack) -> _Rooms:
    embedding = given.embedding
    if embedding is None:
        embedding = await build_embedding_model(settings.embedding)
        stack.push_async_callback(embedding.close)
    store = await open_store(settings.store, embedding.info)
    stack.push_async_callback(store.close)
    meter = ChatMeter()
    chat = _open_chat(settings, given, store, meter, stack)
    extractor = given.extractor or _choose_extractor(settings, chat)
    ingest = IngestPipeline(store, embedding, extractor, chat, settings.ingest)
    query = QueryEngine(store, embedding, chat, given.reranker, settings.query, settings.rerank)
    return _Rooms(store, ingest, query, meter)


def _open_chat(
    settings: Settings, given: _Given, store: Store, meter: ChatMeter, stack: AsyncExitStack
) -> ChatModel | None:
    replies = store.replies if settings.chat.cache else None
    if given.chat is not None:
        return wrap_chat_model(given.chat, settings.chat, replies, meter)
    chat = build_chat_model(settings.chat, replies, meter)
    if chat is not None:
        stack.push_async_callback(chat.close)
    return chat


def _choose_extractor(settings: Settings, chat: ChatModel | None) -> Extractor:
    wanted = settings.ingest.extractor
    if wanted == "none":
        return NoExtractor()
    if wanted == "chat" and chat is None:
        raise SettingsError("ingest.extractor is 'chat' but no chat model is configured; set chat.model, or use 'auto'")
    if wanted == "local" or chat is None:
        return LocalExtractor()
    return ChatExtractor(chat, settings.ingest)


def _with_store(settings: Settings, data_dir: str | Path | None, workspace: str | None) -> Settings:
    given = {"data_dir": data_dir, "workspace": workspace}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        return settings
    try:
        store = StoreSettings.model_validate(settings.store.model_dump() | changes)
    except ValidationError as error:
        problems = "; ".join(f"{item['loc'][0]}: {item['msg']}, got {item['input']!r}" for item in error.errors())
        raise SettingsError(f"the store cannot be opened like this: {problems}") from None
    return settings.model_copy(update={"store": store})
