"""The parameters and results of `LightRAG`: for questions, document states and deletions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields
from enum import Enum
from typing import Any, Literal

from heliograph.lightrag.llm_roles import ROLES, RoleLLMConfig, RoleSpec
from heliograph.lightrag.types import KnowledgeGraph, KnowledgeGraphEdge, KnowledgeGraphNode
from heliograph.lightrag.utils import EmbeddingFunc, default_number, retired
from heliograph.wire.query import LIGHTRAG_MODE

__all__ = [
    "ROLES",
    "DeletionResult",
    "DocProcessingStatus",
    "DocStatus",
    "EmbeddingFunc",
    "KnowledgeGraph",
    "KnowledgeGraphEdge",
    "KnowledgeGraphNode",
    "QueryParam",
    "RoleLLMConfig",
    "RoleSpec",
    "TextChunkSchema",
]

TextChunkSchema = dict[str, Any]


@retired(
    *("history_turns", "max_token_for_text_unit", "max_token_for_global_context", "max_token_for_local_context"),
)
@dataclass
class QueryParam:
    """Parameters of one question; fields, order and defaults are those of LightRAG 1.5.7.

    `top_k` and the token budgets take their defaults from `TOP_K`, `CHUNK_TOP_K`, `MAX_ENTITY_TOKENS`,
    `MAX_RELATION_TOKENS` and `MAX_TOTAL_TOKENS` of the environment. After them come two keyword-only parameters of
    versions before 1.5.

    Attributes:
        ids: Restricts the question to the documents of these ids; None or an empty list restricts nothing.
        model_func: The function for this question, in place of `llm_model_func` and of those of roles.
    """

    mode: Literal["local", "global", "hybrid", "naive", "mix", "bypass"] = LIGHTRAG_MODE.value
    only_need_context: bool = False
    only_need_prompt: bool = False
    response_type: str = "Multiple Paragraphs"
    stream: bool = False
    top_k: int = default_number("TOP_K")
    chunk_top_k: int = default_number("CHUNK_TOP_K")
    max_entity_tokens: int = default_number("MAX_ENTITY_TOKENS")
    max_relation_tokens: int = default_number("MAX_RELATION_TOKENS")
    max_total_tokens: int = default_number("MAX_TOTAL_TOKENS")
    hl_keywords: list[str] = field(default_factory=list[str])
    ll_keywords: list[str] = field(default_factory=list[str])
    conversation_history: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    user_prompt: str | None = None
    enable_rerank: bool = True
    include_references: bool = False
    disable_user_prompt_prefix: bool = False
    _: KW_ONLY
    ids: InitVar[list[str] | None] = None
    model_func: InitVar[Callable[..., Any] | None] = None

    def __post_init__(self, ids: list[str] | None, model_func: Callable[..., Any] | None) -> None:
        # Attributes but not fields, which are those of 1.5.7.
        vars(self).update(ids=ids, model_func=model_func)


class DocStatus(str, Enum):  # noqa: UP042 (programs print it as LightRAG does, `DocStatus.PROCESSED`)
    """The processing state of a document."""

    PENDING = "pending"
    PARSING = "parsing"
    ANALYZING = "analyzing"
    PROCESSING = "processing"
    PREPROCESSED = "preprocessed"
    PROCESSED = "processed"
    FAILED = "failed"


@dataclass
class DocProcessingStatus:
    """One document: the beginning and length of its text, its file, state and chunks, and the error if it failed."""

    content_summary: str
    content_length: int
    file_path: str
    status: DocStatus
    created_at: str
    updated_at: str
    track_id: str | None = None
    chunks_count: int | None = None
    chunks_list: list[str] | None = field(default_factory=list[str])
    error_msg: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    multimodal_processed: bool | None = field(default=None, repr=False)
    content_hash: str | None = None

    @classmethod
    def from_stored(cls, data: dict[str, Any]) -> DocProcessingStatus:
        """Return a status from a record, whose other fields are ignored."""
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})


@dataclass
class DeletionResult:
    """The result of a deletion; `status_code` is the HTTP status of the service."""

    status: Literal["success", "not_found", "not_allowed", "fail"]
    doc_id: str
    message: str
    status_code: int = 200
    file_path: str | None = None
