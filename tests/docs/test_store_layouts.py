"""What docs/stores.md says is kept in an engine is there: keys and fields of Redis, tables and columns, properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import psycopg

from heliograph.embedding.base import EmbeddingInfo
from heliograph.models import Entity, Relation, Usage, utc_now
from heliograph.settings import StoreSettings
from heliograph.stores.base import CachedReply, Store
from heliograph.stores.cypher import entity_row, relation_row
from heliograph.stores.registry import open_store
from heliograph.testing.examples import DIMENSION, example_changeset
from tests.servers.redis import RedisServer

_PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text("utf-8")
_INFO = EmbeddingInfo("example", DIMENSION, 512)
_CODE = re.compile(r"`([^`]+)`")
_KEY = re.compile(r"[a-z_]+:[^/ ]*|[a-z_]+:.*<.*>")


def _section(heading: str) -> str:
    """Return what stands below a heading, up to the next one as high."""
    marks, text = heading.partition(" ")[0], _PAGE.partition(f"\n{heading}\n")[2]
    assert text, f"docs/stores.md has no heading {heading!r}"
    return re.split(rf"^#{{1,{len(marks)}}} ", text, maxsplit=1, flags=re.MULTILINE)[0]


def _pattern(key: str) -> re.Pattern[str]:
    parts = re.split(r"<[^>]*>|\.\.\.", key)
    beginning = "" if key.startswith("heliograph:") else r"heliograph:\{[^}]*\}:"
    return re.compile(beginning + ".+".join(map(re.escape, parts)))


async def _fill(store: Store) -> None:
    await store.apply(example_changeset("a.md", ["ESP32", "MQTT"], [("ESP32", "MQTT", 0.8)]))
    await store.replies.put_reply(CachedReply("mix:extract:1", "said", "model", Usage(1, 1), utc_now(), "chunk-1"))


async def _keys(server: RedisServer, workspace: str) -> Mapping[str, set[str]]:
    """Return all keys of a workspace, with the fields of those that are hashes."""
    import redis.asyncio

    client = redis.asyncio.Redis.from_url(server.url, decode_responses=True)
    names = [key async for key in client.scan_iter(f"heliograph:{{{workspace}*")]
    found = {key: set(await client.hkeys(key)) if await client.type(key) == "hash" else set() for key in names}
    found |= {key: set() for key in await client.keys("heliograph:workspaces")}
    await client.aclose()
    return found


async def test_keys_of_redis_beside_a_store_are_there(tmp_path: Path, redis_server: RedisServer) -> None:
    workspace = f"w{uuid4().hex}"
    urls = {f"{role}_url": redis_server.url for role in ("graph", "cache")}
    store = await open_store(StoreSettings(data_dir=tmp_path, workspace=workspace, **urls), _INFO)
    await _fill(store)
    keys = await _keys(redis_server, workspace)
    await store.close()
    rows = re.findall(r"^\| `(heliograph:[^`]+)` \| (.*) \|$", _section("## Redis"), re.MULTILINE)
    assert len(rows) > 10
    for key, said in rows:
        matching = [fields for name, fields in keys.items() if _pattern(key).fullmatch(name)]
        assert matching, key
        if said.startswith("hash: `"):
            assert set(_CODE.findall(said)) <= set.union(*matching), key


async def test_tables_and_columns_of_postgresql_are_there(postgres_database: str) -> None:
    await (await open_store(StoreSettings(url=postgres_database, workspace=f"w{uuid4().hex}"), _INFO)).close()
    with psycopg.connect(postgres_database) as connection:
        query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        columns: dict[str, set[str]] = {}
        for table, column in connection.execute(query):
            columns.setdefault(table, set()).add(column)
    named = set(re.findall(r"`((?:lightrag|heliograph)_[a-z_]+)`", _PAGE))
    assert len(named) > 8
    assert named <= columns.keys()
    for table, said in re.findall(r"^\| `(lightrag_[a-z]+)` \| (.*) \|$", _PAGE, re.MULTILINE):
        assert set(_CODE.findall(said)) <= columns[table], table


def test_properties_of_neo4j_are_there() -> None:
    section = _section("## Neo4j")
    entity = entity_row(Entity("ent-1", "Ann", "person", ""))["properties"].keys() | {"id", "workspace", "degree"}
    relation = relation_row(Relation("rel-1", "Ann", "Bob", "ent-1", "ent-2", (), "", 1.0), "KNOWS")["properties"]
    for row, properties in (("node of an entity", entity), ("relationship", relation.keys() | {"id"})):
        (said,) = re.findall(rf"^\| {row} \| (.*) \|$", section, re.MULTILINE)
        named = {code for code in _CODE.findall(said) if code.lower() == code or code == "displayName"}
        assert named <= properties, row
        assert properties <= named | {"source_name", "target_name", "source_entity", "target_entity"}, row
