"""Puts the parts together: what a pipeline needs to read its documents on a cluster."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass

from heliograph._version import __version__
from heliograph.chat.base import ChatModel
from heliograph.chat.meter import ChatMeter
from heliograph.distributed.desk import Desk
from heliograph.distributed.launching import Launcher
from heliograph.distributed.messages import WorkerSetup
from heliograph.distributed.pool import WorkerPool
from heliograph.distributed.ray_cluster import RayLauncher, check_ray
from heliograph.distributed.reader import ClusterEmbeddingModel, ClusterReader, ClusterSourceReader
from heliograph.documents.sources import SourceReader
from heliograph.embedding.base import EmbeddingModel
from heliograph.ingest.extraction.base import Extractor
from heliograph.ingest.reading import Reader
from heliograph.settings import IngestSettings, Settings
from heliograph.stores.replies import ReplyCache

__all__ = ["ClusterRooms", "GivenModels", "open_cluster"]

# Workers that a cluster of unknown size is taken to have, when it is settled how much may wait for them.
_WORKERS_ELSEWHERE = 32
_MOST_SOURCES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class GivenModels:
    """What the caller brings in place of what the settings name; sent to every worker."""

    chat: ChatModel | None = None
    embedding: EmbeddingModel | None = None
    extractor: Extractor | None = None


@dataclass(frozen=True, slots=True)
class ClusterRooms:
    """What reads on a cluster.

    Attributes:
        reader: Reads documents.
        embedding: Embeds what a commit needs.
        sources: Loads files and addresses.
        ingest: Settings of a pipeline that keeps the workers busy.
        sources_at_once: Sources to load at once.
    """

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
) -> ClusterRooms:
    """Return what reads on a cluster; the cluster itself is reached when the first document comes.

    Args:
        settings: All of them; only what workers need is sent.
        given: What to use in place of it.
        embedding: The model of this process.
        replies: Where replies of chat models are kept; None keeps none.
        meter: Counts what chat models cost.
        stack: Closes what was opened.
        launcher: Starts the workers; None takes Ray.

    Raises:
        MissingDependencyError: Ray is not installed.
    """
    if launcher is None:
        check_ray()
        launcher = RayLauncher(settings.ray)
    desk = Desk(replies, meter)
    workers = settings.ray.workers or (_WORKERS_ELSEWHERE if settings.ray.address else os.cpu_count() or 1)
    setup = _setup(settings, given, workers, keeps_replies=replies is not None)
    pool = WorkerPool(launcher, setup, settings.ray, desk)
    stack.push_async_callback(pool.close)
    sources = ClusterSourceReader(settings.documents, settings.ingest.max_document_characters, pool)
    at_once = workers * settings.ray.documents_per_worker
    parallel = max(settings.ingest.max_parallel_documents, at_once)
    return ClusterRooms(
        ClusterReader(pool, desk),
        ClusterEmbeddingModel(embedding, pool),
        sources,
        settings.ingest.model_copy(update={"max_parallel_documents": parallel}),
        min(at_once, _MOST_SOURCES_AT_ONCE),
    )


def _setup(settings: Settings, given: GivenModels, workers: int, *, keeps_replies: bool) -> WorkerSetup:
    """Return what a worker is made of: one core for the local model, and its share of the calls to services."""
    chat = {"max_concurrency": max(1, settings.chat.max_concurrency // workers)}
    cache = settings.embedding.cache_dir
    embedding = {
        "threads": 1,
        "max_concurrency": max(1, settings.embedding.max_concurrency // workers),
        # Workers have a working folder of their own.
        "cache_dir": cache and cache.absolute(),
    }
    return WorkerSetup(
        version=__version__,
        documents=settings.documents,
        ingest=settings.ingest,
        chat=settings.chat.model_copy(update=chat),
        embedding=settings.embedding.model_copy(update=embedding),
        keeps_replies=keeps_replies,
        given_chat=given.chat,
        given_embedding=given.embedding,
        given_extractor=given.extractor,
    )
