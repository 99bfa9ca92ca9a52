"""What an evaluation is asked for and what it reports, and the means and differences computed from its questions.

Records are frozen and can be written and read as JSON. `summarize` makes the report of one configuration from its
questions' outcomes, by question type too; `compare` gives the differences between two configurations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean
from typing import Any

import numpy as np

from heliograph.errors import InvalidRequestError
from heliograph.evaluation.scores import METRICS, Difference, Faithfulness, paired_difference
from heliograph.query.models import AnswerKind, Mode

# What an evaluation is asked for and what it reports, frozen, and to be written and read as JSON.


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to ask: a mode, and fields of `QueryParam` that are not at their default."""

    name: str
    mode: Mode
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def parse(cls, text: str) -> Configuration:
        """Read `MODE` or `MODE:FIELD=VALUE,FIELD=VALUE`, for example `mix:top_k=60,enable_rerank=false`.

        Raises:
            InvalidRequestError: There is no such mode, or a field has no value.
        """
        mode, _, options = text.partition(":")
        if mode not in Mode.__members__.values() or mode == Mode.BYPASS:
            known = ", ".join(item.value for item in Mode if item is not Mode.BYPASS)
            raise InvalidRequestError(f"{text!r} names no mode that retrieves; choose of {known}")
        pairs = [pair.partition("=") for pair in options.split(",") if pair]
        for name, sign, _ in pairs:
            if not sign or not name.strip():
                raise InvalidRequestError(f"{text!r} has an option without a value; write MODE:FIELD=VALUE")
        return cls(text, Mode(mode), {name.strip(): _value(value.strip()) for name, _, value in pairs})


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.casefold() in words:
        return words[text.casefold()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """What became of the answer to one question.

    Attributes:
        text: The answer.
        kind: A value of `AnswerKind`.
        is_hit: Whether an accepted answer occurs in it: in the first three quoted sentences of an extractive one.
            None where the set gives no answer that a text could hold.
        in_context: Whether one occurs in the retrieved chunks; None likewise.
        in_graph: Whether one occurs in the names and descriptions of entities and relations beside them; None
            likewise, and where the mode shows none.
        f1: Best F1 with an accepted answer; None unless a chat model wrote it.
        exact: Whether it is one; None likewise.
        citations: How sound its citations are; None likewise.
    """

    text: str
    kind: str
    is_hit: bool | None = None
    in_context: bool | None = None
    in_graph: bool | None = None
    f1: float | None = None
    exact: float | None = None
    citations: Faithfulness | None = None


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """What became of one question in one configuration.

    Attributes:
        id: The question's id.
        question: The question.
        type: As the set names it.
        gold: Ids of the passages wanted; empty for a question that has none.
        found: Places of the ranking, as in `heliograph.evaluation.scores`.
        scores: Value per metric; empty without gold.
        wall_seconds: From question to context.
        cpu_seconds: Of this process, all threads, in that time.
        answers: The accepted answers.
        answer: None if no answer was asked for.
        contexts: Texts of the retrieved chunks; kept out of the written report.
    """

    id: str
    question: str
    type: str
    gold: tuple[str, ...]
    found: tuple[tuple[str, ...], ...]
    scores: dict[str, float]
    wall_seconds: float
    cpu_seconds: float
    answers: tuple[str, ...] = ()
    answer: AnswerOutcome | None = None
    contexts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Means over some questions; a metric that none of them has is absent.

    Attributes:
        questions: How many have gold.
        scores: Mean per metric.
    """

    questions: int
    scores: dict[str, float]


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """The questions without gold.

    Attributes:
        questions: How many there are.
        without_context: Those for which nothing was retrieved.
        declined: Those for which it was said that nothing was found, or which a chat model answered without citing;
            None if no answers were asked for.
    """

    questions: int
    without_context: int
    declined: int | None


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of a question, from question to context."""

    median_wall_ms: float = 0.0
    p95_wall_ms: float = 0.0
    median_cpu_ms: float = 0.0
    p95_cpu_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What models were asked in a run: chat calls and their tokens, embedding calls, texts and tokens."""

    chat_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedding_calls: int = 0
    embedding_texts: int = 0
    embedding_tokens: int = 0


@dataclass(frozen=True, slots=True)
class RunReport:
    """All questions of a set in one configuration."""

    configuration: Configuration
    summary: GroupSummary
    by_type: dict[str, GroupSummary]
    unanswerable: Unanswerable
    latency: Latency
    cost: Cost
    questions: tuple[QuestionOutcome, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a configuration gains over another, per metric, with bootstrap intervals."""

    base: str
    other: str
    differences: dict[str, Difference]


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """The index that was asked.

    Attributes:
        folder: Where it stands.
        fingerprint: Hash of everything it depends on.
        was_reused: Whether it stood there already.
        seconds: How long indexing took when it was made.
        documents: Documents in it.
        chunks: Chunks in it.
        entities: Entities in it.
        relations: Relations in it.
        failures: Documents that could not be taken in.
    """

    folder: str
    fingerprint: str
    was_reused: bool
    seconds: float
    documents: int
    chunks: int
    entities: int
    relations: int
    failures: int = 0


@dataclass(frozen=True, slots=True)
class SetReport:
    """One set in one or several configurations; the first one is what the others are compared with."""

    name: str
    passages: int
    join: int
    index: IndexInfo
    runs: tuple[RunReport, ...]
    comparisons: tuple[Comparison, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """Everything one call of the harness found.

    Attributes:
        created_at: When, UTC.
        heliograph: Version of Heliograph.
        embedding: Name of the embedding model.
        chat: Name of the chat model; empty without one.
        sets: One report a set.
        format: Version of this form.
    """

    created_at: datetime
    heliograph: str
    embedding: str
    chat: str
    sets: tuple[SetReport, ...]
    format: int = 1


# Means over questions, by type too, and the differences between configurations.

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
