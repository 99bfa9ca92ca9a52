"""What `/health` and `/ready` reply; the names are those that LightRAG's page reads."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Configuration(BaseModel):
    """What is configured; no key, password or token is."""

    llm_binding: str = Field(description="Kind of chat model; empty without one.")
    llm_binding_host: str = Field(description="Where it is.")
    llm_model: str = Field(description="Its name.")
    embedding_binding: str
    embedding_binding_host: str
    embedding_model: str
    rerank_binding: str | None = Field(None, description="Kind of reranker; left out without one.")
    rerank_binding_host: str | None = None
    rerank_model: str | None = None
    enable_rerank: bool
    enable_llm_cache: bool
    enable_llm_cache_for_extract: bool
    workspace: str = Field(description="The workspace of this request.")
    kv_storage: str
    doc_status_storage: str
    graph_storage: str
    vector_storage: str
    max_async: int = Field(description="Calls to the chat model under way at once.")
    max_parallel_insert: int = Field(description="Documents processed at once.")
    summary_language: str
    force_llm_summary_on_merge: int
    cosine_threshold: float
    min_rerank_score: float
    related_chunk_number: int


class Queues(BaseModel):
    """What this process has to do."""

    queries_running: int
    queries_waiting: int
    open_workspaces: int


class AlertState(BaseModel):
    """Whether something that is measured stays within its threshold."""

    name: Literal["query_latency", "rerank_latency", "index_freshness"]
    state: Literal["ok", "firing", "unknown"]
    seconds: float | None = Field(
        None, description="The p99 over the window, or how long the oldest document waits; null if none was measured."
    )
    threshold_seconds: float = Field(description="It fires above this.")
    median_seconds: float | None = Field(None, description="The p50 over the window, of latencies.")


class FollowerState(BaseModel):
    """How another engine follows the store with the truth, in the workspace of this request."""

    name: str = Field(description="The role it serves, and where it is.")
    lag: int = Field(description="Commits that it is behind.")
    trouble: str = Field("", description="Why questions that need it fail now; empty while it serves.")


class Health(BaseModel):
    """That the service lives; all but the first fields only for who may know."""

    status: Literal["healthy"] = "healthy"
    core_version: str
    api_version: str
    auth_mode: Literal["enabled", "disabled"] = Field(description="Whether people log in.")
    webui_title: str = "Heliograph"
    webui_description: str = ""
    pipeline_busy: bool | None = Field(
        default=None,
        description="Whether a job of the workspace runs; left out where it may not be entered, unless it is the "
        "default one, or where jobs cannot be read.",
    )
    pipeline_active: bool | None = Field(default=None, description="Whether one runs or waits; likewise.")
    working_directory: str | None = None
    input_directory: str | None = None
    configuration: Configuration | None = None
    queues: Queues | None = None
    condition: Literal["ok", "degraded"] | None = Field(
        default=None,
        description="`degraded` while an alert fires or an engine is away; `status` says only that the process lives.",
    )
    alerts: list[AlertState] | None = None
    engines: list[FollowerState] | None = Field(
        default=None, description="Engines beside the store with the truth; left out while the workspace is not open."
    )


class Ready(BaseModel):
    """That the service can serve: stores and models are open."""

    status: Literal["ready"] = "ready"
    workspace: str
    data_version: int = Field(description="Rises with every commit in this workspace.")
