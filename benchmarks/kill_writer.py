"""The process that `benchmarks.kill` kills: it inserts, replaces and deletes documents and says when each is done.

    python -m benchmarks.kill_writer FOLDER FIRST_WAVE

Its work is a fixed list of waves; operations of one wave run at once and concern different documents. Whatever it
did before it is resumed first; an operation done twice changes nothing the second time.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import CorpusExtractor, HashEmbedding, corpus_document
from heliograph import AsyncHeliograph
from heliograph.ids import document_id

__all__ = ["DIMENSION", "WAVES", "Operation", "open_workspace", "perform"]

DIMENSION = 64
_WAVE = 8
_DOCUMENTS = 40
# Extraction seems to take up to this long, so that a kill lands before, during and after the commits.
_DELAY_SECONDS = 0.006


@dataclass(frozen=True, slots=True)
class Operation:
    """Bring a document to a version, or delete it (version None)."""

    number: int
    version: int | None

    @property
    def document_id(self) -> str:
        """Id of the document."""
        return document_id(corpus_document(self.number).source)


def _waves() -> tuple[tuple[Operation, ...], ...]:
    inserted = [Operation(number, 0) for number in range(_DOCUMENTS)]
    replaced = [Operation(number, 1) for number in range(0, _DOCUMENTS, 3)]
    deleted = [Operation(number, None) for number in range(1, _DOCUMENTS, 5)]
    stages = (inserted, replaced, deleted)
    return tuple(tuple(stage[first : first + _WAVE]) for stage in stages for first in range(0, len(stage), _WAVE))


WAVES = _waves()


def open_workspace(folder: Path, delay_seconds: float = 0.0) -> AsyncHeliograph:
    """Return the workspace, not opened yet."""
    return AsyncHeliograph(folder, embedding=HashEmbedding(DIMENSION), extractor=CorpusExtractor(delay_seconds))


async def perform(kb: AsyncHeliograph, operation: Operation) -> None:
    """Do one operation; when this returns, it is acknowledged."""
    if operation.version is None:
        await kb.delete(operation.document_id)
        return
    report = await kb.insert(corpus_document(operation.number, operation.version))
    if report.failures:
        raise report.failures[0].error or RuntimeError("a document failed without an error")


async def _write(folder: Path, first_wave: int) -> None:
    print("open", flush=True)
    async with open_workspace(folder, _DELAY_SECONDS) as kb:
        await kb.resume()
        for number, wave in enumerate(WAVES[first_wave:], first_wave):
            await asyncio.gather(*(_acknowledge(kb, number, place) for place in range(len(wave))))
    print("closed", flush=True)


async def _acknowledge(kb: AsyncHeliograph, wave: int, place: int) -> None:
    await perform(kb, WAVES[wave][place])
    print(wave, place, flush=True)


if __name__ == "__main__":
    asyncio.run(_write(Path(sys.argv[1]), int(sys.argv[2])))
