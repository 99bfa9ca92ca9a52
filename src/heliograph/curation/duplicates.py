"""Finds likely duplicates of entities by near vectors and similar spelling, to be merged by people or by a setting.

Two entities are a pair if their vectors and the spellings of their names are both similar enough, their known types do
not differ, and their names hold the same digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from heliograph.curation.curator import Curator
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.extraction.base import UNKNOWN_TYPE
from heliograph.ids import entity_key, mention_entity_id
from heliograph.models import Curation, Entity
from heliograph.settings import ResolutionSettings
from heliograph.stores.base import Store
from heliograph.stores.changeset import Collection

_ENTITY_PAGE = 500
_NEIGHBOURS = 8
_DIGITS = re.compile(r"\d+")
_AUTHOR = "auto"
# Vectors of names alone mostly reflect spelling, and say less than vectors of descriptions.
_LEAST_DESCRIBED, _LEAST_NAMED = 0.6, 0.85


@dataclass(frozen=True, slots=True)
class DuplicatePair:
    """Two entities that may be one.

    Attributes:
        score: Mean of the two similarities below, in [0, 1].
        cosine: Cosine of their vectors.
        similarity: Similarity of the two most similar spellings of their names, in [0, 1].
        reason: Why they are proposed, for a person to read.
    """

    name: str
    other: str
    score: float
    cosine: float
    similarity: float
    reason: str


class DuplicateFinder:
    """Finds duplicates in one workspace.

    Args:
        store: The workspace.
        curator: Merges.
        settings: How similar two must be.
        are_described: Whether vectors of entities are those of descriptions, which say more than names do.
    """

    def __init__(
        self, store: Store, curator: Curator, settings: ResolutionSettings, *, are_described: bool = True
    ) -> None:
        self._store = store
        self._curator = curator
        self._settings = settings
        self._min_cosine = settings.min_duplicate_cosine or (_LEAST_DESCRIBED if are_described else _LEAST_NAMED)

    async def find(self, limit: int, entity_ids: Sequence[str] | None = None) -> list[DuplicatePair]:
        """Return up to `limit` pairs, the most similar first, of these entities and their neighbours, or of all."""
        found: dict[frozenset[str], DuplicatePair] = {}
        if entity_ids is not None:
            await self._find_among(await self._store.graph.get_entities(list(dict.fromkeys(entity_ids))), found)
        else:
            offset = 0
            while page := await self._store.graph.list_entities(offset, _ENTITY_PAGE):
                await self._find_among(page, found)
                offset += _ENTITY_PAGE
        return sorted(found.values(), key=lambda pair: (-pair.score, pair.name, pair.other))[:limit]

    async def merge_new(self, document_ids: Sequence[str]) -> list[Curation]:
        """Merge duplicates of entities in these documents, if the settings say so; return the curations."""
        if not self._settings.merge_duplicates:
            return []
        ids: dict[str, None] = {}
        for document_id in document_ids:
            chunks = await self._store.records.get_document_chunks(document_id)
            for extraction in await self._store.records.get_extractions([chunk.id for chunk in chunks]):
                ids.update(dict.fromkeys(mention_entity_id(mention) for mention in extraction.entities))
        merged: list[Curation] = []
        for pair in await self.find(len(ids), list(ids)):
            try:
                merged.append(await self._curator.merge_entities([pair.other], pair.name, author=_AUTHOR))
            except (ConflictError, InvalidRequestError, NotFoundError):
                # One of them was merged with a third before, or a person was faster.
                continue
        return merged

    async def _find_among(self, entities: Sequence[Entity], found: dict[frozenset[str], DuplicatePair]) -> None:
        vectors = await self._store.vectors.get_vectors(Collection.ENTITIES, [entity.id for entity in entities])
        for entity in entities:
            if entity.id not in vectors:
                continue
            hits = await self._store.vectors.search(
                Collection.ENTITIES, vectors[entity.id], _NEIGHBOURS + 1, self._min_cosine
            )
            cosines = {hit.id: hit.score for hit in hits if hit.id != entity.id}
            for other in await self._store.graph.get_entities(list(cosines)):
                key = frozenset((entity.id, other.id))
                if key not in found and (pair := self._pair(entity, other, cosines[other.id])) is not None:
                    found[key] = pair

    def _pair(self, entity: Entity, other: Entity, cosine: float) -> DuplicatePair | None:
        types = {entity.type, other.type} - {UNKNOWN_TYPE}
        if len(types) > 1:
            return None
        first, second = sorted((entity, other), key=lambda item: (-item.degree, item.name, item.id))
        similarity, name, alias = max(
            (spelling_similarity(name, alias), name, alias)
            for name in (first.name, *first.aliases)
            for alias in (second.name, *second.aliases)
        )
        if similarity < self._settings.min_duplicate_similarity:
            return None
        reason = f"{name!r} and {alias!r} are spelled alike ({similarity:.2f}), their vectors too ({cosine:.2f})"
        return DuplicatePair(first.name, second.name, (cosine + similarity) / 2, cosine, similarity, reason)


def spelling_similarity(name: str, other: str) -> float:
    """Return how similar the spellings of two names are, in [0, 1]; 0 if they hold different digits."""
    left, right = entity_key(name), entity_key(other)
    if _DIGITS.findall(left) != _DIGITS.findall(right):
        return 0.0
    return fuzz.token_sort_ratio(left, right) / 100
