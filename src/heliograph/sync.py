"""The engine for code that is not async: the same methods, run on an event loop in a thread of their own."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from heliograph.chat.base import ChatModel
from heliograph.chat.meter import ChatUsage
from heliograph.curation.graph_curation import GraphCuration, SyncGraphCuration
from heliograph.embedding.base import EmbeddingModel
from heliograph.engine import AsyncHeliograph
from heliograph.errors import InvalidRequestError, StoreUnavailable
from heliograph.extraction.base import Extractor
from heliograph.filters import Filter
from heliograph.functions import ChatFunction, EmbeddingFunction, RerankFunction
from heliograph.ingest.models import DeleteReport, IngestReport, NewDocument, Progress
from heliograph.ingest.watching import FolderChange
from heliograph.maintenance.check import CheckProgress, CheckReport
from heliograph.maintenance.transfer import ExportFormat
from heliograph.maintenance.whole_documents import ImportProgress, ImportReport
from heliograph.models import Batch, Chunk, Document, Entity, GraphPath, Relation, Stats, Subgraph
from heliograph.query.data import QueryData
from heliograph.query.models import Answer, QueryParam, Retrieval
from heliograph.rerank.base import Reranker
from heliograph.settings import Settings
from heliograph.stores.base import DocumentPage, DocumentQuery

__all__ = ["Heliograph", "SyncAnswerStream"]

T = TypeVar("T")


class SyncAnswerStream:
    """What was retrieved, at once, and the answer piece by piece: `for piece in stream`.

    Attributes:
        retrieval: What the answer is made from.
    """

    def __init__(self, retrieval: Retrieval, pieces: Iterator[str]) -> None:
        self.retrieval = retrieval
        self._pieces = pieces

    def __iter__(self) -> Iterator[str]:
        return self._pieces


class _EngineThread(threading.Thread):
    """Runs the event loop of one engine, and closes the engine in it when told to stop."""

    def __init__(self, engine: AsyncHeliograph) -> None:
        super().__init__(name="heliograph", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.failure: BaseException | None = None
        self._engine = engine

    def run(self) -> None:
        _RUNNING.add(self)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._leave())
        except BaseException as error:  # noqa: BLE001 (who waits for the end raises it)
            self.failure = error
        finally:
            self.loop.close()
            _RUNNING.discard(self)

    def stop(self) -> None:
        """Let it come to its end; it needs not be waited for."""
        with suppress(RuntimeError):  # the loop has ended already
            self.loop.call_soon_threadsafe(self.loop.stop)

    async def _leave(self) -> None:
        try:
            await self._engine.close()
        finally:
            # What was cancelled may hold files and locks until its end.
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


_RUNNING: set[_EngineThread] = set()


def _close_all() -> None:
    """Close what nobody has closed, before the interpreter ends."""
    # In a forked process none of them is alive.
    left = [thread for thread in [*_RUNNING] if thread.is_alive()]
    for thread in left:
        thread.stop()
    for thread in left:
        thread.join()


# What `atexit` calls comes after the end of all pools of threads, without which no store can be closed.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


class Heliograph(SyncGraphCuration):
    """One workspace: documents in, answers out.

        with Heliograph("kb") as kb:
            kb.insert("ESP32 speaks MQTT over TLS.", sources=["notes.md"])
            print(kb.query("What does ESP32 speak?"))

    The first call opens it, where neither `with` nor `open` has; after `close` only `open` does. What was not closed is
    when nobody holds it any more, at the latest when the interpreter ends. Safe to use from many threads. Every method
    is that of `AsyncHeliograph`, which documents them. A `progress` callback runs in the engine's thread, from where
    only `pause`, `unpause`, `cancel` and `usage` may be called.
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
        """See `AsyncHeliograph`; opened by the first call or by `with`."""
        self._engine = AsyncHeliograph(
            data_dir,
            workspace=workspace,
            settings=settings,
            chat=chat,
            embedding=embedding,
            reranker=reranker,
            extractor=extractor,
            engine=engine,
        )
        self._thread: _EngineThread | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def __del__(self) -> None:
        # Garbage is collected in any thread, the engine's own included, so nothing is waited for.
        if (thread := getattr(self, "_thread", None)) is not None:
            thread.stop()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._engine.settings

    @property
    def _graph_curation(self) -> GraphCuration:
        return self._engine

    def open(self) -> Self:
        """See `AsyncHeliograph.open`."""
        with self._lock:
            self._is_closed = False
            self._start()
        return self

    def close(self) -> None:
        """See `AsyncHeliograph.close`."""
        self._refuse_own_thread()
        with self._lock:
            self._is_closed = True
            thread, self._thread = self._thread, None
            if thread is not None:
                _end(thread)

    def _start(self) -> _EngineThread:
        """Return the thread of the open engine; the lock is held."""
        if self._thread is None:
            thread = _EngineThread(self._engine)
            thread.start()
            try:
                _wait(self._engine.open(), thread)
            except BaseException:
                _end(thread)
                raise
            self._thread = thread
        return self._thread

    def _opened(self) -> _EngineThread:
        """Return the thread of the engine, which the first call opens."""
        thread = self._thread
        if thread is None:
            with self._lock:
                if self._is_closed:
                    raise StoreUnavailable("this Heliograph was closed; open() opens it again")
                thread = self._start()
        if not thread.is_alive():
            raise StoreUnavailable("this Heliograph was opened before the process was forked; make a new one here")
        return thread

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._refuse_own_thread()
            thread = self._opened()
        except BaseException:
            work.close()
            raise
        return _wait(work, thread)

    @property
    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _refuse_own_thread(self) -> None:
        """Refuse to wait for the loop in the thread that runs it, which would wait for ever."""
        if self._is_own_thread:
            raise InvalidRequestError(
                "called from the engine's own thread (a progress callback); do it after the call returns"
            )

    def insert(
        self,
        documents: str | NewDocument | Iterable[str | NewDocument],
        *,
        sources: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
        track_id: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """See `AsyncHeliograph.insert`; `progress` is called in the engine's thread."""
        return self._run(
            self._engine.insert(
                documents, sources=sources, ids=ids, metadata=metadata, track_id=track_id, progress=progress
            )
        )

    def enqueue(
        self, documents: str | NewDocument | Iterable[str | NewDocument], *, track_id: str | None = None
    ) -> IngestReport:
        """See `AsyncHeliograph.enqueue`."""
        return self._run(self._engine.enqueue(documents, track_id=track_id))

    def enqueue_files(
        self,
        files: Mapping[str, Path | str],
        *,
        metadata: Mapping[str, Any] | None = None,
        track_id: str | None = None,
    ) -> IngestReport:
        """See `AsyncHeliograph.enqueue_files`."""
        return self._run(self._engine.enqueue_files(files, metadata=metadata, track_id=track_id))

    def insert_files(
        self,
        paths: Iterable[str | Path],
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """See `AsyncHeliograph.insert_files`."""
        return self._run(
            self._engine.insert_files(paths, include=include, exclude=exclude, metadata=metadata, progress=progress)
        )

    def insert_url(
        self,
        url: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """See `AsyncHeliograph.insert_url`."""
        return self._run(self._engine.insert_url(url, metadata=metadata, progress=progress))

    def watch(
        self,
        folder: str | Path,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], None] | None = None,
        once: bool = False,
    ) -> Iterator[FolderChange]:
        """See `AsyncHeliograph.watch`; ends when the iterator is closed."""
        changes = self._engine.watch(
            folder, include=include, exclude=exclude, metadata=metadata, progress=progress, once=once
        )
        return self._pull(changes)

    def resume(self, *, progress: Callable[[Progress], None] | None = None) -> IngestReport:
        """See `AsyncHeliograph.resume`."""
        return self._run(self._engine.resume(progress=progress))

    def retry(self, *, progress: Callable[[Progress], None] | None = None) -> IngestReport:
        """See `AsyncHeliograph.retry`."""
        return self._run(self._engine.retry(progress=progress))

    def pause(self) -> None:
        """See `AsyncHeliograph.pause`; may be called from any thread."""
        self._opened().loop.call_soon_threadsafe(self._engine.pause)

    def unpause(self) -> None:
        """See `AsyncHeliograph.unpause`; may be called from any thread."""
        if self._thread is not None:
            self._thread.loop.call_soon_threadsafe(self._engine.unpause)

    def cancel(self) -> None:
        """See `AsyncHeliograph.cancel`; may be called from any thread."""
        if self._thread is not None:
            self._thread.loop.call_soon_threadsafe(self._engine.cancel)

    def abandon(self, reason: str) -> int:
        """See `AsyncHeliograph.abandon`."""
        return self._run(self._engine.abandon(reason))

    def delete(self, document_ids: str | Iterable[str]) -> DeleteReport:
        """See `AsyncHeliograph.delete`."""
        return self._run(self._engine.delete(document_ids))

    def delete_matching(
        self,
        *,
        source_prefix: str | None = None,
        filter: Filter | Mapping[str, Any] | None = None,  # noqa: A002 (as `QueryParam` has it)
    ) -> DeleteReport:
        """See `AsyncHeliograph.delete_matching`."""
        return self._run(self._engine.delete_matching(source_prefix=source_prefix, filter=filter))

    def batches(self, *, offset: int = 0, limit: int = 100) -> list[Batch]:
        """See `AsyncHeliograph.batches`."""
        return self._run(self._engine.batches(offset=offset, limit=limit))

    def documents(self, query: DocumentQuery | None = None) -> DocumentPage:
        """See `AsyncHeliograph.documents`."""
        return self._run(self._engine.documents(query))

    def document(self, document_id: str) -> Document | None:
        """See `AsyncHeliograph.document`."""
        return self._run(self._engine.document(document_id))

    def chunks(self, document_id: str) -> list[Chunk]:
        """See `AsyncHeliograph.chunks`."""
        return self._run(self._engine.chunks(document_id))

    def query(
        self, question: str, param: QueryParam | None = None, *, progress: Callable[[str], None] | None = None
    ) -> Answer:
        """See `AsyncHeliograph.query`; `progress` is called in the engine's thread."""
        return self._run(self._engine.query(question, param, progress=progress))

    def query_data(self, question: str, param: QueryParam | None = None) -> QueryData:
        """See `AsyncHeliograph.query_data`."""
        return self._run(self._engine.query_data(question, param))

    def retrieve(self, question: str, param: QueryParam | None = None, *, is_bounded: bool = True) -> Retrieval:
        """See `AsyncHeliograph.retrieve`."""
        return self._run(self._engine.retrieve(question, param, is_bounded=is_bounded))

    def query_stream(
        self, question: str, param: QueryParam | None = None, *, progress: Callable[[str], None] | None = None
    ) -> SyncAnswerStream:
        """See `AsyncHeliograph.query_stream`; `progress` is called in the engine's thread."""
        stream = self._run(self._engine.query_stream(question, param, progress=progress))
        return SyncAnswerStream(stream.retrieval, self._pull(aiter(stream)))

    def _pull(self, pieces: AsyncIterator[T]) -> Iterator[T]:
        try:
            while (piece := self._run(_next(pieces))) is not None:
                yield piece
        finally:
            thread = self._thread
            if thread is not None and self._is_own_thread:
                # Garbage is collected in any thread.
                asyncio.run_coroutine_threadsafe(_close(pieces), thread.loop)
            elif thread is not None:
                self._run(_close(pieces))

    def clear_cache(self, cache_type: str | None = None) -> int:
        """See `AsyncHeliograph.clear_cache`."""
        return self._run(self._engine.clear_cache(cache_type))

    def entity(self, name: str) -> Entity | None:
        """See `AsyncHeliograph.entity`."""
        return self._run(self._engine.entity(name))

    def relation(self, name: str, other: str) -> Relation | None:
        """See `AsyncHeliograph.relation`."""
        return self._run(self._engine.relation(name, other))

    def entities(self, *, offset: int = 0, limit: int = 100) -> list[Entity]:
        """See `AsyncHeliograph.entities`."""
        return self._run(self._engine.entities(offset=offset, limit=limit))

    def neighbours(self, name: str, *, depth: int = 1, max_entities: int = 1000) -> Subgraph:
        """See `AsyncHeliograph.neighbours`."""
        return self._run(self._engine.neighbours(name, depth=depth, max_entities=max_entities))

    def paths(self, name: str, other: str, *, max_length: int = 6, limit: int = 5) -> list[GraphPath]:
        """See `AsyncHeliograph.paths`."""
        return self._run(self._engine.paths(name, other, max_length=max_length, limit=limit))

    def check(self, *, repair: bool = False, progress: CheckProgress | None = None) -> CheckReport:
        """See `AsyncHeliograph.check`."""
        return self._run(self._engine.check(repair=repair, progress=progress))

    def rebuild(self, role: str | None = None, *, progress: CheckProgress | None = None) -> CheckReport:
        """See `AsyncHeliograph.rebuild`."""
        return self._run(self._engine.rebuild(role, progress=progress))

    def backup(self, path: str | Path) -> None:
        """See `AsyncHeliograph.backup`."""
        self._run(self._engine.backup(path))

    def export(self, path: str | Path, format: str | ExportFormat = ExportFormat.JSONL) -> int:  # noqa: A002
        """See `AsyncHeliograph.export`."""
        return self._run(self._engine.export(path, format))

    def import_from(self, path: str | Path, *, progress: ImportProgress | None = None) -> ImportReport:
        """See `AsyncHeliograph.import_from`; `progress` is called in threads of the engine."""
        return self._run(self._engine.import_from(path, progress=progress))

    def vacuum(self) -> None:
        """See `AsyncHeliograph.vacuum`."""
        self._run(self._engine.vacuum())

    def clear(self) -> None:
        """See `AsyncHeliograph.clear`."""
        self._run(self._engine.clear())

    def stats(self) -> Stats:
        """See `AsyncHeliograph.stats`."""
        return self._run(self._engine.stats())

    def lags(self) -> Mapping[str, int]:
        """See `AsyncHeliograph.lags`."""
        return self._run(self._engine.lags())

    def troubles(self) -> Mapping[str, str]:
        """See `AsyncHeliograph.troubles`."""
        return self._run(self._engine.troubles())

    def usage(self) -> ChatUsage:
        """See `AsyncHeliograph.usage`."""
        self._opened()
        return self._engine.usage()


async def _next(pieces: AsyncIterator[T]) -> T | None:
    return await anext(pieces, None)


async def _close(pieces: AsyncIterator[Any]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()


def _wait(work: Coroutine[Any, Any, T], thread: _EngineThread) -> T:
    future = asyncio.run_coroutine_threadsafe(work, thread.loop)
    try:
        return future.result()
    except BaseException:
        # A KeyboardInterrupt arrives in this thread only: stop the work as well.
        future.cancel()
        raise


def _end(thread: _EngineThread) -> None:
    """Wait for the end of an engine; raises what closing it raised."""
    thread.stop()
    thread.join()
    if thread.failure is not None:
        raise thread.failure
