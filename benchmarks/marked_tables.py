"""Tables of other pages than `docs/benchmarks.md` that are generated too: each stands between two marks on its page.

The text around them is written by hand, the tables never are. As a program it writes those whose reports are there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from inspect import cleandoc
from pathlib import Path

from benchmarks.declining import CURVE, render_curve
from benchmarks.report import RESULTS, Report, format_table, read_reports
from benchmarks.versus_lightrag import render_versus, render_versus_plot
from heliograph.query.plan import FusionParameters

__all__ = [
    "TABLES",
    "USUAL",
    "MarkedTable",
    "put_between",
    "render_answers",
    "render_figures",
    "render_growth",
    "render_parameters",
    "render_stores",
    "write_tables",
]

_DOCS = Path(__file__).parents[1] / "docs"
# As `benchmarks.stores` asks in them, which not everybody can import.
_MODES = ("mix", "local", "naive", "fusion")
# What figures of unchanged parameters are called.
USUAL = "as it is"
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n        .+)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MarkedTable:
    """A table: the benchmark it is made from, its page, and how it is made."""

    benchmark: str
    page: Path
    render: Callable[[Report], str]

    @property
    def begin(self) -> str:
        """The line before it."""
        return f"<!-- {self.benchmark}: begin (written by `python -m benchmarks {self.benchmark} --write-docs`) -->"

    @property
    def end(self) -> str:
        """The line after it."""
        return f"<!-- {self.benchmark}: end -->"


def put_between(page: Path, begin: str, end: str, render: Callable[[], str]) -> Path:
    """Put what is rendered between the marks of a page in place of what stands there; return the page.

    Raises:
        ValueError: The page has lost its marks.
    """
    before, first, rest = page.read_text("utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"{page} has no place for the figures; it needs the lines {begin!r} and {end!r}")
    page.write_text(f"{before}{begin}\n\n{render()}\n\n{end}{after}", "utf-8")
    return page


def write_tables(results: Path = RESULTS) -> list[Path]:
    """Write every table whose report is there, and the two plots; return the pages.

    Raises:
        ValueError: A page has lost its marks.
    """
    reports = read_reports(results)
    if declining := reports.get("declining"):
        (_DOCS / "images" / "declining.svg").write_text(render_curve(declining.figures), "utf-8")
    if versus := reports.get("versus_lightrag"):
        (_DOCS / "images" / "versus-lightrag.svg").write_text(render_versus_plot(versus.figures), "utf-8")
    return [
        put_between(table.page, table.begin, table.end, partial(table.render, reports[table.benchmark]))
        for table in TABLES
        if table.benchmark in reports
    ]


def render_parameters(report: Report) -> str:
    """Return a table of all parameters: value, meaning, and R@5 of each set when it is halved and doubled."""
    values = {figure.name: figure.value for figure in report.figures}
    sets = [name.removesuffix(f": {USUAL}") for name in values if name.endswith(f": {USUAL}")]
    header = ("parameter", "value", *sets, "what it is")
    usual = ("", "", *(f"{values[f'{name}: {USUAL}']:.1f}" for name in sets), f"R@5 {USUAL}")
    rows = (_parameter_row(name, value, meaning, sets, values) for name, value, meaning in _parameters())
    return f"{format_table(header, [usual, *rows])}\n\n{_taken(report)}"


def render_answers(report: Report) -> str:
    """Return a table with a row a set of what became of answerable and of unanswerable questions."""
    found: dict[str, dict[str, str]] = {}
    columns: dict[str, None] = {}
    for figure in report.figures:
        name, _, what = figure.name.partition(": ")
        if name == CURVE:
            continue
        count = f" of {figure.note.removesuffix(' questions')}" if figure.note else ""
        found.setdefault(name, {})[what] = f"{figure.value:.1f}{count}"
        columns[what] = None
    rows = [(name, *(cells.get(column, "") for column in columns)) for name, cells in found.items()]
    return f"{format_table(('set, %', *columns), rows)}\n\n{_taken(report)}"


def render_figures(report: Report) -> str:
    """Return a table with a row a figure."""
    return f"{format_table(('figure', 'value'), (figure.row()[:2] for figure in report.figures))}\n\n{_taken(report)}"


def render_growth(report: Report) -> str:
    """Return a table with a row an operation: what it costs at each size, and how fast that grows."""
    found: dict[str, dict[str, str]] = {}
    columns: dict[str, None] = {}
    for figure in report.figures:
        what, _, column = figure.name.partition(": ")
        found.setdefault(what, {})[column] = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.3g}"
        columns[column] = None
    rows = [(what, *(cells.get(column, "") for column in columns)) for what, cells in found.items()]
    return f"{format_table(('what', *columns), rows)}\n\n{_taken(report)}"


def render_stores(report: Report) -> str:
    """Return a table with a row a back end: what it takes of our process, times what SQLite does, and round trips."""
    found: dict[str, dict[str, float]] = {}
    for figure in report.figures:
        name, _, what = figure.name.partition(": ")
        found.setdefault(name, {})[what] = figure.value
    whats = ("a document", *(f"`{mode}`" for mode in _MODES))
    header = ("store", "entities", "filled in a CPU second", *whats, "round trips")
    return f"{format_table(header, (_store_row(name, values) for name, values in found.items()))}\n\n{_taken(report)}"


def _render_versus(report: Report) -> str:
    told = f"`python -m benchmarks {report.name} PYTHON`: {report.environment.line()}. {report.notes[0]}"
    return f"{render_versus(report.figures, report.notes)}\n\n{told}"


def _store_row(name: str, values: dict[str, float]) -> tuple[str, ...]:
    whats = ("a document", *_MODES)
    costs = (f"{values[what]:.3g} ms ({values[f'{what}, ratio']:.1f})" for what in whats)
    trips = " / ".join(f"{values[f'{what}, round trips']:.0f}" for what in whats)
    return name, f"{values['entities']:,.0f}", f"{values['entities filled in a CPU second']:,.0f}", *costs, trips


def _parameters() -> Iterator[tuple[str, float, str]]:
    meanings = dict(_ATTRIBUTE.findall(cleandoc(FusionParameters.__doc__ or "")))
    usual = FusionParameters()
    for field in fields(usual):
        yield field.name, getattr(usual, field.name), " ".join(meanings[field.name].split())


def _parameter_row(
    name: str, value: float, meaning: str, sets: Sequence[str], values: dict[str, float]
) -> tuple[str, ...]:
    shown = (
        " / ".join(
            f"{values[key]:.1f}" if (key := f"{set_}: {name} {word}") in values else "-"
            for word in ("halved", "doubled")
        )
        for set_ in sets
    )
    return f"`{name}`", f"{value:g}", *shown, meaning


def _taken(report: Report) -> str:
    notes = "".join(f" {note}" for note in report.notes)
    return f"`python -m benchmarks {report.name}`: {report.environment.line()}.{notes}"


TABLES = (
    MarkedTable("sensitivity", _DOCS / "retrieval.md", render_parameters),
    MarkedTable("answers", _DOCS / "answers.md", render_answers),
    MarkedTable("manuals", _DOCS / "answers.md", render_answers),
    MarkedTable("declining", _DOCS / "answers.md", render_answers),
    MarkedTable("local_extraction", _DOCS / "evaluation.md", render_figures),
    MarkedTable("scale", _DOCS / "scale.md", render_growth),
    MarkedTable("scale_postgres", _DOCS / "scale.md", render_growth),
    MarkedTable("service_workspaces", _DOCS / "scale.md", render_figures),
    MarkedTable("cluster_scale", _DOCS / "scale.md", render_growth),
    MarkedTable("stores", _DOCS / "stores.md", render_stores),
    MarkedTable("versus_lightrag", _DOCS / "comparison.md", _render_versus),
)


if __name__ == "__main__":
    print(*write_tables(), sep="\n")
