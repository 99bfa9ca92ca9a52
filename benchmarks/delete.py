"""Deletes single documents from a workspace of 1,000 and from one of 100,000.

Taken is the CPU time of each call of `AsyncHeliograph.delete`, on one core. A document has one chunk, 21 entities and
22 relations; a third of the entities is shared by Zipf's law, so hubs lose a mention with nearly every document.
The large workspace is kept in the system's folder for temporary files (its filling takes long) and gets back what was
deleted from it.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from benchmarks.corpus import CorpusExtractor, HashEmbedding, corpus_document
from benchmarks.measure import Stopwatch, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph
from heliograph.ids import document_id

__all__ = ["TITLE", "run"]

TITLE = "Deleting one document"

_DIMENSION = 64
_STORED = (1_000, 100_000)
_BATCH = 500
_MOST_MILLISECONDS = 20.0
_MOST_GROWTH = 1.5
_BLOCKS = 5
_WARM_UP = 5


def run(options: Options) -> Findings:
    """Measure at both sizes in turn; 30,000 instead of 100,000 unless everything is asked for."""
    how = pin()
    stored = (100, 300) if options.quick else (_STORED if options.everything else (_STORED[0], 30_000))
    watches = asyncio.run(_measure(stored, 10 if options.quick else 100))
    figures = [
        Figure(f"{size:,} stored", watch.median(_BLOCKS), "ms", at_most=_MOST_MILLISECONDS, note=watch.spread())
        for size, watch in watches.items()
    ]
    small, large = (watches[size].median(_BLOCKS) for size in stored)
    figures.append(Figure(f"growth from {stored[0]:,} to {stored[1]:,}", large / small, at_most=_MOST_GROWTH))
    return Findings(tuple(figures), (f"the least median of {_BLOCKS} blocks; {how}.",))


async def _measure(stored: tuple[int, ...], repeats: int) -> dict[int, Stopwatch]:
    watches = {size: Stopwatch() for size in stored}
    folders = {size: await _filled(size) for size in stored}
    engines = {size: _open(folder) for size, folder in folders.items()}
    for engine in engines.values():
        await engine.open()
    try:
        for number in range(_WARM_UP + repeats):
            for size, engine in engines.items():
                document = corpus_document(number * (size // (_WARM_UP + repeats)))
                id_ = document.id or document_id(document.source)
                with watches[size].lap():
                    report = await engine.delete(id_)
                if not report.deleted:
                    raise RuntimeError(
                        f"the document {id_!r} is not in {folders[size]}; delete that folder and run again"
                    )
                await engine.insert(document)
    finally:
        for engine in engines.values():
            await engine.close()
    for watch in watches.values():
        del watch.laps[:_WARM_UP]
    return watches


async def _filled(size: int) -> Path:
    folder = Path(tempfile.gettempdir()) / f"heliograph-benchmark-documents-{size}"
    if (folder / "complete").exists():
        return folder
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    async with _open(folder) as kb:
        for start in range(0, size, _BATCH):
            await kb.insert([corpus_document(number) for number in range(start, min(start + _BATCH, size))])
    (folder / "complete").touch()
    return folder


def _open(folder: Path) -> AsyncHeliograph:
    return AsyncHeliograph(folder, embedding=HashEmbedding(_DIMENSION), extractor=CorpusExtractor())
