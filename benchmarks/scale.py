"""Grows one workspace and measures, at each size, what every operation costs.

A document has ten chunks of some 250 tokens; each chunk names two entities of its own and two of a pool of 20,000 by
Zipf's law, and four relations among them: two entities and four relations a chunk. Models cost nothing. The workspace
grows by bulk inserts; at each size it is closed, opened in a new process (CPU time, peak resident memory), asked in
each mode with and without a filter, and gets a document added, updated and deleted, which are medians of several.
Check, backup and export read everything and are taken once. `slope` is the exponent by which the CPU time grows
from the smallest to the largest size: 0 does not grow, 1 is linear. Sizes are 1,000 and 10,000 chunks; arguments are
others, from the smallest to the largest, and `folder=FOLDER`, where the workspace stays and grows on from the size that
it has. A million chunks take an hour and a half and 22 GB; above 100,000 nothing is exported or checked.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.corpus import NOUNS, HashEmbedding
from benchmarks.measure import Stopwatch, bytes_written, folder_bytes, growth_exponent, peak_memory_mib
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph, QueryParam
from heliograph.extraction.base import Extractor, ignore_progress
from heliograph.filters import Range
from heliograph.ids import mention_rank
from heliograph.ingest.models import NewDocument
from heliograph.models import Chunk, Document, EntityMention, Extraction, RelationMention
from heliograph.settings import Settings

__all__ = [
    "CHUNKS",
    "CHUNK_TOKENS",
    "DIMENSION",
    "TITLE",
    "StatementExtractor",
    "plant_question",
    "report_document",
    "run",
]

TITLE = "One workspace as it grows"

_ROOT = Path(__file__).parents[1]
CHUNKS = 10
CHUNK_TOKENS = 300
_POOL = 20_000
_BATCH = 200
DIMENSION = 384
# Chunks up to which the workspace is exported and checked, which takes as long as it is large.
_MOST_READ_WHOLE = 100_000
_MODES = ("naive", "local", "global", "mix", "fusion")
_FILLER = "while the crew of the eastern station waits for the pressure to settle and writes the hour into the book"
_STATEMENT = re.compile(r"\[([^\]]+)\] (feeds|controls|protects|replaces) \[([^\]]+)\]")
_VERBS = ("feeds", "controls", "protects", "replaces")


def run(options: Options) -> Findings:
    """Measure at each size."""
    if options.quick:
        sizes, repeats = (40, 80), 2
    else:
        sizes = tuple(int(word) for word in options.arguments if "=" not in word) or (1_000, 10_000)
        repeats = 15
    given = dict(word.split("=", 1) for word in options.arguments if "=" in word)
    with TemporaryDirectory() as name:
        costs = [_measure(Path(given.get("folder", name)), size, repeats) for size in sizes]
    figures: list[Figure] = []
    for what in dict.fromkeys(what for cost in costs for what in cost):
        values = [cost[what] for cost in costs if what in cost]
        known = (pair for pair in zip(sizes, costs, strict=True) if what in pair[1])
        figures += [Figure(f"{what}: {size:,} chunks", cost[what]) for size, cost in known]
        if what.endswith("ms CPU") and not options.quick and len(values) == len(sizes) > 1:
            figures.append(Figure(f"{what}: slope", growth_exponent(sizes, values)))
    return Findings(tuple(figures), (f"Documents of {CHUNKS} chunks, vectors of {DIMENSION}.",))


class StatementExtractor(Extractor):
    """Reads the statements in brackets."""

    @property
    def name(self) -> str:
        """See `Extractor`."""
        return "statements"

    async def extract(
        self,
        document: Document,  # noqa: ARG002
        chunks: Sequence[Chunk],
        on_chunk: Callable[[], None] = ignore_progress,
    ) -> list[Extraction]:
        """See `Extractor`."""
        found: list[Extraction] = []
        for chunk in chunks:
            rank = mention_rank(chunk.document_id, chunk.position, is_subject=False)
            statements = _STATEMENT.findall(chunk.text)
            names = dict.fromkeys(name for source, _, target in statements for name in (source, target))
            found.append(
                Extraction(
                    chunk.id,
                    self.name,
                    tuple(EntityMention(chunk.id, name, "artifact", f"{name} is in use.", rank) for name in names),
                    tuple(
                        RelationMention(chunk.id, source, target, (verb,), f"{source} {verb} {target}.", 1.0, rank)
                        for source, verb, target in statements
                    ),
                )
            )
            on_chunk()
        return found


def report_document(number: int, version: int = 0) -> NewDocument:
    """Return a document of `CHUNKS` chunks; another version has other entities of its own."""
    state = random.Random(number * 7 + version)
    sections: list[str] = []
    for place in range(CHUNKS):
        own = [f"Unit {number}-{version}-{place}{letter} {state.choice(NOUNS)}" for letter in "ab"]
        shared = [_shared_name(state) for _ in "ab"]
        pairs = (own, (own[0], shared[0]), (own[1], shared[1]), shared)
        lines = (f"[{a}] {state.choice(_VERBS)} [{b}] {_FILLER}, {_FILLER}." for a, b in pairs)
        sections.append(f"## Section {place} of report {number}\n\n" + " ".join(lines))
    return NewDocument(text="\n\n".join(sections), source=f"report-{number:07}.md", metadata={"number": number})


def _shared_name(state: random.Random) -> str:
    rank = int(_POOL ** state.random())
    return f"Plant {rank} {NOUNS[rank % len(NOUNS)]}"


def _open(folder: Path, rows: int = 8192) -> AsyncHeliograph:
    # A section of a document is a chunk: two of them would not fit into one.
    settings = Settings(ingest={"chunk_tokens": CHUNK_TOKENS})  # pyright: ignore[reportArgumentType]
    embedding = HashEmbedding(DIMENSION, rows)
    return AsyncHeliograph(folder, settings=settings, embedding=embedding, extractor=StatementExtractor())


def _measure(folder: Path, size: int, repeats: int) -> dict[str, float]:
    costs = asyncio.run(_fill(folder, size))
    costs["on disk, MB"] = folder_bytes(folder) / 1e6
    probe = [sys.executable, "-m", "benchmarks.scale", str(folder)]
    opened = subprocess.run(probe, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return costs | json.loads(opened.stdout) | asyncio.run(_use(folder, size // CHUNKS, repeats))


async def _fill(folder: Path, size: int) -> dict[str, float]:
    costs: dict[str, float] = {}
    async with _open(folder) as kb:
        stored = (await kb.stats()).chunks
        wall, cpu, written = time.monotonic(), time.process_time(), bytes_written()
        for first in range(stored // CHUNKS, size // CHUNKS, _BATCH):
            await kb.insert([report_document(number) for number in range(first, min(first + _BATCH, size // CHUNKS))])
        added = (await kb.stats()).chunks - stored
        if not added:
            return costs
        costs["bulk insert, chunks a second"] = added / (time.monotonic() - wall)
        costs["bulk insert of a chunk, ms CPU"] = 1000 * (time.process_time() - cpu) / added
        if written and (after := bytes_written()):
            costs["bytes written a chunk, kB"] = after.since(written).calls / added / 1000
    return costs


async def _use(folder: Path, documents: int, repeats: int) -> dict[str, float]:
    async with _open(folder) as kb:
        costs = await _ask(kb, documents, repeats) | await _change(kb, documents, repeats)
        with TemporaryDirectory() as outside:
            costs["backup, ms CPU"] = await _once(lambda: kb.backup(Path(outside) / "backup.db"))
            if documents * CHUNKS <= _MOST_READ_WHOLE:
                costs["export, ms CPU"] = await _once(lambda: kb.export(Path(outside) / "export"))
        if documents * CHUNKS <= _MOST_READ_WHOLE:
            costs["check, ms CPU"] = await _once(kb.check)
    return costs


async def _once(operation: Callable[[], Awaitable[object]]) -> float:
    watch = Stopwatch()
    with watch.lap():
        await operation()
    return watch.laps[0]


def plant_question(number: int) -> tuple[str, QueryParam]:
    """Return a question about two plants of the pool, with its keywords."""
    a, b = (f"Plant {rank} {NOUNS[rank % len(NOUNS)]}" for rank in (number % 900 + 1, number % 400 + 100))
    return f"What does {a} do for {b} in report {number}?", QueryParam(ll_keywords=[a, b], hl_keywords=["controls"])


async def _ask(kb: AsyncHeliograph, documents: int, repeats: int) -> dict[str, float]:
    costs: dict[str, float] = {}
    for filter_, label in ((None, ""), (Range("number", lt=documents // 2), " filtered")):
        for mode in _MODES:
            watch = Stopwatch()
            for number in range(-2, repeats):
                question, param = plant_question(37 * (number + 2))
                with watch.lap():
                    await kb.query_data(question, replace(param, mode=mode, filter=filter_))
            del watch.laps[:2]
            costs[f"question {mode}{label}, ms CPU"] = watch.median()
    return costs


async def _change(kb: AsyncHeliograph, documents: int, repeats: int) -> dict[str, float]:
    watches = {what: Stopwatch() for what in ("add", "update", "delete")}
    for number in range(documents, documents + repeats):
        with watches["add"].lap():
            report = await kb.insert([report_document(number)])
        with watches["update"].lap():
            await kb.insert([report_document(number, version=1)])
        with watches["delete"].lap():
            await kb.delete(report.results[0].id)
    return {f"{what} one document, ms CPU": watch.median() for what, watch in watches.items()}


async def _probe(folder: Path) -> dict[str, float]:
    kb = _open(folder, rows=256)
    start = time.process_time()
    await kb.open()
    opened = time.process_time()
    question, param = plant_question(1)
    await kb.query_data(question, param)
    answered = time.process_time()
    costs = {
        "open, ms CPU": 1000 * (opened - start),
        "open and first answer, ms CPU": 1000 * (answered - start),
        "peak memory of that process, MiB": peak_memory_mib(),
    }
    await kb.close()
    return costs


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_probe(Path(sys.argv[1])))))
