"""Vectors in PostgreSQL beside another store: the three tables that LightRAG's users know, searched as at home."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingInfo
from heliograph.models import Entity, Relation
from heliograph.settings import StoreSettings
from heliograph.stores.base import Hit
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.postgres.address import Address
from heliograph.stores.postgres.codec import Vectors, to_json
from heliograph.stores.postgres.projection import PostgresProjection
from heliograph.stores.postgres.records_write import chunk_row, chunk_statements
from heliograph.stores.postgres.session import Statement
from heliograph.stores.postgres.vector_index import VectorIndexer
from heliograph.stores.postgres.vector_write import VECTOR_TABLES, check_dimensions
from heliograph.stores.postgres.vectors import PostgresVectorStore
from heliograph.stores.projection import ProjectionChange, VectorProjection

_KINDS = {
    OutboxKind.CHUNKS: Collection.CHUNKS,
    OutboxKind.ENTITIES: Collection.ENTITIES,
    OutboxKind.RELATIONS: Collection.RELATIONS,
}
_REMOVE = "DELETE FROM {table} WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"
_NEW = """JOIN ROWS FROM (json_array_elements_text(%s), unnest(%s::vector[])) AS vectors (id, embedding)
  ON vectors.id = new.id"""
_ENTITIES = f"""
INSERT INTO lightrag_entities (workspace, id, entity_name, content, embedding)
SELECT %s, new.id, new.entity_name, new.content, vectors.embedding
FROM json_to_recordset(%s) AS new (id text, entity_name text, content text) {_NEW}
ON CONFLICT (workspace, id) DO UPDATE SET entity_name = excluded.entity_name, content = excluded.content,
  embedding = excluded.embedding"""
_RELATIONS = f"""
INSERT INTO lightrag_relationships (workspace, id, src_id, tgt_id, content, embedding)
SELECT %s, new.id, new.src_id, new.tgt_id, new.content, vectors.embedding
FROM json_to_recordset(%s) AS new (id text, src_id text, tgt_id text, content text) {_NEW}
ON CONFLICT (workspace, id) DO UPDATE SET src_id = excluded.src_id, tgt_id = excluded.tgt_id,
  content = excluded.content, embedding = excluded.embedding"""
_OTHER = f"""
SELECT new.id FROM json_to_recordset(%s) AS new (id text, {{types}}) {_NEW}
LEFT JOIN {{table}} AS kept ON kept.workspace = %s AND kept.id = new.id
WHERE ({{kept}}, kept.embedding) IS DISTINCT FROM ({{new}}, vectors.embedding)"""
# What stands beside the vectors, with its types.
_COLUMNS = {
    Collection.CHUNKS: "full_doc_id text, chunk_order_index integer, tokens integer, content text, "
    "start_offset integer, end_offset integer, page integer, headings text, context text",
    Collection.ENTITIES: "entity_name text, content text",
    Collection.RELATIONS: "src_id text, tgt_id text, content text",
}


class PostgresVectorProjection(PostgresProjection, VectorProjection):
    """The vectors of one workspace in pgvector."""

    kinds = frozenset(_KINDS)
    role = "vectors"
    tables = tuple(VECTOR_TABLES.values())
    scanned: ClassVar = {kind: f"{VECTOR_TABLES[item]} AND embedding IS NOT NULL" for kind, item in _KINDS.items()}

    def __init__(self, address: Address, settings: StoreSettings, embedding: EmbeddingInfo) -> None:
        super().__init__(address, settings, embedding)
        self._vectors = PostgresVectorStore(self._database, (embedding.name, embedding.dimension), is_home=False)
        self._indexer = VectorIndexer(self._database, embedding.dimension)

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        return await self._vectors.search(collection, vector, limit, min_score)

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        return await self._vectors.get_vectors(collection, ids)

    async def apply(self, change: ProjectionChange) -> None:
        await super().apply(change)
        for collection, put in change.vectors.items():
            self._indexer.count(collection, len(put))

    async def set_cursor(self, version: int) -> None:
        """See `Projection`; builds indexes that are due: when it is filled anew, once all is there."""
        await super().set_cursor(version)
        await self._indexer.look()

    async def clear(self) -> None:
        await super().clear()
        await self._indexer.drop_all()

    def statements(self, change: ProjectionChange) -> Iterator[Statement]:
        """See `PostgresProjection`; what has no vector is not kept."""
        workspace = self._database.workspace
        there = {
            Collection.CHUNKS: [item.id for item in change.chunks],
            Collection.ENTITIES: [item.id for item in change.entities],
            Collection.RELATIONS: [item.id for item in change.relations],
        }
        for kind, collection in _KINDS.items():
            vectors = change.vectors.get(collection, {})
            bare = [id_ for id_ in there[collection] if id_ not in vectors]
            if gone := [*change.removed.get(kind, ()), *bare]:
                yield Statement(_REMOVE.format(table=VECTOR_TABLES[collection]), (workspace, to_json(gone)))
            if put := [id_ for id_ in there[collection] if id_ in vectors]:
                yield from self._put(change, collection, VectorBatch(tuple(put), np.stack([vectors[i] for i in put])))

    def comparisons(self, expected: ProjectionChange) -> Iterator[Statement]:
        rows = {
            Collection.CHUNKS: [*map(chunk_row, expected.chunks)],
            Collection.ENTITIES: [*map(_entity, expected.entities)],
            Collection.RELATIONS: [*map(_relation, expected.relations)],
        }
        for collection, vectors in expected.vectors.items():
            if vectors:
                names = [column.split()[0] for column in _COLUMNS[collection].split(", ")]
                query = _OTHER.format(
                    types=_COLUMNS[collection],
                    table=VECTOR_TABLES[collection],
                    kept=", ".join(f"kept.{name}" for name in names),
                    new=", ".join(f"new.{name}" for name in names),
                )
                given = to_json(list(vectors)), Vectors(np.stack([*vectors.values()]), self._database.vector_type)
                yield Statement(query, (to_json(rows[collection]), *given, self._database.workspace))

    def _put(self, change: ProjectionChange, collection: Collection, batch: VectorBatch) -> Iterator[Statement]:
        workspace, vector_type = self._database.workspace, self._database.vector_type
        wanted = set(batch.ids)
        chunks = tuple(item for item in change.chunks if item.id in wanted)
        put = Changeset(chunks=chunks, vectors={collection: batch})
        check_dimensions(put, self._embedding.dimension)
        vectors = to_json(batch.ids), Vectors(batch.vectors, vector_type)
        match collection:
            case Collection.CHUNKS:
                yield from chunk_statements(workspace, put, vector_type)
            case Collection.ENTITIES:
                yield Statement(_ENTITIES, (workspace, to_json(map(_entity, change.entities)), *vectors))
            case Collection.RELATIONS:
                yield Statement(_RELATIONS, (workspace, to_json(map(_relation, change.relations)), *vectors))


def _entity(item: Entity) -> Mapping[str, Any]:
    return {"id": item.id, "entity_name": item.name, "content": f"{item.name}\n{item.description}"}


def _relation(item: Relation) -> Mapping[str, Any]:
    content = "\t".join((",".join(item.keywords), item.source, item.target, item.description))
    return {"id": item.id, "src_id": item.source, "tgt_id": item.target, "content": content}
