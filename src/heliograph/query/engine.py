"""Answering questions from one workspace: checks, cache, retrieval, answer, in this order.

`query` gives an `Answer`, `stream` its pieces, `query_data` and `retrieve` what an answer would be made from. The
engine owns nothing and closes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.filters import Filter, parse_filter
from heliograph.ingest.merging import EvidenceFold
from heliograph.observing import stage
from heliograph.query.answers.answer import answer_offline, answer_with, answering_model
from heliograph.query.answers.streaming import AnswerStream
from heliograph.query.asked import Asked
from heliograph.query.cache import AnswerCache, answer_key
from heliograph.query.data import QueryData, query_data
from heliograph.query.models import Answer, QueryParam, Retrieval
from heliograph.query.plan import Plan, make_plan
from heliograph.query.retrieval import Retriever
from heliograph.query.timings import Progress
from heliograph.rerank.base import Reranker
from heliograph.settings import IngestSettings, QuerySettings, RerankSettings
from heliograph.stores.base import Fold, Store, StoreView

_DEFAULTS = QueryParam()


class QueryEngine:
    """Answers questions.

    Stages are told to `progress` as they begin, those that a mode has: `understanding_question`,
    `extracting_keywords`, `retrieving_entities`, `retrieving_relations`, `retrieving_chunks`, `reranking`,
    `generating_response`.

    Args:
        store: The workspace.
        embedding: The model that filled it.
        chat: Names keywords and writes answers; None does both without a model.
        reranker: Orders chunks; None leaves them as found.
        settings: Defaults of questions.
        rerank_settings: Threshold and time of the reranker.
        fold: How entities and relations are folded under a filter; None folds with the default limits.
        readable: Tokens that the chat model can read, as `readable_tokens` says; None for no bound.
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

    async def query(self, question: str, param: QueryParam = _DEFAULTS, progress: Progress | None = None) -> Answer:
        """Answer a question.

        Without a chat model the answer is quoted from the documents; when nothing is found it says so.
        With `param.stream` it is collected from a stream, and not cached.

        Raises:
            InvalidRequestError: The question or a parameter cannot be served, or mode bypass has no chat model.
            ModelError: A model failed; a failing reranker is only a warning.
            StoreError: The store failed.
        """
        plan = self._plan(question, param)
        if param.stream:
            return await (await self._stream(plan, progress)).collect()
        with stage("query", mode=plan.mode.value), Asked(plan.mode) as asked:
            return await self._answer(plan, progress or _silent, asked)

    async def stream(
        self, question: str, param: QueryParam = _DEFAULTS, progress: Progress | None = None
    ) -> AnswerStream:
        """Retrieve, and return the answer as a stream whose references are known before its first piece.

        Raises:
            InvalidRequestError: The question or a parameter cannot be served, or mode bypass has no chat model.
            ModelError: A model failed.
            StoreError: The store failed.
        """
        return await self._stream(self._plan(question, param), progress)

    async def query_data(
        self, question: str, param: QueryParam = _DEFAULTS, progress: Progress | None = None
    ) -> QueryData:
        """Return what was found for a question as a dict of status, message, data and metadata.

        `heliograph.query.data` describes its fields. Nothing found is status `failure`, not an error.

        Raises:
            InvalidRequestError: The question or a parameter cannot be served.
            ModelError: A model failed.
            StoreError: The store failed.
        """
        plan = replace(self._plan(question, param), is_written=False)
        retrieval = await self._observed(plan, progress)
        return query_data(retrieval, include_chunk_content=param.include_chunk_content)

    async def retrieve(
        self, question: str, param: QueryParam = _DEFAULTS, progress: Progress | None = None, *, is_bounded: bool = True
    ) -> Retrieval:
        """Return what was found for a question, typed; raises as `query_data` does.

        Unless `is_bounded`, the budgets alone bound it, and not what the chat model can read.
        """
        return await self._observed(self._plan(question, param, is_bounded=is_bounded), progress)

    async def _observed(self, plan: Plan, progress: Progress | None) -> Retrieval:
        with stage("query", mode=plan.mode.value), Asked(plan.mode) as asked:
            return await self._retrieve(plan, progress or _silent, asked)

    def view(self, filter_: Filter | Mapping[str, Any]) -> StoreView:
        """Return the workspace as a question under this filter sees it.

        Raises:
            InvalidRequestError: The filter cannot be served.
        """
        return self._store.view(parse_filter(filter_), self._fold)

    def _plan(self, question: str, param: QueryParam, *, is_bounded: bool = True) -> Plan:
        return make_plan(question, param, self._settings, self._readable if is_bounded else None)

    def _make_retriever(self, view: StoreView) -> Retriever:
        return Retriever(view, self._embedding, self._reranker, self._rerank_settings)

    def _retriever_for(self, plan: Plan) -> Retriever:
        """Return what retrieves: under a filter, from a view in which nothing else exists."""
        return self._retriever if plan.filter is None else self._make_retriever(self._view_of(plan))

    def _view_of(self, plan: Plan) -> StoreView:
        return self._store if plan.filter is None else self._store.view(plan.filter, self._fold)

    def _chat_of(self, plan: Plan) -> ChatModel | None:
        return self._chat if plan.chat_model is None else plan.chat_model

    async def _retrieve(self, plan: Plan, progress: Progress, asked: Asked) -> Retrieval:
        retrieval = await self._retriever_for(plan).retrieve(plan, self._chat_of(plan), progress)
        asked.note_retrieval(retrieval)
        return retrieval

    async def _answer(self, plan: Plan, progress: Progress, asked: Asked) -> Answer:
        chat = self._chat_of(plan)
        key = await self._cache_key(plan, chat)
        if key and (known := await self._cache.get(key)):
            asked.note_cached()
            return known
        retrieval = await self._retrieve(plan, progress, asked)
        model = answering_model(plan, retrieval, chat)
        if model is not None:
            progress("generating_response")
        with asked.answering():
            if model is None:
                return await answer_offline(plan, retrieval, self._view_of(plan).records)
            answer = await answer_with(model, plan, retrieval, self._view_of(plan).records)
        if key and answer.is_complete:
            await self._cache.put(key, answer, model.name)
        return answer

    async def _stream(self, plan: Plan, progress: Progress | None) -> AnswerStream:
        asked = Asked(plan.mode)
        with stage("query", mode=plan.mode.value), asked.unless_answered():
            retrieval = await self._retrieve(plan, progress or _silent, asked)
            model = answering_model(plan, retrieval, self._chat_of(plan))
            records = self._view_of(plan).records
            if model is None:
                return AnswerStream(plan, retrieval, await answer_offline(plan, retrieval, records), records, asked)
            (progress or _silent)("generating_response")
            return AnswerStream(plan, retrieval, model, records, asked)

    async def _cache_key(self, plan: Plan, chat: ChatModel | None) -> str:
        """Return the key of an answer that may be kept, or an empty string."""
        param = plan.param
        if chat is None or not self._settings.cache_answers or param.only_need_context or param.only_need_prompt:
            return ""
        models = {
            "chat": chat.name,
            "embedding": self._embedding.info.name,
            "reranker": self._reranker.name if self._reranker else "",
            "rerank_min_score": str(self._rerank_settings.min_score),
        }
        return answer_key(plan, models, await self._store.get_data_version())


def _silent(stage: str) -> None:
    """Tell nobody."""
