"""The whole of an evaluation: for each set an index, for each configuration its questions, and the comparisons.

What the engine would refuse is told before anything is indexed. Questions are asked one after the other through
`AsyncHeliograph.query_data`, whose order of chunks is judged, so that nothing is measured that a user would not
get; only that call is timed. An `EvaluationRun` comes out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from heliograph._version import __version__
from heliograph.documents.markdown import replace_surrogates
from heliograph.embedding.base import EmbeddingModel
from heliograph.embedding.registry import build_embedding_model
from heliograph.embedding.wrappers import (
    EmbeddingCount,
    EmbeddingMeter,
    QueryCachedEmbeddingModel,
    WrapperEmbeddingModel,
)
from heliograph.engine import AsyncHeliograph
from heliograph.errors import InvalidRequestError
from heliograph.evaluation.index import IndexPlan, ensure_index, plan_index
from heliograph.evaluation.results import (
    AnswerOutcome,
    Configuration,
    Cost,
    EvaluationRun,
    IndexInfo,
    QuestionOutcome,
    RunReport,
    SetReport,
    compare,
    summarize,
)
from heliograph.evaluation.scores import (
    answer_f1,
    check_citations,
    exact_match,
    holds_answer,
    is_findable,
    quoted_sentences,
    score_ranking,
)
from heliograph.evaluation.sets import (
    QUERIES,
    ChunkSpan,
    CorpusMap,
    EvaluationSet,
    GivenExtractor,
    Question,
    map_corpus,
)
from heliograph.extraction.base import Extractor
from heliograph.ingest.models import Progress
from heliograph.models import utc_now
from heliograph.query.models import Answer, AnswerKind, ContextData, QueryParam
from heliograph.query.plan import make_plan, readable_tokens
from heliograph.settings import Settings

# What the engine would refuse to be asked, told before anything is indexed for it.


def check_questions(sets: Sequence[EvaluationSet], configurations: Sequence[Configuration], settings: Settings) -> None:
    """Refuse questions that an engine with these settings would refuse in one of these configurations.

    Raises:
        InvalidRequestError: It would; names set, question, configuration and reason.
    """
    for configuration in configurations:
        param = to_param(configuration)
        for given in sets:
            for question in given.questions:
                try:
                    make_plan(question.text, param, settings.query, readable_tokens(settings.chat))
                except InvalidRequestError as error:
                    raise InvalidRequestError(
                        f"the question {question.id!r:.80} in {QUERIES} of the set {given.name!r} cannot be asked in "
                        f"{configuration.name!r}: {error}"
                    ) from None


def to_param(configuration: Configuration) -> QueryParam:
    """Return how a configuration asks.

    Raises:
        InvalidRequestError: It names a field that `QueryParam` does not have.
    """
    known = set(QueryParam.__dataclass_fields__) - {"mode"}
    unknown = configuration.options.keys() - known
    if unknown:
        raise InvalidRequestError(
            f"{configuration.name!r} sets {min(unknown)!r}, which no question has; known are {', '.join(sorted(known))}"
        )
    return QueryParam(mode=configuration.mode, **configuration.options)


# Asks a set's questions, one after the other, and scores what comes back.
#
# What is judged is the order of `data.chunks` as `AsyncHeliograph.query_data` returns it, so nothing that a user
# would not get. Times are taken around that call alone; the answer is asked for afterwards.

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
    model = embedding
    while isinstance(model, WrapperEmbeddingModel):
        if isinstance(model, QueryCachedEmbeddingModel):
            model.clear()
        model = model.inner
    before = _cost(engine, embedding)
    outcomes: list[QuestionOutcome] = []
    for number, question in enumerate(questions, 1):
        outcomes.append(await _ask(engine, corpus, question, param, with_answers))
        if on_question is not None:
            on_question(number)
    return summarize(configuration, outcomes, _cost_since(before, _cost(engine, embedding)))


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


# Takes settings, the embedding model, and an extractor that stands in for that of the settings, or None.
EngineOpener = Callable[[Settings, EmbeddingModel, Extractor | None], AbstractAsyncContextManager[AsyncHeliograph]]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What to evaluate and how.

    Attributes:
        configurations: Ways to ask, at least one, names differing; the first is what the others are compared with.
        folder: Folder of the indexes.
        join: Passages in one document.
        most_questions: Ask only so many of each set, the first; None asks all.
        with_answers: Ask for answers too.
        keeps_stale: Reuse indexes that were made by other code.
    """

    configurations: tuple[Configuration, ...]
    folder: Path
    join: int = 1
    most_questions: int | None = None
    with_answers: bool = True
    keeps_stale: bool = False

    def __post_init__(self) -> None:
        names = [item.name for item in self.configurations]
        if not names or len(set(names)) < len(names):
            raise InvalidRequestError(
                f"give at least one configuration, and each once; got {', '.join(names) or 'none'}"
            )
        for name, value in (("join", self.join), ("most_questions", self.most_questions)):
            if value is not None and value < 1:
                raise InvalidRequestError(f"{name} is {value!r}; give 1 or more")


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who is told how far an evaluation is; each is called from the event loop.

    Attributes:
        on_set: A set begins: its name, passages and questions.
        on_index: Its index is there.
        on_progress: How far indexing is.
        on_question: A configuration, and how many of its questions are done.
    """

    on_set: Callable[[str, int, int], None] = field(default=lambda _name, _passages, _questions: None)
    on_index: Callable[[IndexInfo], None] = field(default=lambda _info: None)
    on_progress: Callable[[Progress], None] | None = None
    on_question: Callable[[Configuration, int], None] = field(default=lambda _configuration, _done: None)


async def evaluate(
    sets: Sequence[EvaluationSet],
    settings: Settings,
    plan: EvaluationPlan,
    *,
    embedding: EmbeddingModel | None = None,
    open_engine: EngineOpener | None = None,
    watcher: Watcher | None = None,
) -> EvaluationRun:
    """Index each set, unless that is done, and ask its questions in every configuration.

    Args:
        sets: What to ask, and about what.
        settings: How to index and to ask; the store's place in them is not used.
        plan: Which configurations, and where the indexes stand.
        embedding: In place of that of the settings; stays the caller's to close.
        open_engine: How an engine is made; None makes one of the settings.
        watcher: Told how far it is.

    Raises:
        InvalidRequestError: A question cannot be asked in a configuration; told before anything is indexed.
        HeliographError: As the engine raises; nothing is skipped.
    """
    chosen = [replace(item, questions=item.questions[: plan.most_questions]) for item in sets]
    check_questions(chosen, plan.configurations, settings)
    model = embedding or await build_embedding_model(settings.embedding)
    meter = EmbeddingMeter(model)
    open_with = open_engine or _open_engine
    try:
        harness = _Harness(
            *(settings, plan, meter),
            lambda chosen, extractor: open_with(chosen, meter, extractor),
            watcher or Watcher(),
        )
        reports = [await harness.evaluate_set(item) for item in chosen]
    finally:
        if embedding is None:
            await model.close()
    return EvaluationRun(utc_now(), __version__, model.info.name, settings.chat.model, tuple(reports))


def _open_engine(settings: Settings, embedding: EmbeddingModel, extractor: Extractor | None) -> AsyncHeliograph:
    return AsyncHeliograph(settings=settings, embedding=embedding, extractor=extractor)


@dataclass(frozen=True, slots=True)
class _Harness:
    settings: Settings
    plan: EvaluationPlan
    embedding: EmbeddingMeter
    open_engine: Callable[[Settings, Extractor | None], AbstractAsyncContextManager[AsyncHeliograph]]
    watcher: Watcher

    async def evaluate_set(self, chosen: EvaluationSet) -> SetReport:
        self.watcher.on_set(chosen.name, len(chosen.passages), len(chosen.questions))
        corpus = map_corpus(chosen, self.plan.join)
        extractor = None if chosen.extractions is None else GivenExtractor(corpus, chosen.extractions)
        index = plan_index(
            *(chosen.name, corpus, self.settings, self.embedding.info, self.plan.folder),
            extractor.name if extractor else "",
        )
        info = await self._index(index, corpus, extractor)
        runs = await self._ask(chosen, corpus, index)
        comparisons = tuple(compare(runs[0], other) for other in runs[1:])
        return SetReport(chosen.name, len(chosen.passages), self.plan.join, info, tuple(runs), comparisons)

    async def _index(self, index: IndexPlan, corpus: CorpusMap, extractor: Extractor | None) -> IndexInfo:
        info = await ensure_index(
            index,
            corpus,
            lambda settings: self.open_engine(settings, extractor),
            keeps_stale=self.plan.keeps_stale,
            progress=self.watcher.on_progress,
        )
        self.watcher.on_index(info)
        return info

    async def _ask(self, chosen: EvaluationSet, corpus: CorpusMap, index: IndexPlan) -> list[RunReport]:
        runs: list[RunReport] = []
        async with self.open_engine(index.settings, None) as engine:
            for configuration in self.plan.configurations:
                report = await run_questions(
                    engine,
                    corpus,
                    chosen.questions,
                    configuration,
                    self.embedding,
                    with_answers=self.plan.with_answers,
                    on_question=lambda done, configuration=configuration: self.watcher.on_question(configuration, done),
                )
                runs.append(report)
        return runs
