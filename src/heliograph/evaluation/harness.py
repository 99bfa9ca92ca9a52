"""The whole of an evaluation: for each set an index, for each configuration its questions, and the comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from heliograph._version import __version__
from heliograph.embedding.base import EmbeddingModel
from heliograph.embedding.meter import EmbeddingMeter
from heliograph.embedding.registry import build_embedding_model
from heliograph.engine import AsyncHeliograph
from heliograph.errors import InvalidRequestError
from heliograph.evaluation.checks import check_questions
from heliograph.evaluation.corpus import CorpusMap, map_corpus
from heliograph.evaluation.given_extractions import GivenExtractor
from heliograph.evaluation.index import IndexPlan, ensure_index, plan_index
from heliograph.evaluation.models import Configuration, EvaluationRun, IndexInfo, RunReport, SetReport
from heliograph.evaluation.running import run_questions
from heliograph.evaluation.sets import EvaluationSet
from heliograph.evaluation.summary import compare
from heliograph.ingest.extraction.base import Extractor
from heliograph.ingest.progress import Progress
from heliograph.models import utc_now
from heliograph.settings import Settings

__all__ = ["EvaluationPlan", "Watcher", "evaluate"]

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
