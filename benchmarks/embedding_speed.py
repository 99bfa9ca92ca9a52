"""What the offline embedding costs: its start, its throughput, its latency, its memory.

New processes are timed as a whole up to their first vector, with an empty cache folder and with a filled one. Then, in
this process: texts of about 100 tokens (75 English words from the sample corpus) in one call, short questions one by
one, and such questions while those texts are being embedded. Then what requests embed: a question alone, with its
keywords of both levels (mode mix), and with eleven more phrases (mode fusion), no text seen before. Wall time is on all
cores, so it depends on what else the machine does; CPU time does so much less, and is here a median of many calls.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import peak_memory_mib
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.embedding.e5.model import E5EmbeddingModel

__all__ = ["TITLE", "run"]

TITLE = "The offline embedding"

_WORDS = 75
_TEXTS = 256
_QUESTIONS = 50
# The first two stand for keywords of both levels.
_PHRASES = (
    "gateway {}, storm, repair, lamp",
    "maintenance, responsibility, weather of year {}",
    "harbour office of island {}",
    "lighthouse number {}",
    "keeper of lamp {}",
    "storm of the year {}",
    "gateway {} network",
    "repair crew {}",
    "spare parts for gateway {}",
    "letter {} to the harbour office",
    "ferry {}",
    "retained message {} of a broker",
    "certificate {} expires",
)
_FIRST_VECTOR = """
import asyncio, sys
from heliograph.embedding.base import build_embedding_model
from heliograph.settings import EmbeddingSettings

async def main():
    model = await build_embedding_model(EmbeddingSettings(cache_dir=sys.argv[1]))
    await model.embed(["Who keeps the lamp?"], "query")
    await model.close()

asyncio.run(main())
"""


def run(options: Options) -> Findings:
    """Measure starts, then throughput and latency."""
    repeats = 1 if options.quick else 3
    with TemporaryDirectory() as folder:
        cold = _seconds_to_first_vector(Path(folder))
        warm = statistics.median(_seconds_to_first_vector(Path(folder)) for _ in range(repeats))
        figures = asyncio.run(_measure(Path(folder), 32 if options.quick else _TEXTS, repeats))
    starts = (
        Figure("process start to first vector, empty cache folder", cold, "s", at_most=10.0),
        Figure("process start to first vector, filled cache folder", warm, "s", at_most=1.5),
    )
    return Findings((*starts, *figures, Figure("peak memory", peak_memory_mib(), "MiB", at_most=500.0)))


def _seconds_to_first_vector(folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", _FIRST_VECTOR, str(folder)], check=True)
    return time.perf_counter() - start


async def _measure(folder: Path, count: int, repeats: int) -> tuple[Figure, ...]:
    model = E5EmbeddingModel(folder)
    texts = _sample_texts(count)
    warm_up = await model.embed(texts[:8], "document")
    tokens = warm_up.usage.input_tokens / 8
    runs = [await _timed(model.embed(texts, "document")) for _ in range(repeats)]
    idle = [(await _timed(model.embed([_question(number)], "query")))[0] for number in range(_QUESTIONS)]
    indexing = asyncio.create_task(model.embed(texts, "document"))
    busy: list[float] = []
    while not indexing.done():
        busy.append((await _timed(model.embed([_question(len(busy))], "query")))[0])
        await asyncio.sleep(0.02)
    await indexing
    requests = await _cpu_by_request(model, repeats)
    await model.close()
    wall, processor = (min(column) for column in zip(*runs, strict=True))
    return (
        Figure("texts a second", count / wall, note=f"about {tokens:.0f} tokens each"),
        Figure("CPU time a text", 1000 * processor / count, "ms"),
        Figure("a short question, median", 1000 * statistics.median(idle), "ms"),
        Figure("a short question while texts are embedded, median", 1000 * statistics.median(busy), "ms"),
        Figure("the same, longest", 1000 * max(busy), "ms"),
        *requests,
    )


async def _cpu_by_request(model: E5EmbeddingModel, repeats: int) -> tuple[Figure, ...]:
    """Measure requests of one, three and fourteen texts in turn, so that what else the machine does meets all alike."""
    taken: dict[int, list[float]] = {1: [], 3: [], 14: []}
    tokens = dict.fromkeys(taken, 0)
    for number in range(_QUESTIONS * repeats):
        for count, times in taken.items():
            texts = [_question(number), *(phrase.format(number) for phrase in _PHRASES)][:count]
            start = time.process_time()
            embeddings = await model.embed(texts, "query")
            times.append(time.process_time() - start)
            tokens[count] = embeddings.usage.input_tokens
    names = {1: "a question", 3: "a question and its keywords", 14: "the same and eleven phrases"}
    return tuple(
        Figure(
            f"CPU time of {names[count]}",
            1000 * statistics.median(times),
            "ms",
            at_most=9.0 if count == 3 else None,
            note=f"{tokens[count]} tokens",
        )
        for count, times in taken.items()
    )


async def _timed(call: Awaitable[object]) -> tuple[float, float]:
    """Return wall and CPU seconds of a call that has not begun."""
    wall, processor = time.perf_counter(), time.process_time()
    await call
    return time.perf_counter() - wall, time.process_time() - processor


def _sample_texts(count: int) -> list[str]:
    paths = sorted(Path(str(files("heliograph") / "samples")).glob("*/*.md"))
    english = [path.read_text("utf-8") for path in paths if not path.parent.name.endswith("-zh")]
    words = " ".join(english).split()
    pieces = [" ".join(words[start : start + _WORDS]) for start in range(0, len(words) - _WORDS, _WORDS)]
    return [f"{number} {pieces[number % len(pieces)]}" for number in range(count)]


def _question(number: int) -> str:
    return f"Who repaired gateway {number} after the storm?"
