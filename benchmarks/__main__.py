"""Runs benchmarks: `python -m benchmarks [NAME [ARGUMENT ...] ...] [--quick] [--write-docs]`.

A word that names no benchmark is an argument of the one before it, for example
`python -m benchmarks retrieval ../shared/bench/hotpotqa_train100`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.marked_tables import write_tables
from benchmarks.page import write_page
from benchmarks.registry import ALL, DEFAULT, Options, run_isolated
from benchmarks.report import RESULTS, write_report

__all__ = ["main", "plan_runs"]


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; return 1 if a wanted bound does not hold, but for quick runs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Heliograph. Benchmarks: " + ", ".join(ALL),
        epilog="Without names, all that need nothing but this folder: " + ", ".join(DEFAULT),
    )
    parser.add_argument("words", nargs="*", metavar="NAME [ARGUMENT ...]", help="benchmarks, each with its arguments")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything works")
    parser.add_argument("--all", action="store_true", help="all questions of a retrieval set, not the first 200")
    parser.add_argument("--minutes", type=float, help="how long a soak goes on")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--write-docs", action="store_true", help="render docs/benchmarks.md from the latest results")
    given = parser.parse_args(arguments)
    try:
        runs = plan_runs(given.words)
    except ValueError as error:
        parser.error(str(error))
    missed = 0
    for name, extra in runs:
        report = run_isolated(name, Options(given.quick, extra, given.all, given.minutes))
        print(report.text(), f"({report.seconds:.0f} s, {write_report(report, given.results)})\n", sep="", flush=True)
        missed += sum(figure.is_good is False for figure in report.figures)
    if given.write_docs:
        print(write_page(given.results), *write_tables(given.results), sep="\n")
    return 1 if missed and not given.quick else 0


def plan_runs(words: list[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return benchmark names with their arguments.

    Raises:
        ValueError: The first word names no benchmark.
    """
    runs: list[tuple[str, tuple[str, ...]]] = []
    for word in words:
        if word in ALL:
            runs.append((word, ()))
        elif runs:
            runs[-1] = (runs[-1][0], (*runs[-1][1], word))
        else:
            raise ValueError(f"there is no benchmark {word!r}; there are {', '.join(ALL)}")
    return runs or [(name, ()) for name in DEFAULT]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
