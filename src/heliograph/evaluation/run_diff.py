"""Two evaluations side by side: which questions gained, which lost, and whether the means differ for certain.

Runs are paired by set and, within a set, by configuration of the same name, else in the order given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from heliograph.errors import InvalidRequestError
from heliograph.evaluation.models import Comparison, EvaluationRun, QuestionOutcome, RunReport, SetReport
from heliograph.evaluation.reports import SHOWN, markdown_table
from heliograph.evaluation.summary import compare, question_scores

__all__ = ["QuestionDiff", "RunDiff", "diff_runs", "diff_to_markdown"]

_RANKED_BY = "recall@5"
_MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class QuestionDiff:
    """One question that scored otherwise.

    Attributes:
        id: Its id.
        question: Its text.
        type: As the set names it.
        gain: Difference in recall@5; where that is none, 0.
        ranks_before: First place of each gold passage, from 1; None where it was not found.
        ranks_after: The same, now.
    """

    id: str
    question: str
    type: str
    gain: float
    ranks_before: tuple[int | None, ...]
    ranks_after: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class RunDiff:
    """One set and configuration in two evaluations.

    Attributes:
        name: Name of the set.
        comparison: Means and intervals.
        questions: Those whose gold moved, most gained first.
        unmatched: Questions that only one of the two asked.
    """

    name: str
    comparison: Comparison
    questions: tuple[QuestionDiff, ...]
    unmatched: int


def diff_runs(before: EvaluationRun, after: EvaluationRun) -> list[RunDiff]:
    """Return the differences of every set and configuration that both have.

    Raises:
        InvalidRequestError: They have no set in common.
    """
    earlier = {(report.name, report.join): report for report in before.sets}
    pairs = [
        (earlier[report.name, report.join], report) for report in after.sets if (report.name, report.join) in earlier
    ]
    if not pairs:
        names = ", ".join(sorted({report.name for report in (*before.sets, *after.sets)}))
        raise InvalidRequestError(f"the two evaluations have no set in common; they have {names}")
    return [_diff(old.name, *runs) for old, new in pairs for runs in _matched(old, new)]


def diff_to_markdown(diffs: Sequence[RunDiff]) -> str:
    """Return differences as Markdown, the questions that moved most first."""
    return "\n\n".join(part for diff in diffs for part in _parts(diff)) + "\n"


def _matched(old: SetReport, new: SetReport) -> Iterator[tuple[RunReport, RunReport]]:
    by_name = {run.configuration.name: run for run in old.runs}
    same = [(by_name[run.configuration.name], run) for run in new.runs if run.configuration.name in by_name]
    yield from same or list(zip(old.runs, new.runs, strict=False))


def _diff(name: str, old: RunReport, new: RunReport) -> RunDiff:
    before = {item.id: item for item in old.questions}
    after = {item.id: item for item in new.questions}
    shared = [id_ for id_ in before if id_ in after]
    moved = (_question(before[id_], after[id_]) for id_ in shared if before[id_].gold)
    questions = sorted(
        (item for item in moved if item.ranks_before != item.ranks_after), key=lambda item: (-item.gain, item.id)
    )
    unmatched = len(before.keys() ^ after.keys())
    return RunDiff(name, compare(old, new), tuple(questions), unmatched)


def _question(old: QuestionOutcome, new: QuestionOutcome) -> QuestionDiff:
    gain = question_scores(new).get(_RANKED_BY, 0.0) - question_scores(old).get(_RANKED_BY, 0.0)
    return QuestionDiff(new.id, new.question, new.type, gain, _ranks(old, old.gold), _ranks(new, old.gold))


def _ranks(outcome: QuestionOutcome, gold: Iterable[str]) -> tuple[int | None, ...]:
    ranks = {id_: rank for rank, ids in reversed(list(enumerate(outcome.found, 1))) for id_ in ids}
    return tuple(ranks.get(id_) for id_ in gold)


def _parts(diff: RunDiff) -> Iterator[str]:
    comparison = diff.comparison
    yield f"## {diff.name}: {comparison.base} -> {comparison.other}"
    rows = (
        (
            SHOWN[metric],
            f"{100 * found.mean:+.1f}",
            f"[{100 * found.low:+.1f}, {100 * found.high:+.1f}]",
            "yes" if found.is_certain else "",
        )
        for metric, found in comparison.differences.items()
        if metric in SHOWN
    )
    yield markdown_table(("metric", "points", "95% interval", "certain"), rows)
    gained, lost = (sum(item.gain * sign > 0 for item in diff.questions) for sign in (1, -1))
    unmatched = f", {diff.unmatched:,} asked by only one of them" if diff.unmatched else ""
    yield f"{gained:,} questions gained in R@5, {lost:,} lost, {len(diff.questions):,} moved at all{unmatched}."
    if gained or lost:
        changed = [item for item in diff.questions if item.gain]
        shown = changed if len(changed) <= _MOST_SHOWN else changed[: _MOST_SHOWN // 2] + changed[-_MOST_SHOWN // 2 :]
        yield markdown_table(("question", "type", "R@5", "ranks before", "ranks after"), map(_row, shown))


def _row(item: QuestionDiff) -> tuple[str, ...]:
    ranks = (
        ", ".join("-" if rank is None else str(rank) for rank in found)
        for found in (item.ranks_before, item.ranks_after)
    )
    return f"{item.id}: {item.question}", item.type, f"{100 * item.gain:+.0f}", *ranks
