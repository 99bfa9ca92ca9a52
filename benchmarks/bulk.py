"""Indexes 3000 documents in batches and notes CPU time as it goes.

The documents are those of the benchmark before. The exponent is the slope of total CPU time over documents on
logarithmic axes, from 250 documents on: 1 is linear, 2 quadratic. Write amplification is bytes written until the
workspace is closed over the size of its files afterwards, by calls to `write` and by what the system passed on to the
disk (Linux only; the database is synced at every commit).
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.corpus import CorpusExtractor, HashEmbedding, corpus_document
from benchmarks.measure import bytes_written, folder_bytes, growth_exponent, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph

__all__ = ["TITLE", "run"]

TITLE = "Indexing 3000 documents"

_DOCUMENTS = 3000
_STEP = 250
_DIMENSION = 384
_MOST_EXPONENT = 1.1
_MOST_AMPLIFICATION = 8.0


def run(options: Options) -> Findings:
    """Measure once; a total of thousands of documents needs no repetition."""
    how = pin()
    documents, step = (60, 20) if options.quick else (_DOCUMENTS, _STEP)
    with TemporaryDirectory() as folder:
        before = bytes_written()
        laps = asyncio.run(_index(Path(folder), documents, step))
        after = bytes_written()
        stored = folder_bytes(Path(folder))
    sizes = [step * (place + 1) for place in range(len(laps))]
    first, last = laps[1] - laps[0], laps[-1] - laps[-2]
    figures = [
        Figure("growth exponent of CPU time", growth_exponent(sizes, laps), at_most=_MOST_EXPONENT),
        Figure("CPU time a document, all of it", 1000 * laps[-1] / documents, "ms"),
        Figure(f"CPU time a document, {step + 1} to {2 * step}", 1000 * first / step, "ms"),
        Figure(f"CPU time a document, the last {step}", 1000 * last / step, "ms"),
        Figure("bytes stored a document", stored / documents / 1000, "kB"),
    ]
    if before and after:
        written = after.since(before)
        figures += [
            Figure("write amplification, by calls", written.calls / stored, at_most=_MOST_AMPLIFICATION),
            Figure("write amplification, to the disk", written.storage / stored, at_most=_MOST_AMPLIFICATION),
        ]
    return Findings(tuple(figures), (f"{documents:,} documents, vectors of {_DIMENSION}; {how}.",))


async def _index(folder: Path, documents: int, step: int) -> list[float]:
    """Return CPU seconds since the start after every `step` documents, the last one after closing."""
    laps: list[float] = []
    start = time.process_time()
    async with AsyncHeliograph(folder, embedding=HashEmbedding(_DIMENSION), extractor=CorpusExtractor()) as kb:
        for first in range(0, documents, step):
            await kb.insert([corpus_document(number) for number in range(first, first + step)])
            laps.append(time.process_time() - start)
    laps[-1] = time.process_time() - start
    return laps
