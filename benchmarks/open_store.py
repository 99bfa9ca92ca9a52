"""Opens a workspace of 50,000 entities in a new process and answers a first question.

The workspace has some 3,600 documents and 77,000 relations, vectors of 384. The process imports Heliograph, opens the
workspace, answers one question in mode mix (embedding without cost, no chat model, so the answer is quoted), and
reports the CPU time of each step and its peak resident memory, Python and all libraries included. Medians of several
processes, files in the system's cache. One more process finds the vector accelerators deleted, as after a restore
from a backup of the database alone, and builds them again.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.large_store import large_store
from benchmarks.measure import pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings

__all__ = ["TITLE", "run"]

TITLE = "Opening 50,000 entities"

_ROOT = Path(__file__).parents[1]
_STEPS = ("import", "open", "answer", "peak")
_MOST_SECONDS = 0.5
_MOST_MEMORY_MIB = 250.0


def run(options: Options) -> Findings:
    """Measure in processes of their own, which inherit the pinning."""
    how = pin()
    folder = large_store(400 if options.quick else 50_000)
    runs = [_probe(folder) for _ in range(1 if options.quick else 5)]
    median = {step: statistics.median(run[step] for run in runs) for step in _STEPS}
    with TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.turbovec", "*.postings"))
        rebuilt = _probe(copy)
    opened = median["open"] + median["answer"]
    return Findings(
        (
            Figure("importing Heliograph", median["import"], "s CPU"),
            Figure("opening", median["open"], "s CPU"),
            Figure("first answer", median["answer"], "s CPU"),
            Figure("opening and first answer", opened, "s CPU", at_most=_MOST_SECONDS),
            Figure("peak memory", median["peak"], "MiB", at_most=_MOST_MEMORY_MIB),
            Figure("opening and first answer, accelerators built again", rebuilt["open"] + rebuilt["answer"], "s CPU"),
            Figure("peak memory, accelerators built again", rebuilt["peak"], "MiB"),
        ),
        (f"Medians of {len(runs)} processes; {how}.",),
    )


def _probe(folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.open_probe", str(folder)]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)
