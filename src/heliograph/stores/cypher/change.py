"""Changes as statements of one transaction.

A relation whose end is not there yet, or not any more, hangs on a node that has an id only; nobody sees such a node,
and it goes with its last relation. No index covers relationships of all types, so a node `RelationEnds` stands for each
relation and says where it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heliograph.stores.cypher.database import Dialect, Statement, quote
from heliograph.stores.cypher.mapping import entity_row, first_keyword, relation_row
from heliograph.stores.cypher.names import TypeNames
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import ProjectionChange

# Both are asked with `ids`, and tell what is stored now.
LABELS = """
UNWIND $ids AS id MATCH (e:Entity {workspace: $workspace, id: id}) WHERE e.entity_type IS NOT NULL
RETURN e.id, e.entity_type
"""
ENDS = """
UNWIND $ids AS id MATCH (k:RelationEnds {workspace: $workspace, id: id}) RETURN k.id, k.source_id, k.target_id, k.type
"""
_UNLABEL = "UNWIND $ids AS id MATCH (e:Entity {{workspace: $workspace, id: id}}) REMOVE e:{label}"
_UNRELATE = """
UNWIND $rows AS row
MATCH (k:RelationEnds {workspace: $workspace, id: row.id})
WITH k, row MATCH (a:Entity {workspace: $workspace, id: row.source_id})
WITH k, row, a MATCH (b:Entity {workspace: $workspace, id: row.target_id})
WITH k, row, a, b MATCH (a)-[r]->(b) WHERE r.id = row.id
DELETE r, k
"""
_CHANGE = """
UNWIND $rows AS row
MATCH (a:Entity {workspace: $workspace, id: row.source_id})
WITH row, a MATCH (b:Entity {workspace: $workspace, id: row.target_id})
WITH row, a, b MATCH (a)-[r]->(b) WHERE r.id = row.id
SET r += row.properties
"""
_PUT = """
UNWIND $rows AS row
MERGE (e:Entity {{workspace: $workspace, id: row.id}})
SET e += row.properties SET e:{workspace_label} SET e.degree = coalesce(e.degree, 0)
"""
_EMPTY = """
UNWIND $ids AS id MATCH (e:Entity {workspace: $workspace, id: id})
SET e = {workspace: $workspace, id: id, degree: e.degree}
"""
_COUNT = "UNWIND $ids AS id MATCH (e:Entity {{workspace: $workspace, id: id}}) SET e.degree = {degree}"
_PRUNE = """
UNWIND $ids AS id MATCH (e:Entity {workspace: $workspace, id: id})
WHERE e.displayName IS NULL AND e.degree = 0 DELETE e
"""


@dataclass(frozen=True, slots=True)
class StoredEnds:
    """A relation as it is stored: where, and by which type."""

    source_id: str
    target_id: str
    type: str


def named_entities(change: ProjectionChange) -> list[str]:
    """Return the ids of all entities that a change puts or removes."""
    return [*change.removed.get(OutboxKind.ENTITIES, ()), *(item.id for item in change.entities)]


def named_relations(change: ProjectionChange) -> list[str]:
    """Return the ids of all relations that a change puts or removes."""
    return [*change.removed.get(OutboxKind.RELATIONS, ()), *(item.id for item in change.relations)]


def change_statements(
    change: ProjectionChange,
    dialect: Dialect,
    types: TypeNames,
    labels: Mapping[str, str],
    ends: Mapping[str, StoredEnds],
    workspace_label: str,
) -> list[Statement]:
    """Return what takes a change in.

    Args:
        change: What to take in.
        dialect: Of the database.
        types: Names of relationship types.
        labels: Label per id, of the entities that it names and that are stored.
        ends: Likewise of the relations.
        workspace_label: What all entities are labelled.
    """
    entities = [entity_row(item) for item in change.entities]
    relations = [relation_row(item, types.name(first_keyword(item))) for item in change.relations]
    wanted = {row["id"]: StoredEnds(row["source_id"], row["target_id"], row["type"]) for row in relations}
    stale = {id_: stored for id_, stored in ends.items() if wanted.get(id_) != stored}
    gone = list(change.removed.get(OutboxKind.ENTITIES, ()))
    loose = {*gone, *_ends_of(stale)}
    touched = loose | set(_ends_of(wanted))
    put = _PUT.format(workspace_label=quote(workspace_label))
    return [
        *_unlabel(entities, labels),
        *_over("rows", [_stale_row(id_, stored) for id_, stored in stale.items()], _UNRELATE),
        *_over("rows", entities, put),
        *dialect.label_entities(entities),
        *dialect.relate([row for row in relations if ends.get(row["id"]) != wanted[row["id"]]]),
        *_over("rows", [row for row in relations if ends.get(row["id"]) == wanted[row["id"]]], _CHANGE),
        *_over("ids", gone, _EMPTY),
        *_over("ids", sorted(touched), _COUNT.format(degree=dialect.degree)),
        *_over("ids", sorted(loose), _PRUNE),
    ]


def _unlabel(entities: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> list[Statement]:
    wanted = {row["id"]: row["label"] for row in entities}
    groups: dict[str, list[str]] = defaultdict(list)
    for id_, label in labels.items():
        if wanted.get(id_) != label:
            groups[label].append(id_)
    return [Statement(_UNLABEL.format(label=quote(label)), {"ids": ids}) for label, ids in sorted(groups.items())]


def _stale_row(id_: str, stored: StoredEnds) -> dict[str, str]:
    return {"id": id_, "source_id": stored.source_id, "target_id": stored.target_id}


def _over(name: str, values: Sequence[Any], text: str) -> list[Statement]:
    return [Statement(text, {name: values})] if values else []


def _ends_of(relations: Mapping[str, StoredEnds]) -> Iterator[str]:
    return (end for one in relations.values() for end in (one.source_id, one.target_id))
