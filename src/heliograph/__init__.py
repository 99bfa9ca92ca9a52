"""Heliograph: a transactional, offline-first GraphRAG engine. Documents go in; answers with citations come out.

with Heliograph("kb") as kb:
    kb.insert_files(["docs/"])
    print(kb.query("How does the gateway reach the broker?"))

What is offered here is imported when it is first asked for, so that what needs little of it, such as
`heliograph.client`, starts at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heliograph._version import __version__
from heliograph.errors import (
    AccessError,
    AuthenticationError,
    BadModelReply,
    CancelledIngestError,
    ClusterUnavailable,
    ConflictError,
    ContextTooLong,
    HeliographError,
    IngestError,
    InvalidRequestError,
    MissingDependencyError,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    NotFoundError,
    OverloadedError,
    PermissionDenied,
    RateLimited,
    RequestTooLargeError,
    SchemaMismatch,
    ServiceUnavailable,
    SettingsError,
    StaleChangesetError,
    StoreAccessDenied,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from heliograph.chat.base import ChatMessage, ChatModel, ChatReply, ChatRequest
    from heliograph.curation.graph_curation import DuplicatePair, History, Statement
    from heliograph.embedding.base import EmbeddingInfo, EmbeddingModel, Embeddings
    from heliograph.engine import AsyncHeliograph
    from heliograph.filters import (
        And,
        DocumentIds,
        Equals,
        Exists,
        Filter,
        HasChunk,
        In,
        Not,
        Or,
        Range,
        SourcePrefix,
        Sources,
        parse_expression,
        parse_filter,
    )
    from heliograph.functions import FunctionChatModel, FunctionEmbeddingModel, FunctionReranker
    from heliograph.ingest.given import GivenChunk, GivenEntity, GivenRelation
    from heliograph.ingest.models import DeleteReport, DocumentResult, IngestReport, NewDocument, Outcome, Progress
    from heliograph.models import (
        Chunk,
        Curation,
        CurationKind,
        Document,
        DocumentStatus,
        Entity,
        GraphPath,
        Relation,
        Stats,
        Subgraph,
        Usage,
    )
    from heliograph.query.answers.answer import AnswerStream
    from heliograph.query.answers.models import Answer, AnswerKind, Citation
    from heliograph.query.models import (
        Context,
        Keywords,
        Mode,
        ModeName,
        QueryParam,
        Reference,
        Retrieval,
        RetrievedChunk,
        RetrievedEntity,
        RetrievedRelation,
    )
    from heliograph.query.payloads import QueryData
    from heliograph.rerank.base import Reranker, RerankHit
    from heliograph.settings import Settings
    from heliograph.stores.base import CurationPage, CurationQuery, DocumentPage, DocumentQuery
    from heliograph.sync import Heliograph, SyncAnswerStream

__all__ = [
    "AccessError",
    "And",
    "Answer",
    "AnswerKind",
    "AnswerStream",
    "AsyncHeliograph",
    "AuthenticationError",
    "BadModelReply",
    "CancelledIngestError",
    "ChatMessage",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "Chunk",
    "Citation",
    "ClusterUnavailable",
    "ConflictError",
    "Context",
    "ContextTooLong",
    "Curation",
    "CurationKind",
    "CurationPage",
    "CurationQuery",
    "DeleteReport",
    "Document",
    "DocumentIds",
    "DocumentPage",
    "DocumentQuery",
    "DocumentResult",
    "DocumentStatus",
    "DuplicatePair",
    "EmbeddingInfo",
    "EmbeddingModel",
    "Embeddings",
    "Entity",
    "Equals",
    "Exists",
    "Filter",
    "FunctionChatModel",
    "FunctionEmbeddingModel",
    "FunctionReranker",
    "GivenChunk",
    "GivenEntity",
    "GivenRelation",
    "GraphPath",
    "HasChunk",
    "Heliograph",
    "HeliographError",
    "History",
    "In",
    "IngestError",
    "IngestReport",
    "InvalidRequestError",
    "Keywords",
    "MissingDependencyError",
    "Mode",
    "ModeName",
    "ModelError",
    "ModelTimeout",
    "ModelUnavailable",
    "NewDocument",
    "Not",
    "NotFoundError",
    "Or",
    "Outcome",
    "OverloadedError",
    "PermissionDenied",
    "Progress",
    "QueryData",
    "QueryParam",
    "Range",
    "RateLimited",
    "Reference",
    "Relation",
    "RequestTooLargeError",
    "RerankHit",
    "Reranker",
    "Retrieval",
    "RetrievedChunk",
    "RetrievedEntity",
    "RetrievedRelation",
    "SchemaMismatch",
    "ServiceUnavailable",
    "Settings",
    "SettingsError",
    "SourcePrefix",
    "Sources",
    "StaleChangesetError",
    "Statement",
    "Stats",
    "StoreAccessDenied",
    "StoreDamaged",
    "StoreError",
    "StoreUnavailable",
    "Subgraph",
    "SyncAnswerStream",
    "Usage",
    "__version__",
    "parse_expression",
    "parse_filter",
]

_HOMES = {
    "heliograph.chat.base": ("ChatMessage", "ChatModel", "ChatReply", "ChatRequest"),
    "heliograph.embedding.base": ("EmbeddingInfo", "EmbeddingModel", "Embeddings"),
    "heliograph.filters": (
        "And",
        "DocumentIds",
        "Equals",
        "Exists",
        "Filter",
        "HasChunk",
        "In",
        "Not",
        "Or",
        "Range",
        "SourcePrefix",
        "Sources",
        "parse_expression",
        "parse_filter",
    ),
    "heliograph.functions": ("FunctionChatModel", "FunctionEmbeddingModel", "FunctionReranker"),
    "heliograph.query.answers.answer": ("AnswerStream",),
    "heliograph.rerank.base": ("RerankHit", "Reranker"),
    "heliograph.query.answers.models": ("Answer", "AnswerKind", "Citation"),
    "heliograph.query.payloads": ("QueryData",),
    "heliograph.query.models": (
        "Context",
        "Keywords",
        "Mode",
        "ModeName",
        "QueryParam",
        "Reference",
        "Retrieval",
        "RetrievedChunk",
        "RetrievedEntity",
        "RetrievedRelation",
    ),
    "heliograph.sync": ("Heliograph", "SyncAnswerStream"),
    "heliograph.engine": ("AsyncHeliograph",),
    "heliograph.curation.graph_curation": ("DuplicatePair", "History", "Statement"),
    "heliograph.ingest.given": ("GivenChunk", "GivenEntity", "GivenRelation"),
    "heliograph.ingest.models": (
        "DeleteReport",
        "DocumentResult",
        "IngestReport",
        "NewDocument",
        "Outcome",
        "Progress",
    ),
    "heliograph.models": (
        "Chunk",
        "Curation",
        "CurationKind",
        "Document",
        "DocumentStatus",
        "Entity",
        "GraphPath",
        "Relation",
        "Stats",
        "Subgraph",
        "Usage",
    ),
    "heliograph.settings": ("Settings",),
    "heliograph.stores.base": ("CurationPage", "CurationQuery", "DocumentPage", "DocumentQuery"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
