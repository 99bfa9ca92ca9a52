"""A retrieval set whose chunks are ranked by the fused search alone, without the rest of a query."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.registry import Options
from benchmarks.retrieval import find_folders, recall
from heliograph import AsyncHeliograph, NewDocument
from heliograph.embedding.base import EmbeddingModel, QueryCachedEmbeddingModel, build_embedding_model
from heliograph.query.fusion import FusedSearch, SearchLimits
from heliograph.query.plan import FusionParameters
from heliograph.settings import Settings
from heliograph.stores.base import StoreView
from heliograph.stores.changeset import Collection

__all__ = ["RankedSet", "open_ranked_set", "wanted_sets"]

Vector = NDArray[np.float32]

_MOST_QUESTIONS = 100
_CUT = 5
_MOST_VECTORS = 200_000


@dataclass(frozen=True)
class RankedSet:
    """One set, indexed: every passage is a document, its title a first line.

    Attributes:
        name: Its folder's.
        questions: With gold passages, the first 100.
        embedding: What embeds them.
    """

    name: str
    questions: Sequence[dict[str, Any]]
    embedding: EmbeddingModel
    _store: StoreView

    async def recall(self, parameters: FusionParameters | None = None, said: Callable[[str], str] = str) -> float:
        """Return R@5 of the fused search, in per cent.

        Args:
            parameters: Its parameters.
            said: What becomes of a question before it is asked.
        """
        search = FusedSearch(self._store, self.embedding, parameters)
        limits = SearchLimits(min_cosine=self.embedding.info.min_score)

        async def rank(question: str, vector: Vector) -> Sequence[str]:
            return (await search.search(question, vector, limits)).chunk_ids

        return await self._recall(rank, said)

    async def recall_by_vector(self, said: Callable[[str], str] = str) -> float:
        """Return R@5 of the chunks nearest to the question, in per cent."""

        async def rank(_: str, vector: Vector) -> Sequence[str]:
            return [hit.id for hit in await self._store.vectors.search(Collection.CHUNKS, vector, 2 * _CUT, -1.0)]

        return await self._recall(rank, said)

    async def _recall(
        self, rank: Callable[[str, Vector], Awaitable[Sequence[str]]], said: Callable[[str], str]
    ) -> float:
        shares: list[float] = []
        for item in self.questions:
            question = said(str(item["question"]))
            (vector,) = (await self.embedding.embed([question], "query")).vectors
            chunk_ids = await rank(question, vector)
            sources = await self._store.records.get_sources(chunk_ids)
            shares.append(recall([sources[id_] for id_ in chunk_ids], frozenset(item["gold"]), _CUT))
        return 100 * fmean(shares)


def wanted_sets(options: Options, default: Sequence[str]) -> tuple[list[Path], Path | None]:
    """Return the folders of the sets that arguments name, and the folder `data=FOLDER` that keeps their indexes."""
    words = [word.partition("=") for word in options.arguments]
    data = next((Path(value) for name, sign, value in words if sign and name == "data"), None)
    return list(find_folders([name for name, sign, _ in words if not sign] or default)), data


@asynccontextmanager
async def open_ranked_set(
    folder: Path, data: Path | None, is_quick: bool, model: EmbeddingModel | None = None
) -> AsyncGenerator[RankedSet]:
    """Open a set, indexed with an embedding (the offline one) and the local extractor unless `data` holds its index."""
    questions = [item for item in _read(folder / "queries.jsonl") if item["gold"]][: 3 if is_quick else _MOST_QUESTIONS]
    passages = list(_read(folder / "corpus.jsonl"))[: 40 if is_quick else None]
    async with AsyncExitStack() as stack:
        model = model or await build_embedding_model(Settings.load().embedding)
        stack.push_async_callback(model.close)
        # Variants of a search ask the same questions and follow mostly the same bridges.
        embedding = QueryCachedEmbeddingModel(model, _MOST_VECTORS)
        place = data or stack.enter_context(TemporaryDirectory())
        kb = await stack.enter_async_context(AsyncHeliograph(place, workspace=folder.name, embedding=embedding))
        if not (await kb.stats()).chunks:
            await kb.insert([_document(item) for item in passages])
        store = kb.store
        yield RankedSet(folder.name, questions, embedding, store)


def _document(item: dict[str, Any]) -> NewDocument:
    title = item.get("title") or ""
    return NewDocument(f"{title}\n{item['text']}" if title else item["text"], source=item["id"], title=title)


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
