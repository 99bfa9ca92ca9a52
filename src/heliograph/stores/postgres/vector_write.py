"""Writing vectors to PostgreSQL, within a commit; names beside them are read from the graph just written.

`content` is the text that the vector was made of, so it stands as long as the vector does; where that is not known, as
in what is moved from another store, it is what the graph says.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from heliograph.errors import SchemaMismatch
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.stores.postgres.codec import Vectors, to_json
from heliograph.stores.postgres.session import Statement

VECTOR_TABLES = {
    Collection.CHUNKS: "lightrag_chunks",
    Collection.ENTITIES: "lightrag_entities",
    Collection.RELATIONS: "lightrag_relationships",
}
_NEW = "ROWS FROM (json_array_elements_text(%s), unnest(%s::vector[])) AS new (id, embedding)"
_CHUNKS = f"""UPDATE lightrag_chunks AS known SET embedding = new.embedding FROM {_NEW}
  WHERE known.workspace = %s AND known.id = new.id"""
_TEXTS = """ROWS FROM (json_array_elements_text(%s), unnest(%s::vector[]), json_array_elements_text(%s))
  AS new (id, embedding, content)"""
_ENTITIES = f"""
INSERT INTO lightrag_entities (workspace, id, entity_name, content, embedding)
SELECT %s, new.id, coalesce(entity.name, ''),
  coalesce(new.content, concat_ws(E'\\n', entity.name, entity.description)), new.embedding
FROM {_TEXTS} LEFT JOIN heliograph_entity AS entity ON entity.workspace = %s AND entity.id = new.id
ON CONFLICT (workspace, id) DO UPDATE SET entity_name = excluded.entity_name, content = excluded.content,
  embedding = excluded.embedding"""
_RELATIONS = f"""
INSERT INTO lightrag_relationships (workspace, id, src_id, tgt_id, content, embedding)
SELECT %s, new.id, coalesce(relation.source, ''), coalesce(relation.target, ''),
  coalesce(new.content, concat_ws(E'\\t', replace(relation.keywords, E'\\n', ','), relation.source, relation.target,
    relation.description)), new.embedding
FROM {_TEXTS} LEFT JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.id = new.id
ON CONFLICT (workspace, id) DO UPDATE SET src_id = excluded.src_id, tgt_id = excluded.tgt_id,
  content = excluded.content, embedding = excluded.embedding"""
_FORGET_NEXT = """DELETE FROM heliograph_next_vector
  WHERE workspace = %s AND collection = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"""


def check_dimensions(changeset: Changeset, dimension: int) -> None:
    """Compare the vectors of a changeset with the dimension of the workspace.

    Raises:
        SchemaMismatch: They are of another length.
    """
    for collection, batch in changeset.vectors.items():
        if batch.ids and batch.vectors.shape[1] != dimension:
            raise SchemaMismatch(
                f"vectors of {collection.value} have dimension {batch.vectors.shape[1]}, not {dimension}; "
                "set the embedding back, or run 'heliograph reembed'"
            )


def vector_statements(workspace: str, changeset: Changeset, vector_type: int) -> Iterator[Statement]:
    """Yield what applies the vector part of a changeset, after its chunks and its graph.

    A vector whose chunk is not there is passed over.
    """
    removed = {
        Collection.CHUNKS: changeset.removed_chunks,
        Collection.ENTITIES: changeset.removed_entities,
        Collection.RELATIONS: changeset.removed_relations,
    }
    for collection, gone in removed.items():
        batch = changeset.vectors.get(collection)
        put = batch.ids if batch else ()
        if gone and collection is not Collection.CHUNKS:
            query = f"""DELETE FROM {VECTOR_TABLES[collection]}
                        WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"""
            yield Statement(query, (workspace, to_json(gone)))
        if changed := {*gone, *put}:
            # What another embedding made of them, if one is on its way in, is out of date.
            yield Statement(_FORGET_NEXT, (workspace, collection.value, to_json(changed)))
        if batch and batch.ids:
            yield from _put(workspace, collection, batch, changeset, vector_type)


def _put(
    workspace: str, collection: Collection, batch: VectorBatch, changeset: Changeset, vector_type: int
) -> Iterator[Statement]:
    if collection is Collection.CHUNKS:
        written = {chunk.id for chunk in changeset.chunks}
        places = [place for place, id_ in enumerate(batch.ids) if id_ not in written]
        if places:
            ids, vectors = [batch.ids[place] for place in places], np.asarray(batch.vectors)[places]
            yield Statement(_CHUNKS, (to_json(ids), Vectors(vectors, vector_type), workspace))
        return
    query = _ENTITIES if collection is Collection.ENTITIES else _RELATIONS
    vectors = to_json(batch.ids), Vectors(batch.vectors, vector_type), to_json(batch.texts)
    yield Statement(query, (workspace, *vectors, workspace))
