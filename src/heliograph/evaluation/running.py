"""Asks a set's questions, one after the other, and scores what comes back.

What is judged is the order of `data.chunks` as `AsyncHeliograph.query_data` returns it, so nothing that a user would
not get. Times are taken around that call alone; the answer is asked for afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from heliograph.documents.cleaning import replace_surrogates
from heliograph.embedding.base import EmbeddingModel
from heliograph.embedding.meter import EmbeddingCount, EmbeddingMeter
from heliograph.embedding.query_cache import QueryCachedEmbeddingModel
from heliograph.embedding.wrapper import WrapperEmbeddingModel
from heliograph.engine import AsyncHeliograph
from heliograph.evaluation.answers import (
    answer_f1,
    check_citations,
    exact_match,
    holds_answer,
    is_findable,
    quoted_sentences,
)
from heliograph.evaluation.checks import to_param
from heliograph.evaluation.corpus import ChunkSpan, CorpusMap
from heliograph.evaluation.metrics import score_ranking
from heliograph.evaluation.models import AnswerOutcome, Configuration, Cost, QuestionOutcome, RunReport
from heliograph.evaluation.sets import Question
from heliograph.evaluation.summary import summarize
from heliograph.query.data import ContextData
from heliograph.query.models import Answer, AnswerKind, QueryParam

__all__ = ["run_questions"]

_QUOTED = 3


async def run_questions(
    engine: AsyncHeliograph,
    corpus: CorpusMap,
    questions: Sequence[Question],
    configuration: Configuration,
    embedding: EmbeddingMeter,
    *,
    with_answers: bool = True,
    on_question: Callable[[int], None] | None = None,
) -> RunReport:
    """Ask every question in one configuration.

    Args:
        engine: Open, with the index of the corpus.
        corpus: The way from chunks to passages.
        questions: What to ask.
        configuration: How to ask.
        embedding: The engine's embedding model, to count what it does.
        with_answers: Ask for answers too.
        on_question: Called with the number of questions done.

    Raises:
        InvalidRequestError: The configuration names a field that `QueryParam` does not have, or a value out of range.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    param = to_param(configuration)
    # What is made ready once, such as a model that is loaded with its first text, is no question's cost.
    await engine.query_data(questions[0].text, param)
    # An earlier configuration has asked the same; each pays for its own vectors.
    _forget_questions(embedding)
    before = _cost(engine, embedding)
    outcomes: list[QuestionOutcome] = []
    for number, question in enumerate(questions, 1):
        outcomes.append(await _ask(engine, corpus, question, param, with_answers))
        if on_question is not None:
            on_question(number)
    return summarize(configuration, outcomes, _cost_since(before, _cost(engine, embedding)))


def _forget_questions(model: EmbeddingModel) -> None:
    while isinstance(model, WrapperEmbeddingModel):
        if isinstance(model, QueryCachedEmbeddingModel):
            model.clear()
        model = model.inner


async def _ask(
    engine: AsyncHeliograph, corpus: CorpusMap, question: Question, param: QueryParam, with_answers: bool
) -> QuestionOutcome:
    wall, cpu = time.perf_counter(), time.process_time()
    found = await engine.query_data(question.text, param)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    chunks = found["data"].get("chunks", [])
    places = corpus.places(ChunkSpan(item["file_path"], item["start"], item["end"]) for item in chunks)
    contexts = tuple(item["content"] for item in chunks)
    told = _told(found["data"])
    answer = _judge(await engine.query(question.text, param), question, contexts, told) if with_answers else None
    return QuestionOutcome(
        id=question.id,
        question=question.text,
        type=question.type,
        gold=tuple(question.gold),
        found=tuple(places),
        scores=score_ranking(places, question.gold) if question.gold else {},
        wall_seconds=wall,
        cpu_seconds=cpu,
        answers=question.answers,
        answer=answer,
        contexts=contexts,
    )


def _told(data: ContextData) -> str:
    """Return what the entities and relations of a result say, as one text; empty where it has none."""
    entities = (f"{item['entity_name']}: {item['description']}" for item in data.get("entities", []))
    relations = (f"{item['src_id']}, {item['tgt_id']}: {item['description']}" for item in data.get("relationships", []))
    return "\n".join((*entities, *relations))


def _judge(answer: Answer, question: Question, contexts: Sequence[str], told: str) -> AnswerOutcome:
    wanted = question.answers
    # A broken reply may hold half of a surrogate pair, with which no report could be written.
    text = replace_surrogates(answer.text)
    can_be_held = is_findable(wanted)
    in_context = holds_answer("\n".join(contexts), wanted) if can_be_held else None
    in_graph = holds_answer(told, wanted) if can_be_held and told else None
    if not answer.is_generated:
        quoted = "\n".join(quoted_sentences(text)[:_QUOTED])
        is_hit = holds_answer(quoted, wanted) if can_be_held else None
        return AnswerOutcome(text, answer.kind.value, is_hit, in_context, in_graph)
    return AnswerOutcome(
        text,
        answer.kind.value,
        holds_answer(text, wanted) if can_be_held else None,
        in_context,
        in_graph,
        f1=answer_f1(text, wanted) if wanted else None,
        exact=exact_match(text, wanted) if wanted else None,
        citations=check_citations(text, _sources(answer)) if answer.kind is AnswerKind.GENERATED else None,
    )


def _sources(answer: Answer) -> dict[str, str]:
    """Return the text behind each reference number."""
    texts: dict[str, str] = {reference.reference_id: "" for reference in answer.references}
    for item in answer.context.chunks:
        texts[item.reference_id] = f"{texts.get(item.reference_id, '')}\n{item.chunk.text}"
    return texts


def _cost(engine: AsyncHeliograph, embedding: EmbeddingMeter) -> Cost:
    chat = engine.usage().total
    embedded = sum(embedding.usage.values(), EmbeddingCount())
    return Cost(
        chat.calls,
        chat.usage.input_tokens,
        chat.usage.output_tokens,
        embedded.calls,
        embedded.texts,
        embedded.usage.input_tokens,
    )


def _cost_since(before: Cost, after: Cost) -> Cost:
    return Cost(
        after.chat_calls - before.chat_calls,
        after.input_tokens - before.input_tokens,
        after.output_tokens - before.output_tokens,
        after.embedding_calls - before.embedding_calls,
        after.embedding_texts - before.embedding_texts,
        after.embedding_tokens - before.embedding_tokens,
    )
