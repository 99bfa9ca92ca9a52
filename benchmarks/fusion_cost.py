"""Asks a large workspace questions by the names of its entities, in modes `fusion`, `mix` and `naive` in turn.

Taken is the CPU time of `query_data` per question, on one core: linking, channels, bridges, the walk, paths, entities,
relations and context. Models cost nothing (vectors are looked up by a checksum, no chat model), so what is left is the
engine's own. Every document is one chunk of about 350 words with 25 entities; it is about one of these and names those
of four others, so that bridges and paths lead on. Half of the questions name one entity, half name two.

The workspace has 100,000 chunks with `--all`, else 30,000 (`chunks=N`: so many), and is kept in the system's folder for
temporary files; its filling takes long and goes on where it was stopped.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.corpus import NOUNS, CorpusExtractor, HashEmbedding, corpus_document, document_entities
from benchmarks.measure import Stopwatch, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph, NewDocument, QueryParam
from heliograph.ids import mention_rank
from heliograph.ingest.extraction.base import ignore_progress
from heliograph.models import Chunk, Document, EntityMention, Extraction, RelationMention

__all__ = ["TITLE", "run"]

TITLE = "A question in mode `fusion`"

_MODES = ("fusion", "mix", "naive")
_DIMENSION = 64
_CHUNKS = 30_000
_ALL_CHUNKS = 100_000
_BATCH = 500
_LINKS = 4
# Documents named are these far away, so that the graph has no short rings.
_STRIDE = 7919
_MOST_MILLISECONDS = 25.0
_BLOCKS = 5
_WARM_UP = 5


def run(options: Options) -> Findings:
    """Measure the three modes side by side."""
    how = pin()
    given = dict(word.split("=", 1) for word in options.arguments)
    chunks = int(given.get("chunks", 200 if options.quick else _ALL_CHUNKS if options.everything else _CHUNKS))
    watches = asyncio.run(_measure(chunks, 10 if options.quick else 100))
    figures = [
        Figure(
            f"{mode}, {chunks:,} chunks",
            watch.median(_BLOCKS),
            "ms",
            at_most=_MOST_MILLISECONDS if mode == "fusion" else None,
            note=watch.spread(),
        )
        for mode, watch in watches.items()
    ]
    return Findings(tuple(figures), (f"the least median of {_BLOCKS} blocks; {how}.",))


class _LinkedExtractor(CorpusExtractor):
    """Reads what the corpus put into a document, what it is about, and the other documents' subjects that it names."""

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """See `Extractor`."""
        found = await super().extract(document, chunks, on_chunk)
        number = int(document.metadata["number"])
        return [self._linked(item, chunk, number) for item, chunk in zip(found, chunks, strict=True)]

    def _linked(self, found: Extraction, chunk: Chunk, number: int) -> Extraction:
        name, rank = _subject(number), mention_rank(chunk.document_id, chunk.position, is_subject=False)
        about = mention_rank(chunk.document_id, chunk.position, is_subject=True)
        own = tuple(replace(item, rank=about) if item.name == name else item for item in found.entities)
        others = [_subject(other) for other in _others(number)]
        named = tuple(EntityMention(chunk.id, other, "artifact", _link(name, other), rank) for other in others)
        links = tuple(
            RelationMention(chunk.id, name, other, ("supply",), _link(name, other), 1.0, rank) for other in others
        )
        return replace(found, entities=(*own, *named), relations=(*found.relations, *links))


def _subject(number: int) -> str:
    return document_entities(number)[0]


def _others(number: int) -> list[int]:
    """Return the documents whose subjects a document names: earlier ones, so that the workspace may grow."""
    places = ((number * 3 + place * _STRIDE) % max(1, number) for place in range(1, _LINKS + 1))
    return [place for place in dict.fromkeys(places) if place != number]


def _link(name: str, other: str) -> str:
    return f"{name} was delivered together with {other} by the same works."


def _document(number: int) -> NewDocument:
    document = corpus_document(number)
    links = " ".join(_link(_subject(number), _subject(other)) for other in _others(number))
    return replace(document, text=f"{document.text}\n{links}\n")


def _question(number: int) -> str:
    other = _others(number)[0]
    noun = NOUNS[number % len(NOUNS)]
    if number % 2:
        return f"Which works delivered the {noun} that {_subject(number)} was delivered with last winter?"
    return f"How does {_subject(number)} depend on the {noun} that {_subject(other)} replaced?"


async def _measure(chunks: int, questions: int) -> dict[str, Stopwatch]:
    watches = {mode: Stopwatch() for mode in _MODES}
    async with await _filled(chunks) as kb:
        for place in range(_WARM_UP + questions):
            question = _question(1 + place * (chunks // (_WARM_UP + questions + 1)) + place % 2)
            for mode, watch in watches.items():
                with watch.lap():
                    answer = await kb.query_data(question, QueryParam(mode=mode))
                if not answer["data"]["chunks"]:
                    raise RuntimeError(f"mode {mode!r} found nothing for {question!r}; delete the folder and run again")
    for watch in watches.values():
        del watch.laps[:_WARM_UP]
    return watches


async def _filled(chunks: int) -> AsyncHeliograph:
    """Return a workspace of so many documents, not opened yet."""
    folder = Path(tempfile.gettempdir()) / f"heliograph-benchmark-linked-{chunks}"
    async with _open(folder) as kb:
        for start in range((await kb.stats()).chunks // _BATCH * _BATCH, chunks, _BATCH):
            await kb.insert([_document(number) for number in range(start, min(start + _BATCH, chunks))])
    return _open(folder)


def _open(folder: Path) -> AsyncHeliograph:
    return AsyncHeliograph(folder, embedding=HashEmbedding(_DIMENSION), extractor=_LinkedExtractor())
