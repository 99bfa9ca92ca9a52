"""The results of a client (the shapes of `heliograph.wire`) and its query options.

A shape is imported on first use, here and in `heliograph.client`, so that a client starts with httpx alone. All are
frozen; unknown fields of a reply are ignored, so that a newer service can add some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from numbers import Integral
from operator import index
from typing import Any

from heliograph.models import ChannelName, ChunkPicking, ContextFormatName, FusionName

# The shapes by their modules in `heliograph.wire`.
_HOMES = {
    "answers": "CitationItem ClientAnswer FoundChunk FoundEntity FoundRelation ReferenceItem RetrieveResponse",
    "documents": """
        ChangeResponse DetailResponse DocumentEntitiesResponse DocumentResponse InsertResponse JobListResponse
        JobResponse ListResponse RemovalResponse TextResponse""",
    "graph": """
        CurationItem CurationListResponse DuplicateItem DuplicateResponse EntityDetail EntityListResponse
        HistoryResponse NeighbourResponse PathItem PathResponse RelationDetail""",
    "service": "WorkspaceList WorkspaceRow WorkspaceStats",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}
# Shapes that `heliograph.client` offers by other names.
_ALIASES = {
    "ClientChunk": "FoundChunk",
    "ClientCitation": "CitationItem",
    "ClientEntity": "FoundEntity",
    "ClientReference": "ReferenceItem",
    "ClientRelation": "FoundRelation",
    "ClientRetrieval": "RetrieveResponse",
}


def __getattr__(name: str) -> Any:
    own = _ALIASES.get(name, name)
    if own not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"heliograph.wire.{_MODULES[own]}"), own)
    return found


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Parameters of a question, beside its mode; None leaves one to the service. `QueryParam` explains each.

    Attributes:
        conversation_history: Earlier messages, oldest first, each `{"role": ..., "content": ...}`; not for `retrieve`.
        include_chunk_content: Add the texts of their chunks to references; not for `retrieve`.
    """

    response_type: str | None = None
    top_k: int | None = None
    chunk_top_k: int | None = None
    max_entity_tokens: int | None = None
    max_relation_tokens: int | None = None
    max_total_tokens: int | None = None
    hl_keywords: Sequence[str] | None = None
    ll_keywords: Sequence[str] | None = None
    conversation_history: Sequence[Mapping[str, str]] | None = None
    history_turns: int | None = None
    user_prompt: str | None = None
    disable_user_prompt_prefix: bool | None = None
    enable_rerank: bool | None = None
    only_need_context: bool | None = None
    only_need_prompt: bool | None = None
    include_chunk_content: bool | None = None
    filter: Mapping[str, Any] | None = None
    channels: Sequence[ChannelName] | None = None
    fusion: FusionName | None = None
    chunk_picking: ChunkPicking | None = None
    context_format: ContextFormatName | None = None
    explain: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the options that are set, as the service reads them."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: _plain(value) for name, value in given.items() if value is not None}


def _plain(value: Any) -> Any:
    # The JSON encoder does not accept NumPy's integers.
    if isinstance(value, Integral) and not isinstance(value, int):
        return index(value)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class CurationEdit:
    """The outcome of a correction.

    Attributes:
        message: In words.
        names: Its current names: the entity, or both ends of the relation.
        curation_ids: The recorded curations, in order; each can be undone.
        is_merged: Whether the entity became part of another one.
    """

    message: str
    names: tuple[str, ...]
    curation_ids: tuple[str, ...]
    is_merged: bool = False
