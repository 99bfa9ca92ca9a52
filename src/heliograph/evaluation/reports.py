"""An evaluation as JSON, to be kept and compared, and as Markdown, to be read; and as Ragas reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from heliograph.errors import InvalidRequestError
from heliograph.evaluation.bootstrap import Difference
from heliograph.evaluation.models import EvaluationRun, GroupSummary, QuestionOutcome, RunReport, SetReport

__all__ = ["SHOWN", "markdown_table", "ragas_lines", "read_run", "to_json", "to_markdown"]

_RUN = TypeAdapter(EvaluationRun)
SHOWN = {
    "recall@2": "R@2",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "recall@20": "R@20",
    "ndcg@10": "nDCG@10",
    "mrr": "MRR",
    "all_gold@5": "all@5",
    "answer_hit": "answer in 3 sentences",
    "answer_in_context": "answer in context",
    "answer_in_graph": "answer in graph",
    "answer_f1": "answer F1",
    "answer_exact": "answer EM",
    "citations_exist": "citations exist",
    "citations_supported": "citations supported",
    "sentences_cited": "sentences cited",
}
# Joined passages share a chunk's place; this is what remains when each takes one of its own.
_FLAT = {"recall_flat@5": "R@5, one passage a place"}


def to_json(run: EvaluationRun) -> str:
    """Return a run as JSON that `read_run` reads; without the texts of the retrieved chunks, which are many."""
    return _RUN.dump_json(_without_contexts(run), indent=1).decode() + "\n"


def read_run(path: Path) -> EvaluationRun:
    """Read what `to_json` wrote.

    Raises:
        InvalidRequestError: The file cannot be read or holds something else.
    """
    try:
        return _RUN.validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidRequestError(f"the evaluation {str(path)!r} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "its beginning"
        raise InvalidRequestError(
            f"{str(path)!r} is no evaluation written by 'heliograph eval --output': {problem['msg']} at {where}"
        ) from None


def ragas_lines(report: RunReport) -> Iterator[str]:
    """Yield one JSON object a question, with the columns of Ragas' single-turn samples.

    `response` is empty where no answer was asked for, `reference` where the set gives none.
    """
    for item in report.questions:
        row = {
            "user_input": item.question,
            "retrieved_contexts": list(item.contexts),
            "response": item.answer.text if item.answer else "",
            "reference": item.answers[0] if item.answers else "",
        }
        yield json.dumps(row, ensure_ascii=False)


def to_markdown(run: EvaluationRun) -> str:
    """Return a run as Markdown: per set what was indexed, a table of scores, differences, types, cost and latency."""
    chat = f", chat model {run.chat}" if run.chat else ", no chat model"
    head = f"Heliograph {run.heliograph}, {run.created_at:%Y-%m-%d %H:%M} UTC, embedding {run.embedding}{chat}."
    return "\n\n".join((head, *(part for report in run.sets for part in _set_parts(report)))) + "\n"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a bar within a cell is escaped."""
    lines = [tuple(header), ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _set_parts(report: SetReport) -> Iterator[str]:
    index = report.index
    joined = f", joined {report.join} to a document" if report.join > 1 else ""
    yield f"## {report.name}"
    yield (
        f"{report.passages:,} passages{joined}: {index.chunks:,} chunks, {index.entities:,} entities, "
        f"{index.relations:,} relations, indexed in {index.seconds:.0f} s."
    )
    if any(run.summary.questions for run in report.runs):
        yield _scores_table(report, [(run.configuration.name, run.summary) for run in report.runs])
    if report.comparisons:
        yield "Differences in points, with 95% intervals of the paired bootstrap; bold where they leave out zero."
        yield _differences_table(report)
    if any(len(run.by_type) > 1 for run in report.runs):
        yield _scores_table(
            report,
            [
                (f"{run.configuration.name}, {name}", group)
                for run in report.runs
                for name, group in run.by_type.items()
            ],
        )
    yield from _unanswerable_table(report)
    yield _cost_table(report)


def _columns(report: SetReport, groups: Iterable[GroupSummary]) -> dict[str, str]:
    known = {metric for group in groups for metric in group.scores}
    return {metric: name for metric, name in (SHOWN | (_FLAT if report.join > 1 else {})).items() if metric in known}


def _scores_table(report: SetReport, rows: Sequence[tuple[str, GroupSummary]]) -> str:
    columns = _columns(report, (group for _, group in rows))
    lines = (
        (name, f"{group.questions:,}", *(_percent(group.scores.get(metric)) for metric in columns))
        for name, group in rows
    )
    return markdown_table(("configuration", "questions", *columns.values()), lines)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _differences_table(report: SetReport) -> str:
    columns = _columns(report, (run.summary for run in report.runs))
    rows = (
        (f"{item.other} - {item.base}", *(_gain(item.differences.get(metric)) for metric in columns))
        for item in report.comparisons
    )
    return markdown_table(("difference", *columns.values()), rows)


def _gain(difference: Difference | None) -> str:
    if difference is None:
        return ""
    text = f"{100 * difference.mean:+.1f} [{100 * difference.low:+.1f}, {100 * difference.high:+.1f}]"
    return f"**{text}**" if difference.is_certain else text


def _unanswerable_table(report: SetReport) -> Iterator[str]:
    rows = [
        (
            run.configuration.name,
            f"{run.unanswerable.questions:,}",
            f"{run.unanswerable.without_context:,}",
            "" if run.unanswerable.declined is None else f"{run.unanswerable.declined:,}",
        )
        for run in report.runs
        if run.unanswerable.questions
    ]
    if rows:
        yield markdown_table(("configuration", "questions without gold", "nothing retrieved", "declined"), rows)


def _cost_table(report: SetReport) -> str:
    header = (
        *("configuration", "median ms", "p95 ms", "median CPU ms", "p95 CPU ms"),
        *("chat calls", "tokens in", "tokens out", "tokens embedded"),
    )
    rows = (
        (
            run.configuration.name,
            *(
                f"{value:.1f}"
                for value in (
                    run.latency.median_wall_ms,
                    run.latency.p95_wall_ms,
                    run.latency.median_cpu_ms,
                    run.latency.p95_cpu_ms,
                )
            ),
            *(
                f"{value:,}"
                for value in (
                    run.cost.chat_calls,
                    run.cost.input_tokens,
                    run.cost.output_tokens,
                    run.cost.embedding_tokens,
                )
            ),
        )
        for run in report.runs
    )
    return markdown_table(header, rows)


def _without_contexts(run: EvaluationRun) -> EvaluationRun:
    def bare(item: QuestionOutcome) -> QuestionOutcome:
        return replace(item, contexts=())

    return replace(
        run,
        sets=tuple(
            replace(
                report,
                runs=tuple(replace(ran, questions=tuple(map(bare, ran.questions))) for ran in report.runs),
            )
            for report in run.sets
        ),
    )
