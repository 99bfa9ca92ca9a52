"""The fields of LightRAG's class, their defaults from LightRAG's environment, and the settings that they map to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

import heliograph.lightrag.constants as defaults
from heliograph.lightrag.chunker import chunking_by_token_size
from heliograph.lightrag.llm_roles import RoleLLMConfig
from heliograph.lightrag.utils import (
    EmbeddingFunc,
    TokenizerInterface,
    default_number,
    get_env_value,
    lightrag_number,
    warn_once,
)
from heliograph.settings import Settings

M = TypeVar("M", bound=BaseModel)

_EMBEDDED = {
    *("JsonKVStorage", "NanoVectorDBStorage", "NetworkXStorage", "JsonDocStatusStorage"),
    *("FaissVectorDBStorage", "NoopVectorDBStorage"),
}
# Fields with the same name in the settings of questions, and fields without effect here.
_EQUAL = (
    *("top_k", "chunk_top_k", "max_entity_tokens", "max_relation_tokens", "max_total_tokens"),
    "user_prompt_prefix",
)
_IDLE = ("vlm_process_enable", "max_pending_documents", "ollama_server_infos", "log_level", "log_file_path")
_KNOWN_PARAMS = frozenset({"language", "entity_types", "chunker"})


def _chat_calls_at_once() -> float:
    return lightrag_number("MAX_ASYNC_LLM", lightrag_number("MAX_ASYNC", defaults.DEFAULT_MAX_ASYNC))


@dataclass
class Fields:
    """The fields of `LightRAG`. One that cannot work as in LightRAG warns once; docs/lightrag-api.md lists it."""

    working_dir: str = "./rag_storage"
    kv_storage: str = "JsonKVStorage"
    vector_storage: str = "NanoVectorDBStorage"
    graph_storage: str = "NetworkXStorage"
    doc_status_storage: str = "JsonDocStatusStorage"
    workspace: str = field(default_factory=lambda: str(get_env_value("WORKSPACE", "")))
    log_level: int | None = None
    log_file_path: str | None = None
    top_k: int = default_number("TOP_K")
    chunk_top_k: int = default_number("CHUNK_TOP_K")
    max_entity_tokens: int = default_number("MAX_ENTITY_TOKENS")
    max_relation_tokens: int = default_number("MAX_RELATION_TOKENS")
    max_total_tokens: int = default_number("MAX_TOTAL_TOKENS")
    related_chunk_number: int = default_number("RELATED_CHUNK_NUMBER")
    kg_chunk_pick_method: str = field(
        default_factory=lambda: str(get_env_value("KG_CHUNK_PICK_METHOD", defaults.DEFAULT_KG_CHUNK_PICK_METHOD))
    )
    enable_content_headings: bool = True
    entity_extract_max_gleaning: int = default_number("MAX_GLEANING")
    entity_extract_max_records: int = 100
    entity_extract_max_entities: int = 40
    force_llm_summary_on_merge: int = default_number("FORCE_LLM_SUMMARY_ON_MERGE")
    chunk_token_size: int | None = None
    chunk_overlap_token_size: int | None = None
    tokenizer: TokenizerInterface | None = None
    tiktoken_model_name: str = "gpt-4o-mini"
    chunking_func: Callable[..., Any] = chunking_by_token_size
    embedding_func: EmbeddingFunc | None = None
    embedding_chunk_overlap_token_size: int = 100
    embedding_batch_num: int = default_number("EMBEDDING_BATCH_NUM")
    embedding_func_max_async: int = default_number("EMBEDDING_FUNC_MAX_ASYNC")
    embedding_cache_config: dict[str, Any] = field(default_factory=dict[str, Any])
    default_embedding_timeout: int = default_number("EMBEDDING_TIMEOUT")
    llm_model_func: Callable[..., Any] | None = None
    role_llm_configs: Mapping[str, RoleLLMConfig | Mapping[str, Any]] | None = None
    llm_model_name: str = "gpt-4o-mini"
    summary_max_tokens: int = default_number("SUMMARY_MAX_TOKENS")
    summary_context_size: int = default_number("SUMMARY_CONTEXT_SIZE")
    summary_length_recommended: int = default_number("SUMMARY_LENGTH_RECOMMENDED")
    llm_model_max_async: int = field(default_factory=lambda: int(_chat_calls_at_once()))
    llm_model_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    default_llm_timeout: int = default_number("LLM_TIMEOUT")
    entity_extraction_use_json: bool = field(
        default_factory=lambda: bool(get_env_value("ENTITY_EXTRACTION_USE_JSON", False, bool))
    )
    rerank_model_func: Callable[..., Any] | None = None
    rerank_model_max_async: int = field(
        default_factory=lambda: int(lightrag_number("MAX_ASYNC_RERANK", _chat_calls_at_once()))
    )
    default_rerank_timeout: int = default_number("RERANK_TIMEOUT")
    min_rerank_score: float = default_number("MIN_RERANK_SCORE", float)
    vector_db_storage_cls_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    enable_llm_cache: bool = True
    enable_llm_cache_for_entity_extract: bool = True
    vlm_process_enable: bool = False
    max_parallel_insert: int = default_number("MAX_PARALLEL_INSERT")
    max_parallel_parse_native: int = 5
    max_parallel_parse_mineru: int = 1
    max_parallel_parse_docling: int = 1
    max_parallel_analyze: int = 5
    queue_size_parse: int = 20
    queue_size_analyze: int = 20
    queue_size_insert: int = 20
    pipeline_scheduling_page_size: int = 500
    pipeline_require_strict_storage_reads: bool = False
    max_pending_documents: int = 0
    max_graph_nodes: int = default_number("MAX_GRAPH_NODES")
    max_source_ids_per_entity: int = default_number("MAX_SOURCE_IDS_PER_ENTITY")
    max_source_ids_per_relation: int = default_number("MAX_SOURCE_IDS_PER_RELATION")
    source_ids_limit_method: str = "KEEP"
    max_file_paths: int = 75
    file_path_more_placeholder: str = "truncated"
    addon_params: InitVar[Mapping[str, Any] | None] = None
    auto_manage_storages_states: bool = False
    cosine_better_than_threshold: float = default_number("COSINE_THRESHOLD", float)
    ollama_server_infos: Any = None
    user_prompt_prefix: str = field(default_factory=lambda: str(get_env_value("USER_PROMPT_PREFIX", "")))

    def made_settings(self, params: Mapping[str, Any], chat_seconds: float) -> Settings:
        """Return the settings that the fields map to; settings without a field come from the environment.

        Args:
            params: `addon_params`.
            chat_seconds: How long a call of a chat model may take.

        Raises:
            ValueError: A field has an invalid value.
        """
        base = Settings.load()
        changes: dict[str, dict[str, Any]] = {
            "store": {"data_dir": self.working_dir, "workspace": self.workspace or "default", **self._urls()},
            "ingest": {
                "engine": "local",
                "extractor": "chat",
                "duplicates": "separate",
                "extraction_format": "json" if self.entity_extraction_use_json else "delimiter",
                "gleaning_passes": self.entity_extract_max_gleaning,
                "language": str(params.get("language") or get_env_value("SUMMARY_LANGUAGE", "")),
                "summary_fragments": max(2, self.force_llm_summary_on_merge),
                "summary_tokens": self.summary_max_tokens,
                "summary_context_tokens": self.summary_context_size,
                "summary_length_tokens": self.summary_length_recommended,
                "max_parallel_documents": self.max_parallel_insert,
                "max_sources": max(self.max_source_ids_per_entity, self.max_source_ids_per_relation),
            },
            "query": {
                **{name: getattr(self, name) for name in _EQUAL},
                "related_chunks": self.related_chunk_number,
                "chunk_picking": self.kg_chunk_pick_method.lower(),
                "min_cosine": self.least_cosine,
                "cache_answers": self.enable_llm_cache,
            },
            "chat": {
                "cache": self.enable_llm_cache,
                "max_concurrency": self.llm_model_max_async,
                "timeout_seconds": chat_seconds,
                # A function does its own retries where needed.
                "max_retries": 0,
            },
            "embedding": {
                "max_batch_texts": self.embedding_batch_num,
                "max_batch_tokens": 1_000_000,
                "max_concurrency": self.embedding_func_max_async,
                "timeout_seconds": self.default_embedding_timeout,
                "max_retries": 0,
            },
            "rerank": {
                "min_score": self.min_rerank_score,
                "max_concurrency": self.rerank_model_max_async,
                "timeout_seconds": self.default_rerank_timeout,
            },
        }
        if types := params.get("entity_types"):
            changes["ingest"]["entity_types"] = tuple(types)
        try:
            return base.model_copy(
                update={section: _changed(getattr(base, section), new) for section, new in changes.items()}
            )
        except ValidationError as error:
            problems = "; ".join(f"{item['loc'][0]}: {item['msg']}, got {item['input']!r}" for item in error.errors())
            raise ValueError(f"LightRAG cannot be made like this: {problems}") from None

    @property
    def least_cosine(self) -> float:
        """The least cosine of a hit."""
        return float(
            self.vector_db_storage_cls_kwargs.get("cosine_better_than_threshold", self.cosine_better_than_threshold)
        )

    def _urls(self) -> dict[str, str]:
        """Return the URLs of the stores that the fields name, configured by LightRAG's environment."""
        urls: dict[str, str] = {}
        given = {self.kv_storage, self.vector_storage, self.graph_storage, self.doc_status_storage} - _EMBEDDED
        if any(name.startswith("PG") for name in given):
            names = ("POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DATABASE")
            user, password, database = (quote(_variable(name), safe="") for name in names)
            host, port = get_env_value("POSTGRES_HOST", "localhost"), int(lightrag_number("POSTGRES_PORT", 5432))
            urls["url"] = f"postgresql://{user}:{password}@{host}:{port}/{database}"
        if "Neo4JStorage" in given:
            user, password = (quote(_variable(name), safe="") for name in ("NEO4J_USERNAME", "NEO4J_PASSWORD"))
            urls["graph_url"] = _variable("NEO4J_URI").replace("://", f"://{user}:{password}@", 1)
        if "QdrantVectorDBStorage" in given:
            address = _variable("QDRANT_URL").replace("https://", "qdrants://").replace("http://", "qdrant://")
            key = quote(str(get_env_value("QDRANT_API_KEY", "")), safe="")
            urls["vectors_url"] = address.replace("://", f"://:{key}@", 1) if key else address
        if self.kv_storage == "RedisKVStorage":
            urls["cache_url"] = _variable("REDIS_URI")
        served = ("PG", "Neo4J", "Qdrant", "Redis")
        for name in sorted(name for name in given if not name.startswith(served)):
            warn_once(
                f"{name} has no counterpart; what it would hold is in the embedded store of the working directory"
            )
        return urls

    def tell_what_has_no_effect(self, params: Mapping[str, Any]) -> None:
        """Warn about fields and parameters that are set but have no effect here."""
        told = [name for name in _IDLE if getattr(self, name)]
        told += ["embedding_cache_config"] if self.embedding_cache_config.get("enabled") else []
        for name in sorted(told):
            warn_once(f"LightRAG({name}=...) has no effect here; see docs/lightrag-api.md")
        if self.source_ids_limit_method.upper() != "KEEP":
            warn_once("source_ids_limit_method has no effect: the first sources in canonical order are kept")
        if self.enable_llm_cache != self.enable_llm_cache_for_entity_extract:
            warn_once("enable_llm_cache decides for extraction, too; enable_llm_cache_for_entity_extract has no effect")
        if unknown := sorted(set(params) - _KNOWN_PARAMS):
            warn_once(f"addon_params: {', '.join(map(repr, unknown))} has no effect here")


def _changed(section: M, changes: Mapping[str, Any]) -> M:
    return type(section).model_validate(section.model_dump() | dict(changes))


def _variable(name: str) -> str:
    value = str(get_env_value(name, ""))
    if not value:
        raise ValueError(f"{name} is not set; the storage that the fields name needs it")
    return value
