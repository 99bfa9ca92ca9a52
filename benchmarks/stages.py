"""Where the time of an ingest goes, seen from outside: a thread looks at all others a hundred times a second.

A thread counts for the stage whose file lies innermost on its stack; waiting threads count for none. Stages overlap,
since documents are worked on at once, so shares are of wall time and need not add up to one.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

import heliograph

__all__ = ["StageSampler"]

_PACKAGE = str(Path(heliograph.__file__).parent) + "/"
# The first that fits; what lies below `text/` works for whoever called it.
_STAGES = {
    "ingest/chunking": "chunk",
    "ingest/reading": "chunk",
    "ingest/intake": "chunk",
    "extraction/": "extract",
    "embedding/": "embed",
    "stores/": "commit",
    "ingest/": "fold",
}
_WAITING = ("threading.py", "selectors.py", "queue.py", "concurrent/futures/thread.py")
_INTERVAL_SECONDS = 0.01


class StageSampler:
    """Counts stages while its `with` block runs."""

    def __init__(self) -> None:
        self._samples = 0
        self._seen: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def shares(self) -> dict[str, float]:
        """Return, per stage, the share of wall time in which some thread was in it."""
        return {stage: self._seen[stage] / max(1, self._samples) for stage in dict.fromkeys(_STAGES.values())}

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_SECONDS):
            self._samples += 1
            frames = sys._current_frames()
            self._seen.update({stage for frame in frames.values() if (stage := _stage(frame))})


def _stage(frame: FrameType) -> str | None:
    if frame.f_code.co_filename.endswith(_WAITING):
        return None
    outer: FrameType | None = frame
    while outer is not None:
        path = outer.f_code.co_filename
        if path.startswith(_PACKAGE):
            inner = path.removeprefix(_PACKAGE)
            for prefix, stage in _STAGES.items():
                if inner.startswith(prefix):
                    return stage
        outer = outer.f_back
    return None
