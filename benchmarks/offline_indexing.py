"""Indexes the samples, English and Chinese, with nothing replaced: offline embedding, local extractor, durable store.

Taken is wall time on all cores from the call to the last commit, models loaded before; speed is in o200k_base tokens of
document text, so that nothing a pipeline does to itself (overlaps, headings, entities, relations) counts as work done.
Medians of several new workspaces. Beside it, how long the model takes to load, and by sampling all threads
(`benchmarks/stages.py`) in which share of the time some thread chunked, extracted, embedded, folded or committed.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.stages import StageSampler
from heliograph import AsyncHeliograph, NewDocument
from heliograph.embedding.base import EmbeddingMeter, EmbeddingModel, build_embedding_model
from heliograph.extraction.local import LocalExtractor
from heliograph.ingest.files import find_samples
from heliograph.settings import Settings
from heliograph.text.analysis import detect_language
from heliograph.text.tokens import count_tokens

__all__ = ["TITLE", "run"]

TITLE = "Indexing offline, everything included"

_LEAST_TOKENS_PER_SECOND = 2500.0


def run(options: Options) -> Findings:
    """Measure all samples together and each language on its own."""
    return asyncio.run(_measure(1 if options.quick else 3, 3 if options.quick else None))


async def _measure(repeats: int, most: int | None) -> Findings:
    samples = find_samples()
    english = [item for item in samples if detect_language(item.text) != "zh"][:most]
    chinese = [item for item in samples if detect_language(item.text) == "zh"][:most]
    embedding = await build_embedding_model(Settings.load().embedding)
    try:
        loading = await _load(embedding)
        with StageSampler() as sampler:
            both = await _speed([*english, *chinese], embedding, repeats)
        alone = [await _speed(part, embedding, repeats) for part in (english, chinese)]
    finally:
        await embedding.close()
    shares = ", ".join(f"{stage} {share:.0%}" for stage, share in sampler.shares().items())
    return Findings(
        (
            Figure("all samples", both.tokens_per_second, "tokens/s", at_least=_LEAST_TOKENS_PER_SECOND),
            Figure("English", alone[0].tokens_per_second, "tokens/s"),
            Figure("Chinese", alone[1].tokens_per_second, "tokens/s"),
            Figure("all samples, by CPU time", both.tokens_per_cpu_second, "tokens/s of one core"),
            Figure("tokens embedded per document token", both.embedded_per_token, note="counted by the model"),
            Figure("loading the embedding, its graph cached", loading, "s"),
        ),
        (
            f"{_describe(english)} of English, {_describe(chinese)} of Chinese; medians of {repeats} workspaces. "
            f"Share of the time with work in: {shares}.",
        ),
    )


async def _load(embedding: EmbeddingModel) -> float:
    """Return how long the first text took, in seconds, and let the extractor load its tables, too."""
    start = time.monotonic()
    await embedding.embed(["warm"], "document")
    seconds = time.monotonic() - start
    with TemporaryDirectory() as folder:
        await _index(Path(folder), [NewDocument("灯塔在港口。The lamp is in Gannet Head.", "warm.md")], embedding)
    return seconds


@dataclass(frozen=True, slots=True)
class _Speed:
    tokens_per_second: float
    tokens_per_cpu_second: float
    embedded_per_token: float


async def _speed(documents: Sequence[NewDocument], embedding: EmbeddingMeter, repeats: int) -> _Speed:
    """Index documents into new workspaces, one after the other."""
    tokens = sum(count_tokens(item.text) for item in documents)
    seconds: list[float] = []
    before, start = embedding.usage["document"].usage.input_tokens, time.process_time()
    for _ in range(repeats):
        with TemporaryDirectory() as folder:
            seconds.append(await _index(Path(folder), documents, embedding))
    cpu_seconds = (time.process_time() - start) / repeats
    embedded = (embedding.usage["document"].usage.input_tokens - before) / repeats
    return _Speed(tokens / statistics.median(seconds), tokens / cpu_seconds, embedded / tokens)


async def _index(folder: Path, documents: Sequence[NewDocument], embedding: EmbeddingModel) -> float:
    async with AsyncHeliograph(folder, embedding=embedding, extractor=LocalExtractor()) as kb:
        start = time.monotonic()
        report = await kb.insert(list(documents))
        seconds = time.monotonic() - start
    if report.failures:
        raise RuntimeError(f"{report.failures[0].source} failed: {report.failures[0].error}")
    return seconds


def _describe(documents: Sequence[NewDocument]) -> str:
    return f"{len(documents)} pages with {sum(count_tokens(item.text) for item in documents):,} tokens"
