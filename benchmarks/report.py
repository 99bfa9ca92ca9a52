"""Figures and reports: what a benchmark returns, how it is printed, and how it is kept as JSON.

A `Figure` may have a bound that is wanted of it. A `Report` knows under which circumstances it was taken, since a
figure without its machine says nothing.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw

from heliograph._version import __version__

__all__ = ["RESULTS", "Environment", "Figure", "Findings", "Report", "format_table", "read_reports", "write_report"]

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    Attributes:
        name: What was measured.
        value: The number.
        unit: Its unit; empty for a ratio or a count.
        at_most: The largest value that is good enough; None if there is no such bound.
        at_least: The smallest; likewise.
        note: Whatever else belongs beside it, such as the spread.
    """

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def is_good(self) -> bool | None:
        """Whether the bound holds; None without a bound."""
        if self.at_most is None and self.at_least is None:
            return None
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    def row(self) -> tuple[str, str, str, str]:
        """Return name, value, bound and verdict as they are shown."""
        verdict = {None: "", True: "yes", False: "**no**"}[self.is_good]
        return self.name, f"{_number(self.value)} {self.unit}".strip() + _aside(self.note), self._bound(), verdict

    def _bound(self) -> str:
        if self.at_most is not None:
            return f"<= {_number(self.at_most)}"
        return f">= {_number(self.at_least)}" if self.at_least is not None else ""


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and the moment."""

    date: str
    processor: str
    cores: int
    load: float
    system: str
    python: str
    sqlite: str
    heliograph: str

    @classmethod
    def current(cls) -> Environment:
        """Describe this machine now."""
        return cls(
            date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            processor=_processor(),
            cores=os.cpu_count() or 1,
            load=round(os.getloadavg()[0], 1),
            system=f"{platform.system()} {platform.machine()}",
            python=platform.python_version(),
            sqlite=apsw.sqlite_lib_version(),
            heliograph=__version__,
        )

    def line(self) -> str:
        """Return one line that says all of it."""
        return (
            f"{self.date}; {self.processor}, {self.cores} cores (load {self.load} at the start), {self.system}, "
            f"Python {self.python}, SQLite {self.sqlite}, Heliograph {self.heliograph}"
        )


@dataclass(frozen=True, slots=True)
class Findings:
    """What a benchmark returns: its figures, and observations that are not figures, one paragraph each."""

    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """One run of a benchmark.

    Attributes:
        name: Name of the benchmark.
        title: What it measures, in a few words.
        method: How it measures, in a paragraph or two.
        figures: What it found.
        notes: Observations that are not figures, one paragraph each.
        is_quick: Whether it ran with small sizes; such figures never go into the documentation.
        seconds: How long it ran.
        environment: Where and when.
    """

    name: str
    title: str
    method: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    is_quick: bool
    seconds: float
    environment: Environment

    def text(self) -> str:
        """Return the report as it is printed."""
        quick = " (quick: small sizes, not for the record)" if self.is_quick else ""
        table = format_table(("figure", "value", "wanted", "met"), (figure.row() for figure in self.figures))
        return "\n".join((f"## {self.title}{quick}", "", table, *(f"\n{note}" for note in self.notes), ""))


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose columns line up."""
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


def write_report(report: Report, folder: Path = RESULTS) -> Path:
    """Write a report as JSON in place of an earlier one and return its path; quick ones are kept apart."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.name}{'.quick' if report.is_quick else ''}.json"
    path.write_text(json.dumps(asdict(report), ensure_ascii=False, indent=2) + "\n", "utf-8")
    return path


def read_reports(folder: Path = RESULTS) -> dict[str, Report]:
    """Return the reports kept in a folder by name, without the quick ones."""
    # An evaluation of retrieval is of another form; `benchmarks.evaluation_page` reads it.
    others = (".quick.json", "eval.json")
    paths = sorted(path for path in folder.glob("*.json") if not path.name.endswith(others))
    reports = (_report(json.loads(path.read_text("utf-8"))) for path in paths)
    return {report.name: report for report in reports}


def _report(data: dict[str, object]) -> Report:
    figures = tuple(Figure(**item) for item in data.pop("figures"))
    environment = Environment(**data.pop("environment"))
    notes = tuple(data.pop("notes"))
    return Report(**data, figures=figures, notes=notes, environment=environment)


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _aside(note: str) -> str:
    return f" ({note})" if note else ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
