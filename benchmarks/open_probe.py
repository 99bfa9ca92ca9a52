"""The process that `benchmarks.open_store` measures: `python -m benchmarks.open_probe FOLDER` prints JSON."""

from __future__ import annotations

import time

from heliograph import QueryParam

_IMPORTED = time.process_time()

# Only now, so that what the benchmark itself needs is not counted as the library's import.
import asyncio  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from benchmarks.corpus import HashEmbedding  # noqa: E402
from benchmarks.large_store import DIMENSION, open_large_store  # noqa: E402
from benchmarks.measure import peak_memory_mib  # noqa: E402

__all__ = ["probe"]

_QUESTION = "How does the maintenance of the eastern station depend on its pumps?"


async def probe(folder: Path) -> dict[str, float]:
    """Open a workspace, ask, and return CPU seconds of each step and the peak memory in MiB."""
    # Few vectors, so that what stands in for the model takes no memory to speak of.
    kb = open_large_store(folder, HashEmbedding(DIMENSION, rows=256))
    start = time.process_time()
    await kb.open()
    opened = time.process_time()
    answer = await kb.query(_QUESTION, QueryParam(mode="mix", ll_keywords=["pump"], hl_keywords=["maintenance"]))
    answered = time.process_time()
    costs = {"import": _IMPORTED, "open": opened - start, "answer": answered - opened, "peak": peak_memory_mib()}
    await kb.close()
    if not answer.context.entities:
        raise RuntimeError("the first answer found no entity; the workspace is not what it should be")
    return costs


if __name__ == "__main__":
    print(json.dumps(asyncio.run(probe(Path(sys.argv[1])))))
