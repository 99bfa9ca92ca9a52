"""Heliograph: a transactional, offline-first GraphRAG engine. Documents go in; answers with citations come out.

with Heliograph("kb") as kb:
    kb.insert_files(["docs/"])
    print(kb.query("How does the gateway reach the broker?"))
"""

from heliograph._version import __version__
from heliograph.engine import AsyncHeliograph
from heliograph.errors import HeliographError
from heliograph.ingest.models import DeleteReport, DocumentResult, IngestReport, NewDocument, Outcome
from heliograph.ingest.progress import Progress
from heliograph.models import (
    Chunk,
    Document,
    DocumentStatus,
    Entity,
    GraphPath,
    Relation,
    Stats,
    Subgraph,
    Usage,
)
from heliograph.query.models import Answer, AnswerKind, Mode, QueryParam, Reference
from heliograph.settings import Settings
from heliograph.stores.base import DocumentPage, DocumentQuery
from heliograph.sync import Heliograph

__all__ = [
    "Answer",
    "AnswerKind",
    "AsyncHeliograph",
    "Chunk",
    "DeleteReport",
    "Document",
    "DocumentPage",
    "DocumentQuery",
    "DocumentResult",
    "DocumentStatus",
    "Entity",
    "GraphPath",
    "Heliograph",
    "HeliographError",
    "IngestReport",
    "Mode",
    "NewDocument",
    "Outcome",
    "Progress",
    "QueryParam",
    "Reference",
    "Relation",
    "Settings",
    "Stats",
    "Subgraph",
    "Usage",
    "__version__",
]
