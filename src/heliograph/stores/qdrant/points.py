"""What is kept in Qdrant: one point per chunk, entity and relation, with the fields that its own users search by.

Workspaces share the collections; the field `workspace` is the tenant of each point, and ids of points are made from
workspace and id together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from heliograph.models import Chunk, Document, Entity, Relation
from heliograph.stores.changeset import Collection
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import ProjectionChange

COLLECTIONS: Mapping[Collection, str] = {
    Collection.CHUNKS: "knowledge_chunks",
    Collection.ENTITIES: "entities",
    Collection.RELATIONS: "relations",
}
KINDS: Mapping[OutboxKind, Collection] = {
    OutboxKind.CHUNKS: Collection.CHUNKS,
    OutboxKind.ENTITIES: Collection.ENTITIES,
    OutboxKind.RELATIONS: Collection.RELATIONS,
}
_KEYWORD, _TEXT = models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.TEXT
_INTEGER, _DATETIME = models.PayloadSchemaType.INTEGER, models.PayloadSchemaType.DATETIME
INDEXES: Mapping[Collection, Mapping[str, models.PayloadSchemaType]] = {
    Collection.CHUNKS: {
        "id": _KEYWORD,
        "doc_id": _KEYWORD,
        "content": _TEXT,
        "chunk_index": _INTEGER,
        "entities": _KEYWORD,
        "created_at": _DATETIME,
        "updated_at": _DATETIME,
    },
    Collection.ENTITIES: {
        "id": _KEYWORD,
        "name": _KEYWORD,
        "type": _KEYWORD,
        "description": _TEXT,
        "doc_ids": _KEYWORD,
    },
    Collection.RELATIONS: {"id": _KEYWORD, "source": _KEYWORD, "target": _KEYWORD, "keywords": _KEYWORD},
}
_NAMESPACE = UUID("a5b1f0f4-63f0-5a2c-9d0d-3b7a4f4a9b10")


def point_id(workspace: str, id_: str) -> str:
    """Return the id of a point, as Qdrant wants it."""
    return str(uuid5(_NAMESPACE, f"{workspace}/{id_}"))


def in_workspace(workspace: str, *conditions: models.FieldCondition) -> models.Filter:
    """Return a filter for points of one workspace that fulfil all further conditions."""
    tenant = models.FieldCondition(key="workspace", match=models.MatchValue(value=workspace))
    return models.Filter(must=[tenant, *conditions])


def make_points(workspace: str, collection: Collection, change: ProjectionChange) -> list[models.PointStruct]:
    """Return the points of one collection that a change upserts; what has no vector is left out."""
    vectors = change.vectors.get(collection, {})
    return [
        models.PointStruct(
            id=point_id(workspace, id_),
            vector=_as_list(vectors[id_]),
            payload={"workspace": workspace, "id": id_, **payload},
        )
        for id_, payload in _payloads(collection, change)
        if id_ in vectors
    ]


def document_payload(document: Document | None) -> dict[str, Any]:
    """Return what the points of a document's chunks say of it."""
    if document is None:
        return {}
    return {
        "metadata": {**document.metadata, "source": document.source, "title": document.title},
        "created_at": document.created_at.isoformat(),
        "updated_at": document.updated_at.isoformat(),
    }


def _payloads(collection: Collection, change: ProjectionChange) -> Iterable[tuple[str, dict[str, Any]]]:
    if collection is Collection.CHUNKS:
        return ((item.id, _chunk_payload(item, change)) for item in change.chunks)
    if collection is Collection.ENTITIES:
        return ((item.id, _entity_payload(item, change)) for item in change.entities)
    return ((item.id, _relation_payload(item)) for item in change.relations)


def _chunk_payload(chunk: Chunk, change: ProjectionChange) -> dict[str, Any]:
    return {
        "doc_id": chunk.document_id,
        "content": chunk.text,
        "chunk_index": chunk.position,
        "entities": list(change.names.get(chunk.id, ())),
        **document_payload(change.owners.get(chunk.document_id)),
    }


def _entity_payload(entity: Entity, change: ProjectionChange) -> dict[str, Any]:
    owners = (change.owner_ids.get(id_) for id_ in entity.chunk_ids)
    return {
        "name": entity.name,
        "type": entity.type,
        "description": entity.description,
        "doc_ids": list(dict.fromkeys(filter(None, owners))),
    }


def _relation_payload(relation: Relation) -> dict[str, Any]:
    return {
        "source": relation.source,
        "target": relation.target,
        "keywords": list(relation.keywords),
        "description": relation.description,
        "weight": relation.weight,
    }


def _as_list(vector: NDArray[np.float32]) -> list[float]:
    return vector.astype(float).tolist()
