"""Stand between questions and an engine beside the store with the truth: nobody asks one that is away or unfinished.

Such a question fails at once with `StoreUnavailable` and says why, where it would otherwise wait for an engine that
does not answer, or read half a graph. A call that finds the engine away closes the gate; it opens when the engine has
been reached again and is up to date.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import StoreUnavailable
from heliograph.models import Entity, GraphPath, Relation, Subgraph
from heliograph.stores.base import CachedReply, GraphStore, Hit, IncidentRelation, ReplyCache, TextStore, VectorStore
from heliograph.stores.changeset import Collection
from heliograph.stores.composed.following import Following
from heliograph.stores.projection import CacheProjection, GraphProjection, TextProjection, VectorProjection

_Found = TypeVar("_Found")


class _Gate:
    """Lets calls through while what serves them is in step.

    Args:
        following: Knows whether it is.
    """

    def __init__(self, following: Following) -> None:
        self._following = following

    async def _through(self, ask: Callable[[], Awaitable[_Found]]) -> _Found:
        self._check()
        try:
            found = await ask()
        except StoreUnavailable as error:
            self._following.note_failure(error)
            raise
        # What began to be made anew meanwhile may have been read in part.
        self._check()
        return found

    def _check(self) -> None:
        projector = self._following.projector
        if trouble := projector.trouble:
            raise StoreUnavailable(f"{projector.name!r} cannot be asked now: {trouble}")


class GatedGraphStore(_Gate, GraphStore):
    """A graph beside the store with the truth."""

    def __init__(self, following: Following, graph: GraphProjection) -> None:
        super().__init__(following)
        self._graph = graph

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        return await self._through(lambda: self._graph.get_entities(ids))

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        return await self._through(lambda: self._graph.get_relations(ids))

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        return await self._through(lambda: self._graph.rank_incident_relations(entity_ids))

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        return await self._through(lambda: self._graph.list_entities(offset, limit))

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        return await self._through(lambda: self._graph.find_relations_among(entity_ids))

    async def get_neighbourhood(self, entity_id: str, depth: int, max_entities: int) -> Subgraph:
        return await self._through(lambda: self._graph.get_neighbourhood(entity_id, depth, max_entities))

    async def find_shortest_paths(
        self, source_id: str, target_id: str, max_length: int, limit: int, most_visited: int = 200_000
    ) -> list[GraphPath]:
        ask = self._graph.find_shortest_paths
        return await self._through(lambda: ask(source_id, target_id, max_length, limit, most_visited))


class GatedVectorStore(_Gate, VectorStore):
    """Vectors beside the store with the truth, which has each of them, too: read by id they come from there.

    They are as exact there and cost less than as text over HTTP.
    """

    def __init__(self, following: Following, vectors: VectorProjection, home: VectorStore) -> None:
        super().__init__(following)
        self._vectors = vectors
        self._home = home

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        return await self._through(lambda: self._vectors.search(collection, vector, limit, min_score))

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        return await self._home.get_vectors(collection, ids)


class GatedTextStore(_Gate, TextStore):
    """Full text beside the store with the truth."""

    def __init__(self, following: Following, text: TextProjection) -> None:
        super().__init__(following)
        self._text = text

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        return await self._through(lambda: self._text.search(collection, terms, limit))

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        return await self._through(lambda: self._text.find_phrases(collection, phrases, limit))


class GatedReplyCache(_Gate, ReplyCache):
    """Replies beside the store with the truth."""

    def __init__(self, following: Following, cache: CacheProjection) -> None:
        super().__init__(following)
        self._cache = cache

    async def get_reply(self, key: str) -> CachedReply | None:
        return await self._through(lambda: self._cache.get_reply(key))

    async def put_reply(self, reply: CachedReply) -> None:
        await self._through(lambda: self._cache.put_reply(reply))

    async def delete_replies(self, cache_type: str | None = None) -> int:
        return await self._through(lambda: self._cache.delete_replies(cache_type))

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        return await self._through(lambda: self._cache.list_replies(after, limit))
