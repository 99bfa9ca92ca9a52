"""Read LightRAG's data from PostgreSQL, Redis, Neo4j and Qdrant, in its own layout; nothing is written.

A URL names the server, and after a `#` LightRAG's workspace, which may be omitted if there is only one. Each server
has some parts: PostgreSQL all of them, Redis the tables, Neo4j the graph, Qdrant the vectors. PostgreSQL is read in one
snapshot; the others must not be written to meanwhile.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote, urldefrag

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import InvalidRequestError, import_optional
from heliograph.maintenance.archive import NoteKind, NoteList
from heliograph.maintenance.lightrag_layout import (
    REPLIES,
    TABLES,
    EmbeddedRow,
    GraphEdge,
    GraphNode,
    LightragRows,
    LightragVectors,
    embedded_rows,
    make_edge,
    make_node,
)
from heliograph.models import FIELD_SEPARATOR

_NAME = "lightrag"
_SETTING = "the URL"
_OTHERS = "vectors of another embedding than those that are read"


async def read_server(url: str, notes: NoteList) -> LightragRows:
    """Return a server's rows of one workspace of LightRAG; note unusable data.

    Raises:
        InvalidRequestError: Its scheme is not supported, it holds no data of LightRAG, not the named workspace, or
            several workspaces and none is named.
        MissingDependencyError: The server's driver is not installed.
        SettingsError: The URL is not an address.
        StoreError: The server cannot be read.
    """
    address, workspace = urldefrag(url)
    read = _READERS[check_scheme(url)]
    return await read(address, unquote(workspace), notes)


def check_scheme(url: str) -> str:
    """Return the scheme of a URL if it is supported; raises `InvalidRequestError` otherwise."""
    scheme = url.partition("://")[0]
    if scheme not in _READERS:
        raise InvalidRequestError(
            f"nothing is imported from {scheme}://...; LightRAG's PostgreSQL, Redis, Neo4j and Qdrant are read "
            f"({', '.join(_READERS)})"
        )
    return scheme


def _choose(found: Iterable[str], wanted: str, default: str, where: str, notes: NoteList) -> str:
    """Return the workspace to read: the named one, otherwise the only one or LightRAG's default."""
    names = sorted(set(found))
    told = ", ".join(map(repr, names))
    if not names:
        raise InvalidRequestError(f"{where} holds nothing of LightRAG; check the URL")
    if wanted and wanted not in names:
        raise InvalidRequestError(f"{where} has no workspace {wanted!r} of LightRAG; it has {told}")
    if wanted or len(names) == 1:
        return wanted or names[0]
    if default not in names:
        raise InvalidRequestError(f"{where} holds several workspaces of LightRAG; name one after a '#': {told}")
    for name in names:
        notes.add(NoteKind.REMARK, "workspaces that are not read; name one after a '#'", name, int(name != default))
    return default


# PostgreSQL: every table's rows as JSON, whatever columns its version has; vectors are texts within them.
#
# The graph is in two plain tables, or in those of Apache AGE: one of vertices and one of edges, in a schema of the
# graph's name, with properties as AGE writes them, which for maps of texts and numbers is JSON.

_POSTGRES_TABLES = {"full_docs": "lightrag_doc_full", "text_chunks": "lightrag_doc_chunks"}
_POSTGRES_VECTORS = ("lightrag_vdb_chunks", "lightrag_vdb_entity", "lightrag_vdb_relation")
_GRAPH = "chunk_entity_relation"
_RELATIONS = """
SELECT lower(table_name) FROM information_schema.tables
WHERE table_schema = ANY (current_schemas(false)) AND lower(table_name) LIKE 'lightrag\\_%'
"""
_AGE_TABLE = """
SELECT count(*) FROM information_schema.tables WHERE table_schema = %s AND table_name IN ('base', 'DIRECTED')
"""


class _Postgres:
    """One workspace in a database, within one transaction."""

    def __init__(self, connection: Any, sql: Any, tables: Sequence[str]) -> None:
        self._connection, self._sql, self._tables = connection, sql, tables
        self.workspace = ""

    async def workspaces(self) -> list[str]:
        """Return all workspaces that are named in a column of the tables."""
        found: list[str] = []
        for name in ("lightrag_doc_full", "lightrag_doc_status", "lightrag_doc_chunks", "lightrag_graph_nodes"):
            if name in self._tables:
                rows = await self._fetch("SELECT DISTINCT workspace FROM {}", name)
                found += [str(row[0]) for row in rows]
        return found

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table; empty if it does not exist."""
        if table not in self._tables:
            return []
        rows = await self._fetch("SELECT to_jsonb(t) FROM {} t WHERE workspace = %s", table, self.workspace)
        return [row[0] for row in rows]

    async def count(self, table: str) -> int:
        """Return how many rows a table has."""
        if table not in self._tables:
            return 0
        return (await self._fetch("SELECT count(*) FROM {} WHERE workspace = %s", table, self.workspace))[0][0]

    async def vectors(self, name: str, notes: NoteList) -> tuple[EmbeddedRow, ...]:
        """Return the vectors of the fullest table of this name; LightRAG has one table per embedding."""
        found: dict[str, list[dict[str, Any]]] = {}
        for table in self._tables:
            if table == name or table.startswith(f"{name}_"):
                found[table] = [row for row in await self.rows(table) if row.get("content_vector")]
        table = _fullest({table: len(rows) for table, rows in found.items()}, notes)
        rows = found.get(table, [])
        for row in rows:
            row["source_id"], row["src_id"] = FIELD_SEPARATOR.join(row.get("chunk_ids") or ()), row.get("source_id")
            row["tgt_id"] = row.get("target_id")
        texts = [str(row.pop("content_vector")).strip("[]") for row in rows]
        matrix = np.array([np.fromstring(text, np.float32, sep=",") for text in texts], np.float32)
        return embedded_rows([(str(row["id"]), row) for row in rows], matrix) if rows else ()

    async def graph(self, notes: NoteList) -> list[GraphNode | GraphEdge] | None:
        """Return the graph, from plain tables or from those of AGE; None if it is in neither."""
        nodes = await self.rows("lightrag_graph_nodes")
        if nodes:
            edges = await self.rows("lightrag_graph_edges")
            ends = [(row["src_id"], row["tgt_id"], row["properties"]) for row in edges]
            return _graph([(row["id"], row["properties"]) for row in nodes], ends, notes)
        plain = self.workspace.strip()
        prefix = "" if plain.lower() in ("", "default") else re.sub(r"[^a-zA-Z0-9_]", "_", plain) + "_"
        schema = prefix + _GRAPH
        if (await (await self._connection.execute(_AGE_TABLE, (schema,))).fetchone())[0] < 2:
            return None
        base, directed = (self._sql.Identifier(schema, name) for name in ("base", "DIRECTED"))
        said = await self._connection.execute(self._sql.SQL("SELECT id, properties FROM {}").format(base))
        named = {str(id_): _agtype(properties) for id_, properties in await said.fetchall()}
        said = await self._connection.execute(
            self._sql.SQL("SELECT start_id, end_id, properties FROM {}").format(directed)
        )
        labels = {id_: str(values.get("entity_id", "")) for id_, values in named.items()}
        ends = [
            (labels.get(str(start), ""), labels.get(str(end), ""), _agtype(properties))
            for start, end, properties in await said.fetchall()
        ]
        return _graph([(labels[id_], values) for id_, values in named.items()], ends, notes)

    async def _fetch(self, statement: str, table: str, *given: str) -> list[Any]:
        said = await self._connection.execute(self._sql.SQL(statement).format(self._sql.Identifier(table)), given)
        return await said.fetchall()


def _agtype(text: Any) -> dict[str, Any]:
    return text if isinstance(text, dict) else json.loads(str(text))


async def _read_postgres(url: str, workspace: str, notes: NoteList) -> LightragRows:
    database = import_optional("heliograph.stores.postgres.database", "postgres")
    driver = import_optional("psycopg", "postgres")
    address = database.parse_address(url, _SETTING)
    with database.translate_errors(address.label):
        async with await driver.AsyncConnection.connect(address.conninfo) as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # LightRAG's names, which PostgreSQL has folded to lower case.
            tables = [row[0] for row in await (await connection.execute(_RELATIONS)).fetchall()]
            there = _Postgres(connection, driver.sql, tables)
            there.workspace = _choose(await there.workspaces(), workspace, "default", address.label, notes)
            found: dict[str, dict[str, Mapping[str, Any]]] = {}
            for name in TABLES:
                rows = await there.rows(_POSTGRES_TABLES.get(name, f"lightrag_{name}"))
                for row in rows:
                    row["file_path"] = row.get("file_path") or row.get("doc_name") or ""
                found[name] = {str(row["id"]): row for row in rows}
            vectors = [await there.vectors(name, notes) for name in _POSTGRES_VECTORS]
            graph = await there.graph(notes)
            notes.add(NoteKind.LEFT_OUT, REPLIES, "", await there.count("lightrag_llm_cache"))
    return LightragRows(there.workspace, f"{address.label}#{there.workspace}", found, LightragVectors(*vectors), graph)


def _graph(
    nodes: Sequence[tuple[Any, Mapping[str, Any]]], edges: Sequence[tuple[Any, Any, Mapping[str, Any]]], notes: NoteList
) -> list[GraphNode | GraphEdge]:
    """Return a graph from names and properties."""
    found: list[GraphNode | GraphEdge] = [make_node(str(name), _texts(values)) for name, values in nodes]
    found += [make_edge((str(source), str(target)), _texts(values), notes) for source, target, values in edges]
    return found


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}


def _fullest(counts: Mapping[str, int], notes: NoteList) -> str:
    """Return the name with the highest count; the contents of the others are noted."""
    best = max(counts, key=lambda name: (counts[name], name), default="")
    for name, count in counts.items():
        notes.add(NoteKind.LEFT_OUT, _OTHERS, name, 0 if name == best else count)
    return best


# Redis: one JSON text per row, under `WORKSPACE_TABLE:ID`.

_REDIS_TABLES = (*TABLES, "llm_response_cache")
_PAGE = 1_000


async def _read_redis(url: str, workspace: str, notes: NoteList) -> LightragRows:
    redis = import_optional("heliograph.stores.redis", "redis")
    connection = redis.RedisConnection(url, "", _SETTING)
    place = f"redis://{connection.where}"
    try:
        with connection.errors():
            keys: dict[str, dict[str, list[str]]] = {}
            async for key in connection.client.scan_iter(count=_PAGE):
                head, _, id_ = key.partition(":")
                table = next((name for name in _REDIS_TABLES if head == name or head.endswith(f"_{name}")), "")
                if id_ and table:
                    keys.setdefault(head[: -len(table)].removesuffix("_"), {}).setdefault(table, []).append(key)
            chosen = _choose(keys, workspace, "", place, notes)
            found: dict[str, dict[str, Mapping[str, Any]]] = {}
            for table in TABLES:
                rows = found.setdefault(table, {})
                # A scan returns some keys twice.
                names = sorted(set(keys[chosen].get(table, ())))
                for begin in range(0, len(names), _PAGE):
                    page = names[begin : begin + _PAGE]
                    for key, said in zip(page, await connection.client.mget(page), strict=True):
                        try:
                            row: object = json.loads(said or "")
                        except ValueError:
                            row = None
                        if not isinstance(row, dict):
                            notes.add(NoteKind.LEFT_OUT, "rows that are no JSON objects", key)
                        rows[key.partition(":")[2]] = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
            notes.add(NoteKind.LEFT_OUT, REPLIES, "", len(set(keys[chosen].get("llm_response_cache", ()))))
    finally:
        await connection.close()
    return LightragRows(chosen or _NAME, f"{place}#{chosen}", found)


# Neo4j: nodes whose only label is the workspace, `base` for LightRAG's own; edges of the type `DIRECTED`.


async def _read_neo4j(url: str, workspace: str, notes: NoteList) -> LightragRows:
    neo4j = import_optional("heliograph.stores.neo4j", "neo4j")
    address = neo4j.Neo4jAddress.parse(url, _SETTING)
    place = f"neo4j://{address.where}"
    auth = (address.user, address.password) if address.user else None
    with neo4j.translate_errors(address.where, _SETTING):
        async with (
            neo4j.AsyncGraphDatabase.driver(address.url, auth=auth) as driver,
            driver.session(database=address.database or None, default_access_mode=neo4j.READ_ACCESS) as session,
        ):
            labels = await session.run(
                "MATCH (n) WHERE n.entity_id IS NOT NULL UNWIND labels(n) AS l RETURN DISTINCT l"
            )
            chosen = _choose([record["l"] async for record in labels], workspace, "base", place, notes)
            label = chosen.replace("`", "``")
            found = await session.run(f"MATCH (n:`{label}`) RETURN n.entity_id AS name, properties(n) AS said")
            nodes = [(record["name"], record["said"]) async for record in found]
            found = await session.run(
                f"MATCH (a:`{label}`)-[r:DIRECTED]->(b:`{label}`) "
                "RETURN a.entity_id AS source, b.entity_id AS target, properties(r) AS said"
            )
            edges = [(record["source"], record["target"], record["said"]) async for record in found]
    return LightragRows(chosen, f"{place}#{chosen}", {}, graph=_graph(nodes, edges, notes))


# Qdrant: a collection per kind and embedding; the payload of a point names its workspace, `_` for none.

_COLLECTION = re.compile(r"lightrag_vdb_(chunks|entities|relationships)(_.+)?")
_POINTS = 256


async def _read_qdrant(url: str, workspace: str, notes: NoteList) -> LightragRows:
    qdrant = import_optional("heliograph.stores.qdrant", "qdrant")
    address = qdrant.QdrantAddress.parse(url)
    place = address.url or address.path
    client = qdrant.connect(address)
    try:
        with qdrant.translate_errors(place, _SETTING):
            found: dict[tuple[str, str, str], list[tuple[Mapping[str, Any], NDArray[np.float32]]]] = {}
            for collection in (await client.get_collections()).collections:
                if not (match := _COLLECTION.fullmatch(collection.name)):
                    continue
                offset = None
                while True:
                    points, offset = await client.scroll(
                        collection.name, limit=_POINTS, offset=offset, with_payload=True, with_vectors=True
                    )
                    for point in points:
                        payload = point.payload or {}
                        key = (match[1], collection.name, str(payload.get("workspace_id", "_")))
                        found.setdefault(key, []).append((payload, np.array(point.vector, np.float32)))
                    if offset is None:
                        break
    finally:
        await client.close()
    chosen = _choose([key[2] for key in found], workspace, "_", place, notes)
    kinds: list[tuple[EmbeddedRow, ...]] = []
    for kind in ("chunks", "entities", "relationships"):
        counts = Counter(
            {name: len(rows) for (of, name, owner), rows in found.items() if (of, owner) == (kind, chosen)}
        )
        rows = found.get((kind, _fullest(counts, notes), chosen), [])
        matrix = np.array([vector for _, vector in rows], np.float32)
        kinds.append(embedded_rows([(str(row.get("id", "")), row) for row, _ in rows], matrix) if rows else ())
    return LightragRows(_NAME if chosen == "_" else chosen, f"{place}#{chosen}", {}, LightragVectors(*kinds))


_READERS = {
    **dict.fromkeys(("postgresql", "postgres"), _read_postgres),
    **dict.fromkeys(("redis", "rediss"), _read_redis),
    **dict.fromkeys(("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc"), _read_neo4j),
    **dict.fromkeys(("qdrant", "qdrants"), _read_qdrant),
}
