"""Vectors on PostgreSQL: pgvector's `vector`, searched exactly while few, by HNSW where an index has been built.

The statement is the same in both cases; the server chooses. It takes more candidates than asked for from the index, of
equals the first by id, and ranks them by their exact vectors. An index belongs to one workspace, so others' vectors are
not in the way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import SchemaMismatch
from heliograph.stores.base import Hit, VectorStore
from heliograph.stores.changeset import Collection
from heliograph.stores.postgres.codec import Vector, read_vectors, to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.driver import sql
from heliograph.stores.postgres.rows import WANTED
from heliograph.stores.postgres.session import Row, Statement
from heliograph.stores.postgres.vector_index import indexed_type
from heliograph.stores.postgres.vector_write import VECTOR_TABLES

_CANDIDATES_PER_HIT = 4
_LEAST_CANDIDATES = 64
_EMBEDDING = "SELECT space.embedding_name, space.embedding_dimension"
# Which embedding fills the vectors of a workspace that is at home here, or elsewhere.
_AT_HOME = "(SELECT * FROM heliograph_workspace WHERE name = {workspace})"
_ELSEWHERE = "(SELECT * FROM heliograph_projection WHERE workspace = {workspace} AND role = 'vectors')"
# The workspace stands in the statement itself: only so does the server see that its index holds all rows wanted.
_NEAREST = """{embedding}, hit.id, hit.score FROM {space} AS space
LEFT JOIN LATERAL (
  SELECT id, -(embedding <#> %s::vector) AS score FROM (
    SELECT id, embedding FROM {table} WHERE workspace = {workspace} AND vector_dims(embedding) = {dimension} {allowed}
    ORDER BY (embedding::{type}) <#> %s::vector::{type}, id LIMIT %s
  ) AS candidate
) AS hit ON hit.score >= %s
ORDER BY hit.score DESC, hit.id LIMIT %s"""
_ALLOWED = "AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"
_STORED = f"""{_EMBEDDING}, stored.id, stored.embedding FROM {{space}} AS space
LEFT JOIN (SELECT wanted.id, wanted.place, vector_send(vector.embedding) AS embedding FROM {WANTED}
  JOIN {{table}} AS vector ON vector.workspace = %s AND vector.id = wanted.id WHERE vector.embedding IS NOT NULL
) AS stored ON true ORDER BY stored.place"""


class PostgresVectorStore(VectorStore):
    """One column of vectors per collection.

    Args:
        database: Where they are.
        embedding: Name and dimension of what they must have been made by.
        is_home: Whether the workspace is at home here; else its vectors alone are here.
    """

    def __init__(self, database: Database, embedding: tuple[str, int], *, is_home: bool = True) -> None:
        self._database = database
        self._embedding = embedding
        self._is_home = is_home

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_score: float
    ) -> list[Hit]:
        if limit < 1:
            return []
        asked = vector, limit, min_score
        statement = nearest_statement(self._database.workspace, collection, *asked, is_home=self._is_home)
        rows = await self._database.fetch(statement.query, statement.values, is_planned_anew=True)
        return to_hits(rows, self._embedding)

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        if not ids:
            return {}
        statement = stored_statement(self._database.workspace, collection, ids, is_home=self._is_home)
        return to_vectors(await self._database.fetch(statement.query, statement.values), self._embedding)


def nearest_statement(
    workspace: str,
    collection: Collection,
    vector: NDArray[np.float32],
    limit: int,
    min_score: float,
    allowed: Sequence[str] | None = None,
    *,
    is_home: bool = True,
) -> Statement:
    """Return the statement that finds the nearest ids, of all or of those allowed; for `to_hits`."""
    name = _literal(workspace)
    value = Vector(np.ascontiguousarray(vector, np.float32))
    query = _NEAREST.format(
        embedding=_EMBEDDING,
        space=(_AT_HOME if is_home else _ELSEWHERE).format(workspace=name),
        table=VECTOR_TABLES[collection],
        workspace=name,
        dimension=len(vector),
        type=indexed_type(len(vector)),
        allowed="" if allowed is None else _ALLOWED,
    )
    among = () if allowed is None else (to_json(allowed),)
    wanted = max(limit * _CANDIDATES_PER_HIT, _LEAST_CANDIDATES)
    return Statement(query, (value, *among, value, wanted, min_score, limit), is_planned_anew=True)


def stored_statement(workspace: str, collection: Collection, ids: Sequence[str], *, is_home: bool = True) -> Statement:
    """Return the statement that reads stored vectors; for `to_vectors`."""
    space = (_AT_HOME if is_home else _ELSEWHERE).format(workspace=_literal(workspace))
    return Statement(_STORED.format(space=space, table=VECTOR_TABLES[collection]), (to_json(ids), workspace))


def to_hits(rows: Sequence[Row], embedding: tuple[str, int]) -> list[Hit]:
    """Return the hits of `nearest_statement`.

    Raises:
        SchemaMismatch: The workspace is of another embedding than it was opened with.
    """
    _check_embedding(rows, embedding)
    return [Hit(id_, score) for *_, id_, score in rows if id_ is not None]


def to_vectors(rows: Sequence[Row], embedding: tuple[str, int]) -> dict[str, NDArray[np.float32]]:
    """Return the vectors of `stored_statement`.

    Raises:
        SchemaMismatch: The workspace is of another embedding than it was opened with.
    """
    _check_embedding(rows, embedding)
    stored = [(id_, vector) for *_, id_, vector in rows if id_ is not None]
    if not stored:
        return {}
    matrix = read_vectors([vector for _, vector in stored])
    return dict(zip([id_ for id_, _ in stored], matrix, strict=True))


def _literal(text: str) -> str:
    return sql.Literal(text).as_string().replace("%", "%%")


def _check_embedding(rows: Sequence[Row], expected: tuple[str, int]) -> None:
    # A question that began before the switch to another embedding must not be compared with vectors made after it.
    if rows and tuple(rows[0][:2]) != expected:
        raise SchemaMismatch(
            f"the store was embedded anew with {tuple(rows[0][:2])!r} since it was opened with {expected!r}; "
            "configure that embedding and open the store again"
        )
