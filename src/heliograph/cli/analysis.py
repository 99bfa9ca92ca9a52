"""The commands that look into retrieval, and their reports as tables: inspect, compare, visualize, benchmark, assert.

Each asks `heliograph.analysis` for a report and shows it as tables or JSON; `assert` fails when expectations are
missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from heliograph.analysis.benchmarking import (
    DEFAULT_RECALL,
    AskedQuestion,
    AssertionReport,
    BenchmarkReport,
    check_expectations,
    read_questions,
    run_benchmark,
)
from heliograph.analysis.graph_page import DrawnGraph, draw_neighbourhood, draw_retrieval, to_html
from heliograph.analysis.inspection import (
    SEARCHING_MODES,
    Comparison,
    Coverage,
    CoverageReport,
    KeywordReport,
    TokenReport,
    compare_modes,
    inspect_coverage,
    inspect_keywords,
    inspect_tokens,
)
from heliograph.cli.options import combine_filters
from heliograph.cli.output import BriefText, FlowText, Output, one_line
from heliograph.cli.rendering import make_table, seconds, status_text, to_plain
from heliograph.cli.session import EXIT_FAILED, current_session
from heliograph.errors import ConflictError, NotFoundError
from heliograph.models import DEFAULT_MODE
from heliograph.query.models import Mode, QueryParam
from heliograph.sync import Heliograph

# Reports about retrieval as tables.

_LIST_CELLS = 160
_SHOWN_CHUNKS = 20


def render_coverage(report: CoverageReport) -> RenderableType:
    """Return a row a mode: shown of found, and the share of what all modes show."""
    table = _table(f"Coverage: {one_line(report.question, _LIST_CELLS)}", ("mode",), ())
    for column in ("entities", "relations", "chunks", "documents"):
        table.add_column(column, justify="right")
    table.add_column("best entities", ratio=1)
    for row in report.modes:
        cells = (_covered(item) for item in (row.entities, row.relations, row.chunks, row.documents))
        table.add_row(row.mode.value, *cells, _names(row.entity_names))
    totals = f"{report.entities:,} entities, {report.relations:,} relations, {report.chunks:,} chunks, "
    said = f"all modes together show {totals}{report.documents:,} documents; a cell is shown/found, share of these"
    return Group(table, Text(said, "dim"))


def render_keywords(report: KeywordReport) -> RenderableType:
    """Return a row a keyword: what it finds alone, and how much of that the question shows."""
    table = _table(f"Keywords: {one_line(report.question, _LIST_CELLS)}", ("level",), ("in result", "chunks"))
    table.add_column("keyword")
    table.add_column("finds", ratio=1)
    for item in report.findings:
        is_low = item.level == "low_level"
        found = item.entities if is_low else [" - ".join(pair) for pair in item.relations]
        share = f"{item.in_result:.0%}" if found else "-"
        table.add_row("low" if is_low else "high", share, str(item.chunks), FlowText(item.keyword), _names(found))
    return Group(table, *_warnings(report.warnings))


def render_tokens(report: TokenReport) -> RenderableType:
    """Return a row a section: tokens of its budget, and what was cut."""
    table = _table(f"Tokens, mode {report.mode.value}", ("section",), ("tokens", "budget", "shown", "found", "cut"))
    table.add_column("first cut", ratio=1)
    fixed = (("prompt", report.prompt_tokens), ("question", report.question_tokens), ("frame", report.frame_tokens))
    for name, tokens in fixed:
        table.add_row(name, f"{tokens:,}")
    for item in report.sections:
        figures = (item.tokens, item.budget, item.shown, item.found)
        cut = f"{item.cut_by_budget:,} ({item.cut_share:.0%})" if item.cut_by_budget else "0"
        table.add_row(item.name, *(f"{figure:,}" for figure in figures), cut, _names(item.first_cut))
    table.add_row("buffer", f"{report.buffer_tokens:,}")
    said = f"{report.total_tokens:,} of {report.max_total_tokens:,} tokens, {report.buffer_tokens:,} held back"
    return Group(table, Text(said, "dim"), *_warnings(report.advice))


def render_comparison(report: Comparison) -> RenderableType:
    """Return modes side by side, how alike they are, and the chunks that they show."""
    figures = ("entities", "relations", "chunks", "documents", "only here", "tokens", "time")
    table = _table(f"Modes: {one_line(report.question, _LIST_CELLS)}", ("mode",), figures)
    for row in report.modes:
        counts = (row.entities, row.relations, row.chunks, row.documents, row.only_here, row.context_tokens)
        table.add_row(row.mode.value, *(f"{count:,}" for count in counts), seconds(row.seconds))
    return Group(table, Text(), _overlaps(report), Text(), _chunk_places(report))


def render_benchmark(report: BenchmarkReport) -> RenderableType:
    """Return a row a mode: latency and mean counts."""
    figures = ("p50 ms", "p99 ms", "entities", "relations", "chunks", "docs", "empty")
    title = f"{report.questions:,} questions, {report.repeats:,} times each, {report.concurrency:,} at once"
    table = _table(title, ("mode",), figures)
    for row in report.modes:
        times = (row.p50_seconds, row.p99_seconds)
        counts = (row.entities, row.relations, row.chunks, row.documents)
        table.add_row(
            row.mode.value,
            *(f"{1000 * time:.1f}" for time in times),
            *(f"{count:.1f}" for count in counts),
            str(row.failures),
        )
    return table


def render_assertions(report: AssertionReport) -> RenderableType:
    """Return a row a question: whether it passed, its recall and what it missed."""
    table = _table("", ("",), ("recall", "of"))
    table.add_column("question", ratio=1)
    table.add_column("missed", ratio=1)
    for item in report.questions:
        state = status_text("ok" if item.passed else "fail")
        missed = [f"{name} (no such entity)" if name in item.unknown else name for name in item.missed]
        cells = (f"{item.recall:.0%}", f"{item.min_recall:.0%}")
        table.add_row(state, *cells, FlowText(item.question), _names(missed))
    said = "all passed" if report.passed else f"{report.failures:,} of {len(report.questions):,} failed"
    return Group(table, Text(said, "green" if report.passed else "red"))


def _overlaps(report: Comparison) -> RenderableType:
    table = _table("Likeness (shared over all)", ("modes",), ("entities", "relations", "chunks", "documents"))
    for row in report.overlaps:
        shares = (row.entities, row.relations, row.chunks, row.documents)
        table.add_row(f"{row.mode.value} / {row.other.value}", *(f"{share:.0%}" for share in shares))
    return table


def _chunk_places(report: Comparison) -> RenderableType:
    modes = [row.mode for row in report.modes]
    table = _table("Places of chunks", (), tuple(mode.value for mode in modes))
    table.add_column("chunk of", ratio=1)
    for row in report.chunks[:_SHOWN_CHUNKS]:
        table.add_row(*(str(row.places.get(mode, "")) for mode in modes), FlowText(f"{row.source} {row.chunk_id}"))
    hidden = len(report.chunks) - _SHOWN_CHUNKS
    return Group(table, Text(f"and {hidden} more (--json)", "dim")) if hidden > 0 else table


def _table(title: str, names: Sequence[str], figures: Sequence[str]) -> Table:
    table = make_table(title)
    for name in names:
        table.add_column(name, no_wrap=True, style="cyan")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _covered(item: Coverage) -> str:
    return f"{item.shown:,}/{item.found:,} {item.share:.0%}"


def _names(names: Iterable[str]) -> BriefText:
    return BriefText(", ".join(names), _LIST_CELLS)


def _warnings(lines: Iterable[str]) -> list[Text]:
    return [Text(f"! {line}", "yellow") for line in lines]


_ALL_MODES = ", ".join(mode.value for mode in SEARCHING_MODES)

Question = Annotated[str, typer.Argument(help="The question.", show_default=False)]
Modes = Annotated[
    list[Mode] | None, typer.Option("--mode", "-m", help="How to search; may be repeated.", show_default=_ALL_MODES)
]
OneMode = Annotated[Mode, typer.Option("--mode", "-m", help="How to search.")]
TopK = Annotated[int | None, typer.Option(help="Entities and relations searched.", show_default=False)]
ChunkTopK = Annotated[int | None, typer.Option(help="Chunks kept.", show_default=False)]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", metavar="CONDITION", help="Only from documents that match, such as 'team=red'; may be repeated."
    ),
]


class Part(StrEnum):
    """What can be inspected of a question."""

    COVERAGE = "coverage"
    KEYWORDS = "keywords"
    TOKENS = "tokens"


def inspect(
    ctx: typer.Context,
    part: Annotated[Part, typer.Argument(help="What to look at.", show_default=False)],
    question: Question,
    mode: Annotated[
        list[Mode] | None,
        typer.Option(
            "--mode",
            "-m",
            help="How to search; may be repeated for coverage.",
            show_default=f"coverage: {_ALL_MODES}; keywords: hybrid; tokens: {DEFAULT_MODE}",
        ),
    ] = None,
    top_k: TopK = None,
    chunk_top_k: ChunkTopK = None,
    max_entity_tokens: Annotated[int | None, typer.Option(help="Budget of the entities.", show_default=False)] = None,
    max_relation_tokens: Annotated[
        int | None, typer.Option(help="Budget of the relations.", show_default=False)
    ] = None,
    max_total_tokens: Annotated[int | None, typer.Option(help="Budget of everything.", show_default=False)] = None,
    filter_: Filters = None,
) -> None:
    """Look into a question: what it covers, what its keywords find, or what the token budgets cut."""
    session = current_session(ctx)
    single = _only_mode(part, mode)
    param = QueryParam(
        mode=single,
        top_k=top_k,
        chunk_top_k=chunk_top_k,
        max_entity_tokens=max_entity_tokens,
        max_relation_tokens=max_relation_tokens,
        max_total_tokens=max_total_tokens,
        filter=combine_filters(filter_),
    )
    with session.engine() as engine, session.output.waiting("searching"):
        match part:
            case Part.COVERAGE:
                covered = inspect_coverage(engine, question, mode or SEARCHING_MODES, param)
                report, table = covered, render_coverage(covered)
            case Part.KEYWORDS:
                searched = inspect_keywords(engine, question, param)
                report, table = searched, render_keywords(searched)
            case Part.TOKENS:
                spent = inspect_tokens(engine, question, param)
                report, table = spent, render_tokens(spent)
    _show(session.output, report, table)


def compare(
    ctx: typer.Context,
    question: Question,
    mode: Modes = None,
    top_k: TopK = None,
    chunk_top_k: ChunkTopK = None,
    filter_: Filters = None,
) -> None:
    """Set modes side by side for one question: what they find, how alike it is, time and tokens."""
    session = current_session(ctx)
    param = QueryParam(top_k=top_k, chunk_top_k=chunk_top_k, filter=combine_filters(filter_))
    with session.engine() as engine, session.output.waiting("searching"):
        found = compare_modes(engine, question, mode or SEARCHING_MODES, param)
    _show(session.output, found, render_comparison(found))


def visualize(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(help="The question whose result is drawn.", show_default=False)] = "",
    entity: Annotated[
        str, typer.Option(metavar="NAME", help="Draw what lies around this entity instead.", show_default=False)
    ] = "",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")] = Path("graph.html"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    mode: OneMode = DEFAULT_MODE,
    top_k: TopK = None,
    depth: Annotated[int, typer.Option(min=1, max=10, help="Relations between the entity and the farthest.")] = 1,
    max_entities: Annotated[int, typer.Option(min=1, max=2000, help="Entities drawn at the most.")] = 200,
    filter_: Filters = None,
) -> None:
    """Draw the graph of a question's result, or around an entity, as one HTML file that loads nothing."""
    session = current_session(ctx)
    if bool(question) == bool(entity):
        raise typer.BadParameter("give either a question or --entity NAME")
    if output.exists() and not force:
        raise ConflictError(f"there is a file {str(output)!r} already; name another with --output, or add --force")
    with session.engine() as engine, session.output.waiting("searching"):
        if question:
            param = QueryParam(mode=mode, top_k=top_k, filter=combine_filters(filter_))
            drawn = draw_retrieval(engine.retrieve(question, param), max_entities)
        else:
            drawn = _draw_around(engine, entity, depth, max_entities)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(to_html(drawn), "utf-8")
    if session.output.is_json:
        counts = {"entities": len(drawn.entities), "relations": len(drawn.relations), "chunks": len(drawn.chunks)}
        session.output.json({"file": str(output), "title": drawn.title, "summary": drawn.summary} | counts)
    else:
        session.output.text(f"{output}: {drawn.summary}")


def benchmark(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Questions: a line each, or JSON.", show_default=False)],
    mode: Modes = None,
    repeats: Annotated[int, typer.Option(min=1, max=10_000, help="Times each question is asked in each mode.")] = 1,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Questions under way at once.")] = 1,
    answers: Annotated[bool, typer.Option("--answers", help="Have answers written too.")] = False,
    top_k: TopK = None,
    chunk_top_k: ChunkTopK = None,
    filter_: Filters = None,
) -> None:
    """Time questions in each mode: latency at the median and the 99th percentile, and how much is found."""
    session = current_session(ctx)
    questions = [item.question for item in read_questions(file)]
    param = QueryParam(top_k=top_k, chunk_top_k=chunk_top_k, filter=combine_filters(filter_))
    with session.engine() as engine, session.output.counting("asking") as told:
        report = run_benchmark(
            engine,
            questions,
            mode or SEARCHING_MODES,
            param,
            repeats=repeats,
            concurrency=concurrency,
            answers=answers,
            on_done=lambda done, total: told(f"asked, of {total:,}", done),
        )
    _show(session.output, report, render_benchmark(report))


def assert_(
    ctx: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="QUESTION|FILE", help="A question, or a .json or .jsonl file.", show_default=False)
    ],
    entity: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Entity that must be found; may be repeated.", show_default=False),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Document that must be quoted; may be repeated.", show_default=False),
    ] = None,
    min_recall: Annotated[float, typer.Option(min=0.0, max=1.0, help="Least share that passes.")] = DEFAULT_RECALL,
    mode: OneMode = DEFAULT_MODE,
    top_k: TopK = None,
    chunk_top_k: ChunkTopK = None,
    filter_: Filters = None,
) -> None:
    """Check that questions find the entities and documents they should; ends with 1 if one does not."""
    session = current_session(ctx)
    if entity or source:
        questions = [AskedQuestion(target, entities=tuple(entity or ()), sources=tuple(source or ()))]
    else:
        questions = read_questions(Path(target))
    param = QueryParam(mode=mode, top_k=top_k, chunk_top_k=chunk_top_k, filter=combine_filters(filter_))
    with session.engine() as engine, session.output.waiting("searching"):
        report = check_expectations(engine, questions, param, min_recall)
    _show(session.output, report, render_assertions(report))
    if not report.passed:
        raise typer.Exit(EXIT_FAILED)


def _only_mode(part: Part, modes: list[Mode] | None) -> Mode:
    if part is not Part.COVERAGE and modes and len(modes) > 1:
        raise typer.BadParameter(f"inspect {part.value} takes one --mode, got {len(modes)}")
    return modes[0] if modes else Mode.HYBRID if part is Part.KEYWORDS else DEFAULT_MODE


def _draw_around(engine: Heliograph, name: str, depth: int, max_entities: int) -> DrawnGraph:
    around = engine.neighbours(name, depth=depth, max_entities=max_entities)
    if not around.entities:
        raise NotFoundError(f"there is no entity {name!r}; 'heliograph entities' lists the best connected")
    return draw_neighbourhood(around)


def _show(output: Output, report: object, table: RenderableType) -> None:
    if output.is_json:
        output.json(to_plain(report))
    else:
        output.show(table)
