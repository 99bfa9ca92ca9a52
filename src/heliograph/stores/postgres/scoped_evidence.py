"""What is said of entities and relations in what a `Scope` leaves of a workspace on PostgreSQL.

The server picks the mentions, in canonical order, by the same condition that made the scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from heliograph.filters import Filter
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.rows import (
    ENTITY_MENTION,
    RELATION_MENTION,
    to_entity_mention,
    to_relation_mention,
)
from heliograph.stores.postgres.scope import within_holders
from heliograph.stores.postgres.session import Session
from heliograph.stores.scoped.reading import EntitySaid, RelationSaid, ScopedReading

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
class PostgresReading(ScopedReading):
    """One snapshot, what a filter leaves of it, and how it is folded."""

    session: Session
    filter: Filter

    async def read_entity_mentions(self, ids: Sequence[str]) -> dict[str, EntitySaid]:
        rows = await self._said("entity", ids)
        return {id_: (moment, list(map(to_entity_mention, said))) for id_, moment, said in rows}

    async def read_relation_mentions(self, ids: Sequence[str]) -> dict[str, RelationSaid]:
        rows = await self._said("relation", ids)
        return {id_: (moment, list(map(to_relation_mention, said))) for id_, moment, said in rows}

    async def _said(self, kind: _Kind, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return, per thing, the moment its first document was first seen, and its mentions in canonical order."""
        if not ids:
            return []
        workspace = self.session.workspace
        statement = within_holders(workspace, self.filter, _QUERIES[kind], workspace, to_json(ids))
        return await self.session.fetch(statement.query, statement.values, is_planned_anew=True)
