"""`LightRAG`, the class that programs written for LightRAG 1.5.7 use, on top of our engine.

Fields become settings, functions become models, and every method is one or two calls of `AsyncHeliograph`. What cannot
be as it is there warns once; docs/lightrag-api.md lists it. A working directory that LightRAG wrote is taken in
when it is first opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from heliograph.calls.limit import PriorityLimiter
from heliograph.embedding.registry import wrap_embedding_model
from heliograph.engine import AsyncHeliograph
from heliograph.errors import HeliographError, IngestError, InvalidRequestError
from heliograph.filters import Sources
from heliograph.ids import content_hash
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.models import NewDocument
from heliograph.lightrag.base import (
    ROLES,
    DeletionResult,
    DocProcessingStatus,
    EmbeddingFunc,
    QueryParam,
    RoleLLMConfig,
    RoleSpec,
)
from heliograph.lightrag.custom_graph import CustomGraph
from heliograph.lightrag.exceptions import EmptyQueryError, RAGQueryTooShortError
from heliograph.lightrag.graph import GraphMethods
from heliograph.lightrag.models import (
    ChatRole,
    LightragChatModel,
    LightragChunker,
    LightragEmbeddingModel,
    LightragReranker,
)
from heliograph.lightrag.operate import chunking_by_token_size
from heliograph.lightrag.rows import DETAILS, UNKNOWN, UNKNOWN_SOURCE, Rows, base_name, doc_status, is_duplicate
from heliograph.lightrag.storages import (
    ChunkView,
    DocStatusView,
    FullDocsView,
    ReplyView,
    VectorView,
    all_documents,
)
from heliograph.lightrag.utils import (
    TiktokenTokenizer,
    TokenizerInterface,
    compute_mdhash_id,
    get_env_value,
    lightrag_number,
    logger,
    run_sync,
    sanitize_text_for_encoding,
    warn_once,
)
from heliograph.maintenance.lightrag_files import is_lightrag
from heliograph.models import COMMITTED_STATUSES, Document, Mode
from heliograph.query.models import AnswerKind, Failure
from heliograph.query.models import QueryParam as EngineParam
from heliograph.query.plan import check_length
from heliograph.settings import Settings
from heliograph.stores.changeset import Collection

__all__ = ["ROLES", "EmbeddingFunc", "LightRAG", "QueryParam", "RoleLLMConfig", "RoleSpec"]

M = TypeVar("M", bound=BaseModel)

# What a question is answered with of which nothing was found; programs look for the mark at its end.
_NO_ANSWER = "Sorry, I'm not able to provide an answer to that question.[no-context]"
_EMBEDDED = {
    *("JsonKVStorage", "NanoVectorDBStorage", "NetworkXStorage", "JsonDocStatusStorage"),
    *("FaissVectorDBStorage", "NoopVectorDBStorage"),
}
_KNOWN_PARAMS = frozenset({"language", "entity_types", "chunker"})


def _whole(name: str, default: int) -> Any:
    return field(default_factory=lambda: int(lightrag_number(name, default)))


@dataclass
class LightRAG(GraphMethods):
    """One workspace, with LightRAG's fields and methods.

        rag = LightRAG(working_dir="./rag", llm_model_func=gpt_4o_mini_complete, embedding_func=openai_embed)
        await rag.initialize_storages()
        await rag.ainsert("ESP32 speaks MQTT over TLS.", file_paths="notes.md")
        print(await rag.aquery("What does ESP32 speak?", param=QueryParam(mode="hybrid")))
        await rag.finalize_storages()

    Defaults are those of LightRAG, and the variables of its environment count for them. A field without effect warns
    when it is set. Methods without an `a` before their name are for code that is not async.

    Raises:
        ValueError: `llm_model_func` or `embedding_func` is missing, or a field holds what cannot be.
    """

    working_dir: str = "./rag_storage"
    kv_storage: str = "JsonKVStorage"
    vector_storage: str = "NanoVectorDBStorage"
    graph_storage: str = "NetworkXStorage"
    doc_status_storage: str = "JsonDocStatusStorage"
    workspace: str = field(default_factory=lambda: str(get_env_value("WORKSPACE", "")))
    log_level: int | None = None
    log_file_path: str | None = None
    top_k: int = _whole("TOP_K", 40)
    chunk_top_k: int = _whole("CHUNK_TOP_K", 20)
    max_entity_tokens: int = _whole("MAX_ENTITY_TOKENS", 6000)
    max_relation_tokens: int = _whole("MAX_RELATION_TOKENS", 8000)
    max_total_tokens: int = _whole("MAX_TOTAL_TOKENS", 30_000)
    related_chunk_number: int = _whole("RELATED_CHUNK_NUMBER", 5)
    kg_chunk_pick_method: str = field(default_factory=lambda: str(get_env_value("KG_CHUNK_PICK_METHOD", "VECTOR")))
    enable_content_headings: bool = True
    entity_extract_max_gleaning: int = _whole("MAX_GLEANING", 1)
    entity_extract_max_records: int = 100
    entity_extract_max_entities: int = 40
    force_llm_summary_on_merge: int = _whole("FORCE_LLM_SUMMARY_ON_MERGE", 8)
    chunk_token_size: int | None = None
    chunk_overlap_token_size: int | None = None
    tokenizer: TokenizerInterface | None = None
    tiktoken_model_name: str = "gpt-4o-mini"
    chunking_func: Callable[..., Any] = chunking_by_token_size
    embedding_func: EmbeddingFunc | None = None
    embedding_chunk_overlap_token_size: int = 100
    embedding_batch_num: int = _whole("EMBEDDING_BATCH_NUM", 10)
    embedding_func_max_async: int = _whole("EMBEDDING_FUNC_MAX_ASYNC", 8)
    embedding_cache_config: dict[str, Any] = field(default_factory=dict[str, Any])
    default_embedding_timeout: int = _whole("EMBEDDING_TIMEOUT", 30)
    llm_model_func: Callable[..., Any] | None = None
    role_llm_configs: Mapping[str, RoleLLMConfig | Mapping[str, Any]] | None = None
    llm_model_name: str = "gpt-4o-mini"
    summary_max_tokens: int = _whole("SUMMARY_MAX_TOKENS", 1200)
    summary_context_size: int = _whole("SUMMARY_CONTEXT_SIZE", 12_000)
    summary_length_recommended: int = _whole("SUMMARY_LENGTH_RECOMMENDED", 600)
    llm_model_max_async: int = field(
        default_factory=lambda: int(lightrag_number("MAX_ASYNC_LLM", lightrag_number("MAX_ASYNC", 4)))
    )
    llm_model_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    default_llm_timeout: int = _whole("LLM_TIMEOUT", 240)
    entity_extraction_use_json: bool = field(
        default_factory=lambda: bool(get_env_value("ENTITY_EXTRACTION_USE_JSON", False, bool))
    )
    rerank_model_func: Callable[..., Any] | None = None
    rerank_model_max_async: int = 4
    default_rerank_timeout: int = _whole("RERANK_TIMEOUT", 30)
    min_rerank_score: float = field(default_factory=lambda: lightrag_number("MIN_RERANK_SCORE", 0.0))
    vector_db_storage_cls_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    enable_llm_cache: bool = True
    enable_llm_cache_for_entity_extract: bool = True
    vlm_process_enable: bool = False
    max_parallel_insert: int = _whole("MAX_PARALLEL_INSERT", 3)
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
    max_graph_nodes: int = _whole("MAX_GRAPH_NODES", 1000)
    max_source_ids_per_entity: int = _whole("MAX_SOURCE_IDS_PER_ENTITY", 200)
    max_source_ids_per_relation: int = _whole("MAX_SOURCE_IDS_PER_RELATION", 200)
    source_ids_limit_method: str = "KEEP"
    max_file_paths: int = 75
    file_path_more_placeholder: str = "truncated"
    addon_params: InitVar[Mapping[str, Any] | None] = None
    auto_manage_storages_states: bool = False
    cosine_better_than_threshold: float = field(default_factory=lambda: lightrag_number("COSINE_THRESHOLD", 0.2))
    ollama_server_infos: Any = None
    user_prompt_prefix: str = ""

    def __post_init__(self, addon_params: Mapping[str, Any] | None) -> None:
        if self.llm_model_func is None:
            raise ValueError("llm_model_func is missing; give the function that asks your chat model")
        if self.embedding_func is None:
            raise ValueError("embedding_func is missing; give EmbeddingFunc(embedding_dim=..., func=...)")
        self._params: dict[str, Any] = dict(addon_params or {})
        self._tell_what_has_no_effect()
        if self.tokenizer is None:
            self.tokenizer = TiktokenTokenizer(self.tiktoken_model_name)
        self._chunker = LightragChunker(
            self.tokenizer,
            self.chunking_func,
            self.chunk_token_size or int(lightrag_number("CHUNK_SIZE", 1200)),
            int(lightrag_number("CHUNK_OVERLAP_SIZE", 100))
            if self.chunk_overlap_token_size is None
            else self.chunk_overlap_token_size,
        )
        self._settings = self._made_settings()
        self._embedding = wrap_embedding_model(
            LightragEmbeddingModel(self.embedding_func, self.cosine_better_than_threshold), self._settings.embedding
        )
        self._kb = AsyncHeliograph(
            settings=self._settings,
            chat=self._chat_model(),
            embedding=self._embedding,
            reranker=LightragReranker(self.rerank_model_func) if self.rerank_model_func else None,
            chunker=self._chunker,
        )
        self._rows: Rows | None = None

    # Opening and closing

    async def initialize_storages(self) -> None:
        """Open the workspace; what LightRAG wrote into the working directory is taken in, where nothing else is yet."""
        await self._kb.open()
        folder = Path(self.working_dir, self.workspace)
        if is_lightrag(folder) and not any((await self._kb.stats()).documents.values()):
            logger.info("taking in what LightRAG has written into %s", folder)
            report = await self._kb.import_from(folder)
            logger.info("%d documents with %d chunks were taken in", report.documents, report.chunks)

    async def finalize_storages(self) -> None:
        """Close the workspace; `initialize_storages` opens it again."""
        await self._kb.close()

    async def _opened(self) -> tuple[AsyncHeliograph, Rows]:
        await self._kb.stats()
        # What is remembered of chunks holds for one opened store.
        if self._rows is None or self._rows.store is not self._kb.store:
            self._rows = Rows(self._kb.store, cast("TokenizerInterface", self.tokenizer))
        return self._kb, self._rows

    # Documents

    async def ainsert(
        self,
        input: str | Sequence[str],  # noqa: A002 (LightRAG's)
        split_by_character: str | None = None,
        split_by_character_only: bool = False,
        ids: str | Sequence[str] | None = None,
        file_paths: str | Sequence[str] | None = None,
        track_id: str | None = None,
    ) -> str:
        """Take texts in, and return when each is processed or failed, which its status tells.

        Args:
            input: One or many texts.
            split_by_character: Split there first.
            split_by_character_only: Split nowhere else.
            ids: Id of each text; None takes one from its file name, or from the text.
            file_paths: File of each text, of which the name counts. A known name or id, and a known text, is a
                duplicate: what is there stays, and the attempt is recorded as failed.
            track_id: Name of this call; None makes one.

        Returns:
            The name of this call, by which `aget_docs_by_track_id` finds its documents.

        Raises:
            ValueError: The lists differ in length, or an id is there twice.
        """
        track = track_id or new_track_id("insert")
        await self._enqueue(input, ids, file_paths, track, (split_by_character, split_by_character_only))
        await self.apipeline_process_enqueue_documents()
        return track

    async def apipeline_enqueue_documents(
        self,
        input: str | Sequence[str],  # noqa: A002 (LightRAG's)
        ids: str | Sequence[str] | None = None,
        file_paths: str | Sequence[str] | None = None,
        track_id: str | None = None,
        docs_format: str = "raw",
        **options: Any,
    ) -> str | None:
        """Store texts as pending, and return the name of this call; None if all were duplicates.

        Raises:
            ValueError: As `ainsert`.
        """
        if docs_format != "raw" or any(options.values()):
            warn_once("apipeline_enqueue_documents takes texts only; use insert_files of Heliograph for files")
        track = track_id if track_id and track_id.strip() else new_track_id("enqueue")
        return track if await self._enqueue(input, ids, file_paths, track, (None, False)) else None

    async def apipeline_process_enqueue_documents(self) -> None:
        """Process what is pending; a model that is out of reach makes it fail, as its status tells."""
        kb, rows = await self._opened()
        try:
            await kb.resume()
        except HeliographError as error:
            logger.error("documents could not be processed: %s", error)
            await kb.abandon(str(error))
        rows.forget()

    async def _enqueue(
        self,
        given: str | Sequence[str],
        ids: str | Sequence[str] | None,
        file_paths: str | Sequence[str] | None,
        track: str,
        split: tuple[str | None, bool],
    ) -> int:
        """Store what is new as pending and what is not as a failed attempt; return how many are new."""
        kb, _ = await self._opened()
        texts = [sanitize_text_for_encoding(text) for text in _listed(given)]
        files = [base_name(path) for path in _aligned(file_paths, "file paths", len(texts)) or [""] * len(texts)]
        named = _aligned(ids, "IDs", len(texts))
        if named is not None and len(set(named)) != len(named):
            raise ValueError("IDs must be unique")
        new: list[NewDocument] = []
        refused: list[NewDocument] = []
        for index, (text, file) in enumerate(zip(texts, files, strict=True)):
            id_ = named[index] if named else compute_mdhash_id(text if file == UNKNOWN_SOURCE else file, "doc-")
            known = await self._known(id_, text, file, new)
            if known is None:
                details = {"content_hash": compute_mdhash_id(text)}
                new.append(NewDocument(text, file, id=id_, metadata={DETAILS: details}))
                self._chunker.note(id_, split[0], only=split[1])
            else:
                refused.append(_duplicate(id_, text, file, track, len(refused), known))
        for batch in (new, refused):
            if batch:
                await kb.enqueue(batch, track_id=track)
        return len(new)

    async def _known(
        self, id_: str, text: str, file: str, before: Sequence[NewDocument]
    ) -> tuple[str, str, str, str] | None:
        """Return of what is a duplicate: why, the id that was first, its state and its call; None if it is new."""
        for item in before:
            if item.id == id_ or (file != UNKNOWN_SOURCE and item.source == file):
                return "filename", item.id, "batch_duplicate", ""
            if item.text == text:
                return "content_hash", item.id, "batch_duplicate", ""
        found = await self._kb.document(id_)
        if found is not None:
            return ("filename", *_told(found))
        if file != UNKNOWN_SOURCE:
            same = [item for item in await all_documents(self._kb, filter=Sources((file,))) if not is_duplicate(item)]
            if same:
                return ("filename", *_told(same[0]))
        same = [
            item
            for item in await all_documents(self._kb, content_hashes=(content_hash(text),))
            if not is_duplicate(item)
        ]
        return ("content_hash", *_told(same[0])) if same else None

    async def ainsert_custom_chunks(
        self, full_text: str, text_chunks: Sequence[str], doc_id: str | None = None
    ) -> None:
        """Take a text in that is cut already; of a document that is there, add chunks to it.

        Raises:
            HeliographError: A model or the store failed.
        """
        kb, rows = await self._opened()
        text = sanitize_text_for_encoding(full_text)
        pieces = [piece for chunk in text_chunks if (piece := sanitize_text_for_encoding(chunk))]
        id_ = doc_id or compute_mdhash_id(text, "doc-")
        known = await kb.document(id_)
        if known is not None and known.status in COMMITTED_STATUSES:
            before = [chunk.text for _, chunk in await rows.document_chunks(known)]
            text = await kb.store.records.get_document_text(id_) or ""
            pieces = list(dict.fromkeys([*before, *pieces]))
        text = "\n\n".join([text, *(piece for piece in pieces if piece not in text)]).strip()
        self._chunker.note_pieces(id_, pieces or [text])
        details = {"content_hash": compute_mdhash_id(text)}
        report = await kb.insert(
            NewDocument(text, known.source if known else UNKNOWN_SOURCE, id=id_, metadata={DETAILS: details})
        )
        rows.forget()
        for result in report.failures:
            raise result.error or IngestError(f"the document {id_!r} could not be taken in")

    async def ainsert_custom_kg(self, custom_kg: Mapping[str, Any], full_doc_id: str | None = None) -> None:
        """Take a graph in that is made already: `chunks`, `entities` and `relationships`; no chat model is called.

        Chunks of one `full_doc_id` (else of one `source_id`) and one file are a document here, which can be deleted.
        What no chunk of the graph speaks of is made by hand. Of two entries of one thing the last counts.

        Raises:
            ValueError: A name is empty, a relation has one end, or a weight is too small; nothing was written.
        """
        kb, rows = await self._opened()
        graph = CustomGraph.read(custom_kg, full_doc_id)
        for (document, file), chunks in graph.documents.items():
            id_ = document
            known = await kb.document(id_)
            if known is not None and not _is_custom(known):
                id_ = compute_mdhash_id(f"{document}\n{file}", "doc-custom-")
            keys = {chunk.key for chunk in chunks}
            await kb.insert_graph(
                chunks,
                [item for item in graph.entities.values() if item.chunk in keys],
                [item for item in graph.relations.values() if item.chunk in keys],
                source=file,
                id=id_,
                metadata={DETAILS: {"has_given_chunks": True, "custom_kg": True}},
            )
        await self._make_by_hand(kb, graph)
        rows.forget()

    async def _make_by_hand(self, kb: AsyncHeliograph, graph: CustomGraph) -> None:
        """Make or overwrite entities and relations that no chunk of a graph speaks of."""
        for item in graph.entities.values():
            if not item.chunk:
                said = {"type": item.type, "description": item.description}
                origin = (UNKNOWN, graph.files.get(item.name, "custom_kg"))
                make = kb.create_entity if await kb.entity(item.name) is None else kb.edit_entity
                await make(item.name, **said, origin=origin)
        for item in graph.relations.values():
            if not item.chunk:
                for name in (item.source, item.target):
                    if await kb.entity(name) is None:
                        await kb.create_entity(name, description=item.description, origin=(UNKNOWN, "custom_kg"))
                is_new = await kb.relation(item.source, item.target) is None
                await (kb.create_relation if is_new else kb.edit_relation)(
                    item.source,
                    item.target,
                    keywords=item.keywords,
                    description=item.description,
                    weight=item.weight,
                    origin=(UNKNOWN, "custom_kg"),
                )

    async def adelete_by_doc_id(self, doc_id: str, delete_llm_cache: bool = False) -> DeletionResult:  # noqa: ARG002
        """Delete a document and all that only it said, exactly; replies of models about it always go with it."""
        kb, rows = await self._opened()
        document = await kb.document(doc_id)
        if document is None:
            return DeletionResult("not_found", doc_id, f"Document {doc_id} not found.", 404, "")
        await kb.delete(doc_id)
        rows.forget()
        if document.chunk_count:
            message = f"Document {doc_id} successfully deleted"
        else:
            message = f"Document deleted without associated chunks: {doc_id}"
        return DeletionResult("success", doc_id, message, 200, document.source)

    async def get_processing_status(self) -> dict[str, int]:
        """Return how many documents are in each state."""
        return await self.doc_status.get_status_counts()

    async def aget_docs_by_ids(self, ids: str | Sequence[str] | None) -> dict[str, dict[str, Any]]:
        """Return the state of some documents as dicts, by id; unknown ids are left out."""
        wanted = _listed(ids or [])
        return {id_: row for id_, row in zip(wanted, await self.doc_status.get_by_ids(wanted), strict=True) if row}

    async def aget_docs_by_track_id(self, track_id: str) -> dict[str, DocProcessingStatus]:
        """Return the documents of one call of `insert`, by id."""
        return await self.doc_status.get_docs_by_track_id(track_id)

    async def aclear_cache(self) -> None:
        """Drop all replies of models that are kept."""
        await self.llm_response_cache.drop()

    # Questions

    async def aquery(
        self, query: str, param: QueryParam | None = None, system_prompt: str | None = None
    ) -> str | AsyncIterator[str] | None:
        """Return the answer to a question, or with `param.stream` its pieces; None where a model or the store failed.

        Raises:
            EmptyQueryError: The question is empty.
            RAGQueryTooShortError: It is too short to search for.
        """
        answer = (await self.aquery_llm(query, param, system_prompt))["llm_response"]
        return answer["response_iterator"] if answer["is_streaming"] else answer["content"]

    async def aquery_data(self, query: str, param: QueryParam | None = None) -> dict[str, Any]:
        """Return what an answer would be made from: `status`, `message`, `data`, `metadata`.

        Raises:
            EmptyQueryError: The question is empty.
            RAGQueryTooShortError: It is too short to search for.
            ModelError: A model failed.
            StoreError: The store failed.
            ValueError: There is no such mode.
        """
        wanted = param or QueryParam()
        question = _checked(query, wanted.mode)
        if wanted.mode not in [mode.value for mode in Mode]:
            raise ValueError(f"Unknown mode {wanted.mode}")
        kb, rows = await self._opened()
        return await rows.retrieval(await kb.retrieve(question, self._engine_param(wanted, None)))

    async def aquery_llm(
        self,
        query: str,
        param: QueryParam | None = None,
        system_prompt: str | None = None,
        progress_callback: Callable[[str], Any] | None = None,
    ) -> dict[str, Any]:
        """Return what `aquery_data` does and, as `llm_response`, the answer made from it.

        A model or store that fails is status `failure`, and its message says why; `content` is None then.

        Raises:
            EmptyQueryError: The question is empty.
            RAGQueryTooShortError: It is too short to search for.
        """
        wanted = param or QueryParam()
        question = _checked(query, wanted.mode)
        try:
            return await self._answered(question, wanted, system_prompt, _told_by(progress_callback))
        except (HeliographError, ValueError) as error:
            logger.error("the question could not be answered: %s", error)
            return {
                "status": "failure",
                "message": f"Query failed: {error}",
                "data": {},
                "metadata": {},
                "llm_response": _response(None, is_generated=False),
            }

    async def _answered(
        self, question: str, param: QueryParam, system_prompt: str | None, progress: Callable[[str], None] | None
    ) -> dict[str, Any]:
        kb, rows = await self._opened()
        asked = self._engine_param(param, system_prompt)
        if param.stream and not param.only_need_context and not param.only_need_prompt:
            stream = await kb.query_stream(question, asked, progress=progress)
            retrieval, ready = stream.retrieval, stream.ready
            if ready is None:
                response = _response(None, is_generated=True, pieces=aiter(stream))
            else:
                response = _response(_content(ready.text, retrieval.failure), is_generated=False)
        else:
            answer = await kb.query(question, asked, progress=progress)
            retrieval = answer.retrieval
            is_generated = answer.kind is AnswerKind.GENERATED
            response = _response(_content(answer.text, retrieval.failure), is_generated=is_generated)
        if retrieval.mode is Mode.BYPASS:
            kind = "streaming" if response["is_streaming"] else "non streaming"
            message = f"Bypass mode LLM {kind} response"
            return {"status": "success", "message": message, "data": {}, "metadata": {}, "llm_response": response}
        return await rows.retrieval(retrieval) | {"llm_response": response}

    def _engine_param(self, param: QueryParam, system_prompt: str | None) -> EngineParam:
        return EngineParam(
            mode=cast("Any", param.mode),
            only_need_context=param.only_need_context,
            only_need_prompt=param.only_need_prompt,
            response_type=param.response_type,
            top_k=param.top_k,
            chunk_top_k=param.chunk_top_k or param.top_k,
            max_entity_tokens=param.max_entity_tokens,
            max_relation_tokens=param.max_relation_tokens,
            max_total_tokens=param.max_total_tokens,
            hl_keywords=tuple(param.hl_keywords or ()),
            ll_keywords=tuple(param.ll_keywords or ()),
            conversation_history=tuple(param.conversation_history or ()),
            user_prompt=param.user_prompt,
            enable_rerank=param.enable_rerank,
            include_references=param.include_references,
            disable_user_prompt_prefix=param.disable_user_prompt_prefix,
            system_prompt=system_prompt,
        )

    # The workspace by the names of LightRAG's storages, to be read

    @property
    def doc_status(self) -> DocStatusView:
        """States of documents."""
        return DocStatusView(self._opened)

    @property
    def full_docs(self) -> FullDocsView:
        """Texts of documents."""
        return FullDocsView(self._opened)

    @property
    def text_chunks(self) -> ChunkView:
        """Chunks."""
        return ChunkView(self._opened)

    @property
    def llm_response_cache(self) -> ReplyView:
        """Kept replies of models."""
        return ReplyView(self._opened)

    @property
    def chunks_vdb(self) -> VectorView:
        """Vectors of chunks."""
        return self._vectors(Collection.CHUNKS)

    @property
    def entities_vdb(self) -> VectorView:
        """Vectors of entities."""
        return self._vectors(Collection.ENTITIES)

    @property
    def relationships_vdb(self) -> VectorView:
        """Vectors of relations."""
        return self._vectors(Collection.RELATIONS)

    def _vectors(self, collection: Collection) -> VectorView:
        async def embed(text: str) -> Any:
            return (await self._embedding.embed([text], "query")).vectors[0]

        return VectorView(self._opened, collection, embed, self.cosine_better_than_threshold)

    # The same for code that is not async

    def insert(
        self,
        input: str | Sequence[str],  # noqa: A002 (LightRAG's)
        split_by_character: str | None = None,
        split_by_character_only: bool = False,
        ids: str | Sequence[str] | None = None,
        file_paths: str | Sequence[str] | None = None,
        track_id: str | None = None,
    ) -> str:
        """See `ainsert`."""
        given = (input, split_by_character, split_by_character_only, ids, file_paths, track_id)
        return run_sync(lambda: self.ainsert(*given), "insert")

    def insert_custom_chunks(self, full_text: str, text_chunks: Sequence[str], doc_id: str | None = None) -> None:
        """See `ainsert_custom_chunks`."""
        run_sync(lambda: self.ainsert_custom_chunks(full_text, text_chunks, doc_id), "insert_custom_chunks")

    def insert_custom_kg(self, custom_kg: Mapping[str, Any], full_doc_id: str | None = None) -> None:
        """See `ainsert_custom_kg`."""
        run_sync(lambda: self.ainsert_custom_kg(custom_kg, full_doc_id), "insert_custom_kg")

    def query(
        self, query: str, param: QueryParam | None = None, system_prompt: str | None = None
    ) -> str | AsyncIterator[str] | None:
        """See `aquery`."""
        return run_sync(lambda: self.aquery(query, param, system_prompt), "query")

    def query_data(self, query: str, param: QueryParam | None = None) -> dict[str, Any]:
        """See `aquery_data`."""
        return run_sync(lambda: self.aquery_data(query, param), "query_data")

    def query_llm(
        self, query: str, param: QueryParam | None = None, system_prompt: str | None = None
    ) -> dict[str, Any]:
        """See `aquery_llm`."""
        return run_sync(lambda: self.aquery_llm(query, param, system_prompt), "query_llm")

    def delete_by_doc_id(self, doc_id: str, delete_llm_cache: bool = False) -> DeletionResult:
        """See `adelete_by_doc_id`."""
        return run_sync(lambda: self.adelete_by_doc_id(doc_id, delete_llm_cache), "delete_by_doc_id")

    def clear_cache(self) -> None:
        """See `aclear_cache`."""
        run_sync(self.aclear_cache, "clear_cache")

    # From fields to settings and models

    def _made_settings(self) -> Settings:
        """Return the settings that the fields stand for; what has no field is as the environment says.

        Raises:
            ValueError: A field holds what cannot be.
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
                "language": str(self._params.get("language") or get_env_value("SUMMARY_LANGUAGE", "")),
                "summary_fragments": max(2, self.force_llm_summary_on_merge),
                "summary_tokens": self.summary_max_tokens,
                "summary_context_tokens": self.summary_context_size,
                "summary_length_tokens": self.summary_length_recommended,
                "max_parallel_documents": self.max_parallel_insert,
                "max_sources": max(self.max_source_ids_per_entity, self.max_source_ids_per_relation),
            },
            "query": {
                "top_k": self.top_k,
                "chunk_top_k": self.chunk_top_k,
                "max_entity_tokens": self.max_entity_tokens,
                "max_relation_tokens": self.max_relation_tokens,
                "max_total_tokens": self.max_total_tokens,
                "related_chunks": self.related_chunk_number,
                "chunk_picking": self.kg_chunk_pick_method.lower(),
                "min_score": self._least_cosine(),
                "user_prompt_prefix": self.user_prompt_prefix,
                "cache_answers": self.enable_llm_cache,
            },
            "chat": {
                "cache": self.enable_llm_cache,
                "max_concurrency": self.llm_model_max_async,
                "timeout_seconds": self.default_llm_timeout,
                # A function tries again by itself where it should.
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
        if types := self._params.get("entity_types"):
            changes["ingest"]["entity_types"] = tuple(types)
        try:
            return base.model_copy(update={room: _changed(getattr(base, room), new) for room, new in changes.items()})
        except ValidationError as error:
            problems = "; ".join(f"{item['loc'][0]}: {item['msg']}, got {item['input']!r}" for item in error.errors())
            raise ValueError(f"LightRAG cannot be made like this: {problems}") from None

    def _least_cosine(self) -> float:
        return float(
            self.vector_db_storage_cls_kwargs.get("cosine_better_than_threshold", self.cosine_better_than_threshold)
        )

    def _urls(self) -> dict[str, str]:
        """Return the URLs of the stores that the fields name, with what LightRAG's environment says of each.

        Raises:
            ValueError: A store is named and its address is not set.
        """
        urls: dict[str, str] = {}
        given = {self.kv_storage, self.vector_storage, self.graph_storage, self.doc_status_storage} - _EMBEDDED
        if any(name.startswith("PG") for name in given):
            urls["url"] = _postgres_url()
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

    def _chat_model(self) -> LightragChatModel:
        base = ChatRole(cast("Callable[..., Any]", self.llm_model_func), self.llm_model_kwargs)
        roles = {role.name: base for role in ROLES}
        for name, given in (self.role_llm_configs or {}).items():
            if name not in roles:
                raise ValueError(f"role_llm_configs names {name!r}; there are {', '.join(sorted(roles))}")
            own = given if isinstance(given, RoleLLMConfig) else RoleLLMConfig(**given)
            if own.timeout is not None and own.timeout != self.default_llm_timeout:
                warn_once("role_llm_configs: timeout has no effect; default_llm_timeout holds for all roles")
            roles[name] = ChatRole(
                own.func or base.function,
                base.keywords if own.kwargs is None else own.kwargs,
                PriorityLimiter(own.max_async) if own.max_async else None,
            )
        config = {"llm_model_name": self.llm_model_name, "working_dir": self.working_dir, "workspace": self.workspace}
        return LightragChatModel(roles, f"llm_model_func:{self.llm_model_name}", config)

    def _tell_what_has_no_effect(self) -> None:
        told = {
            "vlm_process_enable": self.vlm_process_enable,
            "max_pending_documents": self.max_pending_documents,
            "ollama_server_infos": self.ollama_server_infos,
            "log_level": self.log_level,
            "log_file_path": self.log_file_path,
            "embedding_cache_config": self.embedding_cache_config.get("enabled"),
        }
        for name in sorted(name for name, value in told.items() if value):
            warn_once(f"LightRAG({name}=...) has no effect here; see docs/lightrag-api.md")
        if self.source_ids_limit_method.upper() != "KEEP":
            warn_once("source_ids_limit_method has no effect: the first sources in canonical order are kept")
        if self.enable_llm_cache != self.enable_llm_cache_for_entity_extract:
            warn_once("enable_llm_cache decides for extraction, too; enable_llm_cache_for_entity_extract has no effect")
        if unknown := sorted(set(self._params) - _KNOWN_PARAMS):
            warn_once(f"addon_params: {', '.join(map(repr, unknown))} has no effect here")


def _is_custom(document: Document) -> bool:
    return bool(document.metadata.get(DETAILS, {}).get("custom_kg"))


def _changed(room: M, changes: Mapping[str, Any]) -> M:
    return type(room).model_validate(room.model_dump() | dict(changes))


def _variable(name: str) -> str:
    value = str(get_env_value(name, ""))
    if not value:
        raise ValueError(f"{name} is not set; the storage that the fields name needs it")
    return value


def _postgres_url() -> str:
    user, password, database = (
        quote(_variable(name), safe="") for name in ("POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DATABASE")
    )
    host, port = get_env_value("POSTGRES_HOST", "localhost"), int(lightrag_number("POSTGRES_PORT", 5432))
    return f"postgresql://{user}:{password}@{host}:{port}/{database}"


def _listed(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _aligned(given: str | Sequence[str] | None, what: str, count: int) -> list[str] | None:
    if given is None:
        return None
    values = _listed(given)
    if len(values) != count:
        raise ValueError(f"Number of {what} must match the number of documents")
    return values


def _told(document: Document) -> tuple[str, str, str]:
    return document.id, f"DocStatus.{doc_status(document.status).name}", document.track_id


def _duplicate(id_: str, text: str, file: str, track: str, index: int, known: tuple[str, str, str, str]) -> NewDocument:
    kind, original, state, its_track = known
    reason = (
        "File name already exists."
        if kind == "filename"
        else "Identical content already exists under another filename."
    )
    logger.warning("a duplicate was not taken in: %s (%s)", id_, file)
    details = {"summary": f"[DUPLICATE:{kind}] Original document: {original}", "length": len(text)}
    metadata = {
        "is_duplicate": True,
        "duplicate_kind": kind,
        "original_doc_id": original,
        "original_track_id": its_track,
        DETAILS: details,
    }
    error = IngestError(f"{reason} Original doc_id: {original}, Status: {state}")
    name = compute_mdhash_id(f"{id_}-{track}-{index}-{file}", "dup-")
    return NewDocument("", file, id=name, metadata=metadata, error=error)


def _checked(query: str, mode: str) -> str:
    """Return a question, stripped.

    Raises:
        EmptyQueryError: It is empty.
        RAGQueryTooShortError: It is too short to search for.
    """
    question = query.strip()
    if not question:
        raise EmptyQueryError("Query must not be empty.")
    if mode != Mode.BYPASS.value:
        try:
            check_length(question, Mode.MIX)
        except InvalidRequestError as error:
            raise RAGQueryTooShortError(str(error)) from error
    return question


def _told_by(callback: Callable[[str], Any] | None) -> Callable[[str], None] | None:
    """Return a callback that may be async as one that is not."""
    if callback is None:
        return None
    under_way: set[asyncio.Future[Any]] = set()

    def tell(stage: str) -> None:
        told = callback(stage)
        if told is not None and asyncio.iscoroutine(told):
            task = asyncio.ensure_future(told)
            under_way.add(task)
            task.add_done_callback(under_way.discard)

    return tell


def _content(text: str, failure: Failure | None) -> str:
    return _NO_ANSWER if failure in (Failure.NO_RESULTS, Failure.NO_KEYWORDS) else text


def _response(content: str | None, *, is_generated: bool, pieces: AsyncIterator[str] | None = None) -> dict[str, Any]:
    return {
        "content": content,
        "response_iterator": pieces,
        "is_streaming": pieces is not None,
        "llm_generated": is_generated,
    }
