"""Runs an evaluation: for each set an index, for each configuration its questions, and the comparisons.

Questions that the engine would refuse are reported before anything is indexed. Questions are asked one after the other
through `AsyncHeliograph.query_data`, whose order of chunks is scored, so that only results that a user would get are
measured; only that call is timed. The result is an `EvaluationRun`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import heliograph.documents
import heliograph.evaluation.results as results
import heliograph.extraction
import heliograph.ingest
import heliograph.prompts
import heliograph.text
from heliograph._version import __version__
from heliograph.documents.markdown import replace_surrogates
from heliograph.embedding.base import (
    EmbeddingInfo,
    EmbeddingMeter,
    EmbeddingModel,
    QueryCachedEmbeddingModel,
    WrapperEmbeddingModel,
    build_embedding_model,
)
from heliograph.engine import AsyncHeliograph
from heliograph.errors import IngestError, InvalidRequestError
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
from heliograph.observing import CallCount
from heliograph.query.answers.models import Answer
from heliograph.query.models import QueryParam
from heliograph.query.plan import make_plan, readable_tokens
from heliograph.settings import IngestSettings, Settings

# Makes the index of a set, in a workspace of its own, or reuses an existing one.
#
# Beside each index stands `fingerprint.json`: a hash of all that the index depends on (the texts, how they are joined,
# settings of ingest and resolution, embedding model, extractor, chat model and its settings, and the code, word lists
# and prompts that read documents). If it is the same, nothing is indexed; if not, the workspace is rebuilt. The file is
# written last, so an interrupted run leaves none.

_FILE = "fingerprint.json"
_READERS = (
    heliograph.documents,
    heliograph.extraction,
    heliograph.ingest,
    heliograph.prompts,
    heliograph.text,
)
# Changing these prompts must not cost an index that a chat model was paid for.
_QUESTION_PROMPTS = ("answer.txt", "answer_naive.txt", "keywords.txt", "understanding.txt")
_CHAT_OPTIONS = {"temperature", "max_output_tokens", "json_mode"}
_INFO = TypeAdapter(results.IndexInfo)


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The location of an index, and hashes of its inputs, code and word lists included."""

    settings: Settings
    fingerprint: str
    code: str

    @property
    def folder(self) -> Path:
        """The workspace's folder."""
        return self.settings.store.data_dir / self.settings.store.workspace


def plan_index(
    name: str, corpus: CorpusMap, settings: Settings, embedding: EmbeddingInfo, folder: Path, extractor: str = ""
) -> IndexPlan:
    """Return the location of a corpus's index: a workspace of its own, so that indexes of several settings coexist.

    The store's location in the settings is not used. `extractor` is the name of one that replaces that of the settings.

    Raises:
        InvalidRequestError: The store of the settings is not the embedded one, the only kind that can be made here.
    """
    if not settings.store.is_embedded:
        raise InvalidRequestError(
            f"evaluation makes its own indexes in the embedded store, but store.url is {settings.store.url!r}; unset it"
        )
    ingest = settings.ingest
    # Settings that do not affect the contents of an index are set to their defaults.
    idle = {"max_parallel_documents"}
    if all(len(item.text) <= ingest.max_document_characters for item in corpus.documents):
        idle.add("max_document_characters")
    choices = {
        # Where documents are read does not affect the result.
        "ingest": ingest.model_dump(mode="json", exclude={"engine"})
        | {name: IngestSettings.model_fields[name].default for name in idle},
        "embedding": [embedding.name, embedding.dimension, embedding.max_input_tokens],
        "embedding_prefix": settings.embedding.document_prefix,
        # With any extractor, a chat model summarises descriptions.
        "chat": settings.chat.model,
        "extractor": extractor,
    }
    # Newer inputs are left out at their old defaults, so that earlier indexes are still found.
    further: dict[str, dict[str, Any]] = {}
    if settings.resolution.merge_duplicates:
        further["resolution"] = settings.resolution.model_dump(mode="json", exclude_defaults=True)
    if settings.chat.model:
        further["chat_options"] = settings.chat.model_dump(mode="json", exclude_defaults=True, include=_CHAT_OPTIONS)
    choices |= {section: options for section, options in further.items() if options}
    how = _hash([json.dumps(choices, sort_keys=True, default=str)])
    what = _hash(part for item in corpus.documents for part in (item.source, item.title, item.text))
    workspace = f"{re.sub(r'[^A-Za-z0-9_]+', '-', name).strip('-')[:40] or 'set'}-{_hash([what, how])[:12]}"
    store = settings.store.model_copy(update={"data_dir": folder, "workspace": workspace})
    return IndexPlan(settings.model_copy(update={"store": store}), _hash([what, how]), _code_hash())


async def ensure_index(
    plan: IndexPlan,
    corpus: CorpusMap,
    open_engine: Callable[[Settings], AbstractAsyncContextManager[AsyncHeliograph]],
    *,
    keeps_stale: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> results.IndexInfo:
    """Make the index, unless it exists and is current; a stale one was made by other code.

    Raises:
        IngestError: No document could be indexed.
        ModelError: A model is unreachable.
        StoreError: The store failed.
    """
    known: results.IndexInfo | None = None
    with suppress(OSError, ValueError, TypeError):
        # The notes beside a finished index.
        noted = json.loads((plan.folder / _FILE).read_bytes())
        known = _INFO.validate_python({**noted, "was_reused": True})
    if known is not None and (keeps_stale or known.fingerprint == _full(plan)):
        return known
    shutil.rmtree(plan.folder, ignore_errors=True)
    start = time.monotonic()
    async with open_engine(plan.settings) as engine:
        report = await engine.insert(list(corpus.documents), progress=progress)
        stats = await engine.stats()
    if len(report.failures) == len(corpus.documents):
        raise IngestError(f"no passage could be taken in; the first failed with: {report.failures[0].error}")
    info = results.IndexInfo(
        folder=str(plan.folder),
        fingerprint=_full(plan),
        was_reused=False,
        seconds=round(time.monotonic() - start, 2),
        documents=len(corpus.documents) - len(report.failures),
        chunks=stats.chunks,
        entities=stats.entities,
        relations=stats.relations,
        failures=len(report.failures),
    )
    (plan.folder / _FILE).write_bytes(_INFO.dump_json(info, indent=2))
    return info


def _full(plan: IndexPlan) -> str:
    return _hash([plan.fingerprint, plan.code])


def _code_hash() -> str:
    folders = [Path(folder) for package in _READERS for folder in package.__path__]
    files = sorted(path for folder in folders for kind in ("*.py", "*.txt") for path in folder.rglob(kind))
    unread = {Path(folder, name) for folder in heliograph.prompts.__path__ for name in _QUESTION_PROMPTS}
    return _hash(path.read_text("utf-8") for path in files if path not in unread)


def _hash(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def check_questions(
    sets: Sequence[EvaluationSet], configurations: Sequence[results.Configuration], settings: Settings
) -> None:
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


def to_param(configuration: results.Configuration) -> QueryParam:
    """Return the query parameters of a configuration; raises `InvalidRequestError` if it names an unknown field."""
    known = set(QueryParam.__dataclass_fields__) - {"mode"}
    unknown = configuration.options.keys() - known
    if unknown:
        raise InvalidRequestError(
            f"{configuration.name!r} sets {min(unknown)!r}, which no question has; known are {', '.join(sorted(known))}"
        )
    return QueryParam(mode=configuration.mode, **configuration.options)


_QUOTED = 3


async def run_questions(
    engine: AsyncHeliograph,
    corpus: CorpusMap,
    questions: Sequence[Question],
    configuration: results.Configuration,
    embedding: EmbeddingMeter,
    *,
    with_answers: bool = True,
    on_question: Callable[[int], None] | None = None,
) -> results.RunReport:
    """Ask every question in one configuration; `embedding` is the engine's model, for counting its calls.

    Raises:
        InvalidRequestError: The configuration names a field that `QueryParam` does not have, or a value out of range.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    param = to_param(configuration)
    # One-time costs, such as loading a model with its first text, count for no question.
    await engine.query_data(questions[0].text, param)
    # An earlier configuration has asked the same questions; each pays for its own vectors.
    model = embedding
    while isinstance(model, WrapperEmbeddingModel):
        if isinstance(model, QueryCachedEmbeddingModel):
            model.clear()
        model = model.inner
    before = _cost(engine, embedding)
    outcomes: list[results.QuestionOutcome] = []
    for number, question in enumerate(questions, 1):
        outcomes.append(await _ask(engine, corpus, question, param, with_answers))
        if on_question is not None:
            on_question(number)
    spent = zip(astuple(_cost(engine, embedding)), astuple(before), strict=True)
    return results.summarize(configuration, outcomes, results.Cost(*(after - earlier for after, earlier in spent)))


async def _ask(
    engine: AsyncHeliograph, corpus: CorpusMap, question: Question, param: QueryParam, with_answers: bool
) -> results.QuestionOutcome:
    wall, cpu = time.perf_counter(), time.process_time()
    found = await engine.query_data(question.text, param)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    chunks = found["data"].get("chunks", [])
    places = corpus.places(ChunkSpan(item["file_path"], item["start"], item["end"]) for item in chunks)
    contexts = tuple(item["content"] for item in chunks)
    # The text of the entities and relations of the result; empty if it has none.
    data = found["data"]
    said = [f"{item['entity_name']}: {item['description']}" for item in data.get("entities", [])]
    said += [f"{item['src_id']}, {item['tgt_id']}: {item['description']}" for item in data.get("relationships", [])]
    told = "\n".join(said)
    answer = _judge(await engine.query(question.text, param), question, contexts, told) if with_answers else None
    return results.QuestionOutcome(
        id=question.id,
        question=question.text,
        type=question.type,
        gold=tuple(question.gold),
        found=tuple(places),
        scores=results.score_ranking(places, question.gold) if question.gold else {},
        wall_seconds=wall,
        cpu_seconds=cpu,
        answers=question.answers,
        answer=answer,
        contexts=contexts,
    )


def _judge(answer: Answer, question: Question, contexts: Sequence[str], told: str) -> results.AnswerOutcome:
    wanted = question.answers
    # A broken reply may have a lone surrogate, which no report could be written with.
    text = replace_surrogates(answer.text)
    can_be_held = results.is_findable(wanted)
    in_context = results.holds_answer("\n".join(contexts), wanted) if can_be_held else None
    in_graph = results.holds_answer(told, wanted) if can_be_held and told else None
    if not answer.is_generated:
        quoted = "\n".join(results.quoted_sentences(text)[:_QUOTED])
        is_hit = results.holds_answer(quoted, wanted) if can_be_held else None
        return results.AnswerOutcome(
            text, answer.kind.value, is_hit, in_context, in_graph, is_unanswered=answer.is_unanswered
        )
    # The text behind each reference number.
    sources: dict[str, str] = {reference.reference_id: "" for reference in answer.references}
    for item in answer.context.chunks:
        sources[item.reference_id] = f"{sources.get(item.reference_id, '')}\n{item.chunk.text}"
    return results.AnswerOutcome(
        text,
        answer.kind.value,
        results.holds_answer(text, wanted) if can_be_held else None,
        in_context,
        in_graph,
        f1=results.answer_f1(text, wanted) if wanted else None,
        exact=results.exact_match(text, wanted) if wanted else None,
        citations=results.check_citations(text, sources),
        is_unanswered=answer.is_unanswered,
    )


def _cost(engine: AsyncHeliograph, embedding: EmbeddingMeter) -> results.Cost:
    chat = engine.usage().total
    embedded = sum(embedding.usage.values(), CallCount())
    return results.Cost(
        chat.calls,
        chat.usage.input_tokens,
        chat.usage.output_tokens,
        embedded.calls,
        embedded.texts,
        embedded.usage.input_tokens,
    )


# Takes settings, the embedding model, and an extractor that replaces that of the settings, or None.
EngineOpener = Callable[[Settings, EmbeddingModel, Extractor | None], AbstractAsyncContextManager[AsyncHeliograph]]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What to evaluate and how; `join` passages make one document.

    Configurations have different names; the others are compared with the first. Of each set the first `most_questions`
    are asked, all if that is None.
    """

    configurations: tuple[results.Configuration, ...]
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
    """Callbacks for the progress of an evaluation, called from the event loop.

    `on_set` gets name, passages and questions, `on_question` a configuration and how many questions are done.
    """

    on_set: Callable[[str, int, int], None] = field(default=lambda _name, _passages, _questions: None)
    on_index: Callable[[results.IndexInfo], None] = field(default=lambda _info: None)
    on_progress: Callable[[Progress], None] | None = None
    on_question: Callable[[results.Configuration, int], None] = field(default=lambda _configuration, _done: None)


async def evaluate(
    sets: Sequence[EvaluationSet],
    settings: Settings,
    plan: EvaluationPlan,
    *,
    embedding: EmbeddingModel | None = None,
    open_engine: EngineOpener | None = None,
    watcher: Watcher | None = None,
) -> results.EvaluationRun:
    """Index each set, unless its index is current, and ask its questions in every configuration.

    The store's location in the settings is not used. The caller closes an embedding passed in; `open_engine` None makes
    an engine of the settings.

    Raises:
        InvalidRequestError: A question cannot be asked in a configuration; raised before anything is indexed.
        HeliographError: As the engine raises; nothing is skipped.
    """
    chosen = [replace(item, questions=item.questions[: plan.most_questions]) for item in sets]
    check_questions(chosen, plan.configurations, settings)
    model = embedding or await build_embedding_model(settings.embedding)
    meter = EmbeddingMeter(model)
    watch = watcher or Watcher()

    def open_with(settings: Settings, extractor: Extractor | None) -> AbstractAsyncContextManager[AsyncHeliograph]:
        if open_engine is not None:
            return open_engine(settings, meter, extractor)
        return AsyncHeliograph(settings=settings, embedding=meter, extractor=extractor)

    async def report_on(one: EvaluationSet) -> results.SetReport:
        watch.on_set(one.name, len(one.passages), len(one.questions))
        corpus = map_corpus(one, plan.join)
        extractor = None if one.extractions is None else GivenExtractor(corpus, one.extractions)
        name = extractor.name if extractor else ""
        index = plan_index(one.name, corpus, settings, model.info, plan.folder, name)
        info = await ensure_index(
            index,
            corpus,
            lambda settings: open_with(settings, extractor),
            keeps_stale=plan.keeps_stale,
            progress=watch.on_progress,
        )
        watch.on_index(info)
        runs: list[results.RunReport] = []
        async with open_with(index.settings, None) as engine:
            for configuration in plan.configurations:
                report = await run_questions(
                    *(engine, corpus, one.questions, configuration, meter),
                    with_answers=plan.with_answers,
                    on_question=partial(watch.on_question, configuration),
                )
                runs.append(report)
        comparisons = tuple(results.compare(runs[0], other) for other in runs[1:])
        return results.SetReport(one.name, len(one.passages), plan.join, info, tuple(runs), comparisons)

    try:
        reports = [await report_on(item) for item in chosen]
    finally:
        if embedding is None:
            await model.close()
    return results.EvaluationRun(utc_now(), __version__, model.info.name, settings.chat.model, tuple(reports))
