"""Reports about retrieval as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from heliograph.analysis.assertions import AssertionReport
from heliograph.analysis.benchmarking import BenchmarkReport
from heliograph.analysis.comparison import Comparison
from heliograph.analysis.coverage import Coverage, CoverageReport
from heliograph.analysis.keyword_findings import KeywordReport
from heliograph.analysis.token_spending import TokenReport
from heliograph.cli.flow import BriefText, FlowText, one_line
from heliograph.cli.progress import seconds
from heliograph.cli.tables import make_table, status_text

__all__ = [
    "render_assertions",
    "render_benchmark",
    "render_comparison",
    "render_coverage",
    "render_keywords",
    "render_tokens",
]

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
