"""Answering questions from one workspace: checks, cache, retrieval, answer, in this order.

`query` gives an `Answer`, `stream` its pieces, `query_data` and `retrieve` what an answer would be made from. The
engine owns nothing and closes nothing.
"""

from __future__ import annotations

from typing import Any

from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.query.answer import answer_offline, answer_with, answering_model
from heliograph.query.cache import AnswerCache, answer_key
from heliograph.query.data import query_data
from heliograph.query.models import Answer, QueryParam, Retrieval
from heliograph.query.plan import Plan, make_plan
from heliograph.query.retrieval import Progress, Retriever
from heliograph.query.streaming import AnswerStream
from heliograph.rerank.base import Reranker
from heliograph.settings import QuerySettings, RerankSettings
from heliograph.stores.base import Store

__all__ = ["Progress", "QueryEngine"]

_DEFAULTS = QueryParam()


class QueryEngine:
    """Answers questions.

    Stages are told to `progress` as they begin: `extracting_keywords`, `retrieving_entities`, `retrieving_relations`,
    `retrieving_chunks`, `reranking`, `generating_response`.

    Args:
        store: The workspace.
        embedding: The model that filled it.
        chat: Names keywords and writes answers; None does both without a model.
        reranker: Orders chunks; None leaves them as found.
        settings: Defaults of questions.
        rerank_settings: Threshold and time of the reranker.
    """

    def __init__(
        self,
        store: Store,
        embedding: EmbeddingModel,
        chat: ChatModel | None,
        reranker: Reranker | None,
        settings: QuerySettings,
        rerank_settings: RerankSettings,
    ) -> None:
        self._store = store
        self._embedding = embedding
        self._chat = chat
        self._reranker = reranker
        self._settings = settings
        self._rerank_settings = rerank_settings
        self._retriever = Retriever(store, embedding, reranker, rerank_settings)
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
        plan = make_plan(question, param, self._settings)
        if param.stream:
            return await (await self._stream(plan, progress)).collect()
        chat = self._chat_of(plan)
        key = await self._cache_key(plan, chat)
        if key and (known := await self._cache.get(key)):
            return known
        retrieval = await self._retriever.retrieve(plan, chat, progress or _silent)
        model = answering_model(plan, retrieval, chat)
        if model is None:
            return await answer_offline(plan, retrieval)
        (progress or _silent)("generating_response")
        answer = await answer_with(model, plan, retrieval)
        if key and answer.is_complete:
            await self._cache.put(key, answer, model.name)
        return answer

    async def stream(
        self, question: str, param: QueryParam = _DEFAULTS, progress: Progress | None = None
    ) -> AnswerStream:
        """Retrieve, and return the answer as a stream whose references are known before its first piece.

        Raises:
            InvalidRequestError: The question or a parameter cannot be served, or mode bypass has no chat model.
            ModelError: A model failed.
            StoreError: The store failed.
        """
        return await self._stream(make_plan(question, param, self._settings), progress)

    async def query_data(
        self, question: str, param: QueryParam = _DEFAULTS, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Return what was found for a question as a dict of status, message, data and metadata.

        `heliograph.query.data` describes its fields. Nothing found is status `failure`, not an error.

        Raises:
            InvalidRequestError: The question or a parameter cannot be served.
            ModelError: A model failed.
            StoreError: The store failed.
        """
        retrieval = await self.retrieve(question, param, progress)
        return query_data(retrieval, include_chunk_content=param.include_chunk_content)

    async def retrieve(
        self, question: str, param: QueryParam = _DEFAULTS, progress: Progress | None = None
    ) -> Retrieval:
        """Return what was found for a question, typed; raises as `query_data` does."""
        plan = make_plan(question, param, self._settings)
        return await self._retriever.retrieve(plan, self._chat_of(plan), progress or _silent)

    def _chat_of(self, plan: Plan) -> ChatModel | None:
        return self._chat if plan.chat_model is None else plan.chat_model

    async def _stream(self, plan: Plan, progress: Progress | None) -> AnswerStream:
        chat = self._chat_of(plan)
        retrieval = await self._retriever.retrieve(plan, chat, progress or _silent)
        model = answering_model(plan, retrieval, chat)
        if model is None:
            return AnswerStream(plan, retrieval, await answer_offline(plan, retrieval))
        (progress or _silent)("generating_response")
        return AnswerStream(plan, retrieval, model)

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
