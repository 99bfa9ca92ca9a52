"""The facade: opens the rooms of one workspace in order and passes questions and documents on to them.

Does no work of its own. Owns what it opened: `close` (or leaving `async with`, or the end of the event loop) closes
store and models in reverse order; a model or store that the caller passed in stays the caller's to close.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from heliograph.arguments import checks_arguments
from heliograph.chat.base import ChatModel
from heliograph.chat.meter import ChatUsage
from heliograph.documents.base import LoadedDocument
from heliograph.documents.fetching import is_url
from heliograph.documents.files import FileFilter
from heliograph.documents.sources import find_sources
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import InvalidRequestError
from heliograph.filters import Filter, parse_filter
from heliograph.functions import ChatFunction, EmbeddingFunction, RerankFunction
from heliograph.ids import is_storable, relation_id
from heliograph.ingest.batch import new_documents
from heliograph.ingest.extraction.base import Extractor
from heliograph.ingest.files import enqueue_files, insert_files
from heliograph.ingest.graph_curation import CurationRooms, GraphCuration
from heliograph.ingest.models import DeleteReport, IngestReport, NewDocument
from heliograph.ingest.progress import Progress
from heliograph.ingest.watching import FolderActions, FolderChange, watch_folder
from heliograph.maintenance.check import CheckProgress
from heliograph.maintenance.export.registry import ExportFormat, export_workspace
from heliograph.maintenance.importing.detection import import_path
from heliograph.maintenance.importing.report import ImportProgress, ImportReport
from heliograph.maintenance.problems import CheckReport
from heliograph.models import Batch, Chunk, Document, Entity, GraphPath, Relation, Stats, Subgraph
from heliograph.opening import Given, Opening, Rooms, with_engine, with_store
from heliograph.query.answers.streaming import AnswerStream
from heliograph.query.data import QueryData
from heliograph.query.models import Answer, QueryParam, Retrieval
from heliograph.rerank.base import Reranker
from heliograph.settings import Settings
from heliograph.stores.base import DocumentPage, DocumentQuery, Store, StoreView

__all__ = ["AsyncHeliograph"]


@checks_arguments
class AsyncHeliograph(GraphCuration):
    """One workspace: documents in, answers out.

        async with AsyncHeliograph("kb") as kb:
            await kb.insert("ESP32 speaks MQTT over TLS.", sources=["notes.md"])
            answer = await kb.query("What does ESP32 speak?")

    The first call opens it, where neither `async with` nor `open` has; after `close` only `open` does. What was not
    closed is when its event loop ends. Safe to use from many tasks of one event loop, and in another once that one
    has ended.
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
        engine: str | None = None,
    ) -> None:
        """Note what to open; nothing is opened yet.

        Args:
            data_dir: Folder of the store; None means that of the settings.
            workspace: Name of the workspace; None means that of the settings.
            settings: None reads `heliograph.toml` and the environment.
            chat: Chat model in place of the one in the settings, or a function (`heliograph.functions`); gets the same
                wrappers, stays the caller's to close.
            embedding: Embedding model in place of the one in the settings, or a function, which is called once for its
                dimension; stays the caller's to close.
            reranker: Reranker in place of the one in the settings, or a function; stays the caller's to close.
            extractor: Extractor in place of the one in the settings.
            engine: `local` or `ray`, where documents are read; None means `ingest.engine` of the settings.

        Raises:
            SettingsError: A setting is not valid.
        """
        self.settings = with_engine(with_store(settings or Settings.load(), data_dir, workspace), engine)
        self._opening = Opening(self.settings, Given(chat, embedding, reranker, extractor))

    async def open(self) -> Self:
        """Open store and models, also after `close`; opening twice does nothing.

        Raises:
            InvalidRequestError: It is used from another event loop, which still runs.
            StoreError: The store cannot be opened.
            ModelError: The embedding model cannot be made ready.
        """
        await self._opening.open()
        return self

    async def close(self) -> None:
        """Close what was opened; closing twice does nothing. Calls made afterwards are refused until `open`.

        Calls under way are cut off. What is stored stays whole: documents not finished stay pending for `resume`.
        """
        await self._opening.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Documents

    async def insert(
        self,
        documents: str | NewDocument | Iterable[str | NewDocument],
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
        return await (await self._rooms()).ingest.insert(batch, track_id=track_id, progress=progress)

    async def enqueue(
        self, documents: str | NewDocument | Iterable[str | NewDocument], *, track_id: str | None = None
    ) -> IngestReport:
        """Store documents durably as pending, for `resume` to process, and return at once."""
        return await (await self._rooms()).ingest.enqueue(new_documents(documents), track_id)

    async def enqueue_files(
        self, files: Mapping[str, Path | str], *, metadata: Mapping[str, Any] | None = None, track_id: str | None = None
    ) -> IngestReport:
        """Read files or URLs, given per source to cite, and store what they say as pending; see `insert_files`."""
        rooms = await self._rooms()

        def read(source: str) -> LoadedDocument:
            return replace(rooms.sources.read(str(files[source]), source), source=source)

        return await enqueue_files(rooms.ingest, rooms.store.records, list(files), read, metadata, track_id=track_id)

    async def insert_files(
        self,
        paths: Iterable[str | Path],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Take in files of every known kind, and web pages; one that cannot be read is reported and stops no other.

        Args:
            paths: Files, folders, which are walked, and http(s) URLs.
            include: Patterns, as `.gitignore` has them, of files to take from folders; none takes every known kind.
            exclude: Patterns of files and folders to leave out.
            metadata: Goes over what the files themselves say.
            progress: Called now and then with how far it is.

        Raises:
            IngestError: None of the paths exists, or one is empty; one missing among others is a failed result.
            ModelError: As in `insert`.
            StoreError: As in `insert`.
        """
        rooms = await self._rooms()
        sources = await asyncio.to_thread(find_sources, list(paths), FileFilter(tuple(include), tuple(exclude)))
        return await insert_files(rooms.ingest, rooms.store.records, sources, rooms.sources.read, progress, metadata)

    async def insert_url(
        self,
        url: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Take in what an http(s) URL leads to; its source is the URL. Not reaching it is a failed result, no error.

        Raises:
            InvalidRequestError: It is no URL; no file is ever read.
        """
        rooms = await self._rooms()
        if not is_url(url):
            raise InvalidRequestError(f"{url!r:.200} is not a URL; give one such as https://..., or use insert_files")
        return await insert_files(rooms.ingest, rooms.store.records, [url], rooms.sources.read, progress, metadata)

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
        """Keep what is stored in step with a folder until closed, and yield what was done after each change.

        First, documents whose sources lie below the folder and whose files are gone are deleted, and all files are
        taken in, which costs nothing for unchanged ones. Arguments are those of `insert_files`.

        Args:
            folder: The folder.
            include: See `insert_files`.
            exclude: See `insert_files`.
            metadata: See `insert_files`.
            progress: See `insert_files`.
            once: Stop after the first comparison.

        Raises:
            InvalidRequestError: It is no folder.
            ModelError: As in `insert`.
            StoreError: As in `insert`.
        """
        rooms = await self._rooms()

        async def insert(paths: Sequence[str]) -> IngestReport:
            return await insert_files(rooms.ingest, rooms.store.records, paths, rooms.sources.read, progress, metadata)

        files = FileFilter(tuple(include), tuple(exclude))
        actions = FolderActions(insert, rooms.ingest.delete)
        changes = watch_folder(Path(folder), files, rooms.store.records, actions, self.settings.documents, once=once)
        async with aclosing(changes):
            async for change in changes:
                yield change

    async def resume(self, *, progress: Callable[[Progress], None] | None = None) -> IngestReport:
        """Take up what a crash or a cancel left behind."""
        return await (await self._rooms()).ingest.resume(progress=progress)

    async def retry(self, *, progress: Callable[[Progress], None] | None = None) -> IngestReport:
        """Try failed documents, and the failed chunks of partial ones, once more."""
        return await (await self._rooms()).ingest.retry(progress=progress)

    def pause(self) -> None:
        """Begin no further document until `unpause`; those under way come to their end, and calls wait."""
        self._opening.rooms.ingest.pause()

    def unpause(self) -> None:
        """Go on after a pause."""
        self._opening.rooms.ingest.unpause()

    def cancel(self) -> None:
        """Stop the ingest under way; what is not finished stays pending for `resume`."""
        self._opening.rooms.ingest.cancel()

    async def abandon(self, reason: str) -> int:
        """Mark documents that wait as failed, with a reason, so that only `retry` takes them up; return how many."""
        return await (await self._rooms()).ingest.abandon(reason)

    async def delete(self, document_ids: str | Iterable[str]) -> DeleteReport:
        """Delete documents and all that only they said; unknown ids are reported, not an error."""
        ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
        return await (await self._rooms()).ingest.delete(ids)

    async def delete_matching(
        self,
        *,
        source_prefix: str | None = None,
        filter: Filter | Mapping[str, Any] | None = None,  # noqa: A002 (as `QueryParam` has it)
    ) -> DeleteReport:
        """Delete the documents whose source starts so and that match the filter, as `delete` does.

        Raises:
            InvalidRequestError: Neither is given, as `clear` deletes everything, or the filter cannot be served.
        """
        if not source_prefix and filter is None:
            raise InvalidRequestError("give source_prefix or filter; clear() deletes everything")
        condition = None if filter is None else parse_filter(filter)
        return await (await self._rooms()).ingest.delete_matching(
            DocumentQuery(source_prefix=source_prefix, filter=condition)
        )

    async def documents(self, query: DocumentQuery | None = None) -> DocumentPage:
        """Return one page of documents."""
        wanted = query or DocumentQuery()
        return (
            await (await self._rooms()).store.records.find_documents(wanted)
            if wanted.can_match
            else DocumentPage((), 0)
        )

    async def document(self, document_id: str) -> Document | None:
        """Return one document, or None."""
        found = await (await self._rooms()).store.records.get_documents([*filter(is_storable, [document_id])])
        return found[0] if found else None

    async def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks in order, for a twin its original's; empty if there is no such document."""
        document = await self.document(document_id)
        return (
            await (await self._rooms()).store.records.get_document_chunks(document.twin_of or document.id)
            if document
            else []
        )

    # Questions

    async def query(
        self, question: str, param: QueryParam | None = None, *, progress: Callable[[str], None] | None = None
    ) -> Answer:
        """Answer a question.

        Args:
            question: The question.
            param: How it is to be answered; None means the defaults.
            progress: Called with the name of each stage as it begins; `QueryEngine` says which there are.

        Raises:
            InvalidRequestError: The question or a parameter cannot be served; says which and why.
            ModelError: A model is out of reach or failed; never turned into an answer.
            StoreError: The store failed.
        """
        return await (await self._rooms()).query.query(question, param or QueryParam(), progress)

    async def query_data(self, question: str, param: QueryParam | None = None) -> QueryData:
        """Return what was retrieved, as LightRAG's `/query/data` does; raises as `query` does."""
        return await (await self._rooms()).query.query_data(question, param or QueryParam())

    async def retrieve(self, question: str, param: QueryParam | None = None, *, is_bounded: bool = True) -> Retrieval:
        """Return what an answer would be made from, typed; raises as `query` does.

        Unless `is_bounded`, the budgets alone bound it, and not what the chat model can read.
        """
        return await (await self._rooms()).query.retrieve(question, param or QueryParam(), is_bounded=is_bounded)

    async def query_stream(
        self, question: str, param: QueryParam | None = None, *, progress: Callable[[str], None] | None = None
    ) -> AnswerStream:
        """Return what was retrieved at once and the answer piece by piece; takes and raises what `query` does."""
        return await (await self._rooms()).query.stream(question, param or QueryParam(), progress)

    def view(self, filter_: Filter | Mapping[str, Any]) -> StoreView:
        """Return the workspace as if only the documents that match a filter existed, to be read like the store.

            around = await kb.view({"team": "red"}).graph.get_neighbourhood(name_to_entity_id("MQTT"), 1, 50)

        Raises:
            InvalidRequestError: The filter cannot be served; says what of it.
        """
        return self._opening.rooms.query.view(filter_)

    async def clear_cache(self, cache_type: str | None = None) -> int:
        """Drop cached replies (`extract`, `summary`, `keywords`, `query`; None drops all); return how many."""
        return await (await self._rooms()).store.replies.delete_replies(cache_type)

    # Graph

    async def entity(self, name: str) -> Entity | None:
        """Return the entity that a name stands for, or None."""
        found = await (await self._rooms()).store.graph.get_entities(await self._entity_ids(name))
        return found[0] if found else None

    async def relation(self, name: str, other: str) -> Relation | None:
        """Return the relation between two entities, in either order, or None."""
        graph = (await self._rooms()).store.graph
        found = await graph.get_relations([relation_id(*await self._entity_ids(name, other))])
        return (await graph.name_ends(found))[0] if found else None

    async def entities(self, *, offset: int = 0, limit: int = 100) -> list[Entity]:
        """Return entities, best connected first."""
        return await (await self._rooms()).store.graph.list_entities(offset, limit)

    async def neighbours(self, name: str, *, depth: int = 1, max_entities: int = 1000) -> Subgraph:
        """Return what lies within `depth` relations of an entity; empty if there is no such entity."""
        (entity_id,) = await self._entity_ids(name)
        graph = (await self._rooms()).store.graph
        found = await graph.get_neighbourhood(entity_id, depth, max_entities)
        return replace(found, relations=tuple(await graph.name_ends(found.relations, found.entities)))

    async def paths(self, name: str, other: str, *, max_length: int = 6, limit: int = 5) -> list[GraphPath]:
        """Return the shortest paths between two entities, strongest first; empty if there is none."""
        source_id, target_id = await self._entity_ids(name, other)
        graph = (await self._rooms()).store.graph
        found = await graph.find_shortest_paths(source_id, target_id, max_length, limit)
        return [replace(path, relations=tuple(await graph.name_ends(path.relations, path.entities))) for path in found]

    # State

    async def stats(self) -> Stats:
        """Return the counts of this workspace."""
        return await (await self._rooms()).store.get_stats()

    async def lags(self) -> Mapping[str, int]:
        """Return, per engine that serves a role beside the store with the truth, how many commits it is behind."""
        return await (await self._rooms()).store.get_lags()

    async def troubles(self) -> Mapping[str, str]:
        """Return, per engine beside the store with the truth that questions cannot be put to now, why."""
        return (await self._rooms()).store.get_troubles()

    def usage(self) -> ChatUsage:
        """Return the calls and tokens that chat models have spent since opening, per purpose."""
        return self._opening.rooms_in_any_loop.meter.usage()

    async def batches(self, *, offset: int = 0, limit: int = 100) -> list[Batch]:
        """Return what was taken in together, the latest first: documents per status, moments, tokens spent."""
        return await (await self._rooms()).store.inspection.list_batches(offset, limit)

    # Upkeep

    async def check(self, *, repair: bool = False, progress: CheckProgress | None = None) -> CheckReport:
        """Compare every projection with what the documents say; with `repair`, put right what can be."""
        return await (await self._rooms()).maintenance.check(repair=repair, progress=progress)

    async def rebuild(self, role: str | None = None, *, progress: CheckProgress | None = None) -> CheckReport:
        """Make every projection anew from what the documents say; answers stay the same, before, meanwhile and after.

        With a `role` that another engine serves (`graph`, `vectors`, `cache`), only that engine is filled anew.

        Raises:
            InvalidRequestError: No other engine serves the role.
            ModelError: The embedding model failed; what was made before stands, and the rest is as it was.
            StoreUnavailable: Another process is taking documents in.
        """
        return await (await self._rooms()).maintenance.rebuild(role, progress=progress)

    async def backup(self, path: str | Path) -> None:
        """Write the whole workspace, as of one moment, into one new file, while reading and writing go on.

        Raises:
            ConflictError: There is such a file.
            StoreUnavailable: It cannot be written; nothing is left of it.
        """
        await (await self._rooms()).store.backup(Path(path))

    async def export(self, path: str | Path, format: str | ExportFormat = ExportFormat.JSONL) -> int:  # noqa: A002
        """Write the workspace into a new file, or for `csv`, `markdown` and `obsidian` a new folder.

        Args:
            path: What to write; it must not be there yet.
            format: `jsonl`, which holds everything and can be imported, `csv`, `graphml`, `markdown` or `obsidian`.

        Returns:
            How many things were written.

        Raises:
            ConflictError: There is something of that name.
            InvalidRequestError: There is no such format.
            StoreUnavailable: It cannot be written; nothing is left of it.
        """
        return await export_workspace((await self._rooms()).store, Path(path), format)

    async def import_from(self, path: str | Path, *, progress: ImportProgress | None = None) -> ImportReport:
        """Take in an archive that `export` wrote, or a working directory of LightRAG or nano-graphrag.

        No model is called but the embedding. What is here already is left alone, so that an interrupted import can be
        run again.

        Raises:
            InvalidRequestError: It is neither, or it is broken; what stands before the break is taken in.
            ModelError: The embedding failed; what was taken in before stays.
            StoreError: The store failed; what was taken in before stays.
        """
        rooms = await self._rooms()
        return await import_path(rooms.store, rooms.ingest, rooms.curation.curator, Path(path), progress)

    async def vacuum(self) -> None:
        """Give back the room of what was deleted: afterwards no file of this workspace holds a byte of it."""
        await (await self._rooms()).store.vacuum()

    async def clear(self) -> None:
        """Delete everything in this workspace and give its room back.

        Raises:
            StoreUnavailable: Another process is taking documents in.
        """
        rooms = await self._rooms()
        await rooms.maintenance.clear()
        rooms.ingest.forget_updates()

    @property
    def store(self) -> Store:
        """The store, for what has no method here; there once the engine is open."""
        return self._opening.rooms.store

    async def _rooms(self) -> Rooms:
        return await self._opening.use()

    async def _curation(self) -> CurationRooms:
        return (await self._rooms()).curation

    async def _entity_ids(self, *names: str) -> list[str]:
        """Return the id of the entity that each name leads to, by whatever spelling or alias."""
        return await (await self._curation()).curator.find_entity_ids(names)
