"""Reports of an evaluation (JSON, Markdown, Ragas lines, an SVG of recall), and two evaluations compared.

JSON is kept and read back, Markdown is for people. `diff_runs` pairs runs by set and configuration, and returns which
questions gained, which lost, and whether the means differ significantly. The SVG is written by hand: a plotting library
would be the largest dependency for the smallest part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from html import escape
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

import heliograph.evaluation.results as results
from heliograph.errors import InvalidRequestError

_RUN = TypeAdapter(results.EvaluationRun)
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
# Joined passages share a chunk's rank; this is the recall when each takes a rank of its own.
_FLAT = {"recall_flat@5": "R@5, one passage a place"}


def to_json(run: results.EvaluationRun) -> str:
    """Return a run as JSON that `read_run` reads; without the texts of the retrieved chunks, which are many."""
    sets: list[results.SetReport] = []
    for report in run.sets:
        asked = [tuple(replace(item, contexts=()) for item in ran.questions) for ran in report.runs]
        runs = tuple(replace(ran, questions=items) for ran, items in zip(report.runs, asked, strict=True))
        sets.append(replace(report, runs=runs))
    return _RUN.dump_json(replace(run, sets=tuple(sets)), indent=1).decode() + "\n"


def read_run(path: Path) -> results.EvaluationRun:
    """Read a run from the JSON of `to_json`; raises `InvalidRequestError` if the file is unreadable or no run."""
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


def ragas_lines(report: results.RunReport) -> Iterator[str]:
    """Yield one JSON object per question, with the columns of Ragas' single-turn samples.

    `response` is empty if no answer was requested, `reference` if the set gives none.
    """
    for item in report.questions:
        row = {
            "user_input": item.question,
            "retrieved_contexts": list(item.contexts),
            "response": item.answer.text if item.answer else "",
            "reference": item.answers[0] if item.answers else "",
        }
        yield json.dumps(row, ensure_ascii=False)


def to_markdown(run: results.EvaluationRun) -> str:
    """Return a run as Markdown: per set its index, a table of scores, differences, types, cost and latency."""
    chat = f", chat model {run.chat}" if run.chat else ", no chat model"
    head = f"Heliograph {run.heliograph}, {run.created_at:%Y-%m-%d %H:%M} UTC, embedding {run.embedding}{chat}."
    return "\n\n".join((head, *(part for report in run.sets for part in _set_parts(report)))) + "\n"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a bar within a cell is escaped."""
    lines = [tuple(header), ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _set_parts(report: results.SetReport) -> Iterator[str]:
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
        columns = _columns(report, (run.summary for run in report.runs))
        rows: list[list[str]] = []
        for item in report.comparisons:
            rows.append([f"{item.other} - {item.base}"])
            for metric in columns:
                gain = item.differences.get(metric)
                text = "" if gain is None else f"{100 * gain.mean:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
                rows[-1].append(f"**{text}**" if gain is not None and gain.is_certain else text)
        yield markdown_table(("difference", *columns.values()), rows)
    if any(len(run.by_type) > 1 for run in report.runs):
        yield _scores_table(
            report,
            [
                (f"{run.configuration.name}, {name}", group)
                for run in report.runs
                for name, group in run.by_type.items()
            ],
        )
    without_gold = [
        (
            run.configuration.name,
            f"{run.unanswerable.questions:,}",
            f"{run.unanswerable.without_context:,}",
            "" if run.unanswerable.declined is None else f"{run.unanswerable.declined:,}",
        )
        for run in report.runs
        if run.unanswerable.questions
    ]
    if without_gold:
        yield markdown_table(("configuration", "questions without gold", "nothing retrieved", "declined"), without_gold)
    yield _cost_table(report)


def _columns(report: results.SetReport, groups: Iterable[results.GroupSummary]) -> dict[str, str]:
    known = {metric for group in groups for metric in group.scores}
    return {metric: name for metric, name in (SHOWN | (_FLAT if report.join > 1 else {})).items() if metric in known}


def _scores_table(report: results.SetReport, rows: Sequence[tuple[str, results.GroupSummary]]) -> str:
    columns = _columns(report, (group for _, group in rows))
    lines = (
        (
            name,
            f"{group.questions:,}",
            *("" if (score := group.scores.get(metric)) is None else f"{100 * score:.1f}" for metric in columns),
        )
        for name, group in rows
    )
    return markdown_table(("configuration", "questions", *columns.values()), lines)


def _cost_table(report: results.SetReport) -> str:
    header = (
        *("configuration", "median ms", "p95 ms", "median CPU ms", "p95 CPU ms"),
        *("chat calls", "tokens in", "tokens out", "tokens embedded"),
    )
    rows = (
        (
            run.configuration.name,
            *(f"{value:.1f}" for value in astuple(run.latency)),
            *(
                f"{value:,}"
                for value in (cost.chat_calls, cost.input_tokens, cost.output_tokens, cost.embedding_tokens)
            ),
        )
        for run, cost in ((run, run.cost) for run in report.runs)
    )
    return markdown_table(header, rows)


# Two evaluations side by side: which questions gained, which lost, and whether the means differ significantly.
#
# Runs are paired by set and, within a set, by configuration of the same name, else in the order given.

_RANKED_BY = "recall@5"
_MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class QuestionDiff:
    """One question whose scores differ, with its gain in recall@5, 0 if it has none.

    Ranks are the first ranks of each gold passage, from 1; None if it was not found.
    """

    id: str
    question: str
    type: str
    gain: float
    ranks_before: tuple[int | None, ...]
    ranks_after: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class RunDiff:
    """One set and configuration in two evaluations: the questions whose gold passages moved, largest gain first.

    Unmatched are questions that only one of the two asked.
    """

    name: str
    comparison: results.Comparison
    questions: tuple[QuestionDiff, ...]
    unmatched: int


def diff_runs(before: results.EvaluationRun, after: results.EvaluationRun) -> list[RunDiff]:
    """Return the differences for every set and configuration in both; raises `InvalidRequestError` if there is none."""
    earlier = {(report.name, report.join): report for report in before.sets}
    pairs = [
        (earlier[report.name, report.join], report) for report in after.sets if (report.name, report.join) in earlier
    ]
    if not pairs:
        names = ", ".join(sorted({report.name for report in (*before.sets, *after.sets)}))
        raise InvalidRequestError(f"the two evaluations have no set in common; they have {names}")
    diffs: list[RunDiff] = []
    for old, new in pairs:
        by_name = {run.configuration.name: run for run in old.runs}
        same = [(by_name[run.configuration.name], run) for run in new.runs if run.configuration.name in by_name]
        # If no configurations share a name, they are paired in order.
        for first, second in same or zip(old.runs, new.runs, strict=False):
            asked, again = ({item.id: item for item in run.questions} for run in (first, second))
            questions: list[QuestionDiff] = []
            for was, now in ((was, again[id_]) for id_, was in asked.items() if id_ in again and was.gold):
                ranks = _ranks(was, was.gold), _ranks(now, was.gold)
                if ranks[0] != ranks[1]:
                    gain = results.question_scores(now).get(_RANKED_BY, 0.0) - results.question_scores(was).get(
                        _RANKED_BY, 0.0
                    )
                    questions.append(QuestionDiff(now.id, now.question, now.type, gain, *ranks))
            questions.sort(key=lambda item: (-item.gain, item.id))
            unmatched = len(asked.keys() ^ again.keys())
            diffs.append(RunDiff(old.name, results.compare(first, second), tuple(questions), unmatched))
    return diffs


def diff_to_markdown(diffs: Sequence[RunDiff]) -> str:
    """Return differences as Markdown, the questions that moved most first."""
    return "\n\n".join(part for diff in diffs for part in _parts(diff)) + "\n"


def _ranks(outcome: results.QuestionOutcome, gold: Iterable[str]) -> tuple[int | None, ...]:
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
        lines: list[tuple[str, ...]] = []
        for item in shown:
            ranks = (
                ", ".join("-" if rank is None else str(rank) for rank in found)
                for found in (item.ranks_before, item.ranks_after)
            )
            lines.append((f"{item.id}: {item.question}", item.type, f"{100 * item.gain:+.0f}", *ranks))
        yield markdown_table(("question", "type", "R@5", "ranks before", "ranks after"), lines)


_WIDTH, _HEIGHT = 340, 230
_LEFT, _TOP, _RIGHT, _BOTTOM = 44, 34, 12, 40
_PER_ROW = 3
# Distinguishable for colour-blind readers too: Okabe and Ito, 2008.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def to_svg(run: results.EvaluationRun) -> str:
    """Return the plot; sets without gold are left out, and if there are no others the drawing is empty."""
    reports = [report for report in run.sets if any(item.summary.questions for item in report.runs)]
    names = list(dict.fromkeys(item.configuration.name for report in reports for item in report.runs))
    columns = max(1, min(_PER_ROW, len(reports)))
    rows = -(-len(reports) // columns)
    width, height = columns * _WIDTH, rows * _HEIGHT + 18 * len(names) + 10
    panels = (
        f'<g transform="translate({place % columns * _WIDTH},{place // columns * _HEIGHT})">'
        f"{''.join(_panel(report, names))}</g>"
        for place, report in enumerate(reports)
    )
    legend = ""
    for place, name in enumerate(names):
        y = rows * _HEIGHT + 14 + 18 * place
        legend += f'<rect x="{_LEFT}" y="{y - 9}" width="14" height="10" fill="{_COLOURS[place % len(_COLOURS)]}"/>'
        legend += f'<text x="{_LEFT + 20}" y="{y}">{escape(name)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(panels)}{legend}</svg>\n"
    )


def _panel(report: results.SetReport, names: list[str]) -> Iterator[str]:
    title = report.name + (f" (x{report.join})" if report.join > 1 else "")
    yield f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(title)}</text>'
    # The scale begins at the ten below the least value, so that the lines do not all lie at the top.
    scores = [run.summary.scores for run in report.runs if run.summary.scores]
    least = min((100 * item[f"recall@{cut}"] for item in scores for cut in results.CUTS), default=0.0)
    lowest = min(90, int(least // 10) * 10)
    for share in range(lowest, 101, 10 if lowest >= 50 else 20):
        y = _y(share, lowest)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share}</text>'
    for place, cut in enumerate(results.CUTS):
        yield f'<text x="{_x(place):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">R@{cut}</text>'
    for run in report.runs:
        colour = _COLOURS[names.index(run.configuration.name) % len(_COLOURS)]
        values = [100 * run.summary.scores[f"recall@{cut}"] for cut in results.CUTS] if run.summary.scores else []
        points = [(_x(place), _y(value, lowest)) for place, value in enumerate(values)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)


def _x(place: int) -> float:
    return _LEFT + 20 + place * (_WIDTH - _LEFT - _RIGHT - 40) / (len(results.CUTS) - 1)


def _y(share: float, lowest: int) -> float:
    return _TOP + (100 - share) / (100 - lowest) * (_HEIGHT - _TOP - _BOTTOM)
