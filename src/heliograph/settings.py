"""Every setting, and the only reader of the environment and of `heliograph.toml`.

`Settings.load()` reads, later wins: defaults, `heliograph.toml` in the working directory, variables
`HELIOGRAPH_<SECTION>__<NAME>` (for example `HELIOGRAPH_CHAT__MODEL`), then keyword arguments. A package gets its
section, a frozen model, and never looks elsewhere.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from heliograph.errors import SettingsError
from heliograph.models import ChunkPicking, ContextFormatName, FusionName

# Variables that Python, its libraries and the dynamic linker may need.
_HARMLESS_VARIABLES = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^/?#@:]*):.*(?=@)|(?<=[?&]password=)[^&]*")


def hide_password(value: str) -> str:
    """Return a URL with `***` in place of its password, and any other text as it is."""
    return _PASSWORD_IN_URL.sub(lambda found: f"{found[1]}:***" if found[1] is not None else "***", value)


# Patterns of string settings, and their description in error messages.
_NAME = r"^\w[\w.\-]*$"
_PERSON = r"^\w[\w.\-@]*$"
_SHA256 = r"^([0-9a-f]{64})?$"
_ADDRESS = r"^(https?://\S+)?$"
_PATTERNS = {
    _NAME: "made of letters, digits, '_', '-' and '.', and begin with none of the last two",
    _PERSON: "made of letters, digits, '_', '-', '.' and '@', and begin with none of the last three",
    _SHA256: "64 hexadecimal digits in lower case",
    _ADDRESS: "an address that begins with http:// or https://",
}


def problem_of(item: Any) -> str:
    """Return the message for an item of a `ValidationError` about a setting."""
    if item["type"] == "string_pattern_mismatch":
        return f"must be {_PATTERNS[item['ctx']['pattern']]}"
    return item["msg"]


class _Section(BaseModel):
    # `Settings` builds the schemas of all sections; a section builds its own only if it is created alone.
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), defer_build=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, hide_password(value) if isinstance(value, str) else value


class StoreSettings(_Section):
    """Where knowledge is kept."""

    url: str = Field("sqlite:", description="Back end; the scheme chooses it.")
    graph_url: str = Field("", description="Another store for the graph, such as `neo4j://`; empty is `url` itself.")
    vectors_url: str = Field("", description="Another store for vectors, such as `qdrant://`; empty is `url` itself.")
    text_url: str = Field("", description="Another store for full text, such as `postgresql://`; empty is `url`.")
    cache_url: str = Field("", description="Another store for replies of models, such as `redis://`; empty is `url`.")
    max_lag: int = Field(
        10_000, ge=1, description="Commits that another store may be behind before further ones are refused."
    )
    data_dir: Path = Field(
        Path("heliograph_data"), description="Folder of the embedded store, one folder a workspace in it."
    )
    # `max_length`, since a repetition such as `{0,63}` of a Unicode class takes 20 ms to compile.
    workspace: str = Field("default", pattern=_NAME, max_length=64, description="Name of the workspace; a hard wall.")
    write_timeout_seconds: float = Field(30.0, ge=0, description="How long a second writer waits before it is refused.")
    pool_size: int = Field(8, ge=2, description="Connections to the server of a store, at the most, per process.")
    durability: Literal["full", "normal"] = Field(
        "full", description="`full` survives loss of power, `normal` survives a crash of the process."
    )

    @property
    def is_embedded(self) -> bool:
        """Whether the primary store is a folder of this machine."""
        return self.url.partition(":")[0] == "sqlite"

    @property
    def place(self) -> str:
        """The primary store's location, for display: the folder, else the server's URL without its password."""
        return str(self.data_dir) if self.is_embedded else hide_password(self.url)


class ChatSettings(_Section):
    """The chat model; without `model` everything works without one."""

    model: str = Field("", description="Model name; empty means no chat model.")
    base_url: str = Field("", description="Address of an OpenAI-compatible service; empty means OpenAI's own.")
    api_key: SecretStr = Field(SecretStr(""), description="Key, if the service asks for one.")
    timeout_seconds: float = Field(180.0, gt=0, description="Longest wait for one reply.")
    max_concurrency: int = Field(4, ge=1, description="Calls under way at once, per open workspace.")
    max_retries: int = Field(4, ge=0, description="Further tries after a failure that may pass.")
    temperature: float = Field(0.0, ge=0, le=2, description="Sampling temperature.")
    max_output_tokens: int | None = Field(
        None, ge=1, description="Longest reply; empty leaves it to the model. What a task needs is the bound anyway."
    )
    context_tokens: int = Field(0, ge=0, description="The model's window, which bounds what answers read; 0: no bound.")
    json_mode: bool = Field(True, description="Ask for JSON objects where a reply is to be JSON.")
    cache: bool = Field(True, description="Keep replies so that none is paid for twice.")


class EmbeddingSettings(_Section):
    """The embedding model; the default runs unplugged."""

    provider: Literal["e5", "openai"] = Field("e5", description="`e5` is local, `openai` any compatible service.")
    model: str = Field("", description="Model name, for `openai`.")
    base_url: str = Field("", description="Address of an OpenAI-compatible service; empty means OpenAI's own.")
    api_key: SecretStr = Field(SecretStr(""), description="Key, if the service asks for one.")
    dimension: int = Field(0, ge=0, description="Length of the vectors, for `openai`; 0 asks the service once.")
    send_dimension: bool = Field(False, description="Ask the service for this length (models that can shorten).")
    max_input_tokens: int = Field(8192, ge=16, description="Longest text, for `openai`.")
    query_prefix: str = Field("", description="Put before questions, for models that want it.")
    document_prefix: str = Field("", description="Put before stored texts, for models that want it.")
    max_batch_tokens: int = Field(8192, ge=64, description="Tokens in one request at the most.")
    max_batch_texts: int = Field(64, ge=1, description="Texts in one request at the most.")
    max_concurrency: int = Field(8, ge=1, description="Requests under way at once.")
    timeout_seconds: float = Field(60.0, gt=0, description="Longest wait for one reply.")
    max_retries: int = Field(4, ge=0, description="Further tries after a failure that may pass.")
    threads: int = Field(0, ge=0, description="Threads of the local model; 0 means one a core, four at most.")
    cache_dir: Path | None = Field(
        None, description="Where the local model's graph is built once; empty means the user's cache folder."
    )


class RerankSettings(_Section):
    """Reranking of chunks before the budget; off until `provider` or `base_url` is set."""

    provider: Literal[
        "",
        "cohere",
        "jina",
        "siliconflow",
        "vllm",
        "xinference",
        "infinity",
        "tei",
        "dashscope",
        "aliyun",
        "onnx",
        "chat",
    ] = Field(
        "",
        description="Kind of service, `onnx` for a local cross-encoder, or `chat` for the configured chat model; empty "
        "with a `base_url` means any service that speaks the form which Cohere and Jina share.",
    )
    model: str = Field("", description="Model name; empty means the provider's usual one, mostly `bge-reranker-v2-m3`.")
    base_url: str = Field(
        "", description="Address of the service, with or without `/rerank`; empty means the provider's own."
    )
    api_key: SecretStr = Field(SecretStr(""), description="Key, if the service asks for one.")
    model_dir: Path | None = Field(
        None, description="Folder of the cross-encoder, for `onnx`: `tokenizer.json` and an ONNX file."
    )
    model_file: str = Field(
        "", description="ONNX file in that folder, such as `onnx/model_quantized.onnx`; empty finds one."
    )
    max_document_tokens: int = Field(
        480, ge=16, description="A longer chunk is scored in overlapping pieces, and its best piece counts."
    )
    max_batch_documents: int = Field(32, ge=1, description="Texts in one request at the most.")
    max_concurrency: int = Field(4, ge=1, description="Requests under way at once.")
    max_retries: int = Field(2, ge=0, description="Further tries after a failure that may pass.")
    min_score: float = Field(0.0, description="Chunks that the reranker scores less are dropped; 0 keeps all.")
    timeout_seconds: float = Field(
        30.0, gt=0, description="Longest wait for a ranking; then chunks keep the order of the search."
    )
    threads: int = Field(0, ge=0, description="Threads of the local cross-encoder; 0 means one a core.")


class DocumentSettings(_Section):
    """Reading files and web pages: what one document may cost, and which addresses may be reached."""

    max_file_bytes: int = Field(100_000_000, ge=1, description="A longer file or page is refused; its error says so.")
    max_pages: int = Field(5_000, ge=1, description="Pages, slides, sheets or chapters of one document at the most.")
    max_unpacked_bytes: int = Field(
        500_000_000, ge=1, description="What an Office file or EPUB may unpack to; more is refused unopened."
    )
    max_archive_entries: int = Field(20_000, ge=1, description="Files within an Office file or EPUB at the most.")
    max_compression_ratio: float = Field(
        200.0, gt=1, description="Unpacked by packed size of an Office file or EPUB at the most."
    )
    max_memory_bytes: int = Field(
        2_000_000_000, ge=0, description="Memory of the process that reads (Linux); 0 is no limit."
    )
    timeout_seconds: float = Field(
        120.0, gt=0, description="Longest time for reading one document; of a scan, each page."
    )
    isolate: bool = Field(
        True, description="Read all but text, Markdown and code in a process of its own, which can be ended."
    )
    url_timeout_seconds: float = Field(30.0, gt=0, description="Longest time for fetching one URL, redirects included.")
    max_redirects: int = Field(5, ge=0, description="Redirects followed; each is checked like the first address.")
    allow_private_addresses: bool = Field(
        False, description="Whether URLs may lead to private, loopback and link-local addresses."
    )
    watch_by: Literal["auto", "system", "polling"] = Field(
        "auto", description="How a folder is watched; `system` needs the extra `watch`, `auto` uses it if it is there."
    )
    watch_settle_seconds: float = Field(1.0, ge=0, description="How long a watched folder must be quiet to be read.")
    watch_poll_seconds: float = Field(
        5.0, gt=0, description="How often a watched folder is looked at where the system does not report changes."
    )


class IngestSettings(_Section):
    """From text to graph."""

    engine: Literal["local", "ray"] = Field(
        "local", description="Where documents are read: in this process, or by processes of a Ray cluster."
    )
    chunking: Literal["auto", "tokens", "semantic", "markdown"] = Field(
        "auto", description="How texts are cut: windows of tokens, paragraphs, or sections; `auto` is `semantic`."
    )
    chunk_tokens: int = Field(
        0, ge=0, description="Longest chunk; 0 means 1200 with a chat model, else the embedding's window."
    )
    overlap_tokens: int = Field(100, ge=0, description="Tokens that neighbouring chunks share.")
    split_by: str = Field("", description="Split on this string first.")
    split_by_only: bool = Field(False, description="Never split elsewhere; a longer piece is an error.")
    duplicates: Literal["cite", "report", "separate"] = Field(
        "cite",
        description="A text that another document has already: stored once and both cited, refused, or stored again.",
    )
    extractor: Literal["auto", "chat", "local", "none"] = Field(
        "auto", description="`auto` uses the chat model if there is one."
    )
    entity_types: tuple[str, ...] = Field(
        (
            "person",
            "creature",
            "organization",
            "location",
            "event",
            "concept",
            "method",
            "content",
            "data",
            "artifact",
            "natural_object",
        ),
        description="Types offered to the chat model; others that it gives are kept.",
    )
    language: str = Field("", description="Language of descriptions; empty means the document's.")
    extraction_format: Literal["json", "delimiter"] = Field("json", description="Form of the model's replies.")
    gleaning_passes: int = Field(1, ge=0, le=5, description="Further passes for what was missed.")
    extraction_retries: int = Field(1, ge=0, le=5, description="Further tries when a reply is unusable.")
    max_parallel_documents: int = Field(8, ge=1, description="Documents under way at once.")
    max_document_characters: int = Field(
        100_000_000, ge=1, description="A longer document is refused; its error says so."
    )
    summary_fragments: int = Field(8, ge=2, description="Fragments from which on a description is summarised.")
    summary_tokens: int = Field(
        1200, ge=50, description="Longest description: more is summarised, or cut where there is no chat model."
    )
    summary_context_tokens: int = Field(12_000, ge=500, description="Tokens read by one summary call.")
    summary_length_tokens: int = Field(600, ge=20, description="Length asked of a summary.")
    max_fragments: int = Field(
        64, ge=1, le=1000, description="Mentions, first in canonical order, that a description is made from."
    )
    max_sources: int = Field(200, ge=1, le=10_000, description="Chunks kept per entity and relation.")


class RaySettings(_Section):
    """Ray, where `ingest.engine` is `ray`: which cluster, and how many of its processes read documents."""

    address: str = Field("", description="Address of a cluster, or `auto`; empty starts one on this machine alone.")
    workers: int = Field(0, ge=0, le=10_000, description="Processes that read; 0 means one a core of the cluster.")
    documents_per_worker: int = Field(2, ge=1, le=64, description="Documents that one process is given at once.")
    max_retries: int = Field(2, ge=0, le=10, description="Further tries of a document whose process was lost.")
    start_timeout_seconds: float = Field(120.0, gt=0, description="Longest wait for the cluster and a first process.")


class ResolutionSettings(_Section):
    """Several names, one entity: how duplicates are found and what becomes of them."""

    merge_duplicates: bool = Field(
        False,
        description="Merge duplicates after every call that processed documents, undoable, not only propose them.",
    )
    min_duplicate_cosine: float = Field(
        0.0,
        ge=-1,
        le=1,
        description="Cosine of two entities that may be one; 0 means 0.6 where a chat model describes them, else 0.85.",
    )
    min_duplicate_similarity: float = Field(
        0.88, ge=0, le=1, description="Likeness in spelling of the names of two entities that may be one."
    )


MAX_TOP_K = 10_000


class QuerySettings(_Section):
    """Defaults of questions; `QueryParam` overrides them one by one."""

    top_k: int = Field(40, ge=1, le=MAX_TOP_K, description="Entities and relations searched.")
    chunk_top_k: int = Field(20, ge=1, le=MAX_TOP_K, description="Chunks searched, and kept after reranking.")
    max_entity_tokens: int = Field(6000, ge=1, description="Budget of the entities.")
    max_relation_tokens: int = Field(8000, ge=1, description="Budget of the relations.")
    max_total_tokens: int = Field(30_000, ge=1, description="Budget of everything that the model reads.")
    buffer_tokens: int = Field(200, ge=0, description="Held back for what wraps the context.")
    min_cosine: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="Least cosine of an entity, relation or chunk that vectors find; in the modes `fusion` and `auto`, "
        "of a chunk that no other channel found; empty means the embedding model's own.",
        validation_alias=AliasChoices("min_cosine", "min_score"),
    )
    related_chunks: int = Field(5, ge=1, description="Chunks picked per entity or relation.")
    chunk_picking: ChunkPicking = Field("vector", description="How chunks of entities and relations are picked.")
    context_format: ContextFormatName = Field("json", description="JSON lines, or CSV tables.")
    fusion: FusionName = Field(
        "score", description="How chunks of several channels are fused: by weighted score, or by reciprocal rank."
    )
    keyword_language: str = Field("", description="Language of keywords; empty means the question's.")
    max_question_characters: int = Field(65_536, ge=1, description="Longest question; HTTP and MCP take 65,536.")
    enable_rerank: bool = Field(True, description="Rerank chunks when a reranker is configured.")
    user_prompt_prefix: str = Field("", description="Instructions put before every question's `user_prompt`.")
    cache_answers: bool = Field(True, description="Keep a chat model's answers until the workspace changes.")


class KeySettings(_Section):
    """One key of the service."""

    name: str = Field(pattern=_PERSON, max_length=64, description="Who holds it; appears in logs.")
    key: SecretStr = Field(SecretStr(""), description="The key itself.")
    key_sha256: str = Field("", pattern=_SHA256, description="Its SHA-256, in place of the key itself.")
    role: Literal["read", "write", "admin"] = Field("write", description="What it allows.")
    workspaces: tuple[str, ...] = Field((), description="Workspaces it is bound to; none means all.")


class AccountSettings(_Section):
    """One person who logs in."""

    name: str = Field(pattern=_PERSON, max_length=64, description="Name to log in with.")
    password_hash: SecretStr = Field(
        description="Argon2 or bcrypt hash, as `heliograph hash-password` prints it; a leading `{bcrypt}` is ignored."
    )
    role: Literal["read", "write", "admin"] = Field("write", description="What the account may do.")
    workspaces: tuple[str, ...] = Field((), description="Workspaces it is bound to; none means all.")


class ServerSettings(_Section):
    """The service: where it listens, who may ask, and how much at once."""

    host: str = Field("127.0.0.1", description="Address to listen on; any but loopback needs credentials.")
    port: int = Field(9621, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    workers: int = Field(1, ge=1, le=64, description="Processes that serve.")
    root_path: str = Field("", description="Prefix that a proxy puts before every path.")
    insecure: bool = Field(False, description="Listen on any address without credentials.")
    api_key: SecretStr = Field(SecretStr(""), description="One key that allows everything.")
    keys: tuple[KeySettings, ...] = Field((), description="Keys with roles and workspaces.")
    accounts: tuple[AccountSettings, ...] = Field((), description="People who log in with a password.")
    token_secret: SecretStr = Field(
        SecretStr(""),
        description="Signs the tokens of who logs in; empty makes one and keeps it in the data folder.",
    )
    token_hours: float = Field(48.0, gt=0, description="How long a token is good.")
    login_attempts: int = Field(
        5, ge=1, description="Failed logins of one address within the window; ten times as many of one name."
    )
    login_window_seconds: float = Field(300.0, gt=0, description="The window.")
    queries_per_minute: int = Field(0, ge=0, description="Questions per minute of one client; 0 is no limit.")
    trusted_proxies: tuple[str, ...] = Field(
        (), description="Addresses of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least grave of what is logged."
    )
    log_format: Literal["text", "json"] = Field("text", description="Lines of text, or one JSON object a line.")
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Host names by which the service is addressed, such as `kb.example.org` or, with any port, "
        "`kb.example.org:*`, beside those of this machine; none is any name where credentials are asked for, and else "
        "no other.",
    )
    allowed_origins: tuple[str, ...] = Field((), description="Origins that browsers may ask from (CORS); none at all.")
    max_body_bytes: int = Field(1_048_576, ge=1024, description="Longest body of a request.")
    max_text_bytes: int = Field(52_428_800, ge=1024, description="Longest body of a request that brings texts.")
    max_upload_bytes: int = Field(104_857_600, ge=1024, description="Longest uploaded file.")
    max_json_depth: int = Field(32, ge=4, le=200, description="Levels of nesting in a JSON body.")
    max_json_values: int = Field(200_000, ge=1000, description="Values in a JSON body.")
    max_client_uploads: int = Field(
        16,
        ge=1,
        description="Uploads, and other bodies longer than `max_body_bytes`, that one client may be sending at once.",
    )
    max_concurrent_queries: int = Field(32, ge=1, description="Questions answered at once by one process.")
    max_waiting_queries: int = Field(256, ge=0, description="Questions that wait for their turn; more are refused.")
    max_waiting_jobs: int = Field(
        10_000, ge=1, description="Jobs, or documents, that wait in one workspace; more are refused."
    )
    max_open_workspaces: int = Field(32, ge=1, description="Workspaces one process keeps open; idle ones are closed.")
    input_dir: Path | None = Field(
        None,
        description="Folder that is scanned and keeps uploads, one folder a workspace; empty is in the data folder.",
    )
    shutdown_seconds: float = Field(30.0, gt=0, description="How long running requests may take to end on shutdown.")
    web_page_dir: Path | None = Field(
        None,
        description="Folder of a built web page of LightRAG to serve below `/webui/`; empty serves only our own.",
    )


class McpSettings(_Section):
    """Tools for agents over the Model Context Protocol: on standard input and output, and in the service."""

    serve: bool = Field(True, description="Whether the service offers them, at `/mcp`.")
    name_separator: Literal[".", "_", "-"] = Field(
        ".", description="Stands between the parts of tools' names; `_` is for clients that take no dots."
    )
    read_only: bool = Field(False, description="Offer only tools that change nothing, whatever the caller's role.")
    stateless: bool = Field(
        False,
        description="Keep no sessions, so that any process can answer any request; several workers never keep any.",
    )
    max_sessions: int = Field(1_000, ge=1, description="Sessions that a process keeps; more are refused.")
    max_client_sessions: int = Field(
        100, ge=1, description="Sessions of one key or account; of one address where nobody is asked who he is."
    )
    session_idle_seconds: float = Field(1_800.0, gt=0, description="A session that is not used for so long is ended.")
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Deprecated: the former name of `server.allowed_hosts`, to which it adds."
    )


class MonitoringSettings(_Section):
    """What the service tells of itself: thresholds that `/health` compares with, and where traces go."""

    max_query_p99_seconds: float = Field(2.0, gt=0, description="Slowest percent of questions; alert above it.")
    max_rerank_p99_seconds: float = Field(0.5, gt=0, description="Slowest percent of rerankings; alert above it.")
    max_index_freshness_seconds: float = Field(
        3600.0, gt=0, description="How long an accepted document may wait to be processed; alert above it."
    )
    window_seconds: float = Field(300.0, gt=0, description="Questions of the last so many seconds count in `/health`.")
    traces_endpoint: str = Field(
        "", pattern=_ADDRESS, description="Where traces go, as OTLP over HTTP; empty sends none."
    )
    traces_share: float = Field(1.0, ge=0, le=1, description="Share of requests to trace that no caller traces.")
    service_name: str = Field("heliograph", min_length=1, description="Name of the service in traces.")


def _by_present_names(sections: dict[str, Any]) -> dict[str, Any]:
    """Return one source's sections with `query.min_score` renamed to `min_cosine`, so that sources override others."""
    query = sections.get("query")
    if not isinstance(query, dict) or "min_score" not in query:
        return sections
    values = {**cast("dict[str, Any]", query)}
    return sections | {"query": {"min_cosine": values.pop("min_score"), **values}}


class _File(TomlConfigSettingsSource):
    def __call__(self) -> dict[str, Any]:
        return _by_present_names(super().__call__())


class _Environment(EnvSettingsSource):
    def __call__(self) -> dict[str, Any]:
        return _by_present_names(super().__call__())


class Settings(BaseSettings):
    """All sections."""

    model_config = SettingsConfigDict(
        env_prefix="HELIOGRAPH_",
        env_nested_delimiter="__",
        toml_file="heliograph.toml",
        frozen=True,
        extra="forbid",
    )

    store: StoreSettings = StoreSettings()  # pyright: ignore[reportCallIssue]
    chat: ChatSettings = ChatSettings()  # pyright: ignore[reportCallIssue]
    embedding: EmbeddingSettings = EmbeddingSettings()  # pyright: ignore[reportCallIssue]
    documents: DocumentSettings = DocumentSettings()  # pyright: ignore[reportCallIssue]
    rerank: RerankSettings = RerankSettings()  # pyright: ignore[reportCallIssue]
    ingest: IngestSettings = IngestSettings()  # pyright: ignore[reportCallIssue]
    ray: RaySettings = RaySettings()  # pyright: ignore[reportCallIssue]
    resolution: ResolutionSettings = ResolutionSettings()  # pyright: ignore[reportCallIssue]
    query: QuerySettings = QuerySettings()  # pyright: ignore[reportCallIssue]
    server: ServerSettings = ServerSettings()  # pyright: ignore[reportCallIssue]
    monitoring: MonitoringSettings = MonitoringSettings()  # pyright: ignore[reportCallIssue]
    mcp: McpSettings = McpSettings()  # pyright: ignore[reportCallIssue]

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """`server.allowed_hosts`, and those of its former name `mcp.allowed_hosts`."""
        return (*self.server.allowed_hosts, *self.mcp.allowed_hosts)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _Environment(settings_cls), _File(settings_cls)

    @classmethod
    def load(cls, **sections: Any) -> Settings:
        """Read all sources.

        Args:
            **sections: A dict of values per section, overriding all other sources, e.g. `store={"data_dir": "kb"}`.

        Raises:
            SettingsError: A setting is unknown or out of range, or the file cannot be read; names each one.
        """
        # Variables `HELIOGRAPH_SECTION__NAME` of unknown sections, which the environment source ignores.
        names = (name.lower().partition("heliograph_") for name in os.environ if "__" in name)
        named = (rest.partition("__")[0] for before, prefix, rest in names if prefix and not before)
        unknown: dict[str, Any] = {section: None for section in named if section not in cls.model_fields}
        try:
            return cls(**_by_present_names(sections), **unknown)
        except ValidationError as error:
            lines = (f"  {'.'.join(str(part) for part in item['loc'])}: {cls._tell(item)}" for item in error.errors())
            raise SettingsError("these settings are not valid:\n" + "\n".join(lines)) from None
        except (OSError, ValueError) as error:
            raise SettingsError(f"heliograph.toml cannot be read: {error}") from error

    @classmethod
    def _tell(cls, item: Any) -> str:
        if item["type"] != "extra_forbidden":
            return problem_of(item)
        section = cls.model_fields.get(str(item["loc"][0]))
        known = cls.model_fields if section is None else section.default.__class__.model_fields
        near = get_close_matches(str(item["loc"][-1]), known, n=1)
        return "there is no such setting" + (f"; did you mean {near[0]!r}?" if near else "")

    @classmethod
    def find_origins(cls) -> dict[str, str]:
        """Return the source of each non-default setting, by name such as `chat.model`; raises `SettingsError`."""
        origins: dict[str, str] = {}
        for name, source in (("heliograph.toml", _File), ("environment", _Environment)):
            try:
                sections = source(cls)()
            except (OSError, ValueError) as error:
                raise SettingsError(f"{name} cannot be read: {error}") from error
            origins |= {f"{section}.{key}": name for section, values in sections.items() for key in values}
        return origins


def isolated_environment() -> dict[str, str]:
    """Return the environment of an isolated process: no secrets, and no variable that names code to run."""
    return {name: os.environ[name] for name in _HARMLESS_VARIABLES if name in os.environ}


def environment_variable(name: str) -> str | None:
    """Return an environment variable of a program written for LightRAG; None if unset or blank."""
    value = os.environ.get(name, "")
    return value if value.strip() else None


def user_cache_dir() -> Path | None:
    """Return this user's cache folder, or None without a home folder; it may not exist yet.

    It is below `$XDG_CACHE_HOME` if that is set, else `~/Library/Caches` on macOS and `~/.cache` elsewhere.
    """
    configured = os.environ.get("XDG_CACHE_HOME", "")
    try:
        if Path(configured).is_absolute():
            return Path(configured) / "heliograph"
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "heliograph"
