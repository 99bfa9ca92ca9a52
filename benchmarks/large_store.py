"""A workspace of 50,000 entities, filled once and kept for the benchmarks of one run that ask it questions."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from benchmarks.corpus import CorpusExtractor, HashEmbedding, corpus_document
from heliograph import AsyncHeliograph

__all__ = ["DIMENSION", "large_store", "open_large_store"]

DIMENSION = 384
_ENTITIES = 50_000
_BATCH = 250


def open_large_store(folder: Path, embedding: HashEmbedding | None = None) -> AsyncHeliograph:
    """Return a workspace of the corpus, not opened yet."""
    return AsyncHeliograph(folder, embedding=embedding or HashEmbedding(DIMENSION), extractor=CorpusExtractor())


def large_store(entities: int = _ENTITIES) -> Path:
    """Return the folder of a workspace with at least that many entities, making it if it is not there.

    It stands in the system's folder for temporary files and is made again when the corpus or the code has changed
    since, so that the benchmarks that need it may run one after the other or alone.
    """
    folder = Path(tempfile.gettempdir()) / f"heliograph-benchmark-{entities}"
    mark = folder / "complete"
    if mark.exists() and mark.stat().st_mtime > _newest_source():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    asyncio.run(_fill(folder, entities))
    mark.touch()
    return folder


async def _fill(folder: Path, entities: int) -> None:
    count = 0
    async with open_large_store(folder) as kb:
        while (await kb.stats()).entities < entities:
            batch = [corpus_document(number) for number in range(count, count + min(_BATCH, entities // 10))]
            await kb.insert(batch)
            count += len(batch)


def _newest_source() -> float:
    root = Path(__file__).parents[1]
    sources = [
        path for part in ("stores", "ingest", "extraction") for path in root.glob(f"src/heliograph/{part}/**/*.py")
    ]
    sources.append(root / "benchmarks" / "corpus.py")
    return max(path.stat().st_mtime for path in sources)
