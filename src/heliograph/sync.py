"""The engine for code that is not async: the same methods, run on an event loop in a thread of their own."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from heliograph.chat.base import ChatUsage
from heliograph.engine import AsyncHeliograph
from heliograph.errors import InvalidRequestError, StoreUnavailable
from heliograph.ingest.files import FolderChange
from heliograph.ingest.models import Progress
from heliograph.query.models import QueryParam, Retrieval
from heliograph.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")


class SyncAnswerStream:
    """The retrieval at once, and the answer piece by piece: `for piece in stream`."""

    def __init__(self, retrieval: Retrieval, pieces: Iterator[str]) -> None:
        self.retrieval = retrieval
        self._pieces = pieces

    def __iter__(self) -> Iterator[str]:
        return self._pieces


class _EngineThread(threading.Thread):
    """Runs the event loop of one engine, and closes the engine in it when it is stopped."""

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
        """Stop the loop and close the engine, without waiting for the end."""
        with suppress(RuntimeError):  # the loop has ended already
            self.loop.call_soon_threadsafe(self.loop.stop)

    async def _leave(self) -> None:
        try:
            await self._engine.close()
        finally:
            # Cancelled tasks may hold files and locks until they end.
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


_RUNNING: set[_EngineThread] = set()


def _close_all() -> None:
    """Close every engine that is still open, before the interpreter ends."""
    # In a forked process none of the threads is alive.
    left = [thread for thread in [*_RUNNING] if thread.is_alive()]
    for thread in left:
        thread.stop()
    for thread in left:
        thread.join()


# `atexit` callbacks run after all thread pools have ended, and closing a store needs the pools.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


def _as(
    method: Callable[Concatenate[Any, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Return a decorator that gives a method the signature of another, for editors and type checkers as well."""

    def sign(own: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        own.__signature__ = signature(method)
        return own

    return sign


class Heliograph:
    """One workspace: documents in, answers out.

        with Heliograph("kb") as kb:
            kb.insert("ESP32 speaks MQTT over TLS.", sources=["notes.md"])
            print(kb.query("What does ESP32 speak?"))

    The first call opens the engine if `with` or `open` has not; after `close` only `open` does. An engine left open is
    closed when it is garbage collected, at the latest when the interpreter ends. Safe to use from many threads. Its
    methods are those of `AsyncHeliograph`, and documented there. A `progress` callback runs in the engine's thread,
    from where only `pause`, `unpause`, `cancel` and `usage` may be called.
    """

    @_as(AsyncHeliograph.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        """See `AsyncHeliograph`; the first call or `with` opens the engine."""
        self._engine = AsyncHeliograph(*args, **options)
        self._thread: _EngineThread | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def __del__(self) -> None:
        # Garbage collection may run in any thread, the engine's own included, so this must not wait.
        if (thread := getattr(self, "_thread", None)) is not None:
            thread.stop()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._engine.settings

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
        """Return the thread of the open engine, starting it if needed; the caller holds the lock."""
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
        """Return the engine's thread; the first call opens the engine."""
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

    def __exit__(self, *_: object) -> None:
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
        """Refuse to wait for the event loop in its own thread, which would deadlock."""
        if self._is_own_thread:
            raise InvalidRequestError(
                "called from the engine's own thread (a progress callback); do it after the call returns"
            )

    @staticmethod
    def _blocking(
        method: Callable[Concatenate[AsyncHeliograph, P], Coroutine[Any, Any, T]],
    ) -> Callable[Concatenate[Heliograph, P], T]:
        """Return a blocking version of a method of the engine, with its signature and docstring."""

        @wraps(method)
        def call(self: Heliograph, *args: P.args, **kwargs: P.kwargs) -> T:
            return self._run(getattr(self._engine, method.__name__)(*args, **kwargs))

        return call

    insert = _blocking(AsyncHeliograph.insert)
    enqueue = _blocking(AsyncHeliograph.enqueue)
    enqueue_files = _blocking(AsyncHeliograph.enqueue_files)
    insert_files = _blocking(AsyncHeliograph.insert_files)
    insert_url = _blocking(AsyncHeliograph.insert_url)
    resume = _blocking(AsyncHeliograph.resume)
    retry = _blocking(AsyncHeliograph.retry)
    abandon = _blocking(AsyncHeliograph.abandon)
    delete = _blocking(AsyncHeliograph.delete)
    delete_matching = _blocking(AsyncHeliograph.delete_matching)
    batches = _blocking(AsyncHeliograph.batches)
    documents = _blocking(AsyncHeliograph.documents)
    document = _blocking(AsyncHeliograph.document)
    documents_by_id = _blocking(AsyncHeliograph.documents_by_id)
    documents_of = _blocking(AsyncHeliograph.documents_of)
    document_text = _blocking(AsyncHeliograph.document_text)
    identify_files = _blocking(AsyncHeliograph.identify_files)
    chunks = _blocking(AsyncHeliograph.chunks)

    query = _blocking(AsyncHeliograph.query)
    query_data = _blocking(AsyncHeliograph.query_data)
    retrieve = _blocking(AsyncHeliograph.retrieve)
    clear_cache = _blocking(AsyncHeliograph.clear_cache)

    entity = _blocking(AsyncHeliograph.entity)
    relation = _blocking(AsyncHeliograph.relation)
    entities = _blocking(AsyncHeliograph.entities)
    neighbours = _blocking(AsyncHeliograph.neighbours)
    paths = _blocking(AsyncHeliograph.paths)

    create_entity = _blocking(AsyncHeliograph.create_entity)
    edit_entity = _blocking(AsyncHeliograph.edit_entity)
    rename_entity = _blocking(AsyncHeliograph.rename_entity)
    revise_entity = _blocking(AsyncHeliograph.revise_entity)
    merge_entities = _blocking(AsyncHeliograph.merge_entities)
    split_entity = _blocking(AsyncHeliograph.split_entity)
    delete_entity = _blocking(AsyncHeliograph.delete_entity)
    create_relation = _blocking(AsyncHeliograph.create_relation)
    edit_relation = _blocking(AsyncHeliograph.edit_relation)
    delete_relation = _blocking(AsyncHeliograph.delete_relation)
    undo = _blocking(AsyncHeliograph.undo)
    curations = _blocking(AsyncHeliograph.curations)
    history = _blocking(AsyncHeliograph.history)
    find_duplicates = _blocking(AsyncHeliograph.find_duplicates)
    insert_graph = _blocking(AsyncHeliograph.insert_graph)

    check = _blocking(AsyncHeliograph.check)
    rebuild = _blocking(AsyncHeliograph.rebuild)
    backup = _blocking(AsyncHeliograph.backup)
    export = _blocking(AsyncHeliograph.export)
    import_from = _blocking(AsyncHeliograph.import_from)
    vacuum = _blocking(AsyncHeliograph.vacuum)
    clear = _blocking(AsyncHeliograph.clear)
    stats = _blocking(AsyncHeliograph.stats)
    lags = _blocking(AsyncHeliograph.lags)
    troubles = _blocking(AsyncHeliograph.troubles)

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
                # Garbage collection runs in the engine's thread here, which must not wait for itself.
                asyncio.run_coroutine_threadsafe(_close(pieces), thread.loop)
            elif thread is not None:
                self._run(_close(pieces))

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
        # A KeyboardInterrupt arrives in this thread only: cancel the work as well.
        future.cancel()
        raise


def _end(thread: _EngineThread) -> None:
    """Stop an engine's thread and wait for its end; raises the error of closing the engine."""
    thread.stop()
    thread.join()
    if thread.failure is not None:
        raise thread.failure
