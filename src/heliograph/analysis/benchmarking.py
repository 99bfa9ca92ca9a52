"""Questions times modes, timed: latency at the median and the 99th percentile, and how much was found.

Latency is wall time as a caller sees it. Percentiles are the nearest rank: the p99 of fewer than 100 samples is the
slowest. Before anything is timed the first question is asked once in each mode, so that loading models counts for none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import fmean

from heliograph.analysis.asking import checked_modes
from heliograph.errors import InvalidRequestError
from heliograph.query.models import Mode, QueryParam, Retrieval
from heliograph.sync import Heliograph

__all__ = ["BenchmarkReport", "BenchmarkRow", "BenchmarkedMode", "nearest_rank", "run_benchmark"]


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One question in one mode; counts are of its last repetition.

    Attributes:
        question: The question.
        mode: The mode.
        seconds: Wall time of each repetition.
        status: `success` or `failure` (nothing found).
        entities: Entities shown.
        relations: Relations shown.
        chunks: Chunks shown.
        documents: Documents shown.
    """

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
    """All questions in one mode.

    Attributes:
        mode: The mode.
        samples: Times measured.
        p50_seconds: Median.
        p99_seconds: 99th percentile.
        mean_seconds: Mean.
        failures: Questions that found nothing.
        entities: Mean per question, and so on.
        relations: Mean per question.
        chunks: Mean per question.
        documents: Mean per question.
        stages: Median seconds per stage.
    """

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
    """A benchmark.

    Attributes:
        questions: How many questions.
        repeats: Times each was asked in each mode.
        concurrency: Questions under way at once.
        answers: Whether answers were written, or only what they would be made from.
        modes: A row a mode.
        rows: A row a question and mode.
    """

    questions: int
    repeats: int
    concurrency: int
    answers: bool
    modes: tuple[BenchmarkedMode, ...]
    rows: tuple[BenchmarkRow, ...]


@dataclass(frozen=True, slots=True)
class _Sample:
    seconds: float
    retrieval: Retrieval


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
    """Ask every question in every mode and measure.

    Args:
        kb: The workspace, open.
        questions: The questions.
        modes: The modes.
        param: What else they ask for.
        repeats: Times each is asked, from 1.
        concurrency: Questions under way at once, from 1.
        answers: Have answers written too; a cached one is as fast as the cache.
        on_done: Told how many are done, of how many.

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
        return _Sample(time.perf_counter() - started, found)

    for mode in chosen:
        ask((questions[0], mode))
    samples = _run(ask, asked, concurrency, on_done)
    grouped = [tuple(samples[start : start + repeats]) for start in range(0, len(samples), repeats)]
    rows = tuple(_row(group) for group in grouped)
    size = len(questions) * repeats
    summaries = tuple(
        _summary(mode, samples[place * size : (place + 1) * size], repeats) for place, mode in enumerate(chosen)
    )
    return BenchmarkReport(len(questions), repeats, concurrency, answers, summaries, rows)


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the least value that at least this share, 0 to 1, of the values do not exceed; 0 of no values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def _run(
    ask: Callable[[tuple[str, Mode]], _Sample],
    asked: Sequence[tuple[str, Mode]],
    concurrency: int,
    on_done: Callable[[int, int], None],
) -> list[_Sample]:
    samples: list[_Sample] = []
    with ThreadPoolExecutor(concurrency, "benchmark") as threads:
        try:
            for sample in threads.map(ask, asked):
                samples.append(sample)
                on_done(len(samples), len(asked))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return samples


def _row(group: Sequence[_Sample]) -> BenchmarkRow:
    found = group[-1].retrieval
    return BenchmarkRow(
        found.question, found.mode, tuple(item.seconds for item in group), found.status, *_counts(found)
    )


def _counts(found: Retrieval) -> tuple[int, int, int, int]:
    context = found.context
    return len(context.entities), len(context.relations), len(context.chunks), len(context.references)


def _summary(mode: Mode, samples: Sequence[_Sample], repeats: int) -> BenchmarkedMode:
    seconds = [item.seconds for item in samples]
    last = [item.retrieval for item in samples[repeats - 1 :: repeats]]
    entities, relations, chunks, documents = (fmean(column) for column in zip(*map(_counts, last), strict=True))
    stages = {stage for item in samples for stage in item.retrieval.timings}
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
            stage: nearest_rank([s.retrieval.timings.get(stage, 0.0) for s in samples], 0.5) for stage in sorted(stages)
        },
    )
