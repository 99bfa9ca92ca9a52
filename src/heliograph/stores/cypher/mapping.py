"""Entities and relations as properties, and back.

`displayName`, `description`, `entity_type`, `source_id`, `keywords` and `weight` are what programs that know LightRAG's
graphs read: chunk ids joined by `<SEP>`, keywords by commas, an entity's type as its label has it. The others hold what
these cannot give back exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliograph.models import FIELD_SEPARATOR, Entity, Relation
from heliograph.stores.cypher.names import RELATED, label_name

# What `to_entity` and `to_relation` take, of the node `e` and the relationship `r`.
ENTITY = """e.id, e.displayName, e.type, e.description, e.aliases, e.source_id, e.token_count, e.degree,
 e.created_at"""
RELATION = """r.id, r.source_name, r.target_name, r.source_entity, r.target_entity, r.keyword_list, r.description,
 r.weight, r.source_id, r.token_count, r.created_at"""


def first_keyword(relation: Relation) -> str:
    """Return what a relation is called where it has one name."""
    return relation.keywords[0] if relation.keywords else RELATED.lower()


def entity_row(entity: Entity) -> dict[str, Any]:
    """Return an entity as a row of parameters: `id`, `label`, `properties`."""
    properties = {
        "displayName": entity.name,
        "entity_type": label_name(entity.type),
        "type": entity.type,
        "description": entity.description,
        "source_id": FIELD_SEPARATOR.join(entity.chunk_ids),
        "aliases": list(entity.aliases),
        "token_count": entity.token_count,
        "created_at": entity.created_at,
    }
    return {"id": entity.id, "label": properties["entity_type"], "properties": properties}


def relation_row(relation: Relation, type_: str) -> dict[str, Any]:
    """Return a relation as a row of parameters: `id`, `source_id`, `target_id`, `type`, `properties`."""
    properties = {
        "keywords": ",".join(relation.keywords),
        "description": relation.description,
        "weight": relation.weight,
        "source_id": FIELD_SEPARATOR.join(relation.chunk_ids),
        "relation_type": first_keyword(relation),
        "keyword_list": list(relation.keywords),
        "source_name": relation.source,
        "target_name": relation.target,
        "source_entity": relation.source_id,
        "target_entity": relation.target_id,
        "token_count": relation.token_count,
        "created_at": relation.created_at,
    }
    ends = {"source_id": relation.source_id, "target_id": relation.target_id}
    return {"id": relation.id, **ends, "type": type_, "properties": properties}


def to_entity(values: Sequence[Any]) -> Entity:
    """Return the entity of the values of `ENTITY`."""
    id_, name, type_, description, aliases, source_id, token_count, degree, created_at = values
    return Entity(
        *(id_, name, type_, description, tuple(aliases), _split(source_id), token_count, degree, created_at),
    )


def to_relation(values: Sequence[Any]) -> Relation:
    """Return the relation of the values of `RELATION`."""
    id_, source, target, source_id, target_id, keywords, description, weight, chunks, token_count, created_at = values
    return Relation(
        *(id_, source, target, source_id, target_id, tuple(keywords), description, float(weight)),
        *(_split(chunks), token_count, created_at),
    )


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(FIELD_SEPARATOR)) if text else ()
