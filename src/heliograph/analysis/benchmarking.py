"""A file of questions, timed in several modes or checked against expectations.

`read_questions` reads `.jsonl`, `.json`, or one question per line. `run_benchmark` measures wall time at the median and
the 99th percentile (nearest rank), and how much was found. `check_expectations` checks that results show the expected
entities, by any of their names, and quote the expected documents.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from heliograph.analysis.inspection import checked_modes, shown_counts
from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.models import Mode
from heliograph.query.models import QueryParam, Retrieval
from heliograph.sync import Heliograph

# Files of questions, for benchmarks and assertions.
#
# Three forms, by suffix: `.jsonl`, an object per line; `.json`, a list of objects or an object with `questions`;
# anything else, a question per line, without empty lines and lines that begin with `#`. An object has `question` (or
# `query`) and may have `mode`, `entities`, `sources` and `min_recall`; other fields are ignored.


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question of a file, with entities and sources that its result must show, and the least share that passes."""

    question: str
    mode: str = ""
    entities: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    min_recall: float | None = None


def read_questions(path: Path) -> list[AskedQuestion]:
    """Return the questions of a file, in order.

    Raises:
        NotFoundError: There is no such file.
        InvalidRequestError: It is not UTF-8, has an invalid form, or holds no question.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise NotFoundError(f"the file of questions {str(path)!r} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"the file of questions {str(path)!r} is not UTF-8; convert it") from error
    rows = _rows(path, text)
    if not rows:
        raise InvalidRequestError(f"the file of questions {str(path)!r} holds no question")
    return [_question(f"{path.name} {where}", row) for where, row in rows]


def _rows(path: Path, text: str) -> Sequence[tuple[str, Any]]:
    lines = [(f"line {number}", line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    match path.suffix.lower():
        case ".jsonl":
            return [(where, _decoded(f"{path.name} {where}", line)) for where, line in lines if line]
        case ".json":
            whole = _decoded(path.name, text)
            listed = cast("Mapping[str, Any]", whole).get("questions") if isinstance(whole, Mapping) else whole
            if not isinstance(listed, list):
                raise InvalidRequestError(f"{path.name} holds neither a list nor an object with 'questions'")
            return [(f"question {number}", row) for number, row in enumerate(cast("list[Any]", listed), start=1)]
        case _:
            return [(where, {"question": line}) for where, line in lines if line and not line.startswith("#")]


def _decoded(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"{where} is not JSON: {error}") from error


def _question(where: str, row: Any) -> AskedQuestion:
    if not isinstance(row, Mapping):
        row = {"question": row}
    fields = cast("Mapping[str, Any]", row)
    question = fields.get("question", fields.get("query"))
    if not isinstance(question, str) or not question.strip():
        raise InvalidRequestError(f"{where} has no text in 'question': {question!r:.100}")
    least = fields.get("min_recall")
    if least is not None and (isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 1):
        raise InvalidRequestError(f"{where} has 'min_recall' that is no number from 0 to 1: {least!r:.100}")
    return AskedQuestion(
        question=question,
        mode=str(fields.get("mode") or ""),
        entities=_names(where, "entities", fields.get("entities")),
        sources=_names(where, "sources", fields.get("sources")),
        min_recall=None if least is None else float(least),
    )


def _names(where: str, field: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[Any]", value)):
        raise InvalidRequestError(f"{where} has {field!r} that is no list of texts: {value!r:.100}")
    return tuple(cast("list[str]", value))


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One question in one mode, with the wall time of each repetition; counts are of its last one."""

    question: str
    mode: Mode
    seconds: tuple[float, ...]
    status: str
    entities: int
    relations: int
    chunks: int
    documents: int


@dataclass(frozen=True, slots=True)
class BenchmarkedMode:
    """All questions in one mode: counts are means per question, stages are median seconds."""

    mode: Mode
    samples: int
    p50_seconds: float
    p99_seconds: float
    mean_seconds: float
    failures: int
    entities: float
    relations: float
    chunks: float
    documents: float
    stages: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    """A benchmark; without answers, only retrieval was measured."""

    questions: int
    repeats: int
    concurrency: int
    answers: bool
    modes: tuple[BenchmarkedMode, ...]
    rows: tuple[BenchmarkRow, ...]


# The duration, and the result.
_Sample = tuple[float, Retrieval]


def run_benchmark(
    kb: Heliograph,
    questions: Sequence[str],
    modes: Iterable[Mode | str],
    param: QueryParam | None = None,
    *,
    repeats: int = 1,
    concurrency: int = 1,
    answers: bool = False,
    on_done: Callable[[int, int], None] = lambda _done, _total: None,
) -> BenchmarkReport:
    """Measure every question in every mode, after one unmeasured question per mode.

    A cached answer is as fast as the cache. `on_done` gets how many are done, of how many.

    Raises:
        InvalidRequestError: There is no question or no mode, or a number is out of range.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    chosen = checked_modes(modes)
    if not questions:
        raise InvalidRequestError("there is no question to measure; give at least one")
    if repeats < 1 or concurrency < 1:
        raise InvalidRequestError(f"repeats={repeats!r} and concurrency={concurrency!r} must both be 1 or more")
    given = param or QueryParam()
    asked = [(question, mode) for mode in chosen for question in questions for _ in range(repeats)]

    def ask(pair: tuple[str, Mode]) -> _Sample:
        started = time.perf_counter()
        own = replace(given, mode=pair[1])
        found = kb.query(pair[0], own).retrieval if answers else kb.retrieve(pair[0], own)
        return time.perf_counter() - started, found

    for mode in chosen:
        ask((questions[0], mode))
    samples: list[_Sample] = []
    with ThreadPoolExecutor(concurrency, "benchmark") as threads:
        try:
            for sample in threads.map(ask, asked):
                samples.append(sample)
                on_done(len(samples), len(asked))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    grouped = [tuple(samples[start : start + repeats]) for start in range(0, len(samples), repeats)]
    rows: list[BenchmarkRow] = []
    for group in grouped:
        (_, found), seconds = group[-1], tuple(took for took, _ in group)
        rows.append(BenchmarkRow(found.question, found.mode, seconds, found.status, *shown_counts(found)))
    size = len(questions) * repeats
    summaries = tuple(
        _summary(mode, samples[place * size : (place + 1) * size], repeats) for place, mode in enumerate(chosen)
    )
    return BenchmarkReport(len(questions), repeats, concurrency, answers, summaries, tuple(rows))


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the least value that at least this share, 0 to 1, of the values do not exceed; 0 for no values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _summary(mode: Mode, samples: Sequence[_Sample], repeats: int) -> BenchmarkedMode:
    seconds = [took for took, _ in samples]
    last = [found for _, found in samples[repeats - 1 :: repeats]]
    entities, relations, chunks, documents = (fmean(column) for column in zip(*map(shown_counts, last), strict=True))
    stages = {stage for _, found in samples for stage in found.timings}
    return BenchmarkedMode(
        mode=mode,
        samples=len(samples),
        p50_seconds=nearest_rank(seconds, 0.5),
        p99_seconds=nearest_rank(seconds, 0.99),
        mean_seconds=fmean(seconds),
        failures=sum(item.status == "failure" for item in last),
        entities=entities,
        relations=relations,
        chunks=chunks,
        documents=documents,
        stages={
            stage: nearest_rank([found.timings.get(stage, 0.0) for _, found in samples], 0.5)
            for stage in sorted(stages)
        },
    )


# Expectations of retrieval, checked: entities a result must show, documents it must quote, and how many are enough.
#
# An entity is matched by any of its names, spellings and aliases included. A source is matched by the same source, by
# one that ends in it after a `/`, or by a document with the same text. An empty expectation is refused: it would always
# pass.

# Four of five expected things must be found; a run may require more.
DEFAULT_RECALL = 0.8


@dataclass(frozen=True, slots=True)
class CheckedQuestion:
    """The result of one expectation; `unknown` are those of `missed` that name no entity of the workspace."""

    question: str
    mode: Mode
    found: tuple[str, ...]
    missed: tuple[str, ...]
    unknown: tuple[str, ...]
    recall: float
    min_recall: float
    passed: bool


@dataclass(frozen=True, slots=True)
class AssertionReport:
    """All checked expectations; `passed` if each of them passed."""

    passed: bool
    failures: int
    questions: tuple[CheckedQuestion, ...]


def check_expectations(
    kb: Heliograph,
    questions: Iterable[AskedQuestion],
    param: QueryParam | None = None,
    min_recall: float = DEFAULT_RECALL,
) -> AssertionReport:
    """Ask each question and compare its result with the expected one; its own mode and threshold win.

    Raises:
        InvalidRequestError: There is no question, an expectation is empty, or a question is invalid.
        ModelError: A model failed.
        StoreError: The store failed.
    """
    if not 0 <= min_recall <= 1:
        raise InvalidRequestError(f"min_recall is {min_recall!r}; give a number from 0 to 1")
    given = param or QueryParam()
    asked: list[tuple[AskedQuestion, QueryParam]] = []
    for item in questions:
        if not (item.entities or item.sources):
            raise InvalidRequestError(
                f"nothing is expected of the question {item.question!r:.100}; give entities or sources"
            )
        asked.append((item, replace(given, mode=checked_modes([item.mode or given.mode])[0])))
    if not asked:
        raise InvalidRequestError("there is no question to check; give at least one")
    checked = tuple(_check(kb, item, own, min_recall) for item, own in asked)
    failures = sum(not item.passed for item in checked)
    return AssertionReport(failures == 0, failures, checked)


def _check(kb: Heliograph, item: AskedQuestion, param: QueryParam, min_recall: float) -> CheckedQuestion:
    retrieval = kb.retrieve(item.question, param)
    shown = {entity.entity.id for entity in retrieval.context.entities}
    known = {name: kb.entity(name) for name in item.entities}
    met = {name: entity is not None and entity.id in shown for name, entity in known.items()}
    sources = [one for item in retrieval.context.references for one in (item.source, *item.other_sources)]
    met |= {source: any((one == source or one.endswith(f"/{source}")) for one in sources) for source in item.sources}
    recall = sum(met.values()) / len(met)
    least = min_recall if item.min_recall is None else item.min_recall
    return CheckedQuestion(
        question=retrieval.question,
        mode=retrieval.mode,
        found=tuple(name for name, is_met in met.items() if is_met),
        missed=tuple(name for name, is_met in met.items() if not is_met),
        unknown=tuple(name for name, entity in known.items() if entity is None),
        recall=recall,
        min_recall=least,
        passed=recall >= least,
    )
