"""Heliograph: a transactional, offline-first GraphRAG engine. Documents go in; answers with citations come out.

with Heliograph("kb") as kb:
    kb.insert_files(["docs/"])
    print(kb.query("How does the gateway reach the broker?"))

The names exported here are imported on first access, so that small parts such as `heliograph.client` start quickly.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from heliograph import errors as errors
from heliograph._version import __version__ as __version__

# The onnxruntime wheels send telemetry to Microsoft, and keep a machine id in the home folder, unless this is set
# before the first import of onnxruntime. Set it to 0 to allow telemetry.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# For type checkers and editors, which cannot follow `__getattr__`.
if TYPE_CHECKING:
    from heliograph.chat.base import ChatMessage as ChatMessage
    from heliograph.chat.base import ChatModel as ChatModel
    from heliograph.chat.base import ChatReply as ChatReply
    from heliograph.chat.base import ChatRequest as ChatRequest
    from heliograph.curation.duplicates import DuplicatePair as DuplicatePair
    from heliograph.curation.graph_curation import History as History
    from heliograph.curation.graph_curation import Statement as Statement
    from heliograph.embedding.base import EmbeddingInfo as EmbeddingInfo
    from heliograph.embedding.base import EmbeddingModel as EmbeddingModel
    from heliograph.embedding.base import Embeddings as Embeddings
    from heliograph.engine import AsyncHeliograph as AsyncHeliograph
    from heliograph.errors import AccessError as AccessError
    from heliograph.errors import AuthenticationError as AuthenticationError
    from heliograph.errors import BadModelReply as BadModelReply
    from heliograph.errors import CancelledIngestError as CancelledIngestError
    from heliograph.errors import ClusterUnavailable as ClusterUnavailable
    from heliograph.errors import ConflictError as ConflictError
    from heliograph.errors import ContextTooLong as ContextTooLong
    from heliograph.errors import HeliographError as HeliographError
    from heliograph.errors import IngestError as IngestError
    from heliograph.errors import InvalidRequestError as InvalidRequestError
    from heliograph.errors import MissingDependencyError as MissingDependencyError
    from heliograph.errors import ModelError as ModelError
    from heliograph.errors import ModelTimeout as ModelTimeout
    from heliograph.errors import ModelUnavailable as ModelUnavailable
    from heliograph.errors import NotFoundError as NotFoundError
    from heliograph.errors import OverloadedError as OverloadedError
    from heliograph.errors import PermissionDenied as PermissionDenied
    from heliograph.errors import RateLimited as RateLimited
    from heliograph.errors import RequestTooLargeError as RequestTooLargeError
    from heliograph.errors import SchemaMismatch as SchemaMismatch
    from heliograph.errors import ServiceUnavailable as ServiceUnavailable
    from heliograph.errors import SettingsError as SettingsError
    from heliograph.errors import StaleChangesetError as StaleChangesetError
    from heliograph.errors import StoreAccessDenied as StoreAccessDenied
    from heliograph.errors import StoreDamaged as StoreDamaged
    from heliograph.errors import StoreError as StoreError
    from heliograph.errors import StoreUnavailable as StoreUnavailable
    from heliograph.filters import And as And
    from heliograph.filters import DocumentIds as DocumentIds
    from heliograph.filters import Equals as Equals
    from heliograph.filters import Exists as Exists
    from heliograph.filters import Filter as Filter
    from heliograph.filters import HasChunk as HasChunk
    from heliograph.filters import In as In
    from heliograph.filters import Not as Not
    from heliograph.filters import Or as Or
    from heliograph.filters import Range as Range
    from heliograph.filters import SourcePrefix as SourcePrefix
    from heliograph.filters import Sources as Sources
    from heliograph.filters import parse_expression as parse_expression
    from heliograph.filters import parse_filter as parse_filter
    from heliograph.functions import FunctionChatModel as FunctionChatModel
    from heliograph.functions import FunctionEmbeddingModel as FunctionEmbeddingModel
    from heliograph.functions import FunctionReranker as FunctionReranker
    from heliograph.ingest.given import GivenChunk as GivenChunk
    from heliograph.ingest.given import GivenEntity as GivenEntity
    from heliograph.ingest.given import GivenRelation as GivenRelation
    from heliograph.ingest.models import DeleteReport as DeleteReport
    from heliograph.ingest.models import DocumentResult as DocumentResult
    from heliograph.ingest.models import IngestReport as IngestReport
    from heliograph.ingest.models import NewDocument as NewDocument
    from heliograph.ingest.models import Outcome as Outcome
    from heliograph.ingest.models import Progress as Progress
    from heliograph.models import Chunk as Chunk
    from heliograph.models import Curation as Curation
    from heliograph.models import CurationKind as CurationKind
    from heliograph.models import Document as Document
    from heliograph.models import DocumentStatus as DocumentStatus
    from heliograph.models import Entity as Entity
    from heliograph.models import GraphPath as GraphPath
    from heliograph.models import Mode as Mode
    from heliograph.models import ModeName as ModeName
    from heliograph.models import Relation as Relation
    from heliograph.models import Stats as Stats
    from heliograph.models import Subgraph as Subgraph
    from heliograph.models import Usage as Usage
    from heliograph.query.answers.answer import AnswerStream as AnswerStream
    from heliograph.query.answers.models import Answer as Answer
    from heliograph.query.answers.models import AnswerKind as AnswerKind
    from heliograph.query.answers.models import Citation as Citation
    from heliograph.query.models import Context as Context
    from heliograph.query.models import Keywords as Keywords
    from heliograph.query.models import QueryParam as QueryParam
    from heliograph.query.models import Reference as Reference
    from heliograph.query.models import Retrieval as Retrieval
    from heliograph.query.models import RetrievedChunk as RetrievedChunk
    from heliograph.query.models import RetrievedEntity as RetrievedEntity
    from heliograph.query.models import RetrievedRelation as RetrievedRelation
    from heliograph.query.payloads import QueryData as QueryData
    from heliograph.rerank.base import Reranker as Reranker
    from heliograph.rerank.base import RerankHit as RerankHit
    from heliograph.settings import Settings as Settings
    from heliograph.stores.base import CurationPage as CurationPage
    from heliograph.stores.base import CurationQuery as CurationQuery
    from heliograph.stores.base import DocumentPage as DocumentPage
    from heliograph.stores.base import DocumentQuery as DocumentQuery
    from heliograph.sync import Heliograph as Heliograph
    from heliograph.sync import SyncAnswerStream as SyncAnswerStream

# The same names, grouped by the module that defines them.
_HOMES = {
    "chat.base": "ChatMessage ChatModel ChatReply ChatRequest",
    "curation.duplicates": "DuplicatePair",
    "curation.graph_curation": "History Statement",
    "embedding.base": "EmbeddingInfo EmbeddingModel Embeddings",
    "engine": "AsyncHeliograph",
    "errors": """
        AccessError AuthenticationError BadModelReply CancelledIngestError ClusterUnavailable ConflictError
        ContextTooLong HeliographError IngestError InvalidRequestError MissingDependencyError ModelError
        ModelTimeout ModelUnavailable NotFoundError OverloadedError PermissionDenied RateLimited
        RequestTooLargeError SchemaMismatch ServiceUnavailable SettingsError StaleChangesetError StoreAccessDenied
        StoreDamaged StoreError StoreUnavailable""",
    "filters": """
        And DocumentIds Equals Exists Filter HasChunk In Not Or parse_expression parse_filter Range SourcePrefix
        Sources""",
    "functions": "FunctionChatModel FunctionEmbeddingModel FunctionReranker",
    "ingest.given": "GivenChunk GivenEntity GivenRelation",
    "ingest.models": "DeleteReport DocumentResult IngestReport NewDocument Outcome Progress",
    "models": """
        Chunk Curation CurationKind Document DocumentStatus Entity GraphPath Mode ModeName Relation Stats Subgraph
        Usage""",
    "query.answers.answer": "AnswerStream",
    "query.answers.models": "Answer AnswerKind Citation",
    "query.models": """
        Context Keywords QueryParam Reference Retrieval RetrievedChunk RetrievedEntity RetrievedRelation""",
    "query.payloads": "QueryData",
    "rerank.base": "Reranker RerankHit",
    "settings": "Settings",
    "stores.base": "CurationPage CurationQuery DocumentPage DocumentQuery",
    "sync": "Heliograph SyncAnswerStream",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(["__version__", *_MODULES])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
