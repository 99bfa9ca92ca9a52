"""Renders `docs/benchmarks.md` from the reports in `benchmarks/results/`; as a program it does only that.

A benchmark without a report keeps the section that it has on the page, so that each can be run when there is time.
The figures of `make eval`, if there are any, go into `docs/evaluation.md`; some tables stand on pages of their own
(`benchmarks.marked_tables`).
"""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks.evaluation_page import EVALUATION, write_evaluation_page
from benchmarks.marked_tables import write_tables
from benchmarks.registry import ALL
from benchmarks.report import RESULTS, Report, format_table, read_reports

__all__ = ["render_page", "write_page"]

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

_HEAD = """# Benchmarks

Written by `python -m benchmarks --write-docs`; every number comes from a run, none is typed. One benchmark again:
`python -m benchmarks NAME`; to see only that everything works: `python -m benchmarks --quick`.

Costs are CPU time (user and system, of all threads) and medians, since wall time on a shared machine says more about
the neighbours. Growth compares sizes within one run. Where it is not the model that is measured, models are replaced
by ones without cost (`benchmarks/corpus.py`), so the figures are the engine's own.
"""


# Two hundred figures, which read better as the table that they become on a page of their own.
_ELSEWHERE = "sensitivity"


def render_page(reports: dict[str, Report], page: str = "") -> str:
    """Return the page for these reports, in the order of the registry.

    Args:
        reports: By name of the benchmark.
        page: As it is, whose other sections are kept.
    """
    known = {part.partition("\n")[0]: f"## {part.strip()}\n" for part in page.split("\n## ")[1:]}
    names = [name for name in ALL if name != _ELSEWHERE]
    found = (_section(reports[name]) if name in reports else known.get(_title(name)) for name in names)
    return "\n".join((_HEAD, *filter(None, found)))


def write_page(results: Path = RESULTS, page: Path = PAGE) -> Path:
    """Write the page and return its path.

    Raises:
        FileNotFoundError: There are no results yet.
    """
    reports = read_reports(results)
    if not reports:
        raise FileNotFoundError(f"there are no results in {results}; run python -m benchmarks first")
    page.parent.mkdir(parents=True, exist_ok=True)
    before = page.read_text("utf-8") if page.exists() else ""
    page.write_text(render_page(reports, before), "utf-8")
    return page


def _title(name: str) -> str:
    """Return the title of a benchmark, whether what it needs is installed or not."""
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text("utf-8"))
    titles = (node.value for node in tree.body if isinstance(node, ast.Assign) and _is_title(node.targets[0]))
    return next(value.value for value in titles if isinstance(value, ast.Constant) and isinstance(value.value, str))


def _is_title(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "TITLE"


def _section(report: Report) -> str:
    table = format_table(("figure", "value", "wanted", "met"), (figure.row() for figure in report.figures))
    taken = f"`python -m benchmarks {report.name}`, {report.seconds:.0f} s: {report.environment.line()}."
    return "\n\n".join((f"## {report.title}", report.method, table, *report.notes, taken)) + "\n"


if __name__ == "__main__":
    print(write_page())
    print(*write_tables(), sep="\n")
    if (RESULTS / EVALUATION).exists():
        print(write_evaluation_page())
