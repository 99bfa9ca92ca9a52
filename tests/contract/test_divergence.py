"""What is changed behind our back in an engine beside a store is named by `check`, and mended from the store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from heliograph.embedding.base import EmbeddingInfo
from heliograph.maintenance.check import Maintenance
from heliograph.settings import IngestSettings, StoreSettings
from heliograph.stores.changeset import OutboxKind
from heliograph.stores.composed import ComposedStore
from heliograph.stores.cypher import Statement
from heliograph.stores.postgres.database import Statement as SqlStatement
from heliograph.stores.registry import open_store

from .congruence import DIMENSION, World, answer, make_operations, make_questions

# Every engine is a real server.
pytestmark = pytest.mark.slow

INFO = EmbeddingInfo("fake", DIMENSION, 512)

# Does something to an engine, seen as its projection, for one workspace.
Damage = Callable[[Any, str], Awaitable[object]]


def _cypher(text: str) -> Damage:
    async def damage(projection: Any, workspace: str) -> object:
        return await projection._database.write([Statement(text, {"workspace": workspace})])

    return damage


def _sql(text: str) -> Damage:
    async def damage(projection: Any, workspace: str) -> object:
        return await projection._database.execute(SqlStatement(text, (workspace,) * text.count("%s")))

    return damage


_ONE = "MATCH (e:Entity {workspace: $workspace}) WHERE e.displayName IS NOT NULL WITH e ORDER BY e.id LIMIT 1"
_PAIR = "MATCH (a:Entity {workspace: $workspace})-[r]->(b) WITH a, r, b ORDER BY r.id LIMIT 1"
_CYPHER = {
    "description of an entity": _cypher(f"{_ONE} SET e.description = 'forged'"),
    "type of an entity": _cypher(f"{_ONE} SET e.entity_type = 'FORGED'"),
    "degree of an entity": _cypher(f"{_ONE} SET e.degree = e.degree + 7"),
    "deleted entity": _cypher(f"{_ONE} DETACH DELETE e"),
    "unnamed entity": _cypher(f"{_ONE} SET e.displayName = NULL"),
    "added entity": _cypher(
        """CREATE (e:Entity {workspace: $workspace, id: 'ent-added', displayName: 'Added', entity_type: 'X', type: 'x',
        description: '', aliases: [], source_id: '', token_count: 1, degree: 9, created_at: 0})"""
    ),
    "added entity without id": _cypher("CREATE (e:Entity {workspace: $workspace, description: 'stray'})"),
    "weight of a relation": _cypher(f"{_PAIR} SET r.weight = r.weight + 1"),
    "keywords of a relation": _cypher(f"{_PAIR} SET r.keywords = 'forged'"),
    "deleted relation": _cypher(f"{_PAIR} DELETE r"),
    "doubled relation": _cypher(f"{_PAIR} CREATE (a)-[s:FORGED]->(b) SET s = properties(r)"),
    "turned relation": _cypher(f"{_PAIR} CREATE (b)-[s:FORGED]->(a) SET s = properties(r) DELETE r"),
    "ends of a relation": _cypher(
        """MATCH (k:RelationEnds {workspace: $workspace}) WITH k ORDER BY k.id LIMIT 1 SET k.target_id = k.source_id"""
    ),
}
_FIRST = "(SELECT min(id) FROM {table} WHERE workspace = %s)"


def _rows(table: str, column: str, value: str, columns: str) -> dict[str, Damage]:
    first = _FIRST.format(table=table)
    return {
        f"changed {table}": _sql(f"UPDATE {table} SET {column} = {value} WHERE workspace = %s AND id = {first}"),
        f"deleted {table}": _sql(f"DELETE FROM {table} WHERE workspace = %s AND id = {first}"),
        f"added {table}": _sql(
            f"""INSERT INTO {table} (workspace, id, {columns}) SELECT workspace, 'zzz-added', {columns} FROM {table}
            WHERE workspace = %s AND id = {first}"""
        ),
    }


_POSTGRES_GRAPH = {
    **_rows(
        *("heliograph_entity", "description", "'forged'"),
        "name, type, description, aliases, chunk_ids, token_count, created_at",
    ),
    **_rows(
        *("heliograph_relation", "weight", "weight + 1"),
        "source_id, target_id, source, target, keywords, description, weight, chunk_ids, token_count, created_at",
    ),
    **_rows("heliograph_degree", "degree", "degree + 1", "degree"),
}
_TURNED = "(SELECT embedding FROM {table} WHERE workspace = %s ORDER BY id DESC LIMIT 1)"
_POSTGRES_VECTORS = {
    **_rows(
        *("lightrag_chunks", "embedding", _TURNED.format(table="lightrag_chunks")),
        "full_doc_id, chunk_order_index, tokens, content, embedding, start_offset, end_offset, headings, context",
    ),
    **_rows(
        *("lightrag_entities", "embedding", _TURNED.format(table="lightrag_entities")),
        "entity_name, content, embedding",
    ),
    **_rows(
        *("lightrag_relationships", "embedding", _TURNED.format(table="lightrag_relationships")),
        "src_id, tgt_id, content, embedding",
    ),
    "content of an entity": _sql("UPDATE lightrag_entities SET content = 'forged' WHERE workspace = %s"),
}
_POSTGRES_TEXT = {
    **_rows("heliograph_chunks_terms", "terms", "' forged '", "lexemes, terms, length"),
    **_rows("heliograph_entities_terms", "length", "length + 1", "lexemes, terms, length"),
    "terms for phrases": _sql("UPDATE heliograph_chunks_terms SET lexemes = '''forged''' WHERE workspace = %s"),
    "counts of a posting": _sql("UPDATE heliograph_posting SET records[1] = records[1] + 1048576 WHERE workspace = %s"),
    "deleted postings": _sql("DELETE FROM heliograph_posting WHERE workspace = %s AND collection = 'chunks'"),
    "size": _sql("UPDATE heliograph_text_size SET terms = terms + 5 WHERE workspace = %s"),
}


async def _first_key(projection: Any, pattern: str) -> str:
    keys = [key async for page in projection._connection.pages() for key in page if f"}}:{pattern}:" in key]
    return min(keys)


def _redis(pattern: str, *command: str | bytes) -> Damage:
    """Run a command on the first key of a pattern; its name comes after the first word."""

    async def damage(projection: Any, _: str) -> object:
        key = await _first_key(projection, pattern)
        return await projection._client.execute_command(command[0], key, *command[1:])

    return damage


async def _add_redis_entity(projection: Any, _: str) -> None:
    key = await _first_key(projection, "entity")
    fields = await projection._client.hgetall(key) | {"name": "Added"}
    await projection._client.hset(projection._connection.key("entity", "ent-added"), mapping=fields)
    await projection._client.zadd(projection._connection.key("entities"), {"Added\0ent-added": -99})


async def _add_redis_relation(projection: Any, _: str) -> None:
    key = await _first_key(projection, "relation")
    fields = await projection._client.hgetall(key)
    await projection._client.hset(projection._connection.key("relation", "rel-added"), mapping=fields)
    await projection._client.sadd(projection._connection.key("relations"), "rel-added")


async def _rename_redis_member(projection: Any, _: str) -> None:
    (member, _score), *_rest = await projection._client.zrange(
        projection._connection.key("entities"), 0, 0, withscores=True
    )
    await projection._client.zadd(
        projection._connection.key("entities"), {f"Other\0{member.rpartition(chr(0))[2]}": -3}
    )


_REDIS_GRAPH: dict[str, Damage] = {
    "description of an entity": _redis("entity", "HSET", "description", "forged"),
    "embedding of an entity": _redis("entity", "HDEL", "embedding"),
    "deleted entity": _redis("entity", "DEL"),
    "added entity": _add_redis_entity,
    "order of entities": _rename_redis_member,
    "weight of a relation": _redis("relation", "HSET", "weight", "99.0"),
    "deleted relation": _redis("relation", "DEL"),
    "added relation": _add_redis_relation,
    "weights between neighbours": _redis("weights", "DEL"),
    "added weight": _redis("weights", "HSET", "ent-stray", "9.0"),
    "deleted neighbours": _redis("neighbors", "DEL"),
    "added neighbour": _redis("neighbors", "SADD", "ent-stray"),
    "deleted neighbours by their other name": _redis("entity_neighbors", "DEL"),
    "added target": _redis("relations", "SADD", "ent-stray"),
    "title of a document": _redis("doc", "HSET", "title", "forged"),
    "deleted document": _redis("doc", "DEL"),
}


def _qdrant(change: Callable[[Any, str, Any], Awaitable[object]], kind: OutboxKind = OutboxKind.ENTITIES) -> Damage:
    """Do something to the first point of a kind."""

    async def damage(projection: Any, workspace: str) -> object:
        from heliograph.stores.changeset import COLLECTIONS
        from heliograph.stores.qdrant import point_id

        (id_,) = await projection.scan(kind, "", 1)
        name = projection._collection(COLLECTIONS[kind])
        (point,) = await projection._client.retrieve(name, [point_id(workspace, id_)], with_vectors=True)
        return await change(projection._client, name, point)

    return damage


def _put_point(**changes: Any) -> Callable[[Any, str, Any], Awaitable[object]]:
    async def change(client: Any, name: str, point: Any) -> object:
        from qdrant_client import models

        made = {"id": point.id, "vector": point.vector, "payload": point.payload} | changes
        if changes.get("vector") == "turned":
            made["vector"] = [*point.vector[1:], point.vector[0]]
        if changes.get("payload") == "forged":
            made["payload"] = point.payload | {"description": "forged"}
        return await client.upsert(name, [models.PointStruct(**made)])

    return change


async def _delete_point(client: Any, name: str, point: Any) -> object:
    from qdrant_client import models

    return await client.delete(name, models.PointIdsList(points=[point.id]))


_QDRANT = {
    "vector of an entity": _qdrant(_put_point(vector="turned")),
    "vector of a chunk": _qdrant(_put_point(vector="turned"), OutboxKind.CHUNKS),
    "payload of an entity": _qdrant(_put_point(payload="forged")),
    "deleted relation": _qdrant(_delete_point, OutboxKind.RELATIONS),
    "doubled entity": _qdrant(_put_point(id=str(uuid4()))),
}
_ENGINES: dict[str, tuple[str, str, dict[str, Damage]]] = {
    "neo4j": ("graph", "neo4j_server", _CYPHER),
    "falkordb": ("graph", "falkordb_server", _CYPHER),
    "redis graph": ("graph", "redis_server", _REDIS_GRAPH),
    "postgresql graph": ("graph", "postgres_database", _POSTGRES_GRAPH),
    "postgresql vectors": ("vectors", "postgres_database", _POSTGRES_VECTORS),
    "qdrant": ("vectors", "qdrant", _QDRANT),
    "postgresql text": ("text", "postgres_database", _POSTGRES_TEXT),
}


@pytest.fixture(params=_ENGINES)
async def engine(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncGenerator[tuple[ComposedStore, dict[str, Damage], str]]:
    role, fixture, damages = _ENGINES[request.param]
    place = request.getfixturevalue(fixture)
    url = place.url(DIMENSION) if fixture == "qdrant" else place if isinstance(place, str) else place.url
    workspace = f"w{uuid4().hex}"
    settings = {"data_dir": tmp_path, "workspace": workspace, "durability": "normal", f"{role}_url": url}
    store = await open_store(StoreSettings.model_validate(settings), INFO)
    assert isinstance(store, ComposedStore)
    yield store, damages, workspace
    await store.close()


async def test_damage_is_named_and_mended(engine: tuple[ComposedStore, dict[str, Damage], str]) -> None:
    store, damages, workspace = engine
    world = World(store)
    for operation in make_operations(14, seed=4):
        await world.do(operation)
    (projection,), (follower,) = store.projections, store.followers
    upkeep = Maintenance(store.truth, world.embedding, None, IngestSettings())
    questions = make_questions(12, seed=4)
    assert (await upkeep.check()).problems == ()
    before = [await answer(world, question) for question in questions]
    for name, damage in damages.items():
        await damage(projection, workspace)
        found = await upkeep.check()
        assert {problem.id for problem in found.problems} == {follower.name}, name
        assert (await upkeep.check(repair=True)).is_clean, name
        assert (await upkeep.check()).problems == (), name
        assert [await answer(world, question) for question in questions] == before, name
