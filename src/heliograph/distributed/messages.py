"""What goes between the process that owns the store and its workers, pickled: frozen dataclasses and nothing else.

A worker tells `Notice`s while it works, some of which ask for an `Answer`, and ends each piece of work with an
`Outcome`. Errors travel as values, since what a cluster makes of an exception is its own affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from heliograph.chat.base import ChatModel, Purpose
from heliograph.chat.meter import CallCount
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import HeliographError
from heliograph.ingest.extraction.base import Extractor
from heliograph.models import Usage
from heliograph.settings import ChatSettings, DocumentSettings, EmbeddingSettings, IngestSettings
from heliograph.stores.replies import CachedReply

__all__ = [
    "Answer",
    "CallsCounted",
    "ChunkRead",
    "ChunksBegun",
    "KeepReply",
    "LookUpReply",
    "Notice",
    "Outcome",
    "TextsEmbedded",
    "WorkerSetup",
]


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a worker is made of.

    Attributes:
        version: Of the package that sends it; a worker of another one refuses.
        documents: Limits of loading.
        ingest: How texts are cut and read.
        chat: The chat model, its calls shared out among the workers; keys travel with it.
        embedding: The embedding model, likewise.
        keeps_replies: Whether there is somebody to keep replies of chat models.
        given_chat: The caller's own chat model in place of that of the settings.
        given_embedding: Likewise.
        given_extractor: Likewise.
    """

    version: str
    documents: DocumentSettings
    ingest: IngestSettings
    chat: ChatSettings
    embedding: EmbeddingSettings
    keeps_replies: bool = True
    given_chat: ChatModel | None = None
    given_embedding: EmbeddingModel | None = None
    given_extractor: Extractor | None = None


@dataclass(frozen=True, slots=True)
class ChunksBegun:
    """So many chunks of a document, by its number, will be read."""

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
class LookUpReply:
    """Asks for a kept reply; answered with a `CachedReply` or None."""

    ticket: int
    key: str


@dataclass(frozen=True, slots=True)
class KeepReply:
    """Asks to keep a reply; answered with None once it is durable."""

    ticket: int
    reply: CachedReply


Notice = ChunksBegun | ChunkRead | CallsCounted | TextsEmbedded | LookUpReply | KeepReply


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker asked for under a ticket, or why it does not get it."""

    ticket: int
    value: CachedReply | None = None
    error: HeliographError | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a piece of work ended.

    Attributes:
        value: What came of it.
        error: Why nothing did.
        notices: What there was to tell until then and needs no answer.
    """

    value: Any = None
    error: HeliographError | None = None
    notices: Sequence[Notice] = field(default=())
