"""How much each parameter of fused retrieval matters: R@5 with one of them halved or doubled, all others as they are.

Every passage is a document, its title a first line; offline embedding, local extractor; `data=FOLDER` keeps the indexes
and uses them again. Only the ranking of chunks is asked for, not all of a `fusion` query. Of a large set the first 100
questions are asked. A change of a point or two is chance. The table of all parameters goes into `docs/retrieval.md`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.marked_tables import USUAL
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.retrieval import find_folders, recall
from heliograph import AsyncHeliograph, NewDocument
from heliograph.embedding.base import EmbeddingModel
from heliograph.embedding.query_cache import QueryCachedEmbeddingModel
from heliograph.embedding.registry import build_embedding_model
from heliograph.query.fusion.models import SearchLimits
from heliograph.query.fusion.parameters import FusionParameters
from heliograph.query.fusion.search import FusedSearch
from heliograph.settings import Settings
from heliograph.stores.base import StoreView

__all__ = ["TITLE", "run"]

TITLE = "Sensitivity of fused retrieval"

_DEFAULT = ("hotpotqa_train100",)
_MOST_QUESTIONS = 100
_CUT = 5
_FACTORS = {"halved": 0.5, "doubled": 2.0}
_MOST_VECTORS = 200_000


def run(options: Options) -> Findings:
    """Measure each set with each parameter changed."""
    words = [word.partition("=") for word in options.arguments]
    data = next((Path(value) for name, sign, value in words if sign and name == "data"), None)
    folders = find_folders([name for name, sign, _ in words if not sign] or _DEFAULT)
    figures = [figure for folder in folders for figure in asyncio.run(_measure(folder, data, options.quick))]
    return Findings(tuple(figures), ())


async def _measure(folder: Path, data: Path | None, is_quick: bool) -> list[Figure]:
    questions = [item for item in _read(folder / "queries.jsonl") if item["gold"]][: 3 if is_quick else _MOST_QUESTIONS]
    passages = list(_read(folder / "corpus.jsonl"))[: 40 if is_quick else None]
    async with AsyncExitStack() as stack:
        model = await build_embedding_model(Settings.load().embedding)
        stack.push_async_callback(model.close)
        # The variants ask the same questions and follow mostly the same bridges.
        embedding = QueryCachedEmbeddingModel(model, _MOST_VECTORS)
        place = data or stack.enter_context(TemporaryDirectory())
        kb = await stack.enter_async_context(AsyncHeliograph(place, workspace=folder.name, embedding=embedding))
        if not (await kb.stats()).chunks:
            await kb.insert([_document(item) for item in passages])
        store = kb._open_rooms_or_fail.store  # pyright: ignore[reportPrivateUsage]
        figures: list[Figure] = []
        for label, parameters in _variants():
            search = FusedSearch(store, embedding, parameters)
            figures.append(Figure(f"{folder.name}: {label}", await _recall(search, store, embedding, questions), "%"))
    return [replace(figures[0], note=f"{len(questions)} questions"), *figures[1:]]


def _variants() -> Iterator[tuple[str, FusionParameters]]:
    usual = FusionParameters()
    yield USUAL, usual
    for field in fields(usual):
        value = getattr(usual, field.name)
        for word, factor in _FACTORS.items():
            changed = type(value)(value * factor)
            if field.name != "damping" or changed < 1:
                yield f"{field.name} {word}", replace(usual, **{field.name: changed})


def _document(item: dict[str, Any]) -> NewDocument:
    title = item.get("title") or ""
    return NewDocument(f"{title}\n{item['text']}" if title else item["text"], source=item["id"], title=title)


async def _recall(
    search: FusedSearch, store: StoreView, embedding: EmbeddingModel, questions: Sequence[dict[str, Any]]
) -> float:
    limits = SearchLimits(min_score=embedding.info.min_score)
    shares: list[float] = []
    for item in questions:
        question = str(item["question"])
        (vector,) = (await embedding.embed([question], "query")).vectors
        chunk_ids = (await search.search(question, vector, limits)).chunk_ids
        sources = await store.records.get_sources(chunk_ids)
        shares.append(recall([sources[id_] for id_ in chunk_ids], frozenset(item["gold"]), _CUT))
    return 100 * fmean(shares)


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
