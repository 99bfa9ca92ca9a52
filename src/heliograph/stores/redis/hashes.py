"""Entities, relations and documents as hashes of Redis: their fields, and back.

The first fields are those that other programs read; lists are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Document, Entity, Relation

# A cosine of two such vectors is off by less than a millionth; more would only take room.
_DECIMALS = 6
ENTITY_FIELDS = ("name", "type", "description", "aliases", "chunk_ids", "token_count", "created_at")
RELATION_FIELDS = (
    *("source", "target", "source_name", "target_name", "keywords"),
    *("description", "weight", "chunk_ids", "token_count", "created_at"),
)


def relation_type(relation: Relation) -> str:
    """Return what a relation is called where it has one name: its first keyword."""
    return relation.keywords[0] if relation.keywords else "related"


def entity_hash(
    entity: Entity, owner_ids: Mapping[str, str], vector: NDArray[np.float32] | None = None
) -> dict[str, str]:
    """Return the fields of an entity.

    Args:
        entity: The entity.
        owner_ids: Id of its document per chunk id.
        vector: `(dimension,)` float32; None leaves out the field.
    """
    owners = filter(None, (owner_ids.get(id_) for id_ in entity.chunk_ids))
    return {
        "name": entity.name,
        "type": entity.type,
        "description": entity.description,
        "doc_ids": _dump(dict.fromkeys(owners)),
        "aliases": _dump(entity.aliases),
        "chunk_ids": _dump(entity.chunk_ids),
        "token_count": str(entity.token_count),
        "created_at": str(entity.created_at),
        **({} if vector is None else {"embedding": json.dumps(vector.astype(float).round(_DECIMALS).tolist())}),
    }


def relation_hash(relation: Relation) -> dict[str, str]:
    """Return the fields of a relation; `source` and `target` are ids of entities."""
    return {
        "source": relation.source_id,
        "relation": relation_type(relation),
        "target": relation.target_id,
        "weight": repr(relation.weight),
        "source_name": relation.source,
        "target_name": relation.target,
        "keywords": _dump(relation.keywords),
        "description": relation.description,
        "chunk_ids": _dump(relation.chunk_ids),
        "token_count": str(relation.token_count),
        "created_at": str(relation.created_at),
    }


def document_hash(document: Document, chunk_ids: Sequence[str]) -> dict[str, str]:
    """Return the fields of a document.

    Args:
        document: The document.
        chunk_ids: Ids of its chunks by position.
    """
    return {
        "title": document.title,
        "source": document.source,
        "content_hash": document.content_hash,
        "chunk_ids": _dump(chunk_ids),
        "status": document.status.value,
        "metadata": json.dumps(dict(document.metadata), ensure_ascii=False),
        "created_at": document.created_at.isoformat(),
        "updated_at": document.updated_at.isoformat(),
        "error": document.error,
        "length": str(document.length),
        "chunk_count": str(document.chunk_count),
        "track_id": document.track_id,
        "input_tokens": str(document.usage.input_tokens),
        "output_tokens": str(document.usage.output_tokens),
        "page_starts": json.dumps(document.page_starts),
        "twin_of": document.twin_of,
    }


def to_entity(id_: str, fields: Sequence[str], degree: int) -> Entity:
    """Return the entity of the values of `ENTITY_FIELDS`."""
    name, type_, description, aliases, chunk_ids, token_count, created_at = fields
    return Entity(
        *(id_, name, type_, description, _load(aliases), _load(chunk_ids), int(token_count), degree, int(created_at))
    )


def to_relation(id_: str, fields: Sequence[str]) -> Relation:
    """Return the relation of the values of `RELATION_FIELDS`."""
    source, target, source_name, target_name, keywords, description, weight, chunk_ids, tokens, created_at = fields
    return Relation(
        *(id_, source_name, target_name, source, target, _load(keywords), description, float(weight)),
        *(_load(chunk_ids), int(tokens), int(created_at)),
    )


def _dump(values: Iterable[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


def _load(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))
