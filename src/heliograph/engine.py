"""The engine: opens the parts of one workspace in order, and passes questions and documents on to them.

`open_parts` opens store, models, ingest, curation, query and maintenance in dependency order, from the settings and
the caller's arguments. `AsyncHeliograph` is the facade over them and does no work of its own.
It owns the parts it opened: `close` (or leaving `async with`, or the end of the event loop) closes store and models in
reverse order. The caller closes a model that the caller passed in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import ValidationError

from heliograph.arguments import LARGEST_COUNT, checks_arguments
from heliograph.chat.base import ChatMeter, ChatModel, ChatUsage, build_chat_model, wrap_chat_model
from heliograph.curation.curator import Curator
from heliograph.curation.duplicates import DuplicateFinder
from heliograph.curation.graph_curation import CurationParts, GraphCuration
from heliograph.documents.base import LoadedDocument
from heliograph.documents.sources import FileFilter, SourceReader, find_sources, is_url
from heliograph.embedding.base import EmbeddingModel, build_embedding_model
from heliograph.errors import HeliographError, InvalidRequestError, SettingsError, StoreUnavailable
from heliograph.extraction.base import Extractor, choose_extractor
from heliograph.filters import Filter, parse_filter
from heliograph.functions import (
    ChatFunction,
    EmbeddingFunction,
    RerankFunction,
    as_chat_model,
    as_embedding_model,
    as_reranker,
)
from heliograph.ids import is_storable, relation_id, written_type
from heliograph.ingest.chunking import Chunker
from heliograph.ingest.files import FolderChange, enqueue_files, insert_files, watch_folder
from heliograph.ingest.intake import identify_files, new_documents
from heliograph.ingest.merging import EvidenceFold, find_indexing
from heliograph.ingest.models import DeleteReport, IngestReport, NewDocument, Progress
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.ingest.resolution import find_entity_ids
from heliograph.maintenance.archive import ExportFormat, ImportReport
from heliograph.maintenance.check import CheckReport, Maintenance
from heliograph.models import Batch, Chunk, Document, Entity, GraphPath, Relation, Stats, Subgraph
from heliograph.observing import TellCount
from heliograph.query.answers.answer import AnswerStream
from heliograph.query.answers.models import Answer
from heliograph.query.models import QueryParam, Retrieval
from heliograph.query.payloads import QueryData
from heliograph.query.pipeline import QueryPipeline
from heliograph.query.plan import readable_tokens
from heliograph.rerank.base import ChatReranker, Reranker, build_reranker
from heliograph.settings import IngestSettings, Settings, StoreSettings, problem_of
from heliograph.stores.base import DocumentPage, DocumentQuery, Store, StoreView
from heliograph.stores.registry import open_store

# Opening the parts of an engine in dependency order: the store, the models, and the parts that use them.

_LOG = logging.getLogger(__name__)
_CLOSED = "this Heliograph was closed; open() opens it again"
_NOT_OPEN = "this Heliograph is not open yet; await open(), or use it inside `async with`, before this is asked for"


@dataclass(frozen=True, slots=True)
class Given:
    """Models, extractor and chunker that the caller passes in place of those in the settings, and closes itself."""

    chat: ChatModel | ChatFunction | None = None
    embedding: EmbeddingModel | EmbeddingFunction | None = None
    reranker: Reranker | RerankFunction | None = None
    extractor: Extractor | None = None
    chunker: Chunker | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """The open parts of an engine: store, models and pipeline."""

    store: Store
    ingest: IngestPipeline
    query: QueryPipeline
    maintenance: Maintenance
    meter: ChatMeter
    sources: SourceReader
    curation: CurationParts


class Opening:
    """The open parts of an engine, and the event loop that uses them.

    Locks and connections belong to an event loop, so a second loop is refused while the first runs. The parts are
    closed when their loop ends or the engine is garbage collected; the next loop opens all of them again.
    """

    def __init__(self, settings: Settings, given: Given) -> None:
        self._settings, self._given = settings, given
        self._held: AsyncGenerator[Parts] | None = None
        self._parts: Parts | None = None
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened_in: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()

    async def open(self) -> Parts:
        """Open all parts, unless they are open in this loop already; raises as `open_parts`."""
        return await self._open(again=True)

    async def use(self) -> Parts:
        """Return the open parts; the first use opens them.

        Raises:
            InvalidRequestError: Another running event loop uses this engine.
            StoreUnavailable: The engine was closed.
            HeliographError: As `open_parts` raises.
        """
        if self._parts is not None and self._opened_in is asyncio.get_running_loop():
            return self._parts
        return await self._open(again=False)

    async def close(self) -> None:
        """Close the engine; closing twice does nothing. Only `open` opens it again."""
        self._refuse_other_loop()
        self._is_closed = True
        async with self._turn:
            held, self._held, self._parts = self._held, None, None
            if held is not None:
                await held.aclose()
        self._loop = None

    async def _open(self, *, again: bool) -> Parts:
        self._refuse_other_loop()
        async with self._turn:
            if again:
                self._is_closed = False
            elif self._is_closed:
                raise StoreUnavailable(_CLOSED)
            if self._opened_in is not self._loop:
                await self._leave_ended_loop()
            if self._parts is None:
                held = _hold_parts(self._settings, self._given)
                self._parts = await anext(held)
                self._held, self._opened_in = held, self._loop
            return self._parts

    async def _leave_ended_loop(self) -> None:
        held, self._held, self._parts = self._held, None, None
        try:
            if held is not None:
                await held.aclose()
        except (HeliographError, RuntimeError) as error:
            # Connections are lost with their loop; parts that belong to no loop were closed all the same.
            _LOG.info("not all that an event loop left open could be closed in the next: %s", error)

    @property
    def parts(self) -> Parts:
        """The open parts, for code that cannot await.

        Raises:
            InvalidRequestError: Another running event loop uses this engine.
            StoreUnavailable: The engine is not open.
        """
        self._refuse_other_loop()
        return self.parts_in_any_loop

    @property
    def parts_in_any_loop(self) -> Parts:
        """The open parts, to read attributes that belong to no event loop."""
        if self._parts is None:
            raise StoreUnavailable(_CLOSED if self._is_closed else _NOT_OPEN)
        return self._parts

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


async def _hold_parts(settings: Settings, given: Given) -> AsyncGenerator[Parts]:
    """Open all parts, yield them once, and close them with the generator, which asyncio closes when the loop ends."""
    async with AsyncExitStack() as stack:
        yield await open_parts(settings, given, stack)


async def open_parts(settings: Settings, given: Given, stack: AsyncExitStack) -> Parts:
    """Open store, models and the parts that use them, in dependency order; `stack` closes them.

    Raises:
        SettingsError: The settings contradict one another.
        StoreError: The store cannot be opened.
        ModelError: A model cannot be made ready.
    """
    given_chat = None if given.chat is None else as_chat_model(given.chat)
    embedding = None if given.embedding is None else await as_embedding_model(given.embedding)
    given = replace(given, chat=given_chat, embedding=embedding)
    if embedding is None:
        embedding = await build_embedding_model(settings.embedding)
        stack.push_async_callback(embedding.close)
    store = await open_store(settings.store, embedding.info)
    stack.push_async_callback(store.close)
    meter = ChatMeter()
    chat = _open_chat(settings, given_chat, store, meter, stack)
    truth = store.truth
    ingest, sources = _open_ingest(settings, given, store, embedding, chat, meter, stack)
    reranker = await _open_reranker(settings, given, chat, stack)
    fold, readable = EvidenceFold.of(settings.ingest), readable_tokens(settings.chat) if chat else None
    query = QueryPipeline(store, embedding, chat, reranker, settings.query, settings.rerank, fold, readable)
    maintenance = Maintenance(truth, embedding, chat, settings.ingest)
    curator = Curator(truth, ingest.committer)
    indexing = find_indexing(settings.ingest, embedding.info, has_chat=chat is not None)
    duplicates = DuplicateFinder(truth, curator, settings.resolution, are_described=not indexing.from_chunks)
    if settings.resolution.merge_duplicates:
        ingest.call_after_processing(duplicates.merge_new)
    curation = CurationParts(store, curator, duplicates, ingest)
    return Parts(store, ingest, query, maintenance, meter, sources, curation)


def _open_ingest(
    settings: Settings,
    given: Given,
    store: Store,
    embedding: EmbeddingModel,
    chat: ChatModel | None,
    meter: ChatMeter,
    stack: AsyncExitStack,
) -> tuple[IngestPipeline, SourceReader]:
    """Return the ingest pipeline and the reader of sources, which work in this process or on a cluster."""
    extractor = given.extractor or choose_extractor(settings.ingest, chat)
    if settings.ingest.engine == "local":
        sources = SourceReader(settings.documents, settings.ingest.max_document_characters)
        stack.callback(sources.close)
        parts = store.truth, embedding, extractor, chat, settings.ingest
        return IngestPipeline(*parts, chunker=given.chunker), sources
    if given.chunker is not None:
        raise SettingsError("a chunker of your own cuts texts in this process; set ingest.engine to 'local'")
    replies = store.replies if settings.chat.cache else None
    # Imported on use, as `maintenance.transfer` is: most processes need neither.
    distributed = import_module("heliograph.distributed.cluster")
    models = distributed.GivenModels(given.chat, given.embedding, given.extractor)
    cluster = distributed.open_cluster(settings, models, embedding, replies, meter, stack)
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


async def _open_reranker(
    settings: Settings, given: Given, chat: ChatModel | None, stack: AsyncExitStack
) -> Reranker | None:
    if given.reranker is not None:
        return as_reranker(given.reranker)
    if settings.rerank.provider == "chat":
        if chat is None:
            raise SettingsError("`rerank.provider` is 'chat' and no chat model is configured; set `chat.model`")
        return ChatReranker(chat, settings.rerank.max_document_tokens)
    reranker = await build_reranker(settings.rerank)
    if reranker is not None:
        stack.push_async_callback(reranker.close)
    return reranker


def with_store(
    settings: Settings, data_dir: str | Path | None, workspace: str | None, url: str | None = None
) -> Settings:
    """Return the settings with the given folder, workspace and store URL, each unless None.

    Raises:
        SettingsError: A value is not valid.
    """
    given = {"data_dir": data_dir, "workspace": workspace, "url": url}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        return settings
    try:
        store = StoreSettings.model_validate(settings.store.model_dump() | changes)
    except ValidationError as error:
        problems = "; ".join(f"{item['loc'][0]}: {problem_of(item)}, got {item['input']!r}" for item in error.errors())
        raise SettingsError(f"the store cannot be opened like this: {problems}") from None
    return settings.model_copy(update={"store": store})


def with_engine(settings: Settings, engine: str | None) -> Settings:
    """Return the settings with the given `ingest.engine`, which reads documents, unless None.

    Raises:
        SettingsError: There is no such engine.
    """
    if engine is None:
        return settings
    if engine not in get_args(IngestSettings.model_fields["engine"].annotation):
        raise SettingsError(f"there is no engine {engine!r}; take 'local' or 'ray'")
    return settings.model_copy(update={"ingest": settings.ingest.model_copy(update={"engine": engine})})


async def best_connected(kb: AsyncHeliograph, most: int) -> Subgraph:
    """Return the `most` best connected entities of a workspace, and the relations among them with the ends' names."""
    found, graph = await kb.entities(limit=most + 1), kb.store.graph
    relations = await graph.find_relations_among([item.id for item in found[:most]])
    named = await graph.name_ends(relations, found[:most])
    return Subgraph(tuple(found[:most]), tuple(named), is_truncated=len(found) > most)


@checks_arguments
class AsyncHeliograph(GraphCuration):
    """One workspace: documents in, answers out.

        async with AsyncHeliograph("kb") as kb:
            await kb.insert("ESP32 speaks MQTT over TLS.", sources=["notes.md"])
            answer = await kb.query("What does ESP32 speak?")

    The first call opens the engine if `async with` or `open` has not; after `close` only `open` does. An engine left
    open is closed when its event loop ends. Safe to use from many tasks of one event loop, and from another loop once
    that one has ended.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        workspace: str | None = None,
        settings: Settings | None = None,
        chat: ChatModel | ChatFunction | None = None,
        embedding: EmbeddingModel | EmbeddingFunction | None = None,
        reranker: Reranker | RerankFunction | None = None,
        extractor: Extractor | None = None,
        chunker: Chunker | None = None,
        engine: str | None = None,
    ) -> None:
        """Store the arguments; nothing is opened yet.

        Args:
            data_dir: Folder of the store; None means that of the settings.
            workspace: Name of the workspace; None means that of the settings.
            settings: None reads `heliograph.toml` and the environment.
            chat: Chat model in place of the one in the settings, or a function (`heliograph.functions`); gets the same
                wrappers, and the caller closes it.
            embedding: Embedding model in place of the one in the settings, or a function, which is called once for its
                dimension; the caller closes it.
            reranker: Reranker in place of the one in the settings, or a function; the caller closes it.
            extractor: Extractor in place of the one in the settings.
            chunker: Chunker in place of `ingest.chunking` and the sizes in the settings.
            engine: `local` or `ray`, where documents are read; None means `ingest.engine` of the settings.

        Raises:
            SettingsError: A setting is not valid.
        """
        self.settings = with_engine(with_store(settings or Settings.load(), data_dir, workspace), engine)
        self._opening = Opening(self.settings, Given(chat, embedding, reranker, extractor, chunker))

    async def open(self) -> Self:
        """Open store and models, also after `close`; opening twice does nothing.

        Raises:
            InvalidRequestError: Another running event loop uses this engine.
            StoreError: The store cannot be opened.
            ModelError: The embedding model cannot be made ready.
        """
        await self._opening.open()
        return self

    async def close(self) -> None:
        """Close the engine; closing twice does nothing. Calls made afterwards are refused until `open`.

        Calls in progress are cancelled. The store stays consistent: unfinished documents stay pending for `resume`.
        """
        await self._opening.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Documents

    async def insert(
        self,
        documents: str | NewDocument | Iterable[str | NewDocument],
        *,
        sources: str | Sequence[str] | None = None,
        ids: str | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        track_id: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Ingest documents, and return when each is processed, unchanged or failed.

        A document with a known id or source is an update: the same text changes nothing, another text replaces the
        stored one in one commit.

        Args:
            documents: Texts, or `NewDocument`s. For a single document no argument needs to be a list.
            sources: Source of each text, for citations; one per text.
            ids: Id of each text; None derives it from source or text.
            metadata: Free JSON of each text.
            track_id: Id of the batch; None generates one.
            progress: Called a few times a second with the progress so far.

        Raises:
            InvalidRequestError: The lists differ in length.
            ModelError: A model is out of reach; unfinished documents stay pending for `resume`.
            StoreError: The store failed; nothing acknowledged is lost.
        """
        batch = new_documents(documents, sources, ids, metadata)
        return await (await self._parts()).ingest.insert(batch, track_id=track_id, progress=progress)

    async def enqueue(
        self, documents: str | NewDocument | Iterable[str | NewDocument], *, track_id: str | None = None
    ) -> IngestReport:
        """Store documents durably as pending, for `resume` to process, and return at once."""
        return await (await self._parts()).ingest.enqueue(new_documents(documents), track_id)

    async def enqueue_files(
        self, files: Mapping[str, Path | str], *, metadata: Mapping[str, Any] | None = None, track_id: str | None = None
    ) -> IngestReport:
        """Read files or URLs, keyed by the source to cite, and store their texts as pending; see `insert_files`."""
        parts = await self._parts()

        def read(source: str) -> LoadedDocument:
            return replace(parts.sources.read(str(files[source]), source), source=source)

        return await enqueue_files(parts.ingest, parts.store.records, list(files), read, metadata, track_id=track_id)

    async def insert_files(
        self,
        paths: Iterable[str | Path],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Ingest files of every known kind, and web pages; one that cannot be read is reported and stops no other.

        Args:
            paths: Files, folders, which are walked, and http(s) URLs.
            include: `.gitignore` patterns of files to take from folders; none takes every known kind.
            exclude: Patterns of files and folders to leave out.
            metadata: Overrides the files' own metadata.
            progress: Called a few times a second with the progress so far.

        Raises:
            IngestError: None of the paths exists, or one is empty; one missing among others is a failed result.
            ModelError: As in `insert`.
            StoreError: As in `insert`.
        """
        parts = await self._parts()
        files, passed_over = FileFilter(tuple(include), tuple(exclude)), dict[str, int]()
        sources = await asyncio.to_thread(find_sources, list(paths), files, passed_over)
        report = await insert_files(parts.ingest, parts.store.records, sources, parts.sources.read, progress, metadata)
        return replace(report, passed_over=passed_over)

    async def insert_url(
        self, url: str, *, metadata: Mapping[str, Any] | None = None, progress: Callable[[Progress], None] | None = None
    ) -> IngestReport:
        """Ingest the page at an http(s) URL, with the URL as its source. Failing to reach it is a failed result.

        Raises:
            InvalidRequestError: It is no URL; no file is ever read.
        """
        parts = await self._parts()
        if not is_url(url):
            raise InvalidRequestError(f"{url!r:.200} is not a URL; give one such as https://..., or use insert_files")
        return await insert_files(parts.ingest, parts.store.records, [url], parts.sources.read, progress, metadata)

    async def watch(
        self,
        folder: str | Path,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
        once: bool = False,
    ) -> AsyncGenerator[FolderChange]:
        """Synchronise the documents with a folder until closed, or once, and yield a report after each change.

        First it deletes documents whose sources lie below the folder and whose files no longer exist, and ingests all
        files, which costs nothing for unchanged ones. Other arguments are those of `insert_files`.

        Raises:
            InvalidRequestError: `folder` is no folder.
            ModelError: As in `insert`.
            StoreError: As in `insert`.
        """
        parts = await self._parts()

        async def insert(paths: Sequence[str]) -> IngestReport:
            return await insert_files(parts.ingest, parts.store.records, paths, parts.sources.read, progress, metadata)

        files = FileFilter(tuple(include), tuple(exclude))
        documents, delete = self.settings.documents, parts.ingest.delete
        changes = watch_folder(Path(folder), files, parts.store.records, documents, insert, delete, once=once)
        async with aclosing(changes):
            async for change in changes:
                yield change

    async def resume(self, *, progress: Callable[[Progress], None] | None = None) -> IngestReport:
        """Process the documents that a crash or a cancellation left pending."""
        return await (await self._parts()).ingest.resume(progress=progress)

    async def retry(
        self, document_ids: str | Iterable[str] = (), *, progress: Callable[[Progress], None] | None = None
    ) -> IngestReport:
        """Process failed documents, and the failed chunks of partial ones, again: all, or those with these ids."""
        ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
        return await (await self._parts()).ingest.retry(ids, progress=progress)

    def pause(self) -> None:
        """Start no further document until `unpause`; documents in progress are finished, and calls wait."""
        self._opening.parts.ingest.pause()

    def unpause(self) -> None:
        """Resume ingest after `pause`."""
        self._opening.parts.ingest.unpause()

    def cancel(self) -> None:
        """Cancel the ingest in progress; unfinished documents stay pending for `resume`."""
        self._opening.parts.ingest.cancel()

    async def abandon(self, reason: str) -> int:
        """Mark waiting documents as failed, with a reason, so that only `retry` processes them; return how many."""
        return await (await self._parts()).ingest.abandon(reason)

    async def delete(
        self, document_ids: str | Iterable[str], *, content_hashes: Mapping[str, str] | None = None
    ) -> DeleteReport:
        """Delete documents and all facts that only they stated; unknown ids are reported, not an error.

        A document that is submitted with another text after this call stays; with `content_hashes`
        (`Document.content_hash` by id) so does one whose text changed after those hashes were read.
        """
        ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
        return await (await self._parts()).ingest.delete(ids, content_hashes)

    async def delete_matching(
        self, *, source_prefix: str | None = None, filter: Filter | Mapping[str, Any] | None = None
    ) -> DeleteReport:
        """Delete the documents whose source has the prefix and that match the filter, as `delete` does.

        Raises:
            InvalidRequestError: Neither is given, as `clear` deletes everything, or the filter cannot be served.
        """
        if not source_prefix and filter is None:
            raise InvalidRequestError("give source_prefix or filter; clear() deletes everything")
        condition = None if filter is None else parse_filter(filter)
        return await (await self._parts()).ingest.delete_matching(
            DocumentQuery(source_prefix=source_prefix, filter=condition)
        )

    async def documents(self, query: DocumentQuery | None = None) -> DocumentPage:
        """Return one page of documents."""
        wanted = query or DocumentQuery()
        records = (await self._parts()).store.records
        return await records.find_documents(wanted) if wanted.can_match else DocumentPage((), 0)

    async def document(self, document_id: str) -> Document | None:
        """Return one document, or None."""
        found = await self.documents_by_id([document_id])
        return found[0] if found else None

    async def documents_by_id(self, document_ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids, in this order; unknown ids are left out."""
        return await (await self._parts()).store.records.get_documents([*filter(is_storable, document_ids)])

    async def documents_of(self, chunk_ids: Sequence[str]) -> list[Document]:
        """Return the documents that hold these chunks (an entity's, for example), each once, in order of the chunks."""
        ids = await (await self._parts()).store.records.get_document_ids([*filter(is_storable, chunk_ids)])
        return await self.documents_by_id(list(dict.fromkeys(ids[id_] for id_ in chunk_ids if id_ in ids)))

    async def document_text(self, document_id: str) -> str | None:
        """Return a document's whole text, for a twin its original's; None if it has none, or is not read yet."""
        records = (await self._parts()).store.records
        return await records.get_document_text(document_id) if is_storable(document_id) else None

    async def identify_files(self, sources: Sequence[str]) -> list[str]:
        """Return the document id of the file or URL at each source, in order, whether it is stored or not."""
        return await identify_files((await self._parts()).store.records, sources)

    async def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks in order, for a twin its original's; empty if there is no such document."""
        document = await self.document(document_id)
        records = (await self._parts()).store.records
        return await records.get_document_chunks(document.twin_of or document.id) if document else []

    # Questions

    async def query(
        self, question: str, param: QueryParam | None = None, *, progress: Callable[[str], None] | None = None
    ) -> Answer:
        """Answer a question, by default with the parameters of the settings.

        `progress` is called with the name of each stage as it begins; `QueryPipeline` says which there are.

        Raises:
            InvalidRequestError: The question or a parameter is not valid; says which and why.
            ModelError: A model is out of reach or failed; never turned into an answer.
            StoreError: The store failed.
        """
        return await (await self._parts()).query.query(question, param or QueryParam(), progress)

    async def query_data(self, question: str, param: QueryParam | None = None) -> QueryData:
        """Return entities, relations and chunks, as LightRAG's `/query/data` does; raises as `query` does."""
        return await (await self._parts()).query.query_data(question, param or QueryParam())

    async def retrieve(self, question: str, param: QueryParam | None = None, *, is_bounded: bool = True) -> Retrieval:
        """Return the typed retrieval that an answer would be made from; raises as `query` does.

        With `is_bounded` its size also respects the chat model's context window, else only the token budgets.
        """
        return await (await self._parts()).query.retrieve(question, param or QueryParam(), is_bounded=is_bounded)

    async def query_stream(
        self, question: str, param: QueryParam | None = None, *, progress: Callable[[str], None] | None = None
    ) -> AnswerStream:
        """Return the retrieval at once and the answer piece by piece; takes and raises as `query` does."""
        return await (await self._parts()).query.stream(question, param or QueryParam(), progress)

    def view(self, filter_: Filter | Mapping[str, Any]) -> StoreView:
        """Return a read-only view of the store as if only the documents that match a filter existed.

            around = await kb.view({"team": "red"}).graph.get_neighbourhood(name_to_entity_id("MQTT"), 1, 50)

        Raises:
            InvalidRequestError: The filter is not valid; says which part.
        """
        return self._opening.parts.query.view(filter_)

    async def clear_cache(self, cache_type: str | None = None) -> int:
        """Delete cached replies (`extract`, `summary`, `keywords`, `query`; None means all); return how many."""
        return await (await self._parts()).store.replies.delete_replies(cache_type)

    # Graph

    async def entity(self, name: str) -> Entity | None:
        """Return the entity that a name stands for, or None."""
        found = await (await self._parts()).store.graph.get_entities(await self._entity_ids(name))
        return found[0] if found else None

    async def relation(self, name: str, other: str) -> Relation | None:
        """Return the relation between two entities, in either order, or None."""
        graph = (await self._parts()).store.graph
        found = await graph.get_relations([relation_id(*await self._entity_ids(name, other))])
        return (await graph.name_ends(found))[0] if found else None

    async def entities(self, *, search: str = "", type: str = "", offset: int = 0, limit: int = 100) -> list[Entity]:
        """Return entities, best connected first.

        With `search`, only those with a name or alias that equals this text, begins with it or contains it, in this
        order. With `type`, only those of this type, whatever its letter case.
        """
        store, kind = (await self._parts()).store, written_type(type)
        if not search.strip():
            return await (
                store.graph.list_entities_of_type(kind, offset, limit)
                if kind
                else store.graph.list_entities(offset, limit)
            )
        end = most = min(offset + limit, LARGEST_COUNT)
        while True:
            ids = await store.names.find_names(search, most)
            if not kind:
                return await store.graph.get_entities(ids[offset:])
            found = [entity for entity in await store.graph.get_entities(ids) if entity.type == kind]
            if len(found) >= end or len(ids) < most or most == LARGEST_COUNT:
                return found[offset:end]
            # Too few of the entities found by name have the type: look further.
            most = min(4 * most, LARGEST_COUNT)

    async def neighbours(self, name: str, *, depth: int = 1, max_entities: int = 1000) -> Subgraph:
        """Return the subgraph within `depth` relations of an entity; empty if there is no such entity."""
        (entity_id,) = await self._entity_ids(name)
        graph = (await self._parts()).store.graph
        found = await graph.get_neighbourhood(entity_id, depth, max_entities)
        return replace(found, relations=tuple(await graph.name_ends(found.relations, found.entities)))

    async def paths(
        self, name: str, other: str, *, max_hops: int = 6, limit: int = 5, max_length: int | None = None
    ) -> list[GraphPath]:
        """Return the shortest paths between two entities, strongest first; empty if none has at most `max_hops`.

        `max_length` is the former name of `max_hops`.
        """
        source_id, target_id = await self._entity_ids(name, other)
        graph = (await self._parts()).store.graph
        found = await graph.find_shortest_paths(
            source_id, target_id, max_hops if max_length is None else max_length, limit
        )
        return [replace(path, relations=tuple(await graph.name_ends(path.relations, path.entities))) for path in found]

    # State

    async def stats(self) -> Stats:
        """Return the counts of this workspace."""
        return await (await self._parts()).store.get_stats()

    async def lags(self) -> Mapping[str, int]:
        """Return how many commits each external store is behind the primary store, by engine."""
        return await (await self._parts()).store.get_lags()

    async def troubles(self) -> Mapping[str, str]:
        """Return why external stores cannot be queried now, by engine; empty if all can."""
        return (await self._parts()).store.get_troubles()

    def usage(self) -> ChatUsage:
        """Return the chat model calls and tokens since opening, per purpose."""
        return self._opening.parts_in_any_loop.meter.usage()

    async def batches(self, *, offset: int = 0, limit: int = 100) -> list[Batch]:
        """Return batches of documents, the latest first: documents per status, timestamps, tokens spent."""
        return await (await self._parts()).store.records.list_batches(offset, limit)

    # Upkeep

    async def check(self, *, repair: bool = False, progress: TellCount | None = None) -> CheckReport:
        """Compare every projection with the documents; with `repair`, repair the differences where possible."""
        return await (await self._parts()).maintenance.check(repair=repair, progress=progress)

    async def rebuild(self, role: str | None = None, *, progress: TellCount | None = None) -> CheckReport:
        """Recompute every projection from the documents; answers stay the same before, during and afterwards.

        With a `role` that an external store serves (`graph`, `vectors`, `cache`), only that store is refilled.

        Raises:
            InvalidRequestError: No external store serves the role.
            ModelError: The embedding model failed; parts rebuilt before stay, and the rest is unchanged.
            StoreUnavailable: Another process is ingesting documents.
        """
        return await (await self._parts()).maintenance.rebuild(role, progress=progress)

    async def backup(self, path: str | Path) -> None:
        """Write a consistent snapshot of the whole workspace into one new file, while reading and writing go on.

        Raises:
            ConflictError: The file exists.
            StoreUnavailable: The file cannot be written; no partial file remains.
        """
        await (await self._parts()).store.backup(Path(path))

    async def export(self, path: str | Path, format: str | ExportFormat = ExportFormat.JSONL) -> int:
        """Write the workspace into a new file, or for `csv`, `markdown`, `obsidian` and `lightrag` a new folder.

        Args:
            path: File or folder to write; it must not exist yet.
            format: `jsonl`, which holds everything and can be imported, `csv`, `graphml`, `markdown` or `obsidian`.

        Returns:
            How many records were written.

        Raises:
            ConflictError: The path exists.
            InvalidRequestError: There is no such format.
            StoreUnavailable: The path cannot be written; no partial output remains.
        """
        transfer = import_module("heliograph.maintenance.transfer")
        return await transfer.export_workspace((await self._parts()).store, Path(path), format)

    async def import_from(
        self, path: str | Path | Sequence[str | Path], *, progress: TellCount | None = None
    ) -> ImportReport:
        """Import an archive that `export` wrote, or the storage of LightRAG, nano-graphrag or GraphRAG.

        The embedding is the only model called. Data that is here already stays unchanged, so that an interrupted import
        can be run again.

        Args:
            path: An archive, a directory, or the URL of a LightRAG database server, such as
                `postgresql://user:password@host/database#workspace`; or several, where LightRAG keeps one workspace in
                several places.
            progress: Called with the kind of record and how many were imported.

        Raises:
            InvalidRequestError: It is none of these, or it is corrupt; records before the corruption are imported.
            MissingDependencyError: The package that reads it is missing.
            ModelError: The embedding failed; records imported before stay.
            StoreError: The store failed; records imported before stay.
        """
        parts = await self._parts()
        places = [path] if isinstance(path, str | Path) else path
        transfer = import_module("heliograph.maintenance.transfer")
        return await transfer.import_places(parts.store, parts.ingest, parts.curation.curator, places, progress)

    async def vacuum(self) -> None:
        """Free the space of deleted data: afterwards no file of this workspace holds a byte of that data."""
        await (await self._parts()).store.vacuum()

    async def clear(self) -> None:
        """Delete everything in this workspace and free its disk space.

        Raises:
            StoreUnavailable: Another process is ingesting documents.
        """
        parts = await self._parts()
        await parts.maintenance.clear()
        parts.ingest.forget_updates()

    @property
    def store(self) -> Store:
        """The store, for operations without a method here; available once the engine is open."""
        return self._opening.parts.store

    async def _parts(self) -> Parts:
        return await self._opening.use()

    async def _curation(self) -> CurationParts:
        return (await self._parts()).curation

    async def _entity_ids(self, *names: str) -> list[str]:
        """Return the entity id of each name, which may be any spelling or alias."""
        return await find_entity_ids((await self._parts()).store, names)
