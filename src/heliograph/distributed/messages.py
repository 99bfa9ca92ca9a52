"""Messages between the process that owns the store and its workers, and the contract of their transport.

Messages are frozen dataclasses, pickled. A worker sends `Notice`s while it works, some of which ask for an
`NoticeAnswer`, and ends each piece of work with a `WorkEnd`; errors travel as values. A `Launcher` starts a cluster's
workers, a `Worker` calls one of them; `WorkerLostError` stays between a launcher and the pool.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from heliograph.chat.base import ChatModel, Purpose
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import HeliographError
from heliograph.extraction.base import Extractor
from heliograph.models import Usage
from heliograph.observing import CallCount
from heliograph.settings import ChatSettings, DocumentSettings, EmbeddingSettings, IngestSettings
from heliograph.stores.base import CachedReply


@dataclass(frozen=True, slots=True)
class GivenModels:
    """Models that the caller gives instead of those in the settings; sent to every worker."""

    chat: ChatModel | None = None
    embedding: EmbeddingModel | None = None
    extractor: Extractor | None = None


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The setup of a worker: settings, including keys, with calls to services divided among the workers.

    A worker of another version refuses. Replies are kept if there is a cache to keep them.
    """

    version: str
    documents: DocumentSettings
    ingest: IngestSettings
    chat: ChatSettings
    embedding: EmbeddingSettings
    keeps_replies: bool = True
    given: GivenModels = GivenModels()


@dataclass(frozen=True, slots=True)
class ChunksBegun:
    """Says how many chunks of a document, identified by its number, will be read."""

    number: int
    count: int


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """One more chunk of a document was read."""

    number: int


@dataclass(frozen=True, slots=True)
class CallsCounted:
    """Calls of the chat model, for the meter."""

    purpose: Purpose
    count: CallCount


@dataclass(frozen=True, slots=True)
class TextsEmbedded:
    """Texts were embedded on the way."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class ReplyQuestion:
    """Asks for the cached reply under a key, or to store one under it; answered once that is done."""

    ticket: int
    key: str
    reply: CachedReply | None = None


Notice = ChunksBegun | ChunkRead | CallsCounted | TextsEmbedded | ReplyQuestion


@dataclass(frozen=True, slots=True)
class NoticeAnswer:
    """The answer to a worker's request, by its ticket, or the reason for a refusal."""

    ticket: int
    value: CachedReply | None = None
    error: HeliographError | None = None


@dataclass(frozen=True, slots=True)
class WorkEnd:
    """How a piece of work ended, with the notices until then that need no answer."""

    value: Any = None
    error: HeliographError | None = None
    notices: Sequence[Notice] = field(default=())


class WorkerLostError(Exception):
    """A worker's process has ended or its machine is lost; the message says why, where known."""


class Worker(ABC):
    """One process with a `ReadingWorker` in it."""

    @abstractmethod
    async def call(self, method: str, *arguments: object) -> Any:
        """Return the result of a method of the worker; many may be called at once.

        Raises:
            WorkerLostError: The worker is lost.
            ClusterUnavailable: The cluster is out of reach.
        """

    @abstractmethod
    def tell(self, method: str, *arguments: object) -> None:
        """Call a method without waiting for it; does nothing if the worker has ended."""

    @abstractmethod
    def kill(self) -> None:
        """End the process at once; does nothing if it has ended."""


class Launcher(ABC):
    """Starts workers."""

    @abstractmethod
    async def open(self) -> int:
        """Reach the cluster, or start one, and return how many workers it has; raises `ClusterUnavailable`."""

    @abstractmethod
    async def start(self, setup: WorkerSetup) -> Worker:
        """Return a new worker, which may still be waiting for resources.

        Raises:
            ClusterUnavailable: It cannot be started, or its setup cannot be sent.
        """

    @abstractmethod
    async def close(self) -> None:
        """Release the cluster, and end it if it was started here; closing twice does nothing."""
