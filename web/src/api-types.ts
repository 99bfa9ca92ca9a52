// Made by web/api_types.py from the OpenAPI document; not to be edited.

export interface Schemas {
  "AlertState": {
    name: "query_latency" | "rerank_latency" | "index_freshness";
    state: "ok" | "firing" | "unknown";
    /** The p99 over the window, or how long the oldest document waits; null if none was measured. */
    seconds?: number | null;
    /** It fires above this. */
    threshold_seconds: number;
    /** The p50 over the window, of latencies. */
    median_seconds?: number | null;
  };
  "AuthStatus": {
    /** In words. */
    message: string;
    /** Version of Heliograph. */
    core_version: string;
    /** Version of the interface, as LightRAG counts it. */
    api_version: string;
    /** Title of the page. */
    webui_title: string;
    /** Below the title. */
    webui_description: string;
    /** Whether the page warns of models' text: never. */
    ai_content_notice_enabled: boolean;
    /** Whether there are accounts. */
    auth_configured: boolean;
    /** A guest's token where there are none. */
    access_token?: string | null;
    /** Its type. */
    token_type?: "bearer" | null;
    /** The same in a word. */
    auth_mode: "enabled" | "disabled";
  };
  "Body_log_in_login_post": {
    /** Name of the account. */
    username: string;
    /** Its password. */
    password: string;
    /** Always `password`. */
    grant_type: string;
  };
  "ChangeRequest": {
    /** Empty means the first heading, else from the source. */
    title?: string | null;
    metadata?: Record<string, unknown> | null;
  };
  "ChangeResponse": {
    /** `unchanged`: the text is the same, and nothing has to be read again. */
    status: "success" | "unchanged";
    message: string;
    track_id: string;
    document: Schemas["DocumentResponse"];
  };
  "ChatCompletion": {
    id: string;
    object: "chat.completion";
    created: number;
    model: string;
    choices: (Record<string, unknown>)[];
    usage: Record<string, number>;
    /** References, citations and warnings. */
    heliograph: Record<string, unknown>;
  };
  "ChunkResponse": {
    /** Number, from 1, of the page that holds its first character. */
    page: number | null;
    /** Titles of the sections around it, outermost first. */
    headings: (string)[];
    /** Columns of the table in whose midst it begins. */
    columns: (string)[];
    id: string;
    position: number;
    text: string;
    token_count: number;
    /** First character in the document's text. */
    start: number;
    /** One past the last. */
    end: number;
  };
  "CitationItem": {
    reference_id: string;
    file_path: string;
    document_id: string;
    chunk_id: string;
    /** First character of the quote in the document's text. */
    start: number;
    /** One past the last. */
    end: number;
    quote: string;
    /** First character, in the answer, of the sentence that rests on it. */
    answer_start: number;
    answer_end: number;
    page: number | null;
    headings: (string)[];
  };
  "ClearResponse": {
    status: "success" | "partial_success" | "busy" | "fail";
    message: string;
  };
  "CompletionFailure": {
    error: Schemas["_Failure"];
  };
  "CompletionRequest": {
    model: string;
    messages: (Schemas["_Message"])[];
    stream: boolean | null;
    stream_options?: Schemas["_StreamOptions"] | null;
    /** Only one choice is offered. */
    n: 1 | null;
    /** Only text is offered. */
    response_format?: Schemas["_ResponseFormat"] | null;
    /** How the question is searched for and answered; send it as `extra_body`. */
    heliograph?: Schemas["QueryFields"];
  };
  "Configuration": {
    /** Kind of chat model; empty without one. */
    llm_binding: string;
    /** Where it is. */
    llm_binding_host: string;
    /** Its name. */
    llm_model: string;
    embedding_binding: string;
    embedding_binding_host: string;
    embedding_model: string;
    /** Kind of reranker; left out without one. */
    rerank_binding?: string | null;
    rerank_binding_host?: string | null;
    rerank_model?: string | null;
    enable_rerank: boolean;
    enable_llm_cache: boolean;
    enable_llm_cache_for_extract: boolean;
    /** The workspace of this request. */
    workspace: string;
    kv_storage: string;
    doc_status_storage: string;
    graph_storage: string;
    vector_storage: string;
    /** Calls to the chat model under way at once. */
    max_async: number;
    /** Documents processed at once. */
    max_parallel_insert: number;
    summary_max_tokens: number;
    summary_context_size: number;
    max_graph_nodes: number;
    summary_language: string;
    force_llm_summary_on_merge: number;
    cosine_threshold: number;
    min_rerank_score: number;
    related_chunk_number: number;
    /** Seconds that a reply may take. */
    llm_timeout: number;
    /** Calls to the embedding under way at once. */
    embedding_func_max_async: number;
    /** Texts in one of them. */
    embedding_batch_num: number;
    embedding_timeout: number;
    rerank_max_async: number;
    rerank_timeout: number;
    /** Never: pictures are not read. */
    vlm_process_enable: boolean;
    /** The workspace of each storage. */
    storage_workspaces: Record<string, string>;
  };
  "ConflictsResponse": {
    conflicts?: (Record<string, unknown>)[];
    next_cursor?: string | null;
  };
  "CurationItem": {
    id: string;
    /** `create_entity`, `edit_entity`, `rename_entity`, `merge_entities`, `split_entity`, `delete_entity`, or the same of a relation. */
    kind: string;
    /** What it was done to; of a merge, last what the others became. */
    names: (string)[];
    type: string | null;
    description: string | null;
    keywords: (string)[] | null;
    weight: number | null;
    /** Of a split: documents and chunks whose mentions go to the new name. */
    scope: (string)[];
    /** Name of the key or account; `anyone` where none was asked for. */
    author: string;
    created_at: string;
    undone_by: string;
    /** None while it counts. */
    undone_at: string | null;
  };
  "CurationListResponse": {
    curations: (Schemas["CurationItem"])[];
    /** How many there are without `limit`. */
    total: number;
  };
  "DataResponse": {
    status: "success" | "failure";
    message: string;
    /** `entities`, `relationships`, `chunks` and `references`. */
    data: Record<string, unknown>;
    /** `query_mode`, `keywords`, `processing_info` and more. */
    metadata: Record<string, unknown>;
  };
  "DeleteEntityRequest": {
    entity_name: string;
  };
  "DeleteMatchingRequest": {
    source_prefix?: string | null;
    /** As questions have it. */
    filter?: Record<string, unknown> | null;
    delete_file: boolean;
  };
  "DeleteRelationRequest": {
    source_entity: string;
    target_entity: string;
  };
  "DeleteRequest": {
    doc_ids: (string)[];
    /** Whether files of the input folder go, too. */
    delete_file: boolean;
    /** Accepted for LightRAG's clients: what was read always goes. */
    delete_llm_cache: boolean;
  };
  "DeleteResponse": {
    status: "deletion_started" | "busy" | "not_allowed";
    message: string;
    /** The ids, joined by commas. */
    doc_id: string;
    /** The job that deletes, see `/documents/jobs/{job_id}`. */
    job_id: string;
  };
  "DeletionResult": {
    status: "success";
    /** Always empty. */
    doc_id: string;
    message: string;
    status_code: number;
    file_path?: string | null;
    /** What was recorded, to be undone by this id. */
    curation_ids: (string)[];
  };
  "DetailResponse": {
    id: string;
    source: string;
    title: string;
    /** `partial`: in everything, but some chunks could not be read. */
    status: "pending" | "parsing" | "processing" | "processed" | "partial" | "failed";
    error: string;
    metadata: Record<string, unknown>;
    /** Characters of its text. */
    length: number;
    chunk_count: number;
    track_id: string;
    /** ISO 8601, UTC. */
    created_at: string;
    /** ISO 8601, UTC. */
    updated_at: string;
    /** Id of the document that holds the chunks of the same text; empty if it does. */
    twin_of: string;
    chunks: (Schemas["ChunkResponse"])[];
    chunk_offset: number;
    /** The texts that it had, latest first, as far as the service took them in. */
    versions: (Schemas["VersionItem"])[];
  };
  "DocStatusResponse": {
    id: string;
    /** How its text begins. */
    content_summary: string;
    /** Characters of its text. */
    content_length: number;
    status: "pending" | "parsing" | "analyzing" | "preprocessed" | "processing" | "processed" | "failed";
    /** ISO 8601, UTC. */
    created_at: string;
    /** ISO 8601, UTC. */
    updated_at: string;
    track_id?: string | null;
    chunks_count?: number | null;
    /** Why it failed, or which of its chunks could not be read. */
    error_msg?: string | null;
    metadata?: Record<string, unknown> | null;
    /** Its source. */
    file_path: string;
  };
  "DocumentEntitiesResponse": {
    entities: (Schemas["DocumentEntity"])[];
    /** How many there are without `limit`. */
    total: number;
  };
  "DocumentEntity": {
    name: string;
    type: string;
    /** How it is written there. */
    written: (string)[];
    /** Chunks that mention it, each way of writing counted on its own. */
    count: number;
  };
  "DocumentResponse": {
    id: string;
    source: string;
    title: string;
    /** `partial`: in everything, but some chunks could not be read. */
    status: "pending" | "parsing" | "processing" | "processed" | "partial" | "failed";
    error: string;
    metadata: Record<string, unknown>;
    /** Characters of its text. */
    length: number;
    chunk_count: number;
    track_id: string;
    /** ISO 8601, UTC. */
    created_at: string;
    /** ISO 8601, UTC. */
    updated_at: string;
    /** Id of the document that holds the chunks of the same text; empty if it does. */
    twin_of: string;
  };
  "DuplicateItem": {
    /** The better connected one. */
    name: string;
    other: string;
    /** Mean of the two below, in [0, 1]. */
    score: number;
    /** Likeness of their vectors. */
    cosine: number;
    /** Likeness in spelling, in [0, 1]. */
    similarity: number;
    reason: string;
  };
  "DuplicateResponse": {
    pairs: (Schemas["DuplicateItem"])[];
  };
  "EdgeColumns": {
    /** Row of one entity. */
    source: (number)[];
    /** Row of the other. */
    target: (number)[];
    weight: (number)[];
  };
  "EditResponse": {
    status: "success";
    message: string;
    /** The thing as it is now: its names, `source_id` and `graph_data`. */
    data: Record<string, unknown>;
    /** What was recorded, to be undone by these ids. */
    curation_ids: (string)[];
  };
  "EntityCreateRequest": {
    entity_name: string;
    /** `description`, which is needed, and `entity_type`. */
    entity_data: Record<string, unknown>;
  };
  "EntityDetail": {
    entity: Schemas["EntityItem"];
    sources: (Schemas["SourceChunk"])[];
    /** Chunks there are without `limit`, up to `ingest.max_sources`. */
    source_count: number;
  };
  "EntityEditResponse": {
    status: "success";
    message: string;
    /** The thing as it is now: its names, `source_id` and `graph_data`. */
    data: Record<string, unknown>;
    /** What was recorded, to be undone by these ids. */
    curation_ids: (string)[];
    operation_summary: Schemas["OperationSummary"];
  };
  "EntityExists": {
    exists: boolean;
  };
  "EntityItem": {
    id: string;
    name: string;
    type: string;
    /** What is said of it, one statement each, or one summary. */
    descriptions: (string)[];
    /** Its other names. */
    aliases: (string)[];
    /** Relations that touch it. */
    degree: number;
    /** Chunks that mention it; 200 stands for more. */
    chunk_count: number;
    /** When it first appeared, Unix seconds. */
    created_at: number;
  };
  "EntityListResponse": {
    entities: (Schemas["EntityItem"])[];
    /** `offset` of the next page; null on the last one. */
    next_offset: number | null;
  };
  "EntityMergeRequest": {
    entities_to_change: (string)[];
    /** One of them, another entity, or a new name. */
    entity_to_change_into: string;
  };
  "EntityUpdateRequest": {
    /** The entity, by any spelling or alias. */
    entity_name: string;
    /** `entity_name` (a new name), `entity_type` and `description`; `source_id` and `file_path` are left. */
    updated_data: Record<string, unknown>;
    /** Whether the entity may get another name. */
    allow_rename: boolean;
    /** Whether it is merged into what has that name, if there is such. */
    allow_merge: boolean;
  };
  "ExplainedChunk": {
    chunk_id: string;
    document_id: string;
    source: string;
    page: number | null;
    headings: (string)[];
    /** Place of its first character in the document's text. */
    start: number;
    /** How it begins. */
    opening: string;
    /** What its text costs. */
    tokens: number;
    /** Rank after the channels were joined, from 1; 0 if it had none. */
    place: number;
    /** How it was found: `E5/2` is listed by 5 entities, second there. */
    marks: (string)[];
    /** What each fused channel adds; `vector` whichever found it. */
    scores: Record<string, number>;
    rerank_score: number | null;
    /** Chunks from which bridges led to it. */
    path: (string)[];
    /** `kept`; or dropped by number, by the reranker, or by the budget of tokens. */
    outcome: "kept" | "count" | "rerank" | "budget";
  };
  "ExplainedItem": {
    name: string;
    is_kept: boolean;
  };
  "ExplainedUnderstanding": {
    kind: string;
    entities: (string)[];
    expansions: (string)[];
    language: string;
    parts: (string)[];
    sides: (string)[];
    by_model: boolean;
  };
  "Explanation": {
    mode: string;
    keywords: Schemas["KeywordLists"];
    /** The question as it was searched for, if names in it were misspelt. */
    respelt: string | null;
    understanding: Schemas["ExplainedUnderstanding"] | null;
    /** In joined order; of those dropped the best. */
    chunks: (Schemas["ExplainedChunk"])[];
    entities: (Schemas["ExplainedItem"])[];
    /** Named by their ends. */
    relations: (Schemas["ExplainedItem"])[];
    /** How many were found, and left after each cut. */
    counts: Record<string, number>;
    /** Per part of the prompt; `total` is the budget. */
    tokens: Record<string, number>;
    /** Seconds per stage. */
    timings: Record<string, number>;
    /** What a chat model would read. */
    prompt: string;
  };
  "Figures": {
    latencies: (Schemas["LatencyFigures"])[];
    models: (Schemas["ModelFigures"])[];
  };
  "FollowerState": {
    /** The role it serves, and where it is. */
    name: string;
    /** Commits that it is behind. */
    lag: number;
    /** Why questions that need it fail now; empty while it serves. */
    trouble: string;
  };
  "FormerDocStatusResponse": {
    id: string;
    /** How its text begins. */
    content_summary: string;
    /** Characters of its text. */
    content_length: number;
    status: "pending" | "parsing" | "analyzing" | "preprocessed" | "processing" | "processed" | "failed";
    /** ISO 8601, UTC. */
    created_at: string;
    /** ISO 8601, UTC. */
    updated_at: string;
    track_id?: string | null;
    chunks_count?: number | null;
    /** Why it failed, or which of its chunks could not be read. */
    error_msg?: string | null;
    metadata?: Record<string, unknown> | null;
    /** Its source. */
    file_path: string;
    /** What `error_msg` says, by its first name. */
    error?: string | null;
  };
  "FoundChunk": {
    /** Number, from 1, of the page that holds its first character. */
    page: number | null;
    /** Titles of the sections around it, outermost first. */
    headings: (string)[];
    /** Columns of the table in whose midst it begins. */
    columns: (string)[];
    id: string;
    document_id: string;
    source: string;
    reference_id: string;
    /** Its text, `document_text[start:end]`. */
    content: string;
    /** Place of its first character in the document's text. */
    start: number;
    /** Place after its last character. */
    end: number;
    /** What each fused channel adds; `vector` whichever found it. */
    scores: Record<string, number>;
    rerank_score: number | null;
    /** `C1/1`: by a search for chunks, `E2/3`: through entities, `R1/2`: through relations. */
    found_by: (string)[];
  };
  "FoundEntity": {
    id: string;
    name: string;
    type: string;
    description: string;
    chunk_ids: (string)[];
    /** Sources of its first chunks. */
    sources: (string)[];
    /** The first reference among them, or empty. */
    reference_id: string;
    /** Unix seconds. */
    created_at: number;
  };
  "FoundRelation": {
    id: string;
    /** Name of one entity. */
    source: string;
    /** Name of the other. */
    target: string;
    keywords: (string)[];
    weight: number;
    description: string;
    /** Degree of one end plus degree of the other. */
    degree: number;
    chunk_ids: (string)[];
    sources: (string)[];
    reference_id: string;
    created_at: number;
  };
  "GraphColumns": {
    /** Types of the entities, the most frequent first. */
    types: (string)[];
    nodes: Schemas["NodeColumns"];
    edges: Schemas["EdgeColumns"];
    /** Whether `limit` left something out. */
    is_truncated: boolean;
  };
  "Health": {
    status: "healthy";
    core_version: string;
    api_version: string;
    /** Whether people log in. */
    auth_mode: "enabled" | "disabled";
    webui_title: string;
    webui_description: string;
    webui_available: boolean;
    api_docs_available: boolean;
    /** Whether a job of the workspace runs; left out where it may not be entered, unless it is the default one, or where jobs cannot be read. */
    pipeline_busy?: boolean | null;
    /** Whether one runs or waits; likewise. */
    pipeline_active?: boolean | null;
    /** Whether the input folder is scanned; likewise. */
    pipeline_scanning?: boolean | null;
    /** Whether documents are deleted; likewise. */
    pipeline_destructive_busy?: boolean | null;
    /** Uploads that are not read yet; likewise. */
    pipeline_pending_enqueues?: number | null;
    /** Whether LightRAG's second page is served: never. */
    workspace_available: boolean;
    ai_content_notice_enabled: boolean;
    server_mode?: "uvicorn" | null;
    /** Processes that answer. */
    workers?: number | null;
    working_directory?: string | null;
    input_directory?: string | null;
    configuration?: Schemas["Configuration"] | null;
    queues?: Schemas["Queues"] | null;
    /** `degraded` while an alert fires or an engine is away; `status` says only that the process lives. */
    condition?: "ok" | "degraded" | null;
    alerts?: (Schemas["AlertState"])[] | null;
    /** Engines beside the store with the truth; left out while the workspace is not open. */
    engines?: (Schemas["FollowerState"])[] | null;
  };
  "HistoryMessage": {
    /** `user`, `assistant` or `system`; others are left out. */
    role: string;
    content: string;
  };
  "HistoryResponse": {
    /** Id of the entity or relation. */
    id: string;
    /** What chunks say, one page of it. */
    statements: (Schemas["StatementItem"])[];
    /** Statements there are without `limit`. */
    statement_count: number;
    /** What people did, earliest first. */
    curations: (Schemas["CurationItem"])[];
  };
  "InsertResponse": {
    /** `duplicated`: known already, and unchanged. */
    status: "success" | "duplicated" | "partial_success" | "failure";
    message: string;
    /** Names the batch in `/documents/track_status/{track_id}`. */
    track_id: string;
    /** Ids of the documents, as far as they are known. */
    document_ids: (string)[];
  };
  "InvalidItem": {
    /** Where: `body` or `query`, then the path to the field. */
    loc: (string | number)[];
    /** What is wrong. */
    msg: string;
    /** Kind of problem. */
    type: string;
  };
  "InvalidProblem": {
    /** Kind of failure: the error's class, or `about:blank`. */
    type: string;
    /** The kind in words. */
    title: string;
    /** HTTP status. */
    status: number;
    /** One item a field; a text where none is to blame. */
    detail: (Schemas["InvalidItem"])[] | string;
    /** Stands in the log as well, and in the header `X-Request-ID`. */
    request_id: string;
  };
  "JobListResponse": {
    jobs: (Schemas["JobResponse"])[];
    total: number;
  };
  "JobResponse": {
    id: string;
    kind: "files" | "url" | "scan" | "process" | "retry" | "delete" | "clear";
    state: "waiting" | "running" | "done" | "failed" | "cancelled";
    /** Whether it waits or runs. */
    is_unfinished: boolean;
    track_id: string;
    /** Who asked for it. */
    author: string;
    /** Uploads or the URL that it reads. */
    sources: (string)[];
    /** Documents or files done. */
    done: number;
    total: number;
    /** What came of them, by outcome; while documents are read, `chunks` of `chunks_begun`, how many more `entities` and `relations` there are, `failed`, and `seconds_left`. */
    counts: Record<string, number>;
    /** What went wrong with some, the first few. */
    problems: (string)[];
    /** Why it failed, or what it waits for. */
    error: string;
    /** How often in a row it came to nothing. */
    attempts: number;
    created_at: string;
    started_at: string | null;
    finished_at: string | null;
  };
  "KeywordLists": {
    high_level: (string)[];
    low_level: (string)[];
  };
  "KnowledgeGraph": {
    nodes: (Schemas["KnowledgeGraphNode"])[];
    edges: (Schemas["KnowledgeGraphEdge"])[];
    /** Whether `max_nodes` left something out. */
    is_truncated: boolean;
  };
  "KnowledgeGraphEdge": {
    /** Both names, joined by a dash. */
    id: string;
    /** Always `DIRECTED`. */
    type: string;
    /** Name of one entity. */
    source: string;
    /** Name of the other. */
    target: string;
    /** What is known of it. */
    properties: Record<string, unknown>;
  };
  "KnowledgeGraphNode": {
    /** Name of the entity. */
    id: string;
    /** Its name. */
    labels: (string)[];
    /** What is known of it. */
    properties: Record<string, unknown>;
  };
  "LatencyFigures": {
    mode: string;
    /** Questions since the start; those given up are left out. */
    count: number;
    p50: number;
    p95: number;
    p99: number;
  };
  "ListResponse": {
    documents: (Schemas["DocumentResponse"])[];
    /** How many match in all. */
    total: number;
    offset: number;
    limit: number;
    /** Only where nothing was asked for: up to 1,000 documents by LightRAG's words, the latest of each first, as LightRAG's servers before 1.5.7 list them. */
    statuses: Record<string, (Schemas["FormerDocStatusResponse"])[]>;
  };
  "LoginReply": {
    /** In words. */
    message: string;
    /** Version of Heliograph. */
    core_version: string;
    /** Version of the interface, as LightRAG counts it. */
    api_version: string;
    /** Title of the page. */
    webui_title: string;
    /** Below the title. */
    webui_description: string;
    /** Whether the page warns of models' text: never. */
    ai_content_notice_enabled: boolean;
    /** Goes into `Authorization: Bearer`. */
    access_token: string;
    /** Its type. */
    token_type: "bearer";
    /** `disabled` for a guest's token. */
    auth_mode: "enabled" | "disabled";
  };
  "LogoutReply": {
    status: "success";
    message: string;
  };
  "MessageResponse": {
    status: "success" | "fail" | "cancellation_requested" | "not_busy" | "reprocessing_started";
    message: string;
    track_id: string;
  };
  "ModelCard": {
    id: string;
    object: "model";
    created: number;
    owned_by: string;
  };
  "ModelFigures": {
    /** `chat` or `embedding`. */
    model: string;
    purpose: string;
    calls: number;
    failures: number;
    input_tokens: number;
    output_tokens: number;
  };
  "ModelList": {
    object: "list";
    data: (Schemas["ModelCard"])[];
  };
  "NeighbourResponse": {
    /** The entity itself, then by distance, degree and name. */
    entities: (Schemas["EntityItem"])[];
    /** Those with both ends among the entities. */
    relations: (Schemas["RelationItem"])[];
    /** Whether `limit` left something out. */
    is_truncated: boolean;
  };
  "NewWorkspace": {
    /** Letters, digits, `_`, `.` and `-`, at most 64. */
    name: string;
  };
  "NodeColumns": {
    name: (string)[];
    /** Place in `types`. */
    type: (number)[];
    /** Relations that touch it in the whole graph. */
    degree: (number)[];
    /** When it first appeared, Unix seconds. */
    created_at: (number)[];
    /** The first date that documents which mention it state (`created_at` in their metadata), Unix seconds; when it first appeared if none does. */
    dated_at: (number)[];
  };
  "OllamaChatReply": {
    model: string;
    created_at: string;
    done: boolean;
    done_reason?: string | null;
    /** Nanoseconds. */
    total_duration?: number | null;
    load_duration?: number | null;
    /** Tokens read. */
    prompt_eval_count?: number | null;
    prompt_eval_duration?: number | null;
    /** Tokens written. */
    eval_count?: number | null;
    eval_duration?: number | null;
    message: Schemas["OllamaReplyMessage"];
  };
  "OllamaChatRequest": {
    model: string;
    messages: (Schemas["OllamaMessage"])[];
    stream: boolean;
    system?: string | null;
  };
  "OllamaFailure": {
    error: string;
    /** The same, where LightRAG's clients read it. */
    detail: string;
    type: string;
    status: number;
    request_id: string;
  };
  "OllamaGenerateReply": {
    model: string;
    created_at: string;
    done: boolean;
    done_reason?: string | null;
    /** Nanoseconds. */
    total_duration?: number | null;
    load_duration?: number | null;
    /** Tokens read. */
    prompt_eval_count?: number | null;
    prompt_eval_duration?: number | null;
    /** Tokens written. */
    eval_count?: number | null;
    eval_duration?: number | null;
    response: string;
    /** On the last line: no tokens, since nothing goes on from them. */
    context?: (number)[] | null;
  };
  "OllamaGenerateRequest": {
    model: string;
    prompt: string;
    stream: boolean;
    system?: string | null;
  };
  "OllamaMessage": {
    /** `system`, `user` or `assistant`; others are left out. */
    role: string;
    /** Messages without it are left out. */
    content?: string | null;
    /** Ignored. */
    images?: (string)[] | null;
  };
  "OllamaModels": {
    models: (Record<string, unknown>)[];
  };
  "OllamaReplyMessage": {
    role: "assistant";
    content: string;
    /** There are none. */
    images?: (string)[] | null;
  };
  "OllamaVersion": {
    version: string;
  };
  "OperationSummary": {
    merged: boolean;
    merge_status: "success" | "failed" | "not_attempted";
    merge_error?: string | null;
    operation_status: "success" | "partial_success" | "failure";
    target_entity?: string | null;
    final_entity: string;
    renamed: boolean;
  };
  "PageRequest": {
    /** Ignored when `status_filters` is given. */
    status_filter?: "pending" | "parsing" | "analyzing" | "preprocessed" | "processing" | "processed" | "failed" | null;
    status_filters?: ("pending" | "parsing" | "analyzing" | "preprocessed" | "processing" | "processed" | "failed")[] | null;
    page: number;
    page_size: number;
    sort_field: "created_at" | "updated_at" | "id" | "file_path";
    sort_direction: "asc" | "desc";
  };
  "PageResponse": {
    documents: (Schemas["DocStatusResponse"])[];
    pagination: Schemas["Pagination"];
    /** Documents per status, and `all`. */
    status_counts: Record<string, number>;
  };
  "Pagination": {
    page: number;
    page_size: number;
    total_count: number;
    total_pages: number;
    has_next: boolean;
    has_prev: boolean;
  };
  "PathItem": {
    /** One more than there are relations. */
    entities: (Schemas["EntityItem"])[];
    relations: (Schemas["RelationItem"])[];
  };
  "PathResponse": {
    paths: (Schemas["PathItem"])[];
  };
  "PipelineResponse": {
    /** Nothing is scanned unasked. */
    autoscanned: boolean;
    /** Whether anything runs or waits. */
    busy: boolean;
    job_name: string;
    job_start?: string | null;
    /** Documents of the job under way. */
    docs: number;
    /** The same. */
    batchs: number;
    /** How many of them are done. */
    cur_batch: number;
    /** Whether further jobs wait. */
    request_pending: boolean;
    cancellation_requested: boolean;
    /** Always null: only people cancel. */
    cancellation_reason?: string | null;
    /** Likewise; the messages say who it was. */
    cancellation_detail?: string | null;
    latest_message: string;
    /** The last thousand, oldest first. */
    history_messages?: (string)[];
    /** Nothing has to be told others. */
    update_status?: Record<string, unknown>;
    /** Never: no crash leaves anything half done. */
    recovery_required: boolean;
    recovery_kind?: string | null;
    recovery_message?: string | null;
    scanning: boolean;
    /** Never: a scan holds nobody up. */
    scanning_exclusive: boolean;
    /** Whether documents are being deleted. */
    destructive_busy: boolean;
    /** Uploads and URLs that are not read yet. */
    pending_enqueues: number;
  };
  "Problem": {
    /** Kind of failure: the error's class, or `about:blank`. */
    type: string;
    /** The kind in words. */
    title: string;
    /** HTTP status. */
    status: number;
    /** What failed, which, and what to do. */
    detail: string;
    /** Stands in the log as well, and in the header `X-Request-ID`. */
    request_id: string;
  };
  "QueryFields": {
    /** How the question is answered. */
    mode: "auto" | "fusion" | "mix" | "hybrid" | "local" | "global" | "naive" | "bypass";
    /** Return the context as the answer's text, and call no chat model for it. */
    only_need_context?: boolean | null;
    /** Return what a chat model would be given; wins over `only_need_context`. */
    only_need_prompt?: boolean | null;
    /** Form of the answer, in words. */
    response_type?: string | null;
    /** Entities and relations searched. */
    top_k?: number | null;
    /** Chunks searched, and kept after reranking. */
    chunk_top_k?: number | null;
    /** Budget of the entities. */
    max_entity_tokens?: number | null;
    /** Budget of the relations. */
    max_relation_tokens?: number | null;
    /** Budget of everything that the model reads. */
    max_total_tokens?: number | null;
    /** High-level keywords; if these or `ll_keywords` are given, both are used as they are. */
    hl_keywords?: (string)[] | null;
    /** Low-level keywords; if these or `hl_keywords` are given, both are used as they are. */
    ll_keywords?: (string)[] | null;
    /** Further instructions to the chat model. */
    user_prompt?: string | null;
    /** Leave out the instructions of the settings (`user_prompt_prefix`). */
    disable_user_prompt_prefix?: boolean | null;
    /** Rerank chunks when a reranker is configured. */
    enable_rerank?: boolean | null;
    /** Give entities, relations and chunks as well. */
    include_sources: boolean;
    /** Give everything that is known of the answer. */
    return_structured: boolean;
    /** Only documents that match it exist for this question; none leaves out none. */
    filter?: Record<string, unknown> | null;
    /** Channels to search beside the mode's own. Where the mode has none but `vector` of these itself, what they find is joined with the mode's chunks by reciprocal rank. */
    channels?: ("vector" | "keyword" | "bridge" | "graph")[] | null;
    /** How chunks of several channels are fused: by weighted score, or by reciprocal rank. */
    fusion?: "score" | "rank" | null;
    /** How chunks of entities and relations are picked. */
    chunk_picking?: "vector" | "weight" | "shared_relations" | null;
    /** JSON lines, or CSV tables. */
    context_format?: "json" | "csv" | null;
    /** Turns (a user's message and what follows it) used of the history; 0 uses all. */
    history_turns?: number | null;
    /** Say what became of everything that was found, and why. */
    explain: boolean;
  };
  "QueryRequest": {
    /** How the question is answered; `auto` is the best known. */
    mode: "auto" | "fusion" | "mix" | "hybrid" | "local" | "global" | "naive" | "bypass";
    /** Return the context as the answer's text, and call no chat model for it. */
    only_need_context?: boolean | null;
    /** Return what a chat model would be given; wins over `only_need_context`. */
    only_need_prompt?: boolean | null;
    /** Form of the answer, in words. */
    response_type?: string | null;
    /** Entities and relations searched. */
    top_k?: number | null;
    /** Chunks searched, and kept after reranking. */
    chunk_top_k?: number | null;
    /** Budget of the entities. */
    max_entity_tokens?: number | null;
    /** Budget of the relations. */
    max_relation_tokens?: number | null;
    /** Budget of everything that the model reads. */
    max_total_tokens?: number | null;
    /** High-level keywords; if these or `ll_keywords` are given, both are used as they are. */
    hl_keywords?: (string)[] | null;
    /** Low-level keywords; if these or `hl_keywords` are given, both are used as they are. */
    ll_keywords?: (string)[] | null;
    /** Further instructions to the chat model. */
    user_prompt?: string | null;
    /** Leave out the instructions of the settings (`user_prompt_prefix`). */
    disable_user_prompt_prefix?: boolean | null;
    /** Rerank chunks when a reranker is configured. */
    enable_rerank?: boolean | null;
    /** Give entities, relations and chunks as well. */
    include_sources: boolean;
    /** Give everything that is known of the answer. */
    return_structured: boolean;
    /** Only documents that match it exist for this question; none leaves out none. */
    filter?: Record<string, unknown> | null;
    /** Channels to search beside the mode's own. Where the mode has none but `vector` of these itself, what they find is joined with the mode's chunks by reciprocal rank. */
    channels?: ("vector" | "keyword" | "bridge" | "graph")[] | null;
    /** How chunks of several channels are fused: by weighted score, or by reciprocal rank. */
    fusion?: "score" | "rank" | null;
    /** How chunks of entities and relations are picked. */
    chunk_picking?: "vector" | "weight" | "shared_relations" | null;
    /** JSON lines, or CSV tables. */
    context_format?: "json" | "csv" | null;
    /** Turns (a user's message and what follows it) used of the history; 0 uses all. */
    history_turns?: number | null;
    /** Say what became of everything that was found, and why. */
    explain: boolean;
    /** The question; all modes but bypass need three characters, of which a Chinese one counts as two. */
    query: string;
    /** Earlier messages, `{"role": ..., "content": ...}`, oldest first. */
    conversation_history?: (Schemas["HistoryMessage"])[] | null;
    /** Give the sources that the answer draws on; null does not. */
    include_references: boolean | null;
    /** Give with each of them the texts of its chunks. */
    include_chunk_content: boolean | null;
    /** Tell the stages as they begin; `/query/stream` only. */
    include_progress: boolean | null;
    /** `false` has `/query/stream` answer in one line. */
    stream?: boolean | null;
    /** Only these documents exist for this question, as for LightRAG before 1.4.8; none means all. */
    ids?: (string)[] | null;
  };
  "QueryResponse": {
    mode: string;
    kind: "generated" | "extractive" | "nothing_found" | "context" | "prompt";
    /** Seconds from the request to the answer. */
    response_time: number;
    /** Whether a chat model wrote it. */
    llm_generated: boolean;
    /** False when the chat model was cut, at a length limit or in a loop. */
    is_complete: boolean;
    /** Whether it was given before. */
    from_cache: boolean;
    /** Whether it says that the documents hold no answer. */
    is_unanswered: boolean;
    /** What its sentences rest on, to the character. */
    citations: (Schemas["CitationItem"])[];
    /** Citations left out: they named no source of the context. */
    unsupported_references: number;
    /** Sentences without a source that supports them. */
    unsupported_sentences: number;
    /** What did not go as one would expect. */
    warnings: (string)[];
    /** Tokens that chat models spent on it. */
    usage: Schemas["Usage"];
    /** The answer, or what was asked for in its place. */
    response: string;
    /** Left out with `include_references` false. */
    references?: (Schemas["ReferenceItem"])[] | null;
    /** With `explain`: what became of what was found. */
    explanation?: Schemas["Explanation"] | null;
  };
  "Queues": {
    queries_running: number;
    queries_waiting: number;
    open_workspaces: number;
  };
  "Ready": {
    status: "ready";
    workspace: string;
    /** Rises with every commit in this workspace. */
    data_version: number;
  };
  "RecoveryRequest": {
    confirm: boolean;
  };
  "RecoveryResponse": {
    status: "reset" | "no_recovery_required";
    message: string;
    cancelled_manual_retries: number;
  };
  "ReferenceItem": {
    reference_id: string;
    file_path: string;
    /** Chunks of it in the context. */
    count: number;
    /** Texts of its chunks, with `include_chunk_content`. */
    content?: (string)[] | null;
    /** Sources of documents with the same text. */
    other_file_paths?: (string)[] | null;
  };
  "RelationCreateRequest": {
    source_entity: string;
    target_entity: string;
    /** `description`, which is needed, `keywords` and `weight`. */
    relation_data: Record<string, unknown>;
  };
  "RelationDetail": {
    relation: Schemas["RelationItem"];
    sources: (Schemas["SourceChunk"])[];
    /** Chunks there are without `limit`, up to `ingest.max_sources`. */
    source_count: number;
  };
  "RelationItem": {
    id: string;
    /** Name of one entity. */
    source: string;
    /** Name of the other. */
    target: string;
    keywords: (string)[];
    weight: number;
    /** What is said of it, one statement each, or one summary. */
    descriptions: (string)[];
    /** Chunks that tell of it; 200 stands for more. */
    chunk_count: number;
    /** When it first appeared, Unix seconds. */
    created_at: number;
  };
  "RelationUpdateRequest": {
    /** Name of one entity. */
    source_id: string;
    /** Name of the other. */
    target_id: string;
    /** `description`, `keywords` and `weight`; `source_id` and `file_path` are left as they are. */
    updated_data: Record<string, unknown>;
  };
  "RemovalResponse": {
    status: "deleted" | "deletion_started";
    message: string;
    /** The job that deletes, see `/documents/jobs/{job_id}`; empty if nothing matched. */
    job_id: string;
    /** Documents to delete. */
    count: number;
  };
  "RepairRequest": {
    canonical_source_key: string;
    primary_doc_id: string;
    expected_candidate_count?: number | null;
    expected_candidate_fingerprint?: string | null;
    dry_run: boolean;
  };
  "RetrieveRequest": {
    /** How the question is answered. */
    mode: "auto" | "fusion" | "mix" | "hybrid" | "local" | "global" | "naive" | "bypass";
    /** Return the context as the answer's text, and call no chat model for it. */
    only_need_context?: boolean | null;
    /** Return what a chat model would be given; wins over `only_need_context`. */
    only_need_prompt?: boolean | null;
    /** Form of the answer, in words. */
    response_type?: string | null;
    /** Entities and relations searched. */
    top_k?: number | null;
    /** Chunks searched, and kept after reranking. */
    chunk_top_k?: number | null;
    /** Budget of the entities. */
    max_entity_tokens?: number | null;
    /** Budget of the relations. */
    max_relation_tokens?: number | null;
    /** Budget of everything that the model reads. */
    max_total_tokens?: number | null;
    /** High-level keywords; if these or `ll_keywords` are given, both are used as they are. */
    hl_keywords?: (string)[] | null;
    /** Low-level keywords; if these or `hl_keywords` are given, both are used as they are. */
    ll_keywords?: (string)[] | null;
    /** Further instructions to the chat model. */
    user_prompt?: string | null;
    /** Leave out the instructions of the settings (`user_prompt_prefix`). */
    disable_user_prompt_prefix?: boolean | null;
    /** Rerank chunks when a reranker is configured. */
    enable_rerank?: boolean | null;
    /** Give entities, relations and chunks as well. */
    include_sources: boolean;
    /** Give everything that is known of the answer. */
    return_structured: boolean;
    /** Only documents that match it exist for this question; none leaves out none. */
    filter?: Record<string, unknown> | null;
    /** Channels to search beside the mode's own. Where the mode has none but `vector` of these itself, what they find is joined with the mode's chunks by reciprocal rank. */
    channels?: ("vector" | "keyword" | "bridge" | "graph")[] | null;
    /** How chunks of several channels are fused: by weighted score, or by reciprocal rank. */
    fusion?: "score" | "rank" | null;
    /** How chunks of entities and relations are picked. */
    chunk_picking?: "vector" | "weight" | "shared_relations" | null;
    /** JSON lines, or CSV tables. */
    context_format?: "json" | "csv" | null;
    /** Turns (a user's message and what follows it) used of the history; 0 uses all. */
    history_turns?: number | null;
    /** Say what became of everything that was found, and why. */
    explain: boolean;
    /** The question. */
    query: string;
    /** Give the text that a chat model would read. */
    include_context: boolean;
  };
  "RetrieveResponse": {
    /** `failure` where nothing was found. */
    status: "success" | "failure";
    message: string;
    question: string;
    mode: string;
    keywords: Schemas["KeywordLists"];
    entities: (Schemas["FoundEntity"])[];
    relations: (Schemas["FoundRelation"])[];
    chunks: (Schemas["FoundChunk"])[];
    references: (Schemas["ReferenceItem"])[];
    /** Shortest paths between named entities. */
    paths?: (Record<string, (string)[]>)[] | null;
    /** The text that a chat model would read. */
    context?: string | null;
    warnings: (string)[];
    /** Counts, seconds of the stages, why nothing was found. */
    metadata: Record<string, unknown>;
    /** With `explain`: what became of what was found. */
    explanation?: Schemas["Explanation"] | null;
  };
  "RetryRequest": {
    /** None means all that failed. */
    doc_ids: (string)[];
  };
  "ScanResponse": {
    status: "scanning_started" | "scanning_skipped_pipeline_busy";
    message: string;
    track_id: string;
  };
  "ScanStatusResponse": {
    track_id: string;
    status: "running" | "completed" | "failed" | "cancelled" | "abandoned";
    /** `files` seen, `unread` since unchanged, and the rest by outcome. */
    counts: Record<string, number>;
    counters_dropped: number;
    samples: Record<string, Schemas["_Samples"]>;
    /** Seconds since 1970. */
    created_at: number;
    updated_at: number;
    version: number;
    message: string;
  };
  "SourceChunk": {
    /** Number, from 1, of the page that holds its first character. */
    page: number | null;
    /** Titles of the sections around it, outermost first. */
    headings: (string)[];
    /** Columns of the table in whose midst it begins. */
    columns: (string)[];
    chunk_id: string;
    document_id: string;
    /** Source of the document. */
    file_path: string;
    /** Order index of the chunk in it. */
    position: number;
    text: string;
    /** First character of the chunk in the document's text. */
    start: number;
    /** One past its last character. */
    end: number;
  };
  "SplitRequest": {
    entity_name: string;
    /** Name of the other one; no entity may have it. */
    new_name: string;
    /** Documents that mean the other one. */
    document_ids: (string)[];
    /** Chunks that mean the other one. */
    chunk_ids: (string)[];
  };
  "StatementItem": {
    chunk_id: string;
    document_id: string;
    /** Source of the document. */
    file_path: string;
    /** Order index of the chunk in it. */
    position: number;
    /** The name as written; of a relation both. */
    names: (string)[];
    type: string;
    description: string;
    keywords: (string)[];
    weight: number;
  };
  "StatusCountsResponse": {
    /** Documents per status, and `all`. */
    status_counts: Record<string, number>;
  };
  "SupportedTypesResponse": {
    /** Endings of file names, with the dot. */
    supported_extensions: (string)[];
    /** The same, per parser. */
    engines: Record<string, (string)[]>;
  };
  "TextChunking": {
    strategy: "fixed_token" | "recursive_character" | "semantic_vector" | "paragraph_semantic" | "custom";
    params?: Record<string, unknown>;
  };
  "TextRequest": {
    /** Accepted for LightRAG's clients and not applied: how texts are cut is a setting. */
    chunking?: Schemas["TextChunking"] | null;
    metadata?: Record<string, unknown> | null;
    /** Plain text or Markdown. */
    text: string;
    /** What citations name; a known one is an update. */
    file_source?: string | null;
    /** Empty means the first heading, else from the source. */
    title: string;
  };
  "TextResponse": {
    id: string;
    source: string;
    text: string;
    /** First character. */
    offset: number;
    total_characters: number;
  };
  "TextsRequest": {
    /** Accepted for LightRAG's clients and not applied: how texts are cut is a setting. */
    chunking?: Schemas["TextChunking"] | null;
    metadata?: Record<string, unknown> | null;
    texts: (string)[];
    /** One a text, all different. */
    file_sources?: (string)[] | null;
  };
  "TrackResponse": {
    track_id: string;
    documents: (Schemas["DocStatusResponse"])[];
    total_count: number;
    /** Documents per status. */
    status_summary: Record<string, number>;
  };
  "UpdateRequest": {
    /** Empty means the first heading, else from the source. */
    title?: string | null;
    /** In place of its text. */
    text?: string | null;
    /** In place of its metadata. */
    metadata?: Record<string, unknown> | null;
  };
  "UrlRequest": {
    url: string;
    metadata?: Record<string, unknown> | null;
  };
  "Usage": {
    input_tokens: number;
    output_tokens: number;
  };
  "VerifyReply": {
    status: "ok";
    valid: true;
    /** Name of the account or key; `anyone` where nobody needs any. */
    username: string;
    /** What it allows. */
    role: "read" | "write" | "admin";
    /** Where; null means everywhere. */
    workspaces: (string)[] | null;
  };
  "VersionItem": {
    /** Who gave it. */
    author: string;
    /** The batch that it came with. */
    track_id: string;
    /** Its characters. */
    length: number;
    content_hash: string;
    created_at: string;
  };
  "WorkspaceList": {
    workspaces: (Schemas["WorkspaceRow"])[];
    default: string;
  };
  "WorkspaceReply": {
    status: "success";
    message: string;
    name: string;
  };
  "WorkspaceRow": {
    name: string;
    /** Whether requests that name none go there. */
    is_default: boolean;
  };
  "WorkspaceStats": {
    chunks: number;
    entities: number;
    relations: number;
    /** Replies of models that are kept. */
    cached_replies: number;
    /** Rises with every commit. */
    data_version: number;
    bytes_on_disk: number;
    name: string;
    /** Documents by status; those that none has are left out. */
    documents: Record<string, number>;
  };
  "_Failure": {
    message: string;
    type: string;
    param: string | null;
    code: string;
    request_id: string;
  };
  "_Message": {
    /** `system`, `developer`, `user` or `assistant`; others are left out. */
    role: string;
    content?: string | (Schemas["_Text"] | Schemas["_Refusal"])[] | null;
  };
  "_Refusal": {
    /** Why a model did not answer; left out. */
    type: "refusal";
  };
  "_ResponseFormat": {
    type: "text";
  };
  "_Samples": {
    items?: (string)[];
    truncated: boolean;
    dropped: number;
  };
  "_StreamOptions": {
    include_usage: boolean | null;
  };
  "_Text": {
    /** Only text is read. */
    type: "text";
    text: string;
  };
}
