"""Answering questions from one workspace: checks, kept answers, retrieval, answer, in this order."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from hashlib import blake2b
from typing import Any

from pydantic import TypeAdapter, ValidationError

from heliograph.chat.base import ChatModel
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import StoreError
from heliograph.filters import Filter, parse_filter
from heliograph.ingest.merging import EvidenceFold
from heliograph.models import Usage, utc_now
from heliograph.observing import Progress, QuestionTimer, stage, tell_lookup
from heliograph.prompts import load_prompt
from heliograph.query.answers.answer import AnswerStream, answer_offline, answer_with, answering_model
from heliograph.query.answers.models import Answer
from heliograph.query.context.format import builtin_prompt
from heliograph.query.models import QueryParam, Retrieval
from heliograph.query.payloads import QueryData, query_data
from heliograph.query.plan import Plan, make_plan
from heliograph.query.retrieval import Retriever
from heliograph.rerank.base import Reranker
from heliograph.settings import IngestSettings, QuerySettings, RerankSettings
from heliograph.stores.base import CachedReply, Fold, ReplyCache, Store, StoreView

# Answers kept between questions, under `{mode}:query:{hash}` in the store's reply cache.
#
# The key covers everything that an answer depends on: question, every parameter, the texts of the prompts, the
# models' names and the workspace's data version, so an answer never outlives the data it came from. The value is the
# whole `Answer` as JSON.

logger = logging.getLogger(__name__)


@cache
def _answers() -> TypeAdapter[Answer]:
    return TypeAdapter(Answer)


def answer_key(plan: Plan, models: Mapping[str, str], data_version: int) -> str:
    """Return the key of an answer.

    Args:
        plan: The question and everything that was asked of it.
        models: Names of the models that take part.
        data_version: The workspace's.
    """
    parts = {field.name: _plain(getattr(plan, field.name)) for field in fields(plan) if field.name != "param"}
    parts |= {f"param.{field.name}": _plain(getattr(plan.param, field.name)) for field in fields(plan.param)}
    prompts = [builtin_prompt(plan), load_prompt("keywords"), load_prompt("understanding")]
    parts |= {"prompts": prompts, "models": dict(models), "data": data_version}
    text = json.dumps(parts, sort_keys=True)
    return f"{plan.mode}:query:{blake2b(text.encode(), digest_size=16).hexdigest()}"


class AnswerCache:
    """Reads and writes answers."""

    def __init__(self, replies: ReplyCache) -> None:
        self._replies = replies

    async def get(self, key: str) -> Answer | None:
        """Return the answer under this key as one that cost nothing, or None."""
        reply = await self._replies.get_reply(key)
        tell_lookup("answers", is_hit=reply is not None)
        if reply is None:
            return None
        try:
            answer = await asyncio.to_thread(_answers().validate_json, reply.text)
        except ValidationError:
            logger.warning("the cached answer %r cannot be read, perhaps of another version; it is made again", key)
            return None
        return replace(answer, from_cache=True, usage=Usage())

    async def put(self, key: str, answer: Answer, model: str) -> None:
        """Keep an answer; one that cannot be kept, say on a full disk, is only logged: it is an answer nevertheless."""
        # A lone surrogate, which a broken reply may hold, becomes its JSON escape.
        data = await asyncio.to_thread(lambda: json.dumps(asdict(answer), ensure_ascii=False))
        text = data.encode("utf-8", "backslashreplace").decode()
        try:
            await self._replies.put_reply(CachedReply(key, text, model, answer.usage, utc_now()))
        except StoreError as error:
            logger.warning("the answer %r could not be kept: %s", key, error)


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it; a model is left to `models`, which holds its name."""
    if isinstance(value, ChatModel):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        # The name too: conditions of different kinds have the same fields.
        return [type(value).__name__, *(_plain(getattr(value, field.name)) for field in fields(value))]
    return value if isinstance(value, str | int | float) else None


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
        with stage("query", mode=plan.mode.value), QuestionTimer(plan.mode) as asked:
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
        """Retrieve for a question; return a dict of status, message, data and metadata.

        `heliograph.query.payloads` describes its fields. Nothing found is status `failure`, not an error.

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
        """Retrieve for a question; return it typed. Raises as `query_data` does.

        Unless `is_bounded`, the budgets alone bound it, and not what the chat model can read.
        """
        return await self._observed(self._plan(question, param, is_bounded=is_bounded), progress)

    async def _observed(self, plan: Plan, progress: Progress | None) -> Retrieval:
        with stage("query", mode=plan.mode.value), QuestionTimer(plan.mode) as asked:
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

    def _view_of(self, plan: Plan) -> StoreView:
        return self._store if plan.filter is None else self._store.view(plan.filter, self._fold)

    def _chat_of(self, plan: Plan) -> ChatModel | None:
        return self._chat if plan.chat_model is None else plan.chat_model

    async def _retrieve(self, plan: Plan, progress: Progress, asked: QuestionTimer) -> Retrieval:
        # Under a filter a view is searched in which nothing else exists.
        retriever = self._retriever if plan.filter is None else self._make_retriever(self._view_of(plan))
        retrieval = await retriever.retrieve(plan, self._chat_of(plan), progress)
        asked.note_retrieval(retrieval.timings)
        return retrieval

    async def _answer(self, plan: Plan, progress: Progress, asked: QuestionTimer) -> Answer:
        chat = self._chat_of(plan)
        key = ""
        is_answered = not (plan.param.only_need_context or plan.param.only_need_prompt)
        if chat is not None and self._settings.cache_answers and is_answered:
            models = {
                "chat": chat.name,
                "embedding": self._embedding.info.name,
                "reranker": self._reranker.name if self._reranker else "",
                "rerank_min_score": str(self._rerank_settings.min_score),
            }
            key = answer_key(plan, models, await self._store.get_data_version())
        if key and (known := await self._cache.get(key)):
            asked.note_cached()
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

    async def _stream(self, plan: Plan, progress: Progress | None) -> AnswerStream:
        asked = QuestionTimer(plan.mode)
        with stage("query", mode=plan.mode.value), asked.unless_answered():
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
