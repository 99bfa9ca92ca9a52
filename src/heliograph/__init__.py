"""Heliograph: a transactional, offline-first GraphRAG engine. Documents go in; answers with citations come out.

with Heliograph("kb") as kb:
    kb.insert_files(["docs/"])
    print(kb.query("How does the gateway reach the broker?"))
"""

from heliograph._version import __version__
from heliograph.engine import AsyncHeliograph
from heliograph.errors import HeliographError
from heliograph.ingest.duplicates import DuplicatePair
from heliograph.ingest.given import GivenChunk, GivenEntity, GivenRelation
from heliograph.ingest.history import History, Statement
from heliograph.ingest.models import DeleteReport, DocumentResult, IngestReport, NewDocument, Outcome
from heliograph.ingest.progress import Progress
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
from heliograph.query.models import Answer, AnswerKind, Mode, QueryParam, Reference
from heliograph.settings import Settings
from heliograph.stores.base import CurationPage, CurationQuery, DocumentPage, DocumentQuery
from heliograph.sync import Heliograph

__all__ = [
    "Answer",
    "AnswerKind",
    "AsyncHeliograph",
    "Chunk",
    "Curation",
    "CurationKind",
    "CurationPage",
    "CurationQuery",
    "DeleteReport",
    "Document",
    "DocumentPage",
    "DocumentQuery",
    "DocumentResult",
    "DocumentStatus",
    "DuplicatePair",
    "Entity",
    "GivenChunk",
    "GivenEntity",
    "GivenRelation",
    "GraphPath",
    "Heliograph",
    "HeliographError",
    "History",
    "IngestReport",
    "Mode",
    "NewDocument",
    "Outcome",
    "Progress",
    "QueryParam",
    "Reference",
    "Relation",
    "Settings",
    "Statement",
    "Stats",
    "Subgraph",
    "Usage",
    "__version__",
]
