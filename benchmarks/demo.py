"""Runs `heliograph demo` on a machine that has never run it, and again on one that has.

Taken is wall time, since this is what a newcomer waits for: a new process indexes the 30 pages of samples, English and
Chinese, with the offline embedding and the local extractor, and answers four questions. The first run begins with an
empty cache folder, so that the embedding's graph is built from the weights; the second finds the graph but an empty
workspace; the third finds both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings

__all__ = ["TITLE", "run"]

TITLE = "From nothing to the first answers"

_COMMAND = [sys.executable, "-c", "from heliograph.cli import main; main()", "demo"]
_MOST_SECONDS = 60.0


def run(options: Options) -> Findings:  # noqa: ARG001 (there is no shorter form)
    """Run the demo three times."""
    with TemporaryDirectory() as name:
        root = Path(name)
        cold = _run_demo(root, "first")
        indexed = _run_demo(root, "second")
        unchanged = _run_demo(root, "second")
    return Findings(
        (
            Figure("nothing cached", cold, "s", at_most=_MOST_SECONDS),
            Figure("embedding's graph cached, workspace empty", indexed, "s"),
            Figure("everything indexed already", unchanged, "s"),
        )
    )


def _run_demo(root: Path, workspaces: str) -> float:
    """Run the demo with its cache below `root` and return how long it took."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HELIOGRAPH_")}
    places = {"XDG_CACHE_HOME": str(root / "cache"), "HELIOGRAPH_STORE__DATA_DIR": str(root / workspaces)}
    start = time.monotonic()
    done = subprocess.run(_COMMAND, cwd=root, env=clean | places, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the demo failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return time.monotonic() - start
