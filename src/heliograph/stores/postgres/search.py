"""Vectors and full text on PostgreSQL.

Vectors are searched exactly while few, by HNSW where an index has been built. Full text is written within a commit,
read as arrays, and ranked by exact BM25 in this process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from heliograph.errors import SchemaMismatch, StoreError
from heliograph.stores.base import Hit, TextStore, VectorStore
from heliograph.stores.bm25 import K1, B, inverse_frequency
from heliograph.stores.changeset import Changeset, Collection, TextEntry
from heliograph.stores.postgres.database import (
    HNSW_OPTIONS,
    WANTED,
    Database,
    Row,
    Session,
    Statement,
    Vector,
    Vectors,
    comparison,
    deletion,
    lock_key,
    read_vectors,
    to_json,
    translate_errors,
    try_lock,
)
from heliograph.stores.sql import check_embedding

# Writing vectors to PostgreSQL, within a commit; columns that are not given are read from the graph just written.
#
# `content` is the text that was embedded, so it stays as long as the vector does; where it is not known, as in data
# moved from another store, it is composed from the graph.

VECTOR_TABLES = {
    Collection.CHUNKS: "lightrag_chunks",
    Collection.ENTITIES: "lightrag_entities",
    Collection.RELATIONS: "lightrag_relationships",
}
_NEW = "ROWS FROM (json_array_elements_text(%s), unnest(%s::vector[])) AS new (id, embedding)"
_PUT_CHUNK_VECTORS = f"""UPDATE lightrag_chunks AS known SET embedding = new.embedding FROM {_NEW}
  WHERE known.workspace = %s AND known.id = new.id"""
_PUT_VECTORS = {
    Collection.ENTITIES: """
INSERT INTO lightrag_entities (workspace, id, entity_name, content, embedding)
SELECT %s, new.id, coalesce(new.name, entity.name, ''),
  coalesce(new.content, concat_ws(E'\\n', entity.name, entity.description)), new.embedding
FROM ROWS FROM (json_to_recordset(%s) AS (id text, entity_name text, content text), unnest(%s::vector[]))
  AS new (id, name, content, embedding)
LEFT JOIN heliograph_entity AS entity ON entity.workspace = %s AND entity.id = new.id
ON CONFLICT (workspace, id) DO UPDATE SET entity_name = excluded.entity_name, content = excluded.content,
  embedding = excluded.embedding""",
    Collection.RELATIONS: """
INSERT INTO lightrag_relationships (workspace, id, src_id, tgt_id, content, embedding)
SELECT %s, new.id, coalesce(new.source, relation.source, ''), coalesce(new.target, relation.target, ''),
  coalesce(new.content, concat_ws(E'\\t', replace(relation.keywords, E'\\n', ','), relation.source, relation.target,
    relation.description)), new.embedding
FROM ROWS FROM (json_to_recordset(%s) AS (id text, src_id text, tgt_id text, content text), unnest(%s::vector[]))
  AS new (id, source, target, content, embedding)
LEFT JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.id = new.id
ON CONFLICT (workspace, id) DO UPDATE SET src_id = excluded.src_id, tgt_id = excluded.tgt_id,
  content = excluded.content, embedding = excluded.embedding""",
}
_FORGET_NEXT = """DELETE FROM heliograph_next_vector
  WHERE workspace = %s AND collection = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"""


def check_dimensions(changeset: Changeset, dimension: int) -> None:
    """Raise `SchemaMismatch` for vectors whose length differs from the workspace's."""
    for collection, batch in changeset.vectors.items():
        if batch.ids and batch.vectors.shape[1] != dimension:
            raise SchemaMismatch(
                f"vectors of {collection.value} have dimension {batch.vectors.shape[1]}, not {dimension}; "
                "set the embedding back, or run 'heliograph reembed'"
            )


def vector_statements(workspace: str, changeset: Changeset, vector_type: int) -> Iterator[Statement]:
    """Yield the statements that apply the vector part of a changeset, after its chunks and its graph.

    A vector whose chunk is missing is skipped.
    """
    for collection, gone in changeset.removed.items():
        batch = changeset.vectors.get(collection)
        put = batch.ids if batch else ()
        if collection is not Collection.CHUNKS:
            yield from deletion(workspace, VECTOR_TABLES[collection], gone)
        if changed := {*gone, *put}:
            # If a change of embedding is in progress, the next vectors of these ids are out of date.
            yield Statement(_FORGET_NEXT, (workspace, collection.value, to_json(changed)))
        if batch and batch.ids:
            if collection is not Collection.CHUNKS:
                rows = [{"id": id_, "content": text} for id_, text in zip_longest(batch.ids, batch.texts)]
                yield put_vectors(workspace, collection, rows, Vectors(batch.vectors, vector_type))
                continue
            # Vectors of the changeset's own chunks were written with them.
            written = {chunk.id for chunk in changeset.chunks}
            if places := [place for place, id_ in enumerate(batch.ids) if id_ not in written]:
                ids, vectors = [batch.ids[place] for place in places], np.asarray(batch.vectors)[places]
                yield Statement(_PUT_CHUNK_VECTORS, (to_json(ids), Vectors(vectors, vector_type), workspace))


def put_vectors(
    workspace: str, collection: Collection, rows: Iterable[Mapping[str, Any]], vectors: Vectors
) -> Statement:
    """Return the statement that upserts vectors of entities or relations; rows are `id` and known columns beside it."""
    return Statement(_PUT_VECTORS[collection], (workspace, to_json(rows), vectors, workspace))


# HNSW indexes: one per workspace and collection, built when there are enough vectors to be worth one.
#
# A few thousand vectors are compared one by one about as fast as by an index, exactly, and adding to an index costs a
# millisecond or more each. So an index is built when a collection has grown, outside any transaction and while others
# read and write; from then on the server keeps it up to date. Up to 2,000 dimensions it holds the vectors as they
# are, up to 4,000 in half precision; longer ones are always compared one by one. The options for building and searching
# are in `database`.

# The names of a workspace's indexes.
INDEXES = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE ANY (%s::text[])"
_LOGGER = logging.getLogger(__name__)
_MOST_FULL, _MOST_HALF = 2_000, 4_000
# From this many on, comparing one by one takes longer than some 20 ms.
_WORTH_AN_INDEX = 10_000
# Vectors that a process writes before it checks again. During an ingest, an index waits for its end, up to so many:
# adding to one takes three to six times what building it does, and a query compares so many in a tenth of a second.
_LOOK_EVERY, _LOOK_EVERY_WHILE_FILLING = 1_000, 100_000
# A build that exceeds this memory takes several times as long; so many vectors of length 384 fit.
_BUILDING_MEMORY = """SELECT set_config('maintenance_work_mem', '512MB', false)
  WHERE pg_size_bytes(current_setting('maintenance_work_mem')) < pg_size_bytes('512MB')"""


class VectorIndexer:
    """Builds the indexes of one workspace; during an ingest (`is_filling`), they may wait."""

    def __init__(self, database: Database, dimension: int) -> None:
        self._database = database
        self._dimension = dimension
        self.is_filling = False
        # The first commit of a process checks, since other processes may have written many vectors in small portions.
        self._unseen = dict.fromkeys(Collection, _LOOK_EVERY)

    async def note(self, changeset: Changeset) -> None:
        """After a commit, check whether an index is due, and build it; a failure is logged, not raised."""
        for collection, batch in changeset.vectors.items():
            self.count(collection, len(batch.ids))
        await self.look()

    def count(self, collection: Collection, put: int) -> None:
        """Count how many vectors were written, for `look`."""
        self._unseen[collection] += put

    async def look(self) -> None:
        """Check whether an index is due, and build it; a failure is logged, not raised."""
        due = _LOOK_EVERY_WHILE_FILLING if self.is_filling else _LOOK_EVERY
        for collection in [item for item, count in self._unseen.items() if count >= due]:
            self._unseen[collection] = 0
            await self._try_to_build(collection)

    async def renew(self) -> None:
        """Build due indexes, and drop those for vectors of another length; a failure is logged, not raised."""
        for collection in Collection:
            await self._try_to_build(collection)
        try:
            await self.drop([index_name(self._database.workspace, item, self._dimension) for item in Collection])
        except StoreError as error:
            _LOGGER.warning("indexes of another embedding could not be dropped: %s", error)

    async def _try_to_build(self, collection: Collection) -> None:
        try:
            await self.build_if_due(collection)
        except StoreError as error:
            # The commit stands, and searches without an index are right, if slower; the build is retried.
            _LOGGER.warning("no index of %s could be built: %s", collection.value, error)

    async def build_if_due(self, collection: Collection) -> None:
        """Build the index of a collection if it is worth one and has no valid one; raises `StoreError` on failure."""
        workspace, table = self._database.workspace, VECTOR_TABLES[collection]
        if self._dimension > _MOST_HALF:
            return
        # An index that was built with other options is rebuilt.
        query = """SELECT indisvalid AND reloptions @> ARRAY(SELECT json_array_elements_text(%s)) FROM pg_index
                   JOIN pg_class ON pg_class.oid = indexrelid WHERE indexrelid = to_regclass(%s)"""
        wanted = to_json(f"{option}={value}" for option, value in HNSW_OPTIONS.items())
        name = index_name(workspace, collection, self._dimension)
        rows = await self._database.fetch(query, (wanted, name))
        if rows and rows[0][0]:
            return
        query = f"""SELECT count(*) FROM (SELECT 1 FROM {table}
                    WHERE workspace = %s AND vector_dims(embedding) = %s LIMIT %s) AS counted"""
        rows = await self._database.fetch(query, (workspace, self._dimension, _WORTH_AN_INDEX))
        if rows[0][0] < _WORTH_AN_INDEX:
            return
        kind = indexed_type(self._dimension)
        options = ", ".join(f"{option} = {value}" for option, value in HNSW_OPTIONS.items())
        definition = f"""CREATE INDEX CONCURRENTLY {name} ON {table}
          USING hnsw ((embedding::{kind}) {kind.partition("(")[0]}_ip_ops) WITH ({options})
          WHERE workspace = {sql.Literal(workspace).as_string()} AND vector_dims(embedding) = {self._dimension}"""
        async with self._database.own_connection() as connection:
            with translate_errors(self._database.address.label):
                if not await try_lock(connection, lock_key(name)):
                    return  # Another process is building it.
                # Drop the invalid index that an interrupted build left.
                await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())
                await connection.execute(_BUILDING_MEMORY)
                await connection.execute(definition.encode())

    async def drop(self, kept: Sequence[str] = ()) -> None:
        """Drop the indexes of this workspace except `kept`, such as those for vectors of another length."""
        rows = await self._database.fetch(INDEXES, (index_patterns(self._database.workspace),))
        dropped = [name for (name,) in rows if name not in kept]
        if not dropped:
            return
        async with self._database.own_connection() as connection:
            with translate_errors(self._database.address.label):
                for name in dropped:
                    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())


def indexed_type(dimension: int) -> str:
    """Return the type under which vectors of this length are indexed."""
    return f"{'vector' if dimension <= _MOST_FULL or dimension > _MOST_HALF else 'halfvec'}({dimension})"


def index_name(workspace: str, collection: Collection, dimension: int | None) -> str:
    """Return the name of an index; without a dimension, the common prefix of its names for all dimensions."""
    hashed = blake2b(workspace.encode(), digest_size=6).hexdigest()
    return f"{VECTOR_TABLES[collection]}_hnsw_{hashed}_{'' if dimension is None else dimension}"


def index_patterns(workspace: str) -> str:
    """Return the parameter of `INDEXES`."""
    return "{" + ",".join(f"{index_name(workspace, item, None)}%" for item in Collection) + "}"


_CANDIDATES_PER_HIT = 4
_LEAST_CANDIDATES = 64
_EMBEDDING = "SELECT space.embedding_name, space.embedding_dimension"
# The embedding that fills the vectors of a workspace: of a home store, or of a projection.
_AT_HOME = "(SELECT * FROM heliograph_workspace WHERE name = {workspace})"
_ELSEWHERE = "(SELECT * FROM heliograph_projection WHERE workspace = {workspace} AND role = 'vectors')"
_NEAREST = """{embedding}, hit.id, hit.score FROM {space} AS space
LEFT JOIN LATERAL (
  SELECT id, -(embedding <#> %s::vector) AS score FROM (
    SELECT id, embedding FROM {table} WHERE workspace = {workspace} AND vector_dims(embedding) = {dimension} {allowed}
    ORDER BY (embedding::{type}) <#> %s::vector::{type}, id LIMIT %s
  ) AS candidate
) AS hit ON hit.score >= %s
ORDER BY hit.score DESC, hit.id LIMIT %s"""
_ALLOWED = "AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))"
# Ranks by the product, for which there is no index, so that rows are found by id and none is missed.
_RANKED = f"""{_EMBEDDING}, hit.id, hit.score FROM {{space}} AS space LEFT JOIN LATERAL (
  SELECT id, -(embedding <#> %s::vector) AS score FROM {{table}} WHERE workspace = %s {_ALLOWED}
    AND vector_dims(embedding) = {{dimension}}
  ORDER BY score DESC, id LIMIT %s
) AS hit ON true ORDER BY hit.score DESC, hit.id"""
_STORED = f"""{_EMBEDDING}, stored.id, stored.embedding FROM {{space}} AS space
LEFT JOIN (SELECT wanted.id, wanted.place, vector_send(vector.embedding) AS embedding FROM {WANTED}
  JOIN {{table}} AS vector ON vector.workspace = %s AND vector.id = wanted.id WHERE vector.embedding IS NOT NULL
) AS stored ON true ORDER BY stored.place"""


class PostgresVectorStore(VectorStore):
    """One column of vectors per collection, made by the embedding of this name and dimension."""

    def __init__(self, database: Database | Session, embedding: tuple[str, int], *, is_home: bool = True) -> None:
        self._database = database
        self._embedding = embedding
        self._is_home = is_home

    async def search(
        self, collection: Collection, vector: NDArray[np.float32], limit: int, min_cosine: float
    ) -> list[Hit]:
        return await self.find_nearest(collection, vector, limit, min_cosine)

    async def find_nearest(
        self,
        collection: Collection,
        vector: NDArray[np.float32],
        limit: int,
        min_cosine: float,
        allowed: Sequence[str] | None = None,
    ) -> list[Hit]:
        """Return the hits of `search`, among all vectors or those allowed."""
        if limit < 1:
            return []
        # The workspace is a literal in the statement: only then does the planner see that its index holds all rows.
        query = _NEAREST.format(
            embedding=_EMBEDDING,
            space=self._space(),
            table=VECTOR_TABLES[collection],
            workspace=_literal(self._database.workspace),
            dimension=len(vector),
            type=indexed_type(len(vector)),
            allowed="" if allowed is None else _ALLOWED,
        )
        value = Vector(np.ascontiguousarray(vector, np.float32))
        among = () if allowed is None else (to_json(allowed),)
        wanted = max(limit * _CANDIDATES_PER_HIT, _LEAST_CANDIDATES)
        values = value, *among, value, wanted, min_cosine, limit
        return self._hits(await self._database.fetch(query, values, is_planned_anew=True))

    async def get_vectors(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        if not ids:
            return {}
        workspace = self._database.workspace
        query = _STORED.format(space=self._space(), table=VECTOR_TABLES[collection])
        rows = await self._database.fetch(query, (to_json(ids), workspace))
        if rows:
            check_embedding(tuple(rows[0][:2]), self._embedding)
        stored = [(id_, vector) for *_, id_, vector in rows if id_ is not None]
        matrix = read_vectors([vector for _, vector in stored]) if stored else ()
        return dict(zip([id_ for id_, _ in stored], matrix, strict=True))

    async def rank(
        self, collection: Collection, vector: NDArray[np.float32], ids: Sequence[str], limit: int
    ) -> list[Hit]:
        if not ids or limit < 1:
            return []
        workspace = self._database.workspace
        query = _RANKED.format(space=self._space(), table=VECTOR_TABLES[collection], dimension=len(vector))
        value = Vector(np.ascontiguousarray(vector, np.float32))
        rows = await self._database.fetch(query, (value, workspace, to_json(ids), limit), is_planned_anew=True)
        return self._hits(rows)

    def _space(self) -> str:
        """Return the query for the row with the embedding that fills these vectors."""
        return (_AT_HOME if self._is_home else _ELSEWHERE).format(workspace=_literal(self._database.workspace))

    def _hits(self, rows: Sequence[Row]) -> list[Hit]:
        if rows:
            # A query that began before the switch to another embedding must not be compared with later vectors.
            check_embedding(tuple(rows[0][:2]), self._embedding)
        return [Hit(id_, score) for *_, id_, score in rows if id_ is not None]


def _literal(text: str) -> str:
    return sql.Literal(text).as_string().replace("%", "%%")


# Writing full text to PostgreSQL, within a commit, and counting for BM25.
#
# Postings (where and how often a term occurs) are stored per term, so that a query reads only these: each row of
# `heliograph_posting` holds some hundred records, by ascending row number. A commit rewrites only the records that
# leave and enter.

TERMS_TABLES = {Collection.CHUNKS: "heliograph_chunks_terms", Collection.ENTITIES: "heliograph_entities_terms"}
LEXEMES = "array_to_tsvector(string_to_array(btrim(terms), '  '))"
# Records in one row of `heliograph_posting` before the next is begun; they stay within its page.
SEGMENT = 200
# A term's record for a row: the row's number, how often it holds the term, and its length in terms.
RECORDS = """SELECT number, term, (number << 32) | (least(count(*), 4095) << 20) | least(length, 1048575) AS record
  FROM {rows} CROSS JOIN unnest(string_to_array(btrim(terms), '  ')) AS term GROUP BY number, length, term"""
_SUMS = "sums AS (SELECT count(*) AS rows, coalesce(sum(length), 0) AS terms FROM {rows})"
_PLACE = """SELECT known.first, cardinality(known.records) AS held FROM heliograph_posting AS known
    WHERE known.workspace = %s AND known.collection = %s AND known.term = {term} {among}
    ORDER BY known.first DESC LIMIT 1"""
# Row numbers only grow, so a record is in the last segment that begins at or before its number.
_REMOVE = f"""
WITH gone AS (
  DELETE FROM {{table}} WHERE workspace = %s AND id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  RETURNING number, terms, length
), {_SUMS.format(rows="gone")}, lost AS (
  SELECT term, place.first, array_agg(record) AS records FROM ({RECORDS.format(rows="gone")}) AS said
  CROSS JOIN LATERAL ({_PLACE.format(term="said.term", among="AND known.first <= said.number")}) AS place
  GROUP BY term, place.first
), fewer AS (
  UPDATE heliograph_posting AS known
  SET records = ARRAY(SELECT record FROM unnest(known.records) AS record WHERE record <> ALL (lost.records)) FROM lost
  WHERE known.workspace = %s AND known.collection = %s AND known.term = lost.term AND known.first = lost.first
)
UPDATE heliograph_text_size AS known SET rows = known.rows - sums.rows, terms = known.terms - sums.terms FROM sums
WHERE known.workspace = %s AND known.collection = %s"""
_PUT = f"""
WITH put AS (
  INSERT INTO {{table}} (workspace, id, lexemes, terms, length)
  SELECT %s, id, {LEXEMES}, terms, length
  FROM json_to_recordset(%s) AS new (id text, terms text, length integer) RETURNING number, terms, length
), {_SUMS.format(rows="put")}, said AS (
  SELECT term, min(number) AS first, array_agg(record ORDER BY number) AS records
  FROM ({RECORDS.format(rows="put")}) AS said GROUP BY term
), more AS (
  INSERT INTO heliograph_posting AS known (workspace, collection, term, first, records)
  SELECT %s, %s, term, coalesce(place.first, said.first), records FROM said
  LEFT JOIN LATERAL ({_PLACE.format(term="said.term", among="")}) AS place ON place.held < {SEGMENT}
  ON CONFLICT (workspace, collection, term, first) DO UPDATE SET records = known.records || excluded.records
)
INSERT INTO heliograph_text_size AS known (workspace, collection, rows, terms) SELECT %s, %s, rows, terms FROM sums
ON CONFLICT (workspace, collection) DO UPDATE SET rows = known.rows + excluded.rows,
  terms = known.terms + excluded.terms"""


def mark(terms: Sequence[str]) -> str:
    """Return terms as they are stored, in order, each between spaces of its own."""
    return "".join(f" {term} " for term in terms)


def text_statements(workspace: str, changeset: Changeset) -> Iterator[Statement]:
    """Yield the statements that apply the full-text part of a changeset."""
    for collection, table in TERMS_TABLES.items():
        # If one id has several entries, the last one counts.
        entries = {entry.id: entry for entry in changeset.texts.get(collection, ())}
        of = workspace, collection.value
        if gone := {*changeset.removed[collection], *entries}:
            yield Statement(_REMOVE.format(table=table), (workspace, to_json(gone), *of, *of, *of))
        if entries:
            rows = to_json(map(_row, entries.values()))
            yield Statement(_PUT.format(table=table), (workspace, rows, *of, *of, *of))


def text_comparisons(workspace: str, texts: Mapping[Collection, Sequence[TextEntry]]) -> Iterator[Statement]:
    """Yield the statements that find the ids whose terms are stored differently."""
    for collection, table in TERMS_TABLES.items():
        if entries := texts.get(collection, ()):
            query = comparison(table, {"id": "text", "terms": "text", "length": "integer"})
            yield Statement(query, (to_json(map(_row, entries)), workspace))


def _row(entry: TextEntry) -> dict[str, Any]:
    return {"id": entry.id, "terms": mark(entry.terms), "length": len(entry.terms)}


_MAX_TERMS = 256
# Records that one query reads; then all there are, if that gave too few hits.
_MOST_RECORDS = (500_000, 2_000_000_000)
# Up to this many records are ranked directly, in about a millisecond; more are ranked in a thread.
_MOST_INSTANT = 5_000
# Rows scored by their stored terms where the records of some terms were not read.
_LEAST_RESCORED, _RESCORED_PER_HIT = 256, 4
# Equal scores at the end of the hits are ordered by id up to this many.
_MOST_EQUALS = 4_000
# Attempts of a search during which rows were rewritten.
_TRIES = 3
# Rows read for a phrase that very many rows hold, where fewer are wanted.
_MOST_PHRASE_ROWS = 1_000
# Row numbers at least this dense are summed without sorting.
_DENSE = 20
_HEADER_BYTES = 20
_ELEMENT = np.dtype([("bytes", ">i4"), ("record", ">i8")])
# Removed rows may leave segments without records.
_FIND = """
WITH held AS (
  SELECT term, sum(cardinality(records)) AS rows FROM heliograph_posting
  WHERE workspace = %s AND collection = %s AND term = ANY (ARRAY(SELECT json_array_elements_text(%s))) GROUP BY term
), chosen AS (
  SELECT term, rows::bigint AS rows, sum(rows) OVER rarest <= %s OR row_number() OVER rarest = 1 AS is_read
  FROM held WHERE rows > 0 WINDOW rarest AS (ORDER BY rows, term)
)
SELECT size.rows, size.terms, chosen.term, chosen.rows, array_send(posting.records)
FROM heliograph_text_size AS size LEFT JOIN chosen ON true
LEFT JOIN heliograph_posting AS posting ON chosen.is_read AND posting.workspace = size.workspace
  AND posting.collection = size.collection AND posting.term = chosen.term AND posting.records <> '{}'
WHERE size.workspace = %s AND size.collection = %s"""
_NAMES = """SELECT number, id, {terms} FROM {table}
  WHERE workspace = %s AND number = ANY (ARRAY(SELECT json_array_elements_text(%s)::bigint))"""
_PHRASES = """
SELECT phrase.place, held.id FROM ROWS FROM (json_to_recordset(%s) AS (query text, needle text))
  WITH ORDINALITY AS phrase (query, needle, place)
CROSS JOIN LATERAL (
  SELECT id FROM (
    SELECT id FROM {table}
    WHERE workspace = %s AND lexemes @@ phrase.query::tsquery AND strpos(terms, phrase.needle) > 0 LIMIT %s
  ) AS met ORDER BY id LIMIT %s
) AS held ORDER BY phrase.place, held.id"""


class PostgresTextStore(TextStore):
    """Full text in two tables of terms."""

    def __init__(self, database: Database | Session) -> None:
        self._database = database

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """A query is cut at 256 distinct terms."""
        wanted = list(dict.fromkeys(terms))[:_MAX_TERMS]
        if not wanted or limit < 1 or collection not in TERMS_TABLES:
            return []
        hits, is_whole = list[Hit](), False
        for most in _MOST_RECORDS:
            for _ in range(_TRIES):
                hits, is_whole, has_moved = await _rank(self._database, collection, wanted, limit, most)
                if not has_moved:
                    break
            if len(hits) >= limit or is_whole:
                break
        return hits

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """The first by id are returned, of the first thousand where very many rows hold a phrase.

        Terms of a phrase after the 256th are ignored.
        """
        found: list[list[str]] = [[] for _ in phrases]
        places = [place for place, phrase in enumerate(phrases) if phrase]
        if not places or limit < 1 or collection not in TERMS_TABLES:
            return found
        cut = ([*phrases[place]][:_MAX_TERMS] for place in places)
        quoted = {term: term.replace("\\", "\\\\").replace("'", "''") for phrase in phrases for term in phrase}
        rows = to_json(
            {"query": " & ".join(f"'{quoted[term]}'" for term in phrase), "needle": mark(phrase)} for phrase in cut
        )
        query = _PHRASES.format(table=TERMS_TABLES[collection])
        values = rows, self._database.workspace, max(limit, _MOST_PHRASE_ROWS), limit
        for place, id_ in await self._database.fetch(query, values, is_planned_anew=True):
            found[places[place - 1]].append(id_)
        return found


async def _rank(
    database: Database | Session, collection: Collection, terms: Sequence[str], limit: int, most: int
) -> tuple[list[Hit], bool, bool]:
    """Return hits from up to `most` records, whether all records were read, and whether a row vanished meanwhile."""
    workspace = database.workspace
    of = workspace, collection.value
    rows = await database.fetch(_FIND, (*of, to_json(terms), most, *of), is_planned_anew=True)
    frequencies: dict[str, int] = {term: count for _, _, term, count, _ in rows if term is not None}
    if not frequencies:
        return [], True, False
    total, length = rows[0][:2]
    segments: dict[str, list[bytes]] = {term: [] for term in frequencies}
    for *_, term, _, records in rows:
        if records is not None:
            segments[term].append(records)
    weights = [inverse_frequency(count, total) for count in frequencies.values()]
    mean_length = max(length / total, 1e-9)
    read = sum(frequencies[term] for term, parts in segments.items() if parts)
    is_whole = read == sum(frequencies.values())
    given = weights, list(segments.values()), mean_length
    found, scores = _score(*given) if read <= _MOST_INSTANT else await asyncio.to_thread(_score, *given)
    count = limit if is_whole else max(limit * _RESCORED_PER_HIT, _LEAST_RESCORED)
    # Keep all rows that score as much as the last, so that their ids decide.
    kept = np.flatnonzero(scores >= np.partition(scores, -count)[-count]) if count < len(scores) else slice(None)
    found, scores = found[kept], scores[kept]
    order = np.argsort(-scores, kind="stable")[: count + _MOST_EQUALS]
    numbers = found[order].tolist()
    query = _NAMES.format(table=TERMS_TABLES[collection], terms="NULL" if is_whole else "terms")
    named = {number: (id_, held) for number, id_, held in await database.fetch(query, (workspace, to_json(numbers)))}

    def rescore(held: str) -> float:
        stored = held.encode().split()
        counts = zip(map(stored.count, map(str.encode, frequencies)), weights, strict=True)
        return sum(_gain(weight, count, len(stored), mean_length) for count, weight in counts)

    hits = [
        Hit(named[number][0], score if is_whole else rescore(named[number][1]))
        for number, score in zip(numbers, scores[order].tolist(), strict=True)
        if number in named
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit], is_whole, len(named) < len(numbers)


def _score(
    weights: Sequence[float], segments: Sequence[Sequence[bytes]], mean_length: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows, by number, in the records of some terms (in the server's binary form), and their scores."""
    numbers: list[NDArray[np.int64]] = []
    gains: list[NDArray[np.float64]] = []
    for weight, of_term in zip(weights, segments, strict=True):
        data = b"".join(segment[_HEADER_BYTES:] for segment in of_term)
        records = np.frombuffer(data, _ELEMENT)["record"].astype(np.int64)
        numbers.append(records >> 32)
        gains.append(_gain(weight, (records >> 20 & 0xFFF).astype(np.float64), records & 0xFFFFF, mean_length))
    rows = np.concatenate(numbers)
    if not len(rows):
        return rows, np.empty(0, np.float64)
    first, last = int(rows.min()), int(rows.max())
    if last - first < _DENSE * len(rows):
        # Summing in place takes a tenth of the time of sorting. No gain is 0.
        scores = np.bincount(rows - first, np.concatenate(gains)).astype(np.float64)
        held = np.flatnonzero(scores)
        return held + first, scores[held]
    distinct, places = np.unique(rows, return_inverse=True)
    return distinct, np.bincount(places, np.concatenate(gains), len(distinct)).astype(np.float64)


def _gain(weight: float, counts: Any, lengths: Any, mean_length: float) -> Any:
    """Return a term's contribution to the scores of rows, by how often they hold it and their lengths."""
    return weight * counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / mean_length))
