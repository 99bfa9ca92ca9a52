"""What the pipeline sees of the workers: a reader, an embedding, and sources whose bytes are loaded there.

Bytes and texts go out, readings come back; opening files and fetching addresses stay here, so that workers need neither
the files nor the way to the addresses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

from heliograph.distributed.desk import Desk
from heliograph.distributed.pool import Lane, WorkerPool
from heliograph.documents.base import LoadedDocument, RawDocument
from heliograph.documents.sources import SourceReader
from heliograph.embedding.base import EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.embedding.batching import BatchingEmbeddingModel, DeduplicatingEmbeddingModel
from heliograph.ingest.reading import ChunkProgress, DocumentReading, FindStored, Reader, ReadingTask
from heliograph.observing import stage
from heliograph.settings import DocumentSettings

__all__ = ["ClusterEmbeddingModel", "ClusterReader", "ClusterSourceReader"]

# One request to a worker: about a second of work for the local model, so that a long document's are shared out.
_BATCH_TOKENS = 16_384
_BATCH_TEXTS = 256


class ClusterReader(Reader):
    """Reads documents on workers.

    Args:
        pool: The workers.
        desk: Told how far they are.
    """

    def __init__(self, pool: WorkerPool, desk: Desk) -> None:
        self._pool = pool
        self._desk = desk
        self._numbers = count(1)

    async def read(self, task: ReadingTask, find_stored: FindStored, progress: ChunkProgress) -> DocumentReading:
        """See `Reader.read`."""
        stored = await find_stored(None)
        number = next(self._numbers)
        what = f"the document {task.document.source!r}"
        with self._desk.watching(number, progress) as watch, stage("ingest.cluster"):
            reading: DocumentReading = await self._pool.run(
                what, Lane.READ, "read", number, task, stored, number=number
            )
            watch.finish(len(reading.plan.unread))
        return reading


class ClusterEmbeddingModel(EmbeddingModel):
    """Embeds documents on the workers while there are any, and everything else here.

    Args:
        local: The model of this process, the same as that of the workers; it is closed by whoever made it.
        pool: The workers.
    """

    def __init__(self, local: EmbeddingModel, pool: WorkerPool) -> None:
        self._local = local
        self._pool = pool
        remote = _RemoteEmbeddingModel(local.info, pool)
        self._remote = DeduplicatingEmbeddingModel(BatchingEmbeddingModel(remote, _BATCH_TOKENS, _BATCH_TEXTS))

    @property
    def info(self) -> EmbeddingInfo:
        """That of both."""
        return self._local.info

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """See `EmbeddingModel.embed`; raises as `WorkerPool.run` besides."""
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
        return await self._pool.run(what, Lane.EMBED, "embed", tuple(texts), kind)


class ClusterSourceReader(SourceReader):
    """Reads files and URLs here, and has workers load what they hold.

    To be made on the event loop that the pool is used from, and called from other threads.
    """

    def __init__(self, settings: DocumentSettings, max_characters: int, pool: WorkerPool) -> None:
        """Keep the parts.

        Args:
            settings: Limits, and which addresses may be reached.
            max_characters: A longer text is refused.
            pool: The workers.
        """
        super().__init__(settings, max_characters)
        self._pool = pool
        self._loop = asyncio.get_running_loop()

    def load(self, raw: RawDocument) -> LoadedDocument:
        """See `SourceReader.load`; raises as `WorkerPool.run` besides."""
        work = self._pool.run(f"the source {raw.name!r}", Lane.READ, "load", raw)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
