"""`LightRAG`, the class that programs written for LightRAG 1.5.7 use, on top of our engine.

Fields become settings, functions become models, and every method is one or two calls of `AsyncHeliograph`. Where
LightRAG's behaviour is impossible, it warns once; docs/lightrag-api.md lists these cases. A working directory that
LightRAG wrote is imported when it is first opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Never, cast

import heliograph.lightrag.storages as storages
from heliograph.embedding.base import wrap_embedding_model
from heliograph.engine import AsyncHeliograph
from heliograph.errors import HeliographError, IngestError
from heliograph.filters import DocumentIds, Sources
from heliograph.functions import name_of
from heliograph.ids import content_hash
from heliograph.ids import track_id as new_track_id
from heliograph.ingest.models import NewDocument
from heliograph.lightrag.base import DeletionResult, DocProcessingStatus, DocStatus, EmbeddingFunc, QueryParam
from heliograph.lightrag.fields import Fields
from heliograph.lightrag.graph import CustomGraph, GraphMethods
from heliograph.lightrag.llm_roles import ROLES, ChatRoles, RoleLLMConfig, RoleSpec
from heliograph.lightrag.missing import missing_attribute
from heliograph.lightrag.models import LightragChatModel, LightragChunker, LightragEmbeddingModel, LightragReranker
from heliograph.lightrag.prompt import PROMPTS
from heliograph.lightrag.query_validation import validate_query_not_empty, validate_rag_query
from heliograph.lightrag.rows import DETAILS, UNKNOWN, UNKNOWN_SOURCE, Rows, base_name, is_duplicate
from heliograph.lightrag.utils import (
    TiktokenTokenizer,
    TokenizerInterface,
    blocking,
    compute_mdhash_id,
    lightrag_number,
    logger,
    retired,
    sanitize_text_for_encoding,
    warn_once,
)
from heliograph.maintenance.lightrag_files import is_lightrag
from heliograph.models import COMMITTED_STATUSES, Document, Mode
from heliograph.query.answers.models import AnswerKind
from heliograph.query.models import Failure
from heliograph.query.models import QueryParam as EngineParam
from heliograph.stores.changeset import Collection
from heliograph.wire.documents import doc_status

__all__ = ["ROLES", "EmbeddingFunc", "LightRAG", "QueryParam", "RoleLLMConfig", "RoleSpec"]


@retired(
    *("llm_model_max_token_size", "entity_summary_to_max_tokens", "summary_to_max_tokens", "namespace_prefix"),
    *("node_embedding_algorithm", "node2vec_params", "convert_response_to_json_func"),
)
@dataclass
class LightRAG(Fields, GraphMethods):
    """One workspace, with LightRAG's fields and methods.

        rag = LightRAG(working_dir="./rag", llm_model_func=gpt_4o_mini_complete, embedding_func=openai_embed)
        await rag.initialize_storages()
        await rag.ainsert("ESP32 speaks MQTT over TLS.", file_paths="notes.md")
        print(await rag.aquery("What does ESP32 speak?", param=QueryParam(mode="hybrid")))
        await rag.finalize_storages()

    Defaults are those of LightRAG, including its environment variables. A field without effect warns when it is set.
    Methods without a leading `a` in their name are for code that is not async.

    Raises:
        ValueError: `llm_model_func` or `embedding_func` is missing, or a field has an invalid value.
    """

    def __post_init__(self, addon_params: Mapping[str, Any] | None) -> None:
        if self.llm_model_func is None:
            raise ValueError("llm_model_func is missing; give the function that asks your chat model")
        if self.embedding_func is None:
            raise ValueError("embedding_func is missing; give EmbeddingFunc(embedding_dim=..., func=...)")
        self._params: dict[str, Any] = dict(addon_params or {})
        vars(self)["addon_params"] = self._params
        self.tell_what_has_no_effect(self._params)
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
        self._roles = ChatRoles(
            self.llm_model_func,
            self.llm_model_kwargs,
            self.llm_model_max_async,
            self.default_llm_timeout,
            self.role_llm_configs or {},
        )
        self._settings = self.made_settings(self._params, self._roles.longest_seconds)
        self._embedding = wrap_embedding_model(
            LightragEmbeddingModel(self.embedding_func, self.least_cosine), self._settings.embedding
        )
        self._kb = self._engine()
        self._rows: Rows | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _engine(self) -> AsyncHeliograph:
        return AsyncHeliograph(
            settings=self._settings,
            chat=self._chat_model(self._roles, f"llm_model_func:{self.llm_model_name}"),
            embedding=self._embedding,
            reranker=LightragReranker(self.rerank_model_func) if self.rerank_model_func else None,
            chunker=self._chunker,
        )

    def _chat_model(self, roles: ChatRoles, name: str) -> LightragChatModel:
        told = {name: getattr(self, name) for name in ("llm_model_name", "working_dir", "workspace")}
        return LightragChatModel(roles, name, told)

    def __getattr__(self, name: str) -> Never:
        # Only called for attributes that do not exist here.
        raise AttributeError(missing_attribute("LightRAG", name))

    # Opening and closing

    async def initialize_storages(self) -> None:
        """Open the workspace; if it is empty, import the files that LightRAG wrote into the working directory."""
        await self._kb.open()
        self._loop = asyncio.get_running_loop()
        folder = Path(self.working_dir, self.workspace)
        if is_lightrag(folder) and not any((await self._kb.stats()).documents.values()):
            logger.info("taking in what LightRAG has written into %s", folder)
            report = await self._kb.import_from(folder)
            logger.info("%d documents with %d chunks were taken in", report.documents, report.chunks)

    async def finalize_storages(self) -> None:
        """Close the workspace; `initialize_storages` opens it again."""
        await self._kb.close()

    async def check_and_migrate_data(self) -> None:
        """Do nothing: a store of an earlier version is upgraded when it is opened."""

    @property
    def running_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that uses the workspace, if one runs."""
        return self._loop if self._loop is not None and self._loop.is_running() else None

    async def _opened(self) -> tuple[AsyncHeliograph, Rows]:
        await self._kb.stats()
        self._loop = asyncio.get_running_loop()
        # The cached chunk ids are valid for one opened store.
        if self._rows is None or self._rows.store is not self._kb.store:
            self._rows = Rows(self._kb.store, cast("TokenizerInterface", self.tokenizer))
        return self._kb, self._rows

    @asynccontextmanager
    async def _opened_beside(self) -> AsyncGenerator[tuple[AsyncHeliograph, Rows]]:
        async with self._engine() as kb:
            yield kb, Rows(kb.store, cast("TokenizerInterface", self.tokenizer))

    # Documents

    async def ainsert(
        self,
        input: str | Sequence[str],
        split_by_character: str | None = None,
        split_by_character_only: bool = False,
        ids: str | Sequence[str] | None = None,
        file_paths: str | Sequence[str] | None = None,
        track_id: str | None = None,
    ) -> str:
        """Insert texts, and return when each is processed or failed, as its status shows.

        Args:
            input: One or many texts.
            split_by_character: Split there first.
            split_by_character_only: Split nowhere else.
            ids: Id of each text; None takes one from its file name, or from the text.
            file_paths: File of each text, of which the name counts. A known name or id, and a known text, is a
                duplicate: the existing document stays, and the attempt is recorded as failed.
            track_id: Name of this call; None makes one.

        Returns:
            The name of this call, by which `aget_docs_by_track_id` finds its documents.

        Raises:
            ValueError: The lists differ in length, or an id occurs twice.
        """
        track = track_id or new_track_id("insert")
        await self._enqueue(input, ids, file_paths, track, (split_by_character, split_by_character_only))
        await self.apipeline_process_enqueue_documents()
        return track

    async def apipeline_enqueue_documents(
        self,
        input: str | Sequence[str],
        ids: str | Sequence[str] | None = None,
        file_paths: str | Sequence[str] | None = None,
        track_id: str | None = None,
        docs_format: str = "raw",
        **options: Any,
    ) -> str | None:
        """Store texts as pending, and return the name of this call; None if all were duplicates.

        Raises as `ainsert`.
        """
        if docs_format != "raw" or any(options.values()):
            warn_once("apipeline_enqueue_documents takes texts only; use insert_files of Heliograph for files")
        track = track_id if track_id and track_id.strip() else new_track_id("enqueue")
        return track if await self._enqueue(input, ids, file_paths, track, (None, False)) else None

    async def apipeline_process_enqueue_documents(self) -> None:
        """Process pending documents; if a model is unreachable they fail, as their status shows."""
        kb, rows = await self._opened()
        try:
            report = await kb.resume()
            if report.results:
                failed = len(report.failures)
                logger.info("documents processed: %d, failed: %d", len(report.results) - failed, failed)
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
        """Store new texts as pending and duplicates as failed attempts; return how many are new."""
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
        """Return the reason, original id, state and call of a duplicate; None for a new text."""
        for item in before:
            if item.id == id_ or (file != UNKNOWN_SOURCE and item.source == file):
                return "filename", item.id, "batch_duplicate", ""
            if item.text == text:
                return "content_hash", item.id, "batch_duplicate", ""
        found = await self._kb.document(id_)
        if found is not None:
            return ("filename", *_told(found))
        if file != UNKNOWN_SOURCE:
            same = [
                item
                for item in await storages.all_documents(self._kb, filter=Sources((file,)))
                if not is_duplicate(item)
            ]
            if same:
                return ("filename", *_told(same[0]))
        same = await storages.all_documents(self._kb, content_hashes=(content_hash(text),))
        first = next((item for item in same if not is_duplicate(item)), None)
        return first and ("content_hash", *_told(first))

    async def ainsert_custom_chunks(
        self, full_text: str, text_chunks: Sequence[str], doc_id: str | None = None
    ) -> None:
        """Insert a text that is already split; for an existing document, add chunks to it.

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
            text = await kb.document_text(id_) or ""
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
        """Insert a ready-made graph: `chunks`, `entities` and `relationships`; no chat model is called.

        Chunks with the same `full_doc_id` (else the same `source_id`) and file become a document here, which can be
        deleted. Entities and relations without a chunk in the graph become curations. Of duplicate entries the last
        counts.

        Raises:
            ValueError: A name is empty, a relation has one end, or a weight is too small; nothing was written.
        """
        kb, rows = await self._opened()
        graph = CustomGraph.read(custom_kg, full_doc_id)
        for (document, file), chunks in graph.documents.items():
            id_ = document
            known = await kb.document(id_)
            if known is not None and not known.metadata.get(DETAILS, {}).get("custom_kg"):
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
        """Create or overwrite, as curations, the entities and relations that no chunk of a graph mentions."""
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
        """Delete a document and all that only it said, exactly; cached model replies about it are always deleted."""
        kb, rows = await self._opened()
        document = await kb.document(doc_id)
        if document is None:
            return DeletionResult("not_found", doc_id, f"Document {doc_id} not found.", 404, "")
        report = await kb.delete(doc_id, content_hashes={doc_id: document.content_hash})
        rows.forget()
        if report.missing:
            return DeletionResult("not_found", doc_id, f"Document {doc_id} not found.", 404, "")
        if report.replaced:
            message = f"Document {doc_id} was handed over anew meanwhile; it was not deleted"
            return DeletionResult("not_allowed", doc_id, message, 403, document.source)
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

    async def get_docs_by_status(self, status: DocStatus) -> dict[str, DocProcessingStatus]:
        """Return the documents in a state, by id; a method of LightRAG before 1.5.7."""
        return await self.doc_status.get_docs_by_status(status)

    async def aget_docs_by_track_id(self, track_id: str) -> dict[str, DocProcessingStatus]:
        """Return the documents of one call of `insert`, by id."""
        return await self.doc_status.get_docs_by_track_id(track_id)

    async def aclear_cache(self) -> None:
        """Drop all cached model replies."""
        await self.llm_response_cache.drop()

    # Questions

    async def aquery(
        self, query: str, param: QueryParam | None = None, system_prompt: str | None = None
    ) -> str | AsyncIterator[str] | None:
        """Return the answer to a question, or with `param.stream` its pieces; None if a model or the store failed.

        Raises:
            EmptyQueryError: The question is empty.
            RAGQueryTooShortError: It is too short to search for.
        """
        answer = (await self.aquery_llm(query, param, system_prompt))["llm_response"]
        return answer["response_iterator"] if answer["is_streaming"] else answer["content"]

    async def aquery_with_separate_keyword_extraction(
        self, query: str, prompt: str, param: QueryParam | None = None
    ) -> str | AsyncIterator[str] | None:
        """Return the answer to a question; only the question gives keywords, `prompt` says how to answer. Before 1.4.8.

        Raises as `aquery`.
        """
        return await self.aquery(query, replace(param or QueryParam(), user_prompt=prompt))

    async def aquery_data(self, query: str, param: QueryParam | None = None) -> dict[str, Any]:
        """Return the retrieved data for an answer: `status`, `message`, `data`, `metadata`.

        Raises:
            EmptyQueryError: The question is empty.
            RAGQueryTooShortError: It is too short to search for.
            ModelError: A model failed.
            StoreError: The store failed.
            ValueError: There is no such mode.
        """
        wanted = param or QueryParam()
        question = _checked(query, wanted)
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
        """Return the result of `aquery_data` and, as `llm_response`, the answer made from it.

        If a model or store fails, the status is `failure`, with the reason as message; `content` is None then.

        Raises:
            EmptyQueryError: The question is empty.
            RAGQueryTooShortError: It is too short to search for.
        """
        wanted = param or QueryParam()
        question = _checked(query, wanted)
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
        # Names are equal in both, except for these.
        given: dict[str, Any] = {item.name: getattr(param, item.name) for item in fields(QueryParam)}
        given |= {
            "chunk_top_k": param.chunk_top_k or param.top_k,
            "hl_keywords": tuple(param.hl_keywords or ()),
            "ll_keywords": tuple(param.ll_keywords or ()),
            "conversation_history": tuple(param.conversation_history or ()),
            "system_prompt": system_prompt,
            "stream": False,
        }
        # LightRAG only tests whether these are true; a program may pass None or 1.
        given |= {item.name: bool(given[item.name]) for item in fields(QueryParam) if isinstance(item.default, bool)}
        # Programs may pass an object of their own with the fields of 1.5.7.
        if ids := getattr(param, "ids", None):
            given["filter"] = DocumentIds(tuple(_listed(ids)))
        if (function := getattr(param, "model_func", None)) is not None:
            roles = ChatRoles(function, {}, self.llm_model_max_async, self.default_llm_timeout, {})
            given["chat_model"] = self._chat_model(roles, f"model_func:{name_of(function)}")
        return EngineParam(**given)

    # Models by role

    def get_llm_role_config(self, role: str | None = None) -> dict[str, Any]:
        """Describe the model of one role, or of each by name: `max_async`, `timeout`, `model` and more, no secrets.

        Raises:
            ValueError: There is no such role.
        """
        return self._roles.told(role) if role else {spec.name: self._roles.told(spec.name) for spec in ROLES}

    def register_role_llm_builder(
        self, builder: Callable[[str, dict[str, Any]], tuple[Callable[..., Any], dict[str, Any] | None]]
    ) -> None:
        """Register `builder(role, metadata)`, which makes function and keywords when only a role's metadata changes."""
        self._roles.builder = builder

    def set_role_llm_metadata(self, role: str, **metadata: Any) -> None:
        """Record the metadata of a role for its builder."""
        self._roles.role(role).metadata |= {name: value for name, value in metadata.items() if value is not None}

    async def aupdate_llm_role_config(
        self,
        role: str,
        *,
        model_func: Callable[..., Any] | None = None,
        model_kwargs: dict[str, Any] | None = None,
        max_async: int | None = None,
        timeout: int | None = None,
        **metadata: Any,
    ) -> None:
        """Change the model of one role from the next call on; None leaves a value unchanged.

        Args:
            role: `extract`, `keyword` or `query`.
            model_func: Its function.
            model_kwargs: Keyword arguments for the function.
            max_async: How many of its calls run at once.
            timeout: Seconds that a call may take, at most the longest timeout that the instance was made with.
            metadata: `binding`, `model`, `host`, `api_key`, `provider_options`: for the builder.

        Raises:
            TypeError: `model_func` cannot be called.
            ValueError: There is no such role, or metadata and neither a function nor a builder.
        """
        self._roles.change(role, model_func, model_kwargs, max_async, timeout, **metadata)

    def update_llm_role_config(self, role: str, **changes: Any) -> None:
        """See `aupdate_llm_role_config`, which takes the same arguments and does not wait for anything either."""
        self._roles.change(role, **changes)

    # Read-only views of the workspace under the names of LightRAG's storages

    doc_status = cached_property(lambda self: storages.DocStatusView(self._opened))
    full_docs = cached_property(lambda self: storages.FullDocsView(self._opened))
    text_chunks = cached_property(lambda self: storages.ChunkView(self._opened))
    full_entities = cached_property(lambda self: storages.MentionedView(self._opened, of_relations=False))
    full_relations = cached_property(lambda self: storages.MentionedView(self._opened, of_relations=True))
    entity_chunks = cached_property(lambda self: storages.SourcesView(self._opened))
    relation_chunks = cached_property(lambda self: storages.SourcesView(self._opened))
    llm_response_cache = cached_property(lambda self: storages.ReplyView(self._opened))
    chunks_vdb = cached_property(
        lambda self: storages.VectorView(self._opened, Collection.CHUNKS, self._embedding, self.least_cosine)
    )
    entities_vdb = cached_property(
        lambda self: storages.VectorView(self._opened, Collection.ENTITIES, self._embedding, self.least_cosine)
    )
    relationships_vdb = cached_property(
        lambda self: storages.VectorView(self._opened, Collection.RELATIONS, self._embedding, self.least_cosine)
    )

    # The same methods for code that is not async

    insert = blocking(ainsert)
    insert_custom_chunks = blocking(ainsert_custom_chunks)
    insert_custom_kg = blocking(ainsert_custom_kg)
    query = blocking(aquery)
    query_with_separate_keyword_extraction = blocking(aquery_with_separate_keyword_extraction)
    query_data = blocking(aquery_data)
    query_llm = blocking(aquery_llm)
    delete_by_doc_id = blocking(adelete_by_doc_id)
    clear_cache = blocking(aclear_cache)


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
    return document.id, f"DocStatus.{doc_status(document.status).upper()}", document.track_id


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


def _checked(query: str, param: QueryParam) -> str:
    return (validate_query_not_empty if param.mode == Mode.BYPASS.value else validate_rag_query)(query)


def _told_by(callback: Callable[[str], Any] | None) -> Callable[[str], None] | None:
    """Wrap a callback that may be async as one that is not."""
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
    return PROMPTS["fail_response"] if failure in (Failure.NO_RESULTS, Failure.NO_KEYWORDS) else text


def _response(content: str | None, *, is_generated: bool, pieces: AsyncIterator[str] | None = None) -> dict[str, Any]:
    return {
        "content": content,
        "response_iterator": pieces,
        "is_streaming": pieces is not None,
        "llm_generated": is_generated,
    }
