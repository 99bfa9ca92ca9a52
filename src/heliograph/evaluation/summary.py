"""Means over questions, by type too, and the differences between configurations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

from heliograph.evaluation.bootstrap import paired_difference
from heliograph.evaluation.metrics import METRICS
from heliograph.evaluation.models import (
    Comparison,
    Configuration,
    Cost,
    GroupSummary,
    Latency,
    QuestionOutcome,
    RunReport,
    Unanswerable,
)
from heliograph.query.models import AnswerKind

__all__ = ["ANSWER_METRICS", "compare", "question_scores", "summarize"]

ANSWER_METRICS = (
    "answer_hit",
    "answer_in_context",
    "answer_in_graph",
    "answer_f1",
    "answer_exact",
    "citations_exist",
    "citations_supported",
    "sentences_cited",
)


def summarize(configuration: Configuration, outcomes: Sequence[QuestionOutcome], cost: Cost) -> RunReport:
    """Return the report of a run.

    Questions without gold are counted apart; where no question has gold, nothing is scored but its answers.
    """
    with_gold = [item for item in outcomes if item.gold]
    types = sorted({item.type for item in with_gold if item.type})
    return RunReport(
        configuration,
        _group(with_gold),
        {name: _group([item for item in with_gold if item.type == name]) for name in types},
        _unanswerable([item for item in outcomes if not item.gold]),
        _latency(outcomes),
        cost,
        tuple(outcomes),
    )


def compare(base: RunReport, other: RunReport) -> Comparison:
    """Return what `other` gains over `base`, per metric, over the questions for which both have it."""
    theirs = {item.id: question_scores(item) for item in other.questions if item.gold}
    ours = {item.id: question_scores(item) for item in base.questions if item.gold}
    differences = {
        metric: paired_difference(*_paired(ours, theirs, metric))
        for metric in (*METRICS, *ANSWER_METRICS)
        if any(metric in scores and metric in theirs.get(id_, {}) for id_, scores in ours.items())
    }
    return Comparison(base.configuration.name, other.configuration.name, differences)


def question_scores(outcome: QuestionOutcome) -> dict[str, float]:
    """Return every score of one question: those of its ranking, and those of its answer that apply."""
    return outcome.scores | dict(_answer_scores(outcome))


def _answer_scores(outcome: QuestionOutcome) -> Iterable[tuple[str, float]]:
    answer = outcome.answer
    if answer is None:
        return
    plain = (answer.is_hit, answer.in_context, answer.in_graph, answer.f1, answer.exact)
    for name, value in zip(ANSWER_METRICS, plain, strict=False):
        if value is not None:
            yield name, float(value)
    cited = answer.citations
    if cited is not None and cited.citations:
        yield "citations_exist", cited.existing / cited.citations
        yield "citations_supported", cited.supported / cited.citations
    if cited is not None and cited.sentences:
        yield "sentences_cited", cited.cited_sentences / cited.sentences


def _paired(
    ours: dict[str, dict[str, float]], theirs: dict[str, dict[str, float]], metric: str
) -> tuple[list[float], list[float]]:
    ids = [id_ for id_, scores in ours.items() if metric in scores and metric in theirs.get(id_, {})]
    return [ours[id_][metric] for id_ in ids], [theirs[id_][metric] for id_ in ids]


def _group(outcomes: Sequence[QuestionOutcome]) -> GroupSummary:
    scores = [question_scores(item) for item in outcomes]
    means = {
        metric: fmean(known)
        for metric in (*METRICS, *ANSWER_METRICS)
        if (known := [item[metric] for item in scores if metric in item])
    }
    return GroupSummary(len(outcomes), means)


def _unanswerable(outcomes: Sequence[QuestionOutcome]) -> Unanswerable:
    answers = [item.answer for item in outcomes if item.answer is not None]
    declined = sum(
        answer.kind == AnswerKind.NOTHING_FOUND or (answer.citations is not None and not answer.citations.existing)
        for answer in answers
    )
    return Unanswerable(len(outcomes), sum(not item.contexts for item in outcomes), declined if answers else None)


def _latency(outcomes: Sequence[QuestionOutcome]) -> Latency:
    if not outcomes:
        return Latency()
    wall = np.percentile([1000 * item.wall_seconds for item in outcomes], (50, 95))
    cpu = np.percentile([1000 * item.cpu_seconds for item in outcomes], (50, 95))
    return Latency(*(round(float(value), 3) for value in (*wall, *cpu)))
