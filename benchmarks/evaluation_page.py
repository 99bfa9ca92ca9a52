"""Puts the figures of `make eval` into `docs/evaluation.md`, between its two marks; as a program it does only that.

The text around them is written by hand, the tables never are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.marked_tables import put_between
from benchmarks.report import RESULTS, format_table
from heliograph.evaluation.reports import read_run
from heliograph.evaluation.results import Comparison, Difference, EvaluationRun, RunReport, SetReport

__all__ = ["EVALUATION", "render_figures", "write_evaluation_page"]

EVALUATION = "eval.json"
PAGE = Path(__file__).parents[1] / "docs" / "evaluation.md"
BEGIN, END = "<!-- figures: begin (written by `make eval`) -->", "<!-- figures: end -->"

_COLUMNS = {
    "recall@2": "R@2",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "ndcg@10": "nDCG@10",
    "all_gold@5": "all@5",
    "answer_hit": "answer quoted",
    "answer_in_graph": "answer in graph",
}


def render_figures(run: EvaluationRun) -> str:
    """Return one table of all sets and configurations, and how it was taken."""
    header = ("set", "mode", *_COLUMNS.values(), "R@5 against the first, 95%", "CPU ms")
    rows = (row for report in run.sets for row in _rows(report))
    chat = f"chat model {run.chat}" if run.chat else "no chat model"
    sizes = "; ".join(
        f"{report.name}: {report.passages:,} passages"
        + (f" joined by {report.join}" if report.join > 1 else "")
        + f", {report.runs[0].summary.questions:,} questions"
        for report in run.sets
    )
    taken = f"`make eval`, {run.created_at:%Y-%m-%d}; Heliograph {run.heliograph}, {run.embedding}, {chat}. {sizes}."
    return f"{format_table(header, rows)}\n\n{taken}"


def write_evaluation_page(results: Path = RESULTS, page: Path = PAGE) -> Path:
    """Put the figures into the page and return its path.

    Raises:
        ValueError: The page has lost its marks.
        InvalidRequestError: There are no results, or they are of another form.
    """
    return put_between(page, BEGIN, END, lambda: render_figures(read_run(results / EVALUATION)))


def _rows(report: SetReport) -> Iterator[tuple[str, ...]]:
    gains = {item.other: item for item in report.comparisons}
    for run in report.runs:
        if run.summary.questions:
            yield _row(report, run, gains.get(run.configuration.name))


def _row(report: SetReport, run: RunReport, comparison: Comparison | None) -> tuple[str, ...]:
    scores = (run.summary.scores.get(metric) for metric in _COLUMNS)
    shown = ("" if score is None else f"{100 * score:.1f}" for score in scores)
    gain = comparison.differences.get("recall@5") if comparison else None
    return report.name, run.configuration.name, *shown, _gain(gain), f"{run.latency.median_cpu_ms:.0f}"


def _gain(gain: Difference | None) -> str:
    return "" if gain is None else f"{100 * gain.mean:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"


if __name__ == "__main__":
    print(write_evaluation_page())
