"""The graph of one workspace in a database that speaks Cypher.

Entities are nodes labelled `Entity`, by their workspace and by their type; relations are relationships whose type is
their first keyword. Degrees are stored with each change, so that a hub is ranked without reading what touches it.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from heliograph.errors import StoreUnavailable
from heliograph.models import Entity, Relation
from heliograph.stores.base import IncidentRelation
from heliograph.stores.cypher.change import (
    ENDS,
    LABELS,
    StoredEnds,
    change_statements,
    named_entities,
    named_relations,
)
from heliograph.stores.cypher.database import CypherDatabase, Statement
from heliograph.stores.cypher.mapping import (
    ENTITY,
    RELATION,
    entity_row,
    first_keyword,
    relation_row,
    to_entity,
    to_relation,
)
from heliograph.stores.cypher.names import RELATED, TypeNames, label_name, workspace_label
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import GraphProjection, ProjectionChange, is_alike
from heliograph.stores.stepping import SteppingGraphStore

_CLEAR_BATCH = 2000
_TYPES = "CALL db.relationshipTypes() YIELD relationshipType RETURN relationshipType"
# An index gives what is in it only where a condition is on all of its properties.
_NODES = ("Entity", "RelationEnds")
_SCANS = {
    OutboxKind.ENTITIES: """MATCH (e:Entity) WHERE e.workspace = $workspace AND e.id > $after
      AND e.displayName IS NOT NULL RETURN e.id ORDER BY e.workspace, e.id LIMIT $limit""",
    OutboxKind.RELATIONS: """MATCH (k:RelationEnds) WHERE k.workspace = $workspace AND k.id > $after
      RETURN k.id ORDER BY k.workspace, k.id LIMIT $limit""",
}
_FROM = "UNWIND $ids AS id MATCH (e:Entity {workspace: $workspace, id: id})"
# What may be many rows comes as one: drivers take longer over a row than over what is in it.
_ENTITIES = f"{_FROM} WHERE e.displayName IS NOT NULL RETURN collect([{ENTITY}])"
_RELATIONS = f"""
UNWIND $ids AS id MATCH (k:RelationEnds {{workspace: $workspace, id: id}})
WITH k MATCH (a:Entity {{workspace: $workspace, id: k.source_id}})
WITH k, a MATCH (b:Entity {{workspace: $workspace, id: k.target_id}})
WITH k, a, b MATCH (a)-[r]->(b) WHERE r.id = k.id RETURN collect([{RELATION}])
"""
_INCIDENT = f"""
{_FROM} WITH e MATCH (e)-[r]-(o) WITH DISTINCT r.id AS id, e.degree + o.degree AS degree, r.weight AS weight
RETURN collect([id, degree, weight])
"""
_LIST = f"""
MATCH (e:Entity) WHERE e.workspace = $workspace AND e.degree >= 0 AND e.displayName IS NOT NULL
RETURN {ENTITY} ORDER BY e.workspace DESC, e.degree DESC, e.displayName, e.id SKIP $offset LIMIT $limit
"""
_AMONG = f"{_FROM} WITH e MATCH (e)-[r]->(o) WHERE o.id IN $ids RETURN collect([{RELATION}])"
_STEPS = f"{_FROM} WITH e MATCH (e)-[r]-(o) RETURN e.id, o.id, r.weight"
_LEVEL = f"""
{_FROM} WITH e MATCH (e)--(o) WITH DISTINCT o WHERE o.displayName IS NOT NULL AND NOT o.id IN $behind
RETURN o.id ORDER BY o.degree DESC, o.displayName, o.id LIMIT $limit
"""
_ORDER = f"""
{_FROM} WITH e WHERE e.displayName IS NOT NULL
RETURN e.id ORDER BY e.degree DESC, e.displayName, e.id LIMIT $limit
"""
# The number is the layout's: what an earlier one filled has no cursor here, and is made anew.
_LAYOUT = 2
_GET_CURSOR = f"""
MATCH (c:HeliographCursor {{workspace: $workspace}}) WHERE c.version IS NOT NULL AND c.layout = {_LAYOUT}
RETURN c.version
"""
# A database that was started again may have lost what it took in last: the cursor must not pass over that.
_MARK = "MERGE (c:HeliographCursor {workspace: $workspace}) SET c.applied = $mark"
_SET_CURSOR = f"""
MERGE (c:HeliographCursor {{workspace: $workspace}})
WITH c WHERE ($seen IS NULL OR coalesce(c.version, -1) IN [$seen, $version]) AND ($mark IS NULL OR c.applied = $mark)
SET c.version = $version, c.layout = {_LAYOUT} RETURN c.version
"""
# What is compared with what a change would leave; degrees are counted, so that a relationship too many shows.
_KEPT_ENTITIES = f"{_FROM} RETURN e.id, labels(e), properties(e), "
_KEPT_RELATIONS = """
UNWIND $ids AS id MATCH (k:RelationEnds {workspace: $workspace, id: id})
WITH k MATCH (a:Entity {workspace: $workspace, id: k.source_id})
WITH k, a MATCH (b:Entity {workspace: $workspace, id: k.target_id})
WITH k, a, b MATCH (a)-[r]->(b) WHERE r.id = k.id RETURN k.id, k.source_id, k.target_id, k.type, type(r), properties(r)
"""
# Nodes without an id are found by no index.
_NAMELESS = "MATCH (e:Entity) WHERE e.workspace = $workspace AND e.id IS NULL"
_DROP_CURSOR = "MATCH (c:HeliographCursor {workspace: $workspace}) DELETE c"


class CypherGraphProjection(GraphProjection, SteppingGraphStore):
    """Nodes and relationships that other programs can read.

    Args:
        database: Where they are.
        workspace: Whose.
    """

    def __init__(self, database: CypherDatabase, workspace: str) -> None:
        self.name = f"graph:{database.engine.lower()}:{database.where}"
        self._database = database
        self._workspace = workspace
        self._label = workspace_label(workspace)
        self._types = TypeNames((), 0)
        self._facts: Mapping[str, str] = {}
        self._seen: int | None = None
        self._mark: str | None = None

    async def prepare(self) -> None:
        """See `Projection`; makes constraints and indexes, and sees which types there are."""
        self._facts = await self._database.prepare()
        rows = await self._database.read(Statement(_TYPES))
        self._types = TypeNames((str(name) for (name,) in rows), self._database.dialect.most_types)

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        rows = await self._read_list(_ENTITIES, ids)
        found = {row[0]: to_entity(row) for row in rows}
        return [found[id_] for id_ in ids if id_ in found]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        rows = await self._read_list(_RELATIONS, ids)
        found = {row[0]: to_relation(row) for row in rows}
        return [found[id_] for id_ in ids if id_ in found]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        rows = await self._read_list(_INCIDENT, entity_ids)
        ranked = [IncidentRelation(id_, degree, float(weight)) for id_, degree, weight in rows]
        return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        rows = await self._read(_LIST, offset=offset, limit=limit) if limit > 0 else []
        return [to_entity(row) for row in rows]

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        found = map(to_relation, await self._read_list(_AMONG, entity_ids))
        return sorted(found, key=lambda relation: (-relation.weight, relation.id))

    async def find_steps(self, entity_ids: Collection[str], limit: int | None) -> list[tuple[str, str, float]]:
        if limit is None:
            rows = await self._read(_STEPS, ids=_distinct(entity_ids))
        else:
            rows = await self._read(f"{_STEPS} LIMIT $limit", ids=_distinct(entity_ids), limit=limit)
        return [(near, far, float(weight)) for near, far, weight in rows]

    async def order_entities(self, entity_ids: Collection[str], limit: int) -> list[str]:
        return [id_ for (id_,) in await self._read(_ORDER, ids=_distinct(entity_ids), limit=limit)]

    async def find_next_level(self, frontier: Sequence[str], behind: Collection[str], limit: int) -> list[str]:
        """See `SteppingGraphStore`; the database orders and cuts a level, so that of a hub little is sent."""
        return [id_ for (id_,) in await self._read(_LEVEL, ids=list(frontier), behind=list(behind), limit=limit)]

    async def get_cursor(self) -> int:
        rows = await self._glance(_GET_CURSOR)
        self._seen, self._mark = int(rows[0][0]) if rows else -1, None
        return self._seen

    async def set_cursor(self, version: int) -> None:
        values = {"version": version, "seen": self._seen, "mark": self._mark}
        if not await self._write([Statement(_SET_CURSOR, values)]):
            raise StoreUnavailable(
                f"{self.name!r} was started again and has lost what it was given last; it is filled again"
            )
        self._seen, self._mark = version, None

    async def apply(self, change: ProjectionChange) -> None:
        """See `Projection`; all of it in one transaction."""
        entity_ids, relation_ids = named_entities(change), named_relations(change)
        labels = await self._glance(LABELS, ids=entity_ids) if entity_ids else []
        ends = await self._glance(ENDS, ids=relation_ids) if relation_ids else []
        statements = change_statements(
            *(change, self._database.dialect, self._types),
            # What others wrote in place of a type is no label of ours.
            {id_: label for id_, label in labels if label == label_name(label)},
            {row[0]: StoredEnds(*row[1:]) for row in ends},
            self._label,
        )
        if statements:
            self._mark = secrets.token_hex(8)
            await self._write([*statements, Statement(_MARK, {"mark": self._mark})])

    async def clear(self) -> None:
        """See `Projection`; in batches, the cursor first, so that what is cut short is begun again."""
        await self.prepare()
        await self._write([Statement(_DROP_CURSOR)])
        self._seen, self._mark = -1, None
        known = (f"MATCH (e:{name}) WHERE e.workspace = $workspace AND e.id > ''" for name in _NODES)
        for nodes in (*known, _NAMELESS):
            text = f"{nodes} WITH e LIMIT {_CLEAR_BATCH} DETACH DELETE e RETURN count(*)"
            while int((await self._write([Statement(text)]))[0][0]):
                pass

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """See `Projection`; other properties and labels are their owners' business."""
        entities = {item.id: item for item in expected.entities}
        relations = {item.id: item for item in expected.relations}
        kept = _KEPT_ENTITIES + self._database.dialect.degree
        nodes = await self._read(kept, ids=list(entities)) if entities else []
        joined = await self._read(_KEPT_RELATIONS, ids=list(relations)) if relations else []
        alike = {id_ for id_, *node in nodes if self._is_alike_node(entities[id_], *node)}
        right = Counter(id_ for id_, *stored in joined if self._is_alike_relation(relations[id_], *stored))
        # One that is there twice is one too many, alike or not.
        once = Counter(id_ for id_, *_ in joined)
        alike |= {id_ for id_ in right if right[id_] == once[id_] == 1}
        return (entities.keys() | relations.keys()) - alike

    def _is_alike_node(self, entity: Entity, labels: list[str], properties: dict[str, Any], degree: int) -> bool:
        row = entity_row(entity)
        wanted = row["properties"] | {"id": entity.id, "workspace": self._workspace, "degree": entity.degree}
        is_labelled = {"Entity", self._label, row["label"]} <= set(labels)
        return is_labelled and degree == entity.degree and _holds(properties, wanted)

    def _is_alike_relation(
        self, relation: Relation, source: str, target: str, noted_type: str, type_: str, properties: dict[str, Any]
    ) -> bool:
        row = relation_row(relation, type_)
        is_named = noted_type == type_ and type_ in (self._types.name(first_keyword(relation)), RELATED)
        is_placed = (source, target) == (relation.source_id, relation.target_id)
        return is_named and is_placed and _holds(properties, row["properties"] | {"id": relation.id})

    async def find_faults(self) -> list[str]:
        ((count,),) = await self._read(f"{_NAMELESS} RETURN count(e)")
        return [f"{count:,} nodes labelled Entity have no id"] if count else []

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        return [id_ for (id_,) in await self._read(_SCANS[kind], after=after, limit=limit)] if kind in _SCANS else []

    async def close(self) -> None:
        await self._database.close()

    def describe(self) -> Mapping[str, str]:
        return {"back end": self._database.engine.lower(), "address": self._database.where, **self._facts}

    async def _read(self, text: str, **parameters: Any) -> list[list[Any]]:
        return await self._database.read(Statement(text, {"workspace": self._workspace, **parameters}))

    async def _read_list(self, text: str, ids: Sequence[str]) -> list[list[Any]]:
        """Return the rows that a statement collects of these."""
        return (await self._read(text, ids=_distinct(ids)))[0][0] if ids else []

    async def _glance(self, text: str, **parameters: Any) -> list[list[Any]]:
        """Read without patience: every commit does, and one that fails is taken in with the next."""
        statement = Statement(text, {"workspace": self._workspace, **parameters})
        return await self._database.read(statement, is_patient=False)

    async def _write(self, statements: Sequence[Statement]) -> list[list[Any]]:
        mine = {"workspace": self._workspace}
        return await self._database.write([Statement(item.text, {**mine, **item.parameters}) for item in statements])


def _holds(properties: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return is_alike(wanted, {name: properties.get(name) for name in wanted})


def _distinct(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(ids))
