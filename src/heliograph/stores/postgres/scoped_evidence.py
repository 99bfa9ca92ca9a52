"""Evidence and folds of what a `Scope` leaves, from the mentions in its chunks alone.

The server picks those mentions, in canonical order, by the same condition that made the scope; what was folded is kept
in the scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from heliograph.filters import Filter
from heliograph.models import Entity, EntityEvidence, EntityMention, Relation, RelationEvidence, RelationMention
from heliograph.stores.base import Fold
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.rows import (
    ENTITY_MENTION,
    RELATION_MENTION,
    to_entity_mention,
    to_relation_mention,
)
from heliograph.stores.postgres.scope import Scope, within_holders
from heliograph.stores.postgres.session import Session

__all__ = ["ScopedReading"]

_Kind = Literal["entity", "relation"]
_SAID = """SELECT mention.{kind}_id, min(holding.seen),
    json_agg({mention} ORDER BY mention.rank, mention.chunk_id, mention.ordinal)
  FROM heliograph_{kind}_mention AS mention
  JOIN lightrag_chunks AS chunk ON chunk.workspace = mention.workspace AND chunk.id = mention.chunk_id
  JOIN holding ON holding.holder = chunk.full_doc_id
  WHERE mention.workspace = %s AND mention.{kind}_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  GROUP BY mention.{kind}_id"""
_QUERIES: dict[_Kind, str] = {
    "entity": _SAID.format(kind="entity", mention=ENTITY_MENTION),
    "relation": _SAID.format(kind="relation", mention=RELATION_MENTION),
}


@dataclass(frozen=True, slots=True)
class ScopedReading:
    """One snapshot, what a filter leaves of it, and how it is folded."""

    session: Session
    scope: Scope
    filter: Filter
    fold: Fold

    async def read_entity_evidence(self, ids: Sequence[str], leading: int) -> list[EntityEvidence]:
        """Return, in order, the evidence that the scope has of these entities."""
        said = await self._entity_mentions(ids)
        counted = (self.fold.count_entity(id_, said[id_][1], leading) for id_ in ids if id_ in said)
        return [replace(evidence, version=self.scope.version) for evidence in counted]

    async def read_relation_evidence(self, ids: Sequence[str], leading: int) -> list[RelationEvidence]:
        """Return, in order, the evidence that the scope has of these relations."""
        said = await self._relation_mentions(ids)
        counted = (self.fold.count_relation(id_, self._ends(id_), said[id_][1], leading) for id_ in ids if id_ in said)
        return [replace(evidence, version=self.scope.version) for evidence in counted]

    async def fold_entities(self, ids: Iterable[str]) -> dict[str, Entity]:
        """Return those of the entities that are in the scope, as the scope folds them, in order."""
        scope = self.scope
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ in scope.entities]
        found = {id_: item for id_ in wanted if isinstance(item := scope.folded.get(id_), Entity)}
        for id_, (moment, mentions) in (
            await self._entity_mentions([id_ for id_ in wanted if id_ not in found])
        ).items():
            entity = self.fold.fold_entity(self.fold.count_entity(id_, mentions, self.fold.leading))
            found[id_] = replace(entity, degree=len(scope.entities[id_]), created_at=moment)
            scope.remember(found[id_])
        return {id_: found[id_] for id_ in wanted}

    async def fold_relations(self, ids: Iterable[str]) -> dict[str, Relation]:
        """Return those of the relations that are in the scope, as the scope folds them, in order."""
        scope = self.scope
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ in scope.relations]
        found = {id_: item for id_ in wanted if isinstance(item := scope.folded.get(id_), Relation)}
        missing = [id_ for id_ in wanted if id_ not in found]
        for id_, (moment, mentions) in (await self._relation_mentions(missing)).items():
            counted = self.fold.count_relation(id_, self._ends(id_), mentions, self.fold.leading)
            found[id_] = replace(self.fold.fold_relation(counted), created_at=moment)
            scope.remember(found[id_])
        return {id_: found[id_] for id_ in wanted}

    def _ends(self, relation_id: str) -> tuple[str, str]:
        tie = self.scope.relations[relation_id]
        return tie.source_id, tie.target_id

    async def _entity_mentions(self, ids: Sequence[str]) -> dict[str, tuple[int, list[EntityMention]]]:
        rows = await self._said("entity", [id_ for id_ in ids if id_ in self.scope.entities])
        return {id_: (moment, list(map(to_entity_mention, said))) for id_, moment, said in rows}

    async def _relation_mentions(self, ids: Sequence[str]) -> dict[str, tuple[int, list[RelationMention]]]:
        rows = await self._said("relation", [id_ for id_ in ids if id_ in self.scope.relations])
        return {id_: (moment, list(map(to_relation_mention, said))) for id_, moment, said in rows}

    async def _said(self, kind: _Kind, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return, per thing, the moment its first document was first seen, and its mentions in canonical order."""
        if not ids:
            return []
        workspace = self.session.workspace
        statement = within_holders(workspace, self.filter, _QUERIES[kind], workspace, to_json(ids))
        return await self.session.fetch(statement.query, statement.values, is_planned_anew=True)
