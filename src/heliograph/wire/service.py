"""The service's descriptions of itself: failures, log-in, health, workspaces."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasPath, BaseModel, ConfigDict, Field

from heliograph.wire.base import Shape, StatsHead

# The bodies of failures (RFC 9457).


class Problem(BaseModel):
    """What failed, and what to do."""

    type: str = Field(description="Kind of failure: the error's class, or `about:blank`.")
    title: str = Field(description="The kind in words.")
    status: int = Field(description="HTTP status.")
    detail: str = Field(description="What failed, which, and what to do.")
    request_id: str = Field(description="Stands in the log as well, and in the header `X-Request-ID`.")


class InvalidItem(BaseModel):
    """One field of a request that is not valid."""

    loc: list[str | int] = Field(description="Where: `body` or `query`, then the path to the field.")
    msg: str = Field(description="What is wrong.")
    type: str = Field(description="Kind of problem.")


class InvalidProblem(Problem):
    """A request whose fields are not valid."""

    detail: list[InvalidItem] | str = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        description="One item a field; a text where none is to blame."
    )


# Replies of log-in routes; names and values are those that LightRAG's page and clients read.


class _About(BaseModel):
    message: str = Field(default="", description="In words.")
    core_version: str = Field(description="Version of Heliograph.")
    api_version: str = Field(description="Version of the interface, as LightRAG counts it.")
    webui_title: str = Field(default="Heliograph", description="Title of the page.")
    webui_description: str = Field(default="", description="Below the title.")
    ai_content_notice_enabled: bool = Field(default=False, description="Whether the page warns of models' text: never.")


class AuthStatus(_About):
    """Whether the service has a log-in."""

    auth_configured: bool = Field(description="Whether there are accounts.")
    access_token: str | None = Field(default=None, description="A guest's token where there are none.")
    token_type: Literal["bearer"] | None = Field(default=None, description="Its type.")
    auth_mode: Literal["enabled", "disabled"] = Field(description="The same in a word.")


class LoginReply(_About):
    """A token."""

    access_token: str = Field(description="Goes into `Authorization: Bearer`.")
    token_type: Literal["bearer"] = Field(default="bearer", description="Its type.")
    auth_mode: Literal["enabled", "disabled"] = Field(description="`disabled` for a guest's token.")


class VerifyReply(BaseModel):
    """The principal of these credentials."""

    status: Literal["ok"] = "ok"
    valid: Literal[True] = True
    username: str = Field(description="Name of the account or key; `anyone` where nobody needs any.")
    role: Literal["read", "write", "admin"] = Field(description="What it allows.")
    workspaces: list[str] | None = Field(description="Where; null means everywhere.")


class LogoutReply(BaseModel):
    """Confirms the log-out."""

    status: Literal["success"] = "success"
    message: str


# Replies of `/health` and `/ready`; the names are those that LightRAG's page reads.


def _at(path: str, description: str | None = None) -> Any:
    """Return a field that is nested in the record, by its path there."""
    return Field(validation_alias=AliasPath(*path.split(".")), description=description)


class Configuration(BaseModel):
    """The configuration, without keys, passwords or tokens."""

    llm_binding: str = Field(description="Kind of chat model; empty without one.")
    llm_binding_host: str = Field(description="Where it is.")
    llm_model: str = _at("chat.model", "Its name.")
    embedding_binding: str = _at("embedding.provider")
    embedding_binding_host: str
    embedding_model: str
    rerank_binding: str | None = Field(None, description="Kind of reranker; left out without one.")
    rerank_binding_host: str | None = None
    rerank_model: str | None = None
    enable_rerank: bool
    enable_llm_cache: bool = _at("query.cache_answers")
    enable_llm_cache_for_extract: bool = _at("chat.cache")
    workspace: str = Field(description="The workspace of this request.")
    kv_storage: str
    doc_status_storage: str
    graph_storage: str
    vector_storage: str
    max_async: int = _at("chat.max_concurrency", "Calls to the chat model under way at once.")
    max_parallel_insert: int = _at("ingest.max_parallel_documents", "Documents processed at once.")
    summary_max_tokens: int = _at("ingest.summary_tokens")
    summary_context_size: int = _at("ingest.summary_context_tokens")
    max_graph_nodes: int = 1000
    summary_language: str = _at("ingest.language")
    force_llm_summary_on_merge: int = _at("ingest.summary_fragments")
    cosine_threshold: float
    min_rerank_score: float = _at("rerank.min_score")
    related_chunk_number: int = _at("query.related_chunks")
    llm_timeout: float = _at("chat.timeout_seconds", "Seconds that a reply may take.")
    embedding_func_max_async: int = _at("embedding.max_concurrency", "Calls to the embedding under way at once.")
    embedding_batch_num: int = _at("embedding.max_batch_texts", "Texts in one of them.")
    embedding_timeout: float = _at("embedding.timeout_seconds")
    rerank_max_async: int = _at("rerank.max_concurrency")
    rerank_timeout: float = _at("rerank.timeout_seconds")
    vlm_process_enable: bool = Field(default=False, description="Never: pictures are not read.")
    storage_workspaces: dict[str, str] = Field(description="The workspace of each storage.")


class Queues(BaseModel):
    """The queues of this process."""

    queries_running: int
    queries_waiting: int
    open_workspaces: int


class AlertState(BaseModel):
    """Whether a measured value stays within its threshold."""

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
    """That the service is alive; most fields only for callers with permission."""

    status: Literal["healthy"] = "healthy"
    core_version: str
    api_version: str
    auth_mode: Literal["enabled", "disabled"] = Field(description="Whether people log in.")
    webui_title: str = "Heliograph"
    webui_description: str = ""
    webui_available: bool = True
    api_docs_available: bool = True
    pipeline_busy: bool | None = Field(
        default=None,
        description="Whether a job of the workspace runs; left out where it may not be entered, unless it is the "
        "default one, or where jobs cannot be read.",
    )
    pipeline_active: bool | None = Field(default=None, description="Whether one runs or waits; likewise.")
    pipeline_scanning: bool | None = Field(default=None, description="Whether the input folder is scanned; likewise.")
    pipeline_destructive_busy: bool | None = Field(default=None, description="Whether documents are deleted; likewise.")
    pipeline_pending_enqueues: int | None = Field(default=None, description="Uploads that are not read yet; likewise.")
    workspace_available: bool = Field(default=False, description="Whether LightRAG's second page is served: never.")
    ai_content_notice_enabled: bool = False
    server_mode: Literal["uvicorn"] | None = None
    workers: int | None = Field(default=None, description="Processes that answer.")
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


class LatencyFigures(BaseModel):
    """How long the latest questions of one mode took, in seconds."""

    mode: str
    count: int = Field(description="Questions since the start; those given up are left out.")
    p50: float
    p95: float
    p99: float


class ModelFigures(BaseModel):
    """Calls of one kind of model for one purpose since the start."""

    model: str = Field(description="`chat` or `embedding`.")
    purpose: str
    calls: int
    failures: int
    input_tokens: int = _at("usage.input_tokens")
    output_tokens: int = _at("usage.output_tokens")


class Figures(BaseModel):
    """Queries and costs since the start; empty for credentials that are bound to workspaces."""

    latencies: list[LatencyFigures]
    models: list[ModelFigures]


# Requests and replies of workspace routes: names, lists and counts.

_NAME = r"^[\w][\w.\-]{0,63}$"


class NewWorkspace(BaseModel):
    """A workspace to create."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=_NAME, description="Letters, digits, `_`, `.` and `-`, at most 64.")


class WorkspaceRow(Shape):
    """One workspace."""

    name: str
    is_default: bool = Field(description="Whether requests that name none go there.")


class WorkspaceList(Shape):
    """The workspaces that the credentials may enter."""

    workspaces: tuple[WorkspaceRow, ...]
    default: str


class WorkspaceReply(Shape):
    """The outcome of a request about a workspace."""

    status: Literal["success"] = "success"
    message: str
    name: str


class WorkspaceStats(StatsHead):
    """The counts of a workspace."""

    name: str
    documents: dict[str, int] = Field(description="Documents by status; those that none has are left out.")
