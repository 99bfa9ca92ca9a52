"""Evidence and folds of what a `Scope` leaves, from the mentions in its chunks alone; what was folded is kept there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from heliograph.models import Entity, EntityEvidence, EntityMention, Relation, RelationEvidence, RelationMention
from heliograph.stores.base import Fold
from heliograph.stores.scoped.scope import Scope

T = TypeVar("T")
# Unix seconds at which the first of the documents was first seen, and what they say, in canonical order.
EntitySaid = tuple[int, list[EntityMention]]
RelationSaid = tuple[int, list[RelationMention]]


@dataclass(frozen=True, slots=True)
class ScopedReading(ABC):
    """What a filter leaves of one moment, how it is folded, and reading as of that moment."""

    scope: Scope
    fold: Fold

    @abstractmethod
    async def read_entity_mentions(self, ids: Sequence[str]) -> Mapping[str, EntitySaid]:
        """Return what the chunks of the scope say of these entities, all of which are in it."""

    @abstractmethod
    async def read_relation_mentions(self, ids: Sequence[str]) -> Mapping[str, RelationSaid]:
        """Return what the chunks of the scope say of these relations, all of which are in it."""

    async def read_entity_evidence(self, ids: Sequence[str], leading: int) -> list[EntityEvidence]:
        """Return, in order, the evidence that the scope has of these entities."""
        said = await self.read_entity_mentions([id_ for id_ in ids if id_ in self.scope.entities])
        counted = (self.fold.count_entity(id_, said[id_][1], leading) for id_ in ids if id_ in said)
        return [replace(evidence, version=self.scope.version) for evidence in counted]

    async def read_relation_evidence(self, ids: Sequence[str], leading: int) -> list[RelationEvidence]:
        """Return, in order, the evidence that the scope has of these relations."""
        said = await self.read_relation_mentions([id_ for id_ in ids if id_ in self.scope.relations])
        counted = (self.fold.count_relation(id_, self._ends(id_), said[id_][1], leading) for id_ in ids if id_ in said)
        return [replace(evidence, version=self.scope.version) for evidence in counted]

    async def fold_entities(self, ids: Iterable[str]) -> dict[str, Entity]:
        """Return those of the entities that are in the scope, as the scope folds them, in order."""
        scope = self.scope
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ in scope.entities]
        found = {id_: item for id_ in wanted if isinstance(item := scope.folded.get(id_), Entity)}
        missing = [id_ for id_ in wanted if id_ not in found]
        for id_, (moment, mentions) in (await self.read_entity_mentions(missing)).items():
            entity = self.fold.fold_entity(self.fold.count_entity(id_, mentions, self.fold.leading))
            found[id_] = replace(entity, degree=len(scope.entities[id_]), created_at=moment)
            scope.remember(found[id_])
        return {id_: found[id_] for id_ in wanted if id_ in found}

    async def fold_relations(self, ids: Iterable[str]) -> dict[str, Relation]:
        """Return those of the relations that are in the scope, as the scope folds them, in order."""
        scope = self.scope
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ in scope.relations]
        found = {id_: item for id_ in wanted if isinstance(item := scope.folded.get(id_), Relation)}
        missing = [id_ for id_ in wanted if id_ not in found]
        for id_, (moment, mentions) in (await self.read_relation_mentions(missing)).items():
            counted = self.fold.count_relation(id_, self._ends(id_), mentions, self.fold.leading)
            found[id_] = replace(self.fold.fold_relation(counted), created_at=moment)
            scope.remember(found[id_])
        return {id_: found[id_] for id_ in wanted if id_ in found}

    def _ends(self, relation_id: str) -> tuple[str, str]:
        tie = self.scope.relations[relation_id]
        return tie.source_id, tie.target_id


class ScopedReader(Protocol):
    """Reads under one filter."""

    async def read(self, work: Callable[[ScopedReading], Awaitable[T]]) -> T:
        """Run `work` on what the filter leaves of one moment."""
        ...
