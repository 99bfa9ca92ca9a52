"""Answers questions from one workspace: checks, cached answers, retrieval, answer, in this order.

Retrieval turns a plan into a `Retrieval`: keywords, channels, merging, budgets, chunks, references, context text.
Its steps make as few store calls as possible. `query.fusion` describes how mode `auto` searches.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from hashlib import blake2b
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from heliograph.calls.tasks import run_together
from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel, for_question
from heliograph.errors import StoreError
from heliograph.filters import Filter, parse_filter
from heliograph.ingest.merging import EvidenceFold
from heliograph.models import Mode, Usage, utc_now
from heliograph.observing import OBSERVER, QuestionTimer, StageClock, TellStage, stage
from heliograph.prompts import load_prompt
from heliograph.query.answers.answer import AnswerStream, answer_offline, answer_with, answering_model
from heliograph.query.answers.models import Answer
from heliograph.query.context.assembly import (
    ChunkKeeper,
    build_context,
    merge_chunks,
    select,
    trace_retrieval,
)
from heliograph.query.context.format import builtin_prompt, context_format, fit_budgets, fit_paths, room_for_rows
from heliograph.query.fusion import AutoSearch, FusedHits, FusedSearch, SearchLimits, adapt_plan
from heliograph.query.keywords import find_keywords, find_understanding
from heliograph.query.linking import find_paths
from heliograph.query.models import Failure, Keywords, ProcessingInfo, QueryParam, Retrieval
from heliograph.query.payloads import QueryData, query_data
from heliograph.query.plain_search import (
    Findings,
    Vector,
    find_evidence,
    search_chunks,
    search_entities,
    search_relations,
)
from heliograph.query.plan import FUSED_CHANNELS, Channel, Plan, make_plan
from heliograph.query.understanding import Understanding
from heliograph.rerank.base import Reranker
from heliograph.settings import IngestSettings, QuerySettings, RerankSettings
from heliograph.stores.base import CachedReply, Fold, ReplyCache, Store, StoreView

logger = logging.getLogger(__name__)

# Cached answers, under `{mode}:query:{hash}` in the store's reply cache.
#
# The key covers everything that an answer depends on: question, all parameters, the texts of the prompts, the models'
# names and the workspace's data version, so an answer never outlives its data. The value is the whole `Answer` as JSON.


@cache
def _answers() -> TypeAdapter[Answer]:
    return TypeAdapter(Answer)


def answer_key(plan: Plan, models: Mapping[str, str], data_version: int) -> str:
    """Return the cache key of an answer."""
    prompts = [builtin_prompt(plan), load_prompt("keywords"), load_prompt("understanding")]
    parts = {"plan": _plain(plan), "prompts": prompts, "models": dict(models), "data": data_version}
    text = json.dumps(parts, sort_keys=True)
    return f"{plan.mode}:query:{blake2b(text.encode(), digest_size=16).hexdigest()}"


class AnswerCache:
    """Reads and writes cached answers."""

    def __init__(self, replies: ReplyCache) -> None:
        self._replies = replies

    async def get(self, key: str) -> Answer | None:
        """Return the cached answer under this key, with zero usage, or None."""
        reply = await self._replies.get_reply(key)
        OBSERVER.get().tell_lookup("answers", is_hit=reply is not None)
        if reply is None:
            return None
        try:
            answer = await asyncio.to_thread(_answers().validate_json, reply.text)
        except ValidationError:
            logger.warning("the cached answer %r cannot be read, perhaps of another version; it is made again", key)
            return None
        return replace(answer, from_cache=True, usage=Usage())

    async def put(self, key: str, answer: Answer, model: str) -> None:
        """Cache an answer; a failure, such as a full disk, is only logged, since the answer is valid anyway."""
        # A lone surrogate, which a broken reply may contain, becomes its JSON escape.
        data = await asyncio.to_thread(lambda: json.dumps(asdict(answer), ensure_ascii=False))
        text = data.encode("utf-8", "backslashreplace").decode()
        try:
            await self._replies.put_reply(CachedReply(key, text, model, answer.usage, utc_now()))
        except StoreError as error:
            logger.warning("the answer %r could not be kept: %s", key, error)


def _plain(value: Any) -> Any:
    """Return a value as JSON data, without chat models, whose names the key has in `models`."""
    if isinstance(value, ChatModel):
        return None
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        # Include the class name: filter conditions of different kinds have the same fields.
        return [type(value).__name__, *(_plain(getattr(value, field.name)) for field in fields(value))]
    return value if isinstance(value, str | int | float) else None


_DEFAULTS = QueryParam()


class QueryPipeline:
    """Answers questions.

    `progress` is called with the name of each stage that begins; a mode has some of `understanding_question`,
    `extracting_keywords`, `retrieving_entities`, `retrieving_relations`, `retrieving_chunks`, `reranking`,
    `generating_response`.

    Args:
        store: The workspace.
        embedding: The embedding model that filled the workspace.
        chat: Extracts keywords and writes answers; None does both without a chat model.
        reranker: Orders chunks; None leaves them in the order of the search.
        settings: Defaults of questions.
        rerank_settings: Threshold and time-out of the reranker.
        fold: Folds entities and relations under a filter; None folds with the default limits.
        readable: Tokens that the chat model can read, by `readable_tokens`; None for no bound.
    """

    def __init__(
        self,
        store: Store,
        embedding: EmbeddingModel,
        chat: ChatModel | None,
        reranker: Reranker | None,
        settings: QuerySettings,
        rerank_settings: RerankSettings,
        fold: Fold | None = None,
        readable: int | None = None,
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._chat = chat
        self._reranker = reranker
        self._settings = settings
        self._rerank_settings = rerank_settings
        self._fold = fold or EvidenceFold.of(IngestSettings())  # pyright: ignore[reportCallIssue]
        self._readable = readable
        self._retriever = self._make_retriever(store)
        self._cache = AnswerCache(store.replies)

    async def query(self, question: str, param: QueryParam = _DEFAULTS, progress: TellStage | None = None) -> Answer:
        """Answer a question.

        Without a chat model the answer quotes the documents; if nothing is found, it says so.
        With `param.stream` the answer is collected from a stream and not cached.

        Raises:
            InvalidRequestError: The question or a parameter is invalid, or mode bypass has no chat model.
            ModelError: A model failed; a failing reranker only causes a warning.
            StoreError: The store failed.
        """
        plan = self._plan(question, param)
        if param.stream:
            return await (await self._stream(plan, progress)).collect()
        with for_question(), stage("query", mode=plan.mode.value), QuestionTimer(plan.mode) as asked:
            answer = await self._answer(plan, progress or _silent, asked)
            asked.note_answer(from_cache=answer.from_cache, is_unanswered=answer.is_unanswered)
            return answer

    async def stream(
        self, question: str, param: QueryParam = _DEFAULTS, progress: TellStage | None = None
    ) -> AnswerStream:
        """Retrieve, and return the answer as a stream whose references are known before its first piece.

        Raises:
            InvalidRequestError: The question or a parameter is invalid, or mode bypass has no chat model.
            ModelError: A model failed.
            StoreError: The store failed.
        """
        return await self._stream(self._plan(question, param), progress)

    async def query_data(self, question: str, param: QueryParam = _DEFAULTS) -> QueryData:
        """Retrieve for a question and return a dict of status, message, data and metadata.

        `heliograph.query.payloads` describes its fields. If nothing is found, the status is `failure`; no error.

        Raises as `stream` does.
        """
        plan = replace(self._plan(question, param), is_written=False)
        return query_data(await self._observed(plan, None), include_chunk_content=param.include_chunk_content)

    async def retrieve(
        self,
        question: str,
        param: QueryParam = _DEFAULTS,
        progress: TellStage | None = None,
        *,
        is_bounded: bool = True,
    ) -> Retrieval:
        """Retrieve for a question and return the typed `Retrieval`. Raises as `query_data` does.

        Unless `is_bounded`, only the token budgets limit the context, not the chat model's window.
        """
        return await self._observed(self._plan(question, param, is_bounded=is_bounded), progress)

    async def _observed(self, plan: Plan, progress: TellStage | None) -> Retrieval:
        with for_question(), stage("query", mode=plan.mode.value), QuestionTimer(plan.mode) as asked:
            return await self._retrieve(plan, progress or _silent, asked)

    def view(self, filter_: Filter | Mapping[str, Any]) -> StoreView:
        """Return the filtered view of the workspace; raises `InvalidRequestError` for an invalid filter."""
        return self._store.view(parse_filter(filter_), self._fold)

    def _plan(self, question: str, param: QueryParam, *, is_bounded: bool = True) -> Plan:
        return make_plan(question, param, self._settings, self._readable if is_bounded else None)

    def _make_retriever(self, view: StoreView) -> Retriever:
        return Retriever(view, self._embedding, self._reranker, self._rerank_settings)

    def _view_of(self, plan: Plan) -> StoreView:
        return self._store if plan.filter is None else self._store.view(plan.filter, self._fold)

    def _chat_of(self, plan: Plan) -> ChatModel | None:
        return self._chat if plan.chat_model is None else plan.chat_model

    async def _retrieve(self, plan: Plan, progress: TellStage, asked: QuestionTimer) -> Retrieval:
        # Under a filter, search a view in which only matching documents exist.
        retriever = self._retriever if plan.filter is None else self._make_retriever(self._view_of(plan))
        retrieval = await retriever.retrieve(plan, self._chat_of(plan), progress)
        asked.note_retrieval(retrieval.timings)
        return retrieval

    async def _answer(self, plan: Plan, progress: TellStage, asked: QuestionTimer) -> Answer:
        chat = self._chat_of(plan)
        key = ""
        if chat is not None and self._settings.cache_answers and plan.wants_answer:
            models = {
                "chat": chat.name,
                "embedding": self._embedding.info.name,
                "reranker": self._reranker.name if self._reranker else "",
                "rerank_min_score": str(self._rerank_settings.min_score),
            }
            key = answer_key(plan, models, await self._store.get_data_version())
        if key and (known := await self._cache.get(key)):
            return known
        retrieval = await self._retrieve(plan, progress, asked)
        model = answering_model(plan, retrieval, chat)
        if model is not None:
            progress("generating_response")
        with asked.answering():
            if model is None:
                return await answer_offline(plan, retrieval, self._view_of(plan).records, self._embedding)
            answer = await answer_with(model, plan, retrieval, self._view_of(plan).records)
        if key and answer.is_complete:
            await self._cache.put(key, answer, model.name)
        return answer

    async def _stream(self, plan: Plan, progress: TellStage | None) -> AnswerStream:
        asked = QuestionTimer(plan.mode)
        with for_question(), stage("query", mode=plan.mode.value), asked.unless_answered():
            retrieval = await self._retrieve(plan, progress or _silent, asked)
            model = answering_model(plan, retrieval, self._chat_of(plan))
            records = self._view_of(plan).records
            if model is None:
                return AnswerStream(
                    plan, retrieval, await answer_offline(plan, retrieval, records, self._embedding), records, asked
                )
            (progress or _silent)("generating_response")
            return AnswerStream(plan, retrieval, model, records, asked)


def _silent(stage: str) -> None:
    """Ignore progress."""


_STAGES = {
    Channel.ENTITY: "retrieving_entities",
    Channel.RELATION: "retrieving_relations",
    Channel.VECTOR: "retrieving_chunks",
}
_SEARCHES = {
    Channel.ENTITY: search_entities,
    Channel.RELATION: search_relations,
    Channel.VECTOR: search_chunks,
}
# Fused hits per kept chunk, so that a reranker has a choice.
_HITS_PER_CHUNK = 3


class Retriever:
    """Retrieves the context of a question."""

    def __init__(
        self, store: StoreView, embedding: EmbeddingModel, reranker: Reranker | None, rerank_settings: RerankSettings
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._keeper = ChunkKeeper(store.records, reranker, rerank_settings)

    async def retrieve(self, plan: Plan, chat: ChatModel | None, progress: TellStage) -> Retrieval:
        """Retrieve for a plan; if there is no context, the result's `failure` says why.

        Raises:
            ModelError: A required model failed. A failing reranker only causes a warning.
            StoreError: The store failed.
        """
        retrieval = Retrieval(plan.question, plan.mode, max_total_tokens=plan.settings.max_total_tokens)
        clock = StageClock()
        if plan.mode is Mode.AUTO:
            progress("understanding_question")
            with clock.measure("understanding"):
                understood = await find_understanding(plan.question, chat, plan.settings.keyword_language)
            plan = adapt_plan(plan, understood.found)
            retrieval = replace(
                retrieval,
                understanding=understood.found,
                warnings=understood.warnings,
                usage=understood.usage,
            )
        if plan.needs_keywords:
            progress("extracting_keywords")
            with clock.measure("keywords"):
                found = await find_keywords(plan, chat)
            retrieval = replace(
                retrieval,
                keywords=found.found or Keywords(),
                failure=Failure.NO_KEYWORDS if found.found is None and not plan.is_fused else None,
                warnings=(*retrieval.warnings, *found.warnings),
                usage=retrieval.usage + found.usage,
            )
        if plan.channels and retrieval.failure is None:
            retrieval = await self._search_and_build(plan, retrieval, progress, clock)
        for warning in retrieval.warnings:
            logger.info("%s", warning)
        return replace(retrieval, timings=clock.read() if plan.channels else {})

    async def _search_and_build(
        self, plan: Plan, retrieval: Retrieval, progress: TellStage, clock: StageClock
    ) -> Retrieval:
        with clock.measure("embed"):
            vectors = await self._embed(plan, retrieval.keywords)
        searched = [
            channel
            for channel in plan.channels
            if channel in vectors and channel in _SEARCHES and not (channel is Channel.VECTOR and plan.is_all_fused)
        ]
        for channel in searched:
            progress(_STAGES[channel])
        with clock.measure("search"):
            fused = await self._search_fused(plan, vectors, progress, retrieval.understanding)

        async def build() -> Retrieval:
            return await self._build(plan, retrieval, vectors, searched, fused, progress, clock)

        # Waiting for a reranker must not happen inside `at_one_moment`, which reads the store.
        return await (build() if self._keeper.reranks(plan) else self._store.at_one_moment(build))

    async def _build(
        self,
        plan: Plan,
        retrieval: Retrieval,
        vectors: Mapping[Channel, Vector],
        searched: Sequence[Channel],
        fused: FusedHits,
        progress: TellStage,
        clock: StageClock,
    ) -> Retrieval:
        with clock.measure("search"):
            findings = await self._search(plan, vectors, searched)
            graph = self._store.graph
            evidence = await find_evidence(graph, fused.entities[: plan.settings.top_k] if plan.is_all_fused else ())
            # None if the plan does not search for paths.
            paths = None
            if Channel.GRAPH in plan.channels:
                paths = await find_paths(graph, [entity.id for entity in fused.linked])
        retrieval = replace(retrieval, parts=fused.parts)
        if fused.respelt:
            read = (
                f"{written!r} stands in no document that was searched and is read as {read!r}"
                for written, read in fused.respelt.changes
            )
            warnings = (*retrieval.warnings, *read)
            retrieval = replace(retrieval, respelt=fused.respelt.question, warnings=warnings)
        if not plan.needs_keywords:
            names = tuple(dict.fromkeys(entity.name for entity in fused.linked))
            retrieval = replace(retrieval, keywords=Keywords(low_level=names))
        form = context_format(plan.settings.context_format)
        with clock.measure("select"):
            paths, room = fit_paths(form, paths, room_for_rows(plan, form))
            selection = await select(self._store.graph, [*findings, evidence], form, fit_budgets(plan, room))
            question = vectors.get(Channel.VECTOR)
            merged = await merge_chunks(self._store, plan, findings, selection, question, fused.hits, fused.leaders)
        info = ProcessingInfo(
            total_entities_found=selection.entities_found,
            total_relations_found=selection.relations_found,
            entities_after_truncation=len(selection.entities),
            relations_after_truncation=len(selection.relations),
            merged_chunks_count=len(merged.ids),
        )
        retrieval = replace(retrieval, info=info)
        if not (selection.entities_found or selection.relations_found or merged.ids):
            return replace(retrieval, failure=Failure.NO_RESULTS)
        with clock.measure("chunks"):
            kept = await self._keeper.keep(plan, form, selection, merged, room, progress, clock)
        context = build_context(plan, form, selection, merged, kept, paths)
        info = replace(
            info,
            final_chunks_count=len(context.chunks),
            ranked_chunks_count=len(kept.ranked),
            below_threshold_count=kept.below_threshold,
        )
        retrieval = replace(retrieval, info=info)
        failure = None
        if context.is_empty:
            # Entities and relations have no threshold: only the token budgets can have cut them.
            is_passages_only = not (selection.entities_found or selection.relations_found)
            is_too_low = retrieval.is_below_threshold and is_passages_only
            failure = Failure.BELOW_THRESHOLD if is_too_low else Failure.EMPTY_CONTEXT
        trace = None
        if plan.param.explain:
            trace = await trace_retrieval(self._store, plan, form, selection, merged, kept, context)
        return replace(
            retrieval,
            context=context,
            trace=trace,
            failure=failure,
            warnings=(*retrieval.warnings, *kept.warnings),
        )

    async def _embed(self, plan: Plan, keywords: Keywords) -> dict[Channel, Vector]:
        """Embed the texts that the channels search with in one call, and the question to pick chunks by vector."""
        texts: dict[Channel, str] = {}
        if Channel.VECTOR in plan.channels or plan.is_fused or plan.settings.chunk_picking == "vector":
            texts[Channel.VECTOR] = plan.question
        if Channel.ENTITY in plan.channels and keywords.low_level:
            texts[Channel.ENTITY] = ", ".join(keywords.low_level)
        if Channel.RELATION in plan.channels and keywords.high_level:
            texts[Channel.RELATION] = ", ".join(keywords.high_level)
        if not (plan.is_fused or any(channel in texts for channel in plan.channels)):
            return {}
        embeddings = await self._embedding.embed(list(texts.values()), "query")
        return dict(zip(texts, embeddings.vectors, strict=True))

    async def _search(
        self, plan: Plan, vectors: Mapping[Channel, Vector], searched: Sequence[Channel]
    ) -> tuple[Findings, ...]:
        limits = {Channel.VECTOR: plan.settings.chunk_top_k}
        min_cosine = self._min_cosine(plan)
        return await run_together(
            *(
                _SEARCHES[channel](self._store, vectors[channel], limits.get(channel, plan.settings.top_k), min_cosine)
                for channel in searched
            )
        )

    def _min_cosine(self, plan: Plan) -> float:
        least = plan.settings.min_cosine
        return self._embedding.info.min_score if least is None else least

    async def _search_fused(
        self, plan: Plan, vectors: dict[Channel, Vector], progress: TellStage, understanding: Understanding | None
    ) -> FusedHits:
        if not plan.is_fused:
            return FusedHits()
        progress(_STAGES[Channel.VECTOR])
        channels = frozenset(FUSED_CHANNELS).intersection(plan.channels)
        if not channels & {Channel.VECTOR, Channel.KEYWORD}:
            # The other channels would have nothing to start from.
            channels |= {Channel.VECTOR}
        limits = SearchLimits(
            hits=_HITS_PER_CHUNK * plan.settings.chunk_top_k,
            channels=channels,
            by_rank=plan.settings.fusion == "rank",
            min_cosine=self._min_cosine(plan),
        )
        search = FusedSearch(self._store, self._embedding)
        if understanding is not None:
            auto = AutoSearch(self._embedding, search)
            return await auto.search(plan.question, vectors[Channel.VECTOR], limits, understanding)
        return await search.search(plan.question, vectors[Channel.VECTOR], limits)
