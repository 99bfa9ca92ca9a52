"""Starts the service on 100,000 stored entities in a new process, until `/ready` is answered.

The process imports everything that `heliograph serve` imports, loads the offline embedding model, opens the workspace,
listens on loopback and answers `/ready`. CPU time of the two steps, the time on the clock, and the peak resident
memory, Python and all libraries included. Medians of several processes, files in the system's cache.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.large_store import large_store
from benchmarks.measure import pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings

__all__ = ["TITLE", "run"]

TITLE = "Starting the service"

_ROOT = Path(__file__).parents[1]
_STEPS = ("import", "open", "wall", "peak")
_MOST_SECONDS = 2.0


def run(options: Options) -> Findings:
    """Measure in processes of their own, which inherit the pinning."""
    how = pin()
    folder = large_store(400 if options.quick else 100_000)
    runs = [_probe(folder) for _ in range(1 if options.quick else 5)]
    median = {step: statistics.median(run[step] for run in runs) for step in _STEPS}
    return Findings(
        (
            Figure("importing", median["import"], "s CPU"),
            Figure("model, workspace and first answer", median["open"], "s CPU"),
            Figure("start to ready", median["import"] + median["open"], "s CPU", at_most=_MOST_SECONDS),
            Figure("start to ready on the clock", median["wall"], "s"),
            Figure("peak memory", median["peak"], "MiB"),
        ),
        (f"Medians of {len(runs)} processes, {runs[0]['entities']:,.0f} entities; {how}.",),
    )


def _probe(folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.service_probe", str(folder)]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)
