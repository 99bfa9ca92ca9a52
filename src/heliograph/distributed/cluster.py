"""Reading on a cluster as the ingest pipeline sees it: a reader, an embedding model, and sources loaded by workers.

`open_cluster` assembles pool, launcher and these from the settings. Bytes and texts are sent out, extractions come
back; opening files and fetching addresses stay in this process, so that workers need access to neither.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count

from heliograph._version import __version__
from heliograph.chat.base import ChatMeter
from heliograph.distributed.messages import GivenModels, Launcher, WorkerSetup
from heliograph.distributed.pool import Coordinator, TaskKind, WorkerPool
from heliograph.distributed.ray_cluster import RayLauncher, check_ray
from heliograph.documents.base import LoadedDocument, RawDocument
from heliograph.documents.sources import SourceReader
from heliograph.embedding.base import (
    BatchingEmbeddingModel,
    DeduplicatingEmbeddingModel,
    EmbeddingInfo,
    EmbeddingKind,
    EmbeddingModel,
    Embeddings,
)
from heliograph.ingest.reading import ChunkProgress, DocumentReading, FindStored, Reader, ReadingTask
from heliograph.observing import stage
from heliograph.settings import DocumentSettings, IngestSettings, Settings
from heliograph.stores.base import ReplyCache

# One request to a worker: about a second of work for the local model, so that a long document is divided.
_BATCH_TOKENS = 16_384
_BATCH_TEXTS = 256


class ClusterReader(Reader):
    """Reads documents on workers."""

    def __init__(self, pool: WorkerPool, coordinator: Coordinator) -> None:
        self._pool = pool
        self._coordinator = coordinator
        self._numbers = count(1)

    async def read(self, task: ReadingTask, find_stored: FindStored, progress: ChunkProgress) -> DocumentReading:
        stored = await find_stored(None)
        number = next(self._numbers)
        what = f"the document {task.document.source!r}"
        with self._coordinator.watching(number, progress) as watch, stage("ingest.cluster"):
            reading: DocumentReading = await self._pool.run(
                what, TaskKind.READ, "read", number, task, stored, number=number
            )
            watch.finish(len(reading.plan.unread))
        return reading


class ClusterEmbeddingModel(EmbeddingModel):
    """Embeds documents on the workers while there are any, and all other texts here.

    The local model is the same as that of the workers; its creator closes it.
    """

    def __init__(self, local: EmbeddingModel, pool: WorkerPool) -> None:
        self._local = local
        self._pool = pool
        remote = _RemoteEmbeddingModel(local.info, pool)
        self._remote = DeduplicatingEmbeddingModel(BatchingEmbeddingModel(remote, _BATCH_TOKENS, _BATCH_TEXTS))

    @property
    def info(self) -> EmbeddingInfo:
        return self._local.info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        is_remote = kind == "document" and texts and self._pool.is_running
        return await (self._remote if is_remote else self._local).embed(texts, kind)


class _RemoteEmbeddingModel(EmbeddingModel):
    """Embeds on one worker per call."""

    def __init__(self, info: EmbeddingInfo, pool: WorkerPool) -> None:
        self._info = info
        self._pool = pool

    @property
    def info(self) -> EmbeddingInfo:
        return self._info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        what = f"the embedding of {len(texts)} texts, the first of which begins {texts[0]!r:.80},"
        return await self._pool.run(what, TaskKind.EMBED, "embed", tuple(texts), kind)


class ClusterSourceReader(SourceReader):
    """Reads files and URLs here, and has workers load their content.

    Created on the event loop that the pool is used from, and called from other threads.
    """

    def __init__(self, settings: DocumentSettings, max_characters: int, pool: WorkerPool) -> None:
        """Store the parts."""
        super().__init__(settings, max_characters)
        self._pool = pool
        self._loop = asyncio.get_running_loop()

    def load(self, raw: RawDocument) -> LoadedDocument:
        work = self._pool.run(f"the source {raw.name!r}", TaskKind.READ, "load", raw)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


# Assumed number of workers of a cluster of unknown size, to limit how much may wait for them.
_WORKERS_ELSEWHERE = 32
_MOST_SOURCES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """The parts that read on a cluster, and settings of a pipeline that keep the workers busy."""

    reader: Reader
    embedding: EmbeddingModel
    sources: SourceReader
    ingest: IngestSettings
    sources_at_once: int


def open_cluster(
    settings: Settings,
    given: GivenModels,
    embedding: EmbeddingModel,
    replies: ReplyCache | None,
    meter: ChatMeter,
    stack: AsyncExitStack,
    launcher: Launcher | None = None,
) -> ClusterParts:
    """Return the parts that read on a cluster, which is first contacted when the first document comes.

    Only the settings that workers need are sent. `replies` None keeps none, `launcher` None takes Ray; `stack` closes
    what was opened.

    Raises:
        MissingDependencyError: Ray is not installed.
    """
    if launcher is None:
        check_ray()
        launcher = RayLauncher(settings.ray)
    coordinator = Coordinator(replies, meter)
    workers = settings.ray.workers or (_WORKERS_ELSEWHERE if settings.ray.address else os.cpu_count() or 1)
    setup = _setup(settings, given, workers, keeps_replies=replies is not None)
    pool = WorkerPool(launcher, setup, settings.ray, coordinator)
    stack.push_async_callback(pool.close)
    sources = ClusterSourceReader(settings.documents, settings.ingest.max_document_characters, pool)
    at_once = workers * settings.ray.documents_per_worker
    parallel = max(settings.ingest.max_parallel_documents, at_once)
    return ClusterParts(
        ClusterReader(pool, coordinator),
        ClusterEmbeddingModel(embedding, pool),
        sources,
        settings.ingest.model_copy(update={"max_parallel_documents": parallel}),
        min(at_once, _MOST_SOURCES_AT_ONCE),
    )


def _setup(settings: Settings, given: GivenModels, workers: int, *, keeps_replies: bool) -> WorkerSetup:
    """Return the setup of a worker: one core for the local model, and its share of the calls to services."""
    chat = {"max_concurrency": max(1, settings.chat.max_concurrency // workers)}
    cache = settings.embedding.cache_dir
    embedding = {
        "threads": 1,
        "max_concurrency": max(1, settings.embedding.max_concurrency // workers),
        # Workers have another working folder.
        "cache_dir": cache and cache.absolute(),
    }
    return WorkerSetup(
        version=__version__,
        documents=settings.documents,
        ingest=settings.ingest,
        chat=settings.chat.model_copy(update=chat),
        embedding=settings.embedding.model_copy(update=embedding),
        keeps_replies=keeps_replies,
        given=given,
    )
