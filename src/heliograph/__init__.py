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

if TYPE_CHECKING:
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

_HOMES = {
    "heliograph.engine": ("AsyncHeliograph",),
    "heliograph.errors": ("HeliographError",),
    "heliograph.ingest.duplicates": ("DuplicatePair",),
    "heliograph.ingest.given": ("GivenChunk", "GivenEntity", "GivenRelation"),
    "heliograph.ingest.history": ("History", "Statement"),
    "heliograph.ingest.models": ("DeleteReport", "DocumentResult", "IngestReport", "NewDocument", "Outcome"),
    "heliograph.ingest.progress": ("Progress",),
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
    "heliograph.query.models": ("Answer", "AnswerKind", "Mode", "QueryParam", "Reference"),
    "heliograph.settings": ("Settings",),
    "heliograph.stores.base": ("CurationPage", "CurationQuery", "DocumentPage", "DocumentQuery"),
    "heliograph.sync": ("Heliograph",),
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
