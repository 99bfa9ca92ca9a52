"""The benchmarks by name, in the order in which they run and are documented.

A benchmark is a module with `TITLE`, a docstring that says how it measures, and `run(options) -> Findings`. Each runs
in a process of its own, so that neither caches nor garbage of one show in another.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from typing import Protocol

from benchmarks.report import Environment, Findings, Report

__all__ = ["ALL", "DEFAULT", "Options", "run_benchmark", "run_isolated"]

# Run without names given; the others need something that not every machine has.
DEFAULT = (
    "add_document",
    "update",
    "delete",
    "bulk",
    "query_context",
    "fusion_cost",
    "service_query",
    "text_scale",
    "filters",
    "open_store",
    "scale",
    "service_start",
    "service_workspaces",
    "demo",
    "offline_indexing",
    "embedding_speed",
    "kill",
    "operations",
    "loading",
)
ALL = (
    *DEFAULT,
    "html_pages",
    "stores",
    "scale_postgres",
    "ray_workers",
    "cluster_scale",
    "retrieval",
    "answers",
    "manuals",
    "declining",
    "sensitivity",
    "misspelt",
    "cosine_scale",
    "chunking",
    "local_extraction",
    "entity_quality",
    "name_types",
    "versus_lightrag",
    "service_faults",
    "service_soak",
    "document_soak",
    "store_faults",
    "byte_flips",
    "web_page",
)


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a benchmark.

    Attributes:
        quick: Small sizes, to see that it works.
        arguments: What followed its name on the command line.
        everything: Do all there is, however long it takes.
        minutes: How long to go on, where that is for the caller to say; None is as long as is usual.
    """

    quick: bool = False
    arguments: tuple[str, ...] = ()
    everything: bool = False
    minutes: float | None = None


class _Benchmark(Protocol):
    TITLE: str
    run: Callable[[Options], Findings]
    __doc__: str | None


def run_benchmark(name: str, options: Options) -> Report:
    """Run a benchmark in this process and return its report."""
    benchmark: _Benchmark = import_module(f"benchmarks.{name}")  # pyright: ignore[reportAssignmentType]
    environment, start = Environment.current(), time.monotonic()
    findings = benchmark.run(options)
    return Report(
        name=name,
        title=benchmark.TITLE,
        method=cleandoc(benchmark.__doc__ or ""),
        figures=findings.figures,
        notes=findings.notes,
        is_quick=options.quick,
        seconds=round(time.monotonic() - start, 1),
        environment=environment,
    )


def run_isolated(name: str, options: Options) -> Report:
    """Run a benchmark in a new process and return its report."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run_benchmark, name, options).result()
