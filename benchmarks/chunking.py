"""Compares the chunking strategies by what retrieval finds, offline.

Passages of a retrieval set are indexed without extraction, once each as a document of its own and once five
consecutive ones joined to a document (of a Markdown set under a heading each), where strategies can differ. Of a large
set that is the first 80 questions, all fives that hold gold of theirs, and others spread evenly, 400 passages in all
if that is enough. The questions are asked of the chunks' vectors, of BM25 over their terms, and of the sum of both
(cosine plus 0.3 of the share of the best BM25 score). A chunk stands for the passages that it shares half of itself or
of them with; R@5 is the mean share of a question's gold among the first five passages.

`python -m benchmarks chunking [FOLDER ...]`; a name without a folder is looked for in `../shared/bench`. `--all` takes
all of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tests.memory_store import MemoryStore

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.retrieval import recall
from heliograph.documents.markdown import clean_text
from heliograph.embedding.base import (
    EmbeddingKind,
    EmbeddingModel,
    Embeddings,
    WrapperEmbeddingModel,
    build_embedding_model,
)
from heliograph.extraction.base import NoExtractor
from heliograph.ids import document_id
from heliograph.ingest.models import NewDocument
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.models import Chunk, Usage
from heliograph.settings import EmbeddingSettings, IngestSettings
from heliograph.stores.changeset import Collection
from heliograph.text.analysis import terms

__all__ = ["TITLE", "run"]

TITLE = "Chunking strategies"

_SETS = Path(__file__).parents[2] / "shared" / "bench"
_DEFAULT = ("gitlab_handbook", "lihua_world")
_STRATEGIES: tuple[Literal["tokens", "semantic", "markdown"], ...] = ("tokens", "semantic", "markdown")
_FIVE = 5
_MOST_PASSAGES, _MOST_QUESTIONS = 400, 80
_CUT = 5
_BM25_WEIGHT = 0.3
_HEADING_MARK = " > "


@dataclass(frozen=True, slots=True)
class _Passage:
    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    gold: frozenset[str]
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Joined:
    """A document, and which passage stands from where to where in it."""

    document: NewDocument
    spans: tuple[tuple[str, int, int], ...]


class _RememberingEmbedding(WrapperEmbeddingModel):
    """Embeds every text once: most chunks are the same under all strategies."""

    def __init__(self, inner: EmbeddingModel) -> None:
        super().__init__(inner)
        self._vectors: dict[tuple[str, EmbeddingKind], NDArray[np.float32]] = {}

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        missing = list(dict.fromkeys(text for text in texts if (text, kind) not in self._vectors))
        if missing:
            found = await self.inner.embed(missing, kind)
            self._vectors.update(((text, kind), row) for text, row in zip(missing, found.vectors, strict=True))
        return Embeddings(np.stack([self._vectors[text, kind] for text in texts]), Usage())


def run(options: Options) -> Findings:
    """Measure each strategy on each set."""
    most = (60, 5) if options.quick else (_MOST_PASSAGES, _MOST_QUESTIONS)
    most = (sys.maxsize, sys.maxsize) if options.everything else most
    folders = [Path(name) if Path(name).exists() else _SETS / name for name in options.arguments or _DEFAULT]
    present = [folder for folder in folders if (folder / "corpus.jsonl").exists()]
    notes = [f"{folder.name} is not there and was left out." for folder in folders if folder not in present]
    figures: list[Figure] = []
    for folder in present:
        found, note = asyncio.run(_measure_set(folder, *most))
        figures += found
        notes.append(note)
    return Findings(tuple(figures), tuple(notes))


async def _measure_set(folder: Path, most_passages: int, most_questions: int) -> tuple[list[Figure], str]:
    embedding = _RememberingEmbedding(await build_embedding_model(EmbeddingSettings()))  # pyright: ignore[reportCallIssue]
    asked = [item for item in _read(folder / "queries.jsonl") if item["gold"]][:most_questions]
    passages = _sample(folder, {id_ for item in asked for id_ in item["gold"]}, most_passages)
    vectors = (await embedding.embed([item["question"] for item in asked], "query")).vectors
    questions = [
        _Question(item["question"], frozenset(item["gold"]), row) for item, row in zip(asked, vectors, strict=True)
    ]
    figures: list[Figure] = []
    for joined in (1, _FIVE):
        documents = list(_join(passages, joined))
        for strategy in _STRATEGIES:
            label = f"{folder.name}, {f'{joined} joined' if joined > 1 else 'single'}, {strategy}"
            figures += await _measure(label, documents, strategy, embedding, questions)
    await embedding.close()
    return figures, f"{folder.name}: {len(passages):,} passages, {len(questions):,} questions."


def _sample(folder: Path, gold: set[str], most: int) -> list[_Passage]:
    """Return fives of consecutive passages: all that hold gold, and others spread evenly up to `most` passages."""
    passages = [
        _Passage(item["id"], clean_text(item["title"]), clean_text(item["text"]).strip())
        for item in _read(folder / "corpus.jsonl")
    ]
    fives = [passages[first : first + _FIVE] for first in range(0, len(passages), _FIVE)]
    kept = {index for index, five in enumerate(fives) if any(passage.id in gold for passage in five)}
    others = [index for index in range(len(fives)) if index not in kept]
    room = min(len(others), max(0, most // _FIVE - len(kept)))
    kept.update(others[index * len(others) // room] for index in range(room))
    return [passage for index in sorted(kept) for passage in fives[index]]


def _join(passages: Sequence[_Passage], count: int) -> Iterator[_Joined]:
    for first in range(0, len(passages), count):
        group = passages[first : first + count]
        text, spans = "", []
        for passage in group:
            _, _, heading = passage.title.partition(_HEADING_MARK)
            start = len(text)
            is_section = count > 1 and bool(heading)
            text += f"## {heading}\n\n{passage.text}" if is_section else f"{passage.title}\n{passage.text}"
            spans.append((passage.id, start, len(text)))
            text += "\n\n"
        title = group[0].title.partition(_HEADING_MARK)[0] if count > 1 else group[0].title
        yield _Joined(NewDocument(text, f"{count}/{group[0].id}", title), tuple(spans))


async def _measure(
    label: str,
    documents: Sequence[_Joined],
    strategy: Literal["tokens", "semantic", "markdown"],
    embedding: EmbeddingModel,
    questions: Sequence[_Question],
) -> list[Figure]:
    store = MemoryStore()
    settings = IngestSettings(chunking=strategy)  # pyright: ignore[reportCallIssue]
    await IngestPipeline(store, embedding, NoExtractor(), None, settings).insert([item.document for item in documents])
    passages: dict[str, list[str]] = {}
    sizes: list[int] = []
    for item in documents:
        for chunk in await store.records.get_document_chunks(document_id(item.document.source)):
            passages[chunk.id] = _passages_of(chunk, item.spans)
            sizes.append(chunk.token_count)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for question in questions:
        for way, scores in (await _scores(store, question, len(passages))).items():
            ranked = sorted(scores, key=lambda id_: (-scores[id_], id_))
            ids = [passage for id_ in ranked for passage in passages[id_]]
            found[way].append(recall(ids, question.gold, _CUT))
    note = f"{len(sizes):,} chunks of {fmean(sizes):.0f} tokens"
    return [Figure(f"{label}, {way}, R@{_CUT}", 100 * fmean(shares), "%", note=note) for way, shares in found.items()]


async def _scores(store: MemoryStore, question: _Question, count: int) -> dict[str, dict[str, float]]:
    near = await store.vectors.search(Collection.CHUNKS, question.vector, count, -1.0)
    said = await store.text.search(Collection.CHUNKS, terms(question.text), count)
    vector = {hit.id: hit.score for hit in near}
    bm25 = {hit.id: hit.score for hit in said}
    best = max(bm25.values(), default=1.0)
    both = {id_: score + _BM25_WEIGHT * bm25.get(id_, 0.0) / best for id_, score in vector.items()}
    return {"vector": vector, "BM25": bm25, "sum": both}


def _passages_of(chunk: Chunk, spans: Sequence[tuple[str, int, int]]) -> list[str]:
    """Return the passages that a chunk stands for, the one it shares most with first."""
    shared = sorted(((min(end, chunk.end) - max(start, chunk.start), end - start, id_) for id_, start, end in spans))
    shared.reverse()
    fitting = [id_ for common, length, id_ in shared if 2 * common >= min(length, chunk.end - chunk.start)]
    return fitting or [shared[0][2]]


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
