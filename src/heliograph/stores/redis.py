"""The graph of one workspace, or model replies, in Redis, beside the store with the truth.

One connection pool, commands in one round trip; the graph as hashes, sets and sorted sets, with an index of
documents; replies as one hash each, and sets by which they are dropped together.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Some
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Self, get_type_hints
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.client import NEVER_DECODE
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SettingsError, StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.ids import relation_id
from heliograph.models import Document, Entity, Relation, Usage
from heliograph.settings import StoreSettings
from heliograph.stores.base import ANSWERS, CachedReply
from heliograph.stores.changeset import Collection, OutboxKind
from heliograph.stores.graph import IncidentRelation
from heliograph.stores.projection import CacheProjection, GraphProjection, Projection, ProjectionChange, first_keyword
from heliograph.stores.sql import DOCUMENTS

# The names of all keys of a workspace, and their values.
#
# They begin with `heliograph:{<workspace>}:`. Unless a score is given here, members of sorted sets have score 0, so
# that they are in the order of their bytes. `<sort>` is a field by which documents are sorted.
#
# Of the graph (`store.graph_url`):
#     doc:<id>                      hash: the document and the ids of its chunks
#     documents, relations          sets of the ids there are
#     entity:<id>, relation:<id>    hashes
#     neighbors:<entity id>         set of entity ids
#     entity_neighbors:<entity id>  the same, under the other name that programs know it by
#     weights:<entity id>           hash: weight of the relation per entity id of the other end
#     degrees                       hash: relations per entity id
#     relations:<source id>:<type>  set of target ids; the type is the first keyword
#     entities                      sorted set "<name>\0<id>", well connected first
#     touched                       set of entity ids, only within a transaction
#
# Of model replies (`store.cache_url`; the workspace's name then ends in `:cache`):
#     reply:<key>                   hash
#     replies                       sorted set of keys
#     types, type:<type>            sets of types, and of keys of a type
#     subject:<id>                  set of keys of replies about it
#
# Of both:
#     cursor:<layout>               data version up to which changes of the home store have been applied
#     applied                       token of the last change


# Commands are plain tuples. Texts are returned as `str`, and by `read_bytes` as `bytes`.
Command = tuple[str | bytes | int | float, ...]

_LOGGER = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 10.0
_MOST_CONNECTIONS = 50
# Retries of calls whose connection broke, such as one that was idle for long; a call that timed out is not repeated.
_RETRIES = 3
# Refusals that pass, or that an operator ends; the driver has classes for two of them.
_PASSING = ("MISCONF", "BUSY", "Query timed out", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS")
_SAFE_POLICY = "noeviction"


class RedisConnection:
    """A Redis, as one workspace sees it.

    `url` is `redis://[[user]:password@]host[:port][/database]`, `rediss://` by TLS, or `unix:///path`. Errors name
    `setting`, and `product`, as other products speak the protocol, too.
    """

    def __init__(
        self, url: str, workspace: str, setting: str, product: str = "Redis", timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> None:
        parts = urlsplit(url)
        try:
            self.where = f"{parts.hostname or parts.path}:{parts.port or 6379}"
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=_MOST_CONNECTIONS,
                timeout=timeout_seconds,
                decode_responses=True,
                # Real texts sometimes hold lone surrogates; they must survive a round trip.
                encoding_errors="surrogatepass",
                socket_timeout=timeout_seconds,
                socket_connect_timeout=_TIMEOUT_SECONDS,
                retry=Retry(ExponentialWithJitterBackoff(), _RETRIES, (RedisConnectionError,)),
            )
            self.client = Redis.from_pool(pool)
        except ValueError as error:
            example = f"{product.lower()}://host:6379/0"
            raise SettingsError(f"{setting} is no address of {product}: {error}; write {example}") from None
        self.prefix = f"heliograph:{{{workspace}}}:"
        self._setting = setting
        self._product = product
        self._is_closed = False

    def key(self, *parts: str) -> str:
        """Return the name of a key of this workspace."""
        return self.prefix + ":".join(parts)

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        """Return the reply to each command, all sent in one round trip; empty without commands."""
        return await self._run(commands, {}, is_transaction=False) if commands else []

    async def read_bytes(self, commands: Sequence[Command]) -> list[Any]:
        """Like `read`, with bytes in place of texts."""
        return await self._run(commands, {NEVER_DECODE: True}, is_transaction=False) if commands else []

    async def read_one(self, *command: str | bytes | int | float) -> Any:
        """Return the reply to one command."""
        return (await self.read([command]))[0]

    async def write(self, commands: Sequence[Command]) -> list[Any]:
        """Run all commands in one transaction; return their replies.

        It may be sent again after a connection broke, so commands must be safe to repeat.
        """
        return await self._run(commands, {}, is_transaction=True) if commands else []

    async def _run(self, commands: Sequence[Command], options: dict[str, Any], *, is_transaction: bool) -> list[Any]:
        pipe = self.client.pipeline(transaction=is_transaction)
        with self.errors():
            for command in commands:
                pipe.execute_command(*command, **options)
            return await pipe.execute()

    @contextmanager
    def errors(self) -> Generator[None]:
        """Translate the driver's exceptions into `StoreError`s that name the place."""
        if self._is_closed:
            # The driver would connect again.
            raise StoreUnavailable(f"{self._product} at {self.where!r} is closed; open it again")
        try:
            yield
        except (AuthenticationError, NoPermissionError) as error:
            raise StoreAccessDenied(
                f"{self._product} at {self.where!r} refuses: {error}; check {self._setting}"
            ) from error
        except ResponseError as error:
            is_passing = isinstance(error, OutOfMemoryError | ReadOnlyError) or str(error).startswith(_PASSING)
            kind = StoreUnavailable if is_passing else StoreError
            raise kind(f"{self._product} at {self.where!r} refuses: {error}") from error
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            reason = str(error) or "no answer in time"
            raise StoreUnavailable(
                f"{self._product} at {self.where!r} is out of reach: {reason}; check {self._setting}"
            ) from error
        except RedisError as error:
            raise StoreError(f"{self._product} at {self.where!r} failed: {error}") from error

    async def check_durability(self) -> Mapping[str, str]:
        """Return how Redis persists data, and warn where it may drop some; empty if it does not say."""
        try:
            found = await self.client.config_get("appendonly", "appendfsync", "maxmemory-policy")
        except ResponseError:
            # Managed services hide their configuration.
            return {}
        if found.get("appendonly") == "no":
            _LOGGER.warning(
                "%s at %r forgets on a crash (appendonly no); it is filled again", self._product, self.where
            )
        if found.get("maxmemory-policy", _SAFE_POLICY) != _SAFE_POLICY:
            _LOGGER.warning(
                "%s at %r may drop keys when full (maxmemory-policy %s); set it to %s",
                *(self._product, self.where, found["maxmemory-policy"], _SAFE_POLICY),
            )
        return {str(name): str(value) for name, value in found.items()}

    async def pages(self) -> AsyncGenerator[list[str]]:
        """Yield all keys of this workspace in batches; one may come twice."""
        pattern = self.prefix.replace("[", "\\[").replace("*", "\\*").replace("?", "\\?") + "*"
        page: list[str] = []
        async for key in self.client.scan_iter(pattern, count=1000):
            page.append(str(key))
            if len(page) >= 500:
                yield page
                page = []
        if page:
            yield page

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        await self.client.aclose()


# The common part of the graph and the cache in Redis: a connection, a cursor, closing.


# The layout's number: data of an earlier layout has no cursor here, and is rebuilt.
CURSOR = ("cursor", "3")
_APPLIED = "applied"
# KEYS: cursor, applied. ARGV: new version, previous cursor or '', token of the last change or ''. A restarted Redis may
# have lost its last changes: the cursor must not advance past those. The command itself may be repeated.
_MOVE = """
local cursor, mark = redis.call('GET', KEYS[1]) or '-1', redis.call('GET', KEYS[2])
if ARGV[2] ~= '' and cursor ~= ARGV[2] and cursor ~= ARGV[1] or ARGV[3] ~= '' and mark ~= ARGV[3] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""


class RedisProjection(Projection):
    """One role of one workspace in Redis; `suffix` ends the workspace's name in keys, so that roles do not collide."""

    suffix: str = ""

    def __init__(self, connection: RedisConnection) -> None:
        self.name = f"{self.role}:redis:{connection.where}"
        self._connection = connection
        self._client = connection.client
        self._durability: Mapping[str, str] = {}
        self._seen = ""
        self._mark = ""

    @classmethod
    async def open(
        cls,
        settings: StoreSettings,
        url: str,
        embedding: EmbeddingInfo,  # noqa: ARG003 (as all projections open)
    ) -> Self:
        """Read the address, or raise `SettingsError`; `prepare` is the first to call Redis."""
        return cls(RedisConnection(url, settings.workspace + cls.suffix, f"store.{cls.role}_url"))

    async def prepare(self) -> None:
        """Also warns of settings that lose stored data."""
        with self._connection.errors():
            self._durability = await self._connection.check_durability()

    async def get_cursor(self) -> int:
        with self._connection.errors():
            version = await self._client.get(self._connection.key(*CURSOR))
        self._seen, self._mark = str(-1 if version is None else version), ""
        return int(self._seen)

    async def set_cursor(self, version: int) -> None:
        keys = self._connection.key(*CURSOR), self._connection.key(_APPLIED)
        with self._connection.errors():
            is_moved = await self._client.eval(_MOVE, 2, *keys, version, self._seen, self._mark)
        if not is_moved:
            raise StoreUnavailable(
                f"{self.name!r} was started again and has lost what it was given last; it is filled again"
            )
        self._seen, self._mark = str(version), ""

    def mark_change(self) -> tuple[str, str, str]:
        """Return the command that ends a change's transaction; its token shows later that the change is still there."""
        self._mark = secrets.token_hex(8)
        return "SET", self._connection.key(_APPLIED), self._mark

    async def clear(self) -> None:
        """Keys of the other role, which have another prefix, stay."""
        with self._connection.errors():
            await self._client.delete(self._connection.key(*CURSOR))
            async for keys in self._connection.pages():
                await self._client.unlink(*keys)
        self._seen, self._mark = "-1", ""

    async def close(self) -> None:
        await self._connection.close()

    def describe(self) -> Mapping[str, str]:
        return {"back end": "redis", "address": self._connection.where, **self._durability}


# Entities, relations and documents as hashes of Redis: their fields, and back.
#
# Other programs read the first fields; lists are JSON.

# With these, a cosine is off by less than a millionth; more digits would only take space.
_DECIMALS = 6
# The hash field of each field that is stored.
_ENTITY_KINDS, _RELATION_KINDS = get_type_hints(Entity), get_type_hints(Relation)
_OF_RELATION = {"source": "source_name", "target": "target_name", "source_id": "source", "target_id": "target"}
_ENTITY_FIELDS = {name: name for name in _ENTITY_KINDS if name not in ("id", "degree")}
_RELATION_FIELDS = {name: _OF_RELATION.get(name, name) for name in _RELATION_KINDS if name != "id"}
ENTITY_FIELDS = tuple(_ENTITY_FIELDS.values())
RELATION_FIELDS = tuple(_RELATION_FIELDS.values())


def entity_hash(
    entity: Entity, owner_ids: Mapping[str, str], vector: NDArray[np.float32] | None = None
) -> dict[str, str]:
    """Return the fields of an entity, given the document's id per chunk id; the vector's field only if there is one."""
    owners = filter(None, (owner_ids.get(id_) for id_ in entity.chunk_ids))
    return {
        **_hash(entity, _ENTITY_FIELDS),
        "doc_ids": _dump(dict.fromkeys(owners)),
        **({} if vector is None else {"embedding": json.dumps(vector.astype(float).round(_DECIMALS).tolist())}),
    }


def relation_hash(relation: Relation) -> dict[str, str]:
    """Return the fields of a relation; `source` and `target` are ids of entities."""
    return _hash(relation, _RELATION_FIELDS) | {"relation": first_keyword(relation)}


def document_hash(document: Document, chunk_ids: Sequence[str]) -> dict[str, str]:
    """Return the fields of a document with these chunks, by position."""
    values = {name: str(value) for name, value in DOCUMENTS.row(document).items() if name != "id"}
    return values | {"chunk_ids": _dump(chunk_ids)}


def to_entity(id_: str, fields: Sequence[str], degree: int) -> Entity:
    """Return the entity with these values of `ENTITY_FIELDS`."""
    return Entity(id_, degree=degree, **_read(fields, _ENTITY_FIELDS, _ENTITY_KINDS))


def to_relation(id_: str, fields: Sequence[str]) -> Relation:
    """Return the relation with these values of `RELATION_FIELDS`."""
    return Relation(id_, **_read(fields, _RELATION_FIELDS, _RELATION_KINDS))


def _hash(item: Entity | Relation, names: Mapping[str, str]) -> dict[str, str]:
    values = {name: getattr(item, field) for field, name in names.items()}
    return {name: _dump(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}


def _read(values: Sequence[str], names: Iterable[str], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the values of a hash by the kinds of their fields: text, number, boolean, or a list of texts."""
    found: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        kind = kinds[name]
        if kind is bool:
            found[name] = value == str(True)
        else:
            found[name] = kind(value) if isinstance(kind, type) else tuple(json.loads(value))
    return found


def _dump(values: Iterable[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


# Many small values in one reply: scripts that encode the contents of hashes and sets as one JSON text.

# Ids in one command, so that none keeps Redis busy for long.
_MOST_IDS = 500
# ARGV: prefix, key prefix of the hashes after it, number of fields, fields, ids. Returns the fields of each hash, false
# where there is none.
_HASHES = """
local p, kind, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fields, rows = {}, {}
for i = 4, 3 + count do fields[#fields + 1] = ARGV[i] end
for i = 4 + count, #ARGV do
  local row = redis.call('HMGET', p .. kind .. ARGV[i], unpack(fields))
  if kind == 'entity:' then row[#row + 1] = redis.call('HGET', p .. 'degrees', ARGV[i]) or '0' end
  rows[#rows + 1] = row[1] and row
end
return cjson.encode(rows)
"""


async def read_hashes(
    connection: RedisConnection, kind: str, ids: Sequence[str], fields: Sequence[str]
) -> list[list[str] | None]:
    """Return the fields of a hash per id, None if the first field is missing; for entities the degree comes last."""
    rows = await ask_packed(connection, _HASHES, ids, f"{kind}:", len(fields), *fields)
    return [row or None for row in rows]


async def ask_packed(connection: RedisConnection, script: str, ids: Sequence[str], *arguments: str | int) -> list[Any]:
    """Return the decoded JSON results of a script, concatenated; it runs on batches of ids, all in one round trip.

    The script takes the prefix, the arguments, then ids, and returns a list that is not empty; without ids it is not
    run.
    """
    windows = [ids[start : start + _MOST_IDS] for start in range(0, len(ids), _MOST_IDS)]
    prefix = connection.prefix
    texts = await connection.read([("EVAL", script, 0, prefix, *arguments, *window) for window in windows])
    return [row for text in texts for row in json.loads(text)]


# Writing the graph: a change to entities, relations, neighbours and degrees, as commands.
#
# Commands that depend on stored values are scripts within the transaction, so nothing has to be read first.

# ARGV: prefix, relation ids. Removes the neighbours and types that their last versions added.
_UNLINK = """
local p = ARGV[1]
for i = 2, #ARGV do
  local id = ARGV[i]
  local old = redis.call('HMGET', p .. 'relation:' .. id, 'source', 'target', 'relation')
  if old[1] then
    redis.call('SREM', p .. 'relations:' .. old[1] .. ':' .. old[3], old[2])
    for _, name in ipairs({'neighbors:', 'entity_neighbors:'}) do
      redis.call('SREM', p .. name .. old[1], old[2])
      redis.call('SREM', p .. name .. old[2], old[1])
    end
    redis.call('HDEL', p .. 'weights:' .. old[1], old[2])
    redis.call('HDEL', p .. 'weights:' .. old[2], old[1])
    redis.call('SADD', p .. 'touched', old[1], old[2])
    redis.call('DEL', p .. 'relation:' .. id)
  end
end
"""
# ARGV: prefix, then source, target, weight and type of each relation, whose ends become neighbours.
_LINK = """
local p = ARGV[1]
for i = 2, #ARGV, 4 do
  local source, target, weight = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  for _, name in ipairs({'neighbors:', 'entity_neighbors:'}) do
    redis.call('SADD', p .. name .. source, target)
    redis.call('SADD', p .. name .. target, source)
  end
  redis.call('HSET', p .. 'weights:' .. source, target, weight)
  redis.call('HSET', p .. 'weights:' .. target, source, weight)
  redis.call('SADD', p .. 'relations:' .. source .. ':' .. ARGV[i + 3], target)
  redis.call('SADD', p .. 'touched', source, target)
end
"""
# ARGV: prefix, entity ids. Removes entities from the order by degree, where they stand under their old names.
_UNRANK = """
local p = ARGV[1]
for i = 2, #ARGV do
  local id = ARGV[i]
  local name = redis.call('HGET', p .. 'entity:' .. id, 'name')
  if name then redis.call('ZREM', p .. 'entities', name .. '\\0' .. id) end
  redis.call('DEL', p .. 'entity:' .. id)
end
"""
# ARGV: prefix. Puts every touched entity in its place by degree.
_RANK = """
local p = ARGV[1]
for _, id in ipairs(redis.call('SMEMBERS', p .. 'touched')) do
  local degree = redis.call('SCARD', p .. 'neighbors:' .. id)
  if degree > 0 then redis.call('HSET', p .. 'degrees', id, degree) else redis.call('HDEL', p .. 'degrees', id) end
  local name = redis.call('HGET', p .. 'entity:' .. id, 'name')
  if name then redis.call('ZADD', p .. 'entities', -degree, name .. '\\0' .. id) end
end
redis.call('DEL', p .. 'touched')
"""


def _script(script: str, prefix: str, *values: Iterable[str]) -> Iterator[Command]:
    if given := list(chain(*values)):
        yield "EVAL", script, 0, prefix, *given


# Reading the graph of one workspace: entities, relations, and steps between entities.

# ARGV: prefix, entity ids. Returns the pairs that are neighbours, each once; for a hub, the others are looked up in its
# set instead of reading that set.
_AMONG = """
local p, wanted, found = ARGV[1], {}, {}
for i = 2, #ARGV do wanted[ARGV[i]] = true end
for i = 2, #ARGV do
  local near = ARGV[i]
  local key = p .. 'neighbors:' .. near
  if redis.call('SCARD', key) > 4 * #ARGV then
    for far in pairs(wanted) do
      if near < far and redis.call('SISMEMBER', key, far) == 1 then
        found[#found + 1] = near
        found[#found + 1] = far
      end
    end
  else
    for _, far in ipairs(redis.call('SMEMBERS', key)) do
      if near < far and wanted[far] then
        found[#found + 1] = near
        found[#found + 1] = far
      end
    end
  end
end
return found
"""
# ARGV: prefix, what is wanted, entity ids. Returns for each its degree, then per neighbour id and weight, and if they
# are wanted the neighbour's degree.
_STEPS = """
local p, found = ARGV[1], {}
local function degree(id) return redis.call('HGET', p .. 'degrees', id) or '0' end
for i = 3, #ARGV do
  local row, weights = {degree(ARGV[i])}, redis.call('HGETALL', p .. 'weights:' .. ARGV[i])
  for at = 1, #weights, 2 do
    row[#row + 1] = weights[at]
    row[#row + 1] = weights[at + 1]
    if ARGV[2] == 'degrees' then row[#row + 1] = degree(weights[at]) end
  end
  found[#found + 1] = row
end
return cjson.encode(found)
"""
_WITH_DEGREES = "degrees"


# ARGV: prefix, keys. Counts those that belong to no stored item, or name targets that are no neighbours.
_STRAYS = """
local p, strays = ARGV[1], 0
local entities = {neighbors = true, entity_neighbors = true, weights = true, relations = true}
local listed = {doc = 'documents', relation = 'relations'}
for i = 2, #ARGV do
  local kind, id = string.match(string.sub(ARGV[i], #p + 1), '^([^:]+):([^:]+)')
  local is_there = true
  if kind and entities[kind] then
    is_there = redis.call('EXISTS', p .. 'entity:' .. id) == 1
      and (kind ~= 'relations' or #redis.call('SDIFF', ARGV[i], p .. 'neighbors:' .. id) == 0)
  elseif kind and listed[kind] then
    is_there = redis.call('SISMEMBER', p .. listed[kind], id) == 1
  elseif kind == 'entity' then
    local name = redis.call('HGET', ARGV[i], 'name')
    is_there = name and redis.call('ZSCORE', p .. 'entities', name .. '\\0' .. id)
  end
  if not is_there then strays = strays + 1 end
end
return strays
"""
# ARGV: prefix, relation ids. Returns those whose stated ends are not neighbours.
_WRONG_RELATIONS = """
local p, wrong = ARGV[1], {}
for i = 2, #ARGV do
  local r = redis.call('HMGET', p .. 'relation:' .. ARGV[i], 'source', 'target', 'weight', 'relation')
  if not r[1] or redis.call('HGET', p .. 'weights:' .. r[1], r[2]) ~= r[3]
      or redis.call('HGET', p .. 'weights:' .. r[2], r[1]) ~= r[3]
      or redis.call('SISMEMBER', p .. 'neighbors:' .. r[1], r[2]) == 0
      or redis.call('SISMEMBER', p .. 'neighbors:' .. r[2], r[1]) == 0
      or redis.call('SISMEMBER', p .. 'entity_neighbors:' .. r[1], r[2]) == 0
      or redis.call('SISMEMBER', p .. 'entity_neighbors:' .. r[2], r[1]) == 0
      or redis.call('SISMEMBER', p .. 'relations:' .. r[1] .. ':' .. r[4], r[2]) == 0 then
    wrong[#wrong + 1] = ARGV[i]
  end
end
return wrong
"""
# ARGV: prefix, entity ids. Returns those that are not in the order of entities by their degree, or whose degree is not
# the number of their neighbours.
_WRONG_ENTITIES = """
local p, wrong = ARGV[1], {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local name = redis.call('HGET', p .. 'entity:' .. id, 'name')
  local degree = redis.call('SCARD', p .. 'neighbors:' .. id)
  local place = name and redis.call('ZSCORE', p .. 'entities', name .. '\\0' .. id)
  if not place or tonumber(place) ~= -degree or redis.call('HLEN', p .. 'weights:' .. id) ~= degree
      or redis.call('SCARD', p .. 'entity_neighbors:' .. id) ~= degree
      or tonumber(redis.call('HGET', p .. 'degrees', id) or '0') ~= degree then wrong[#wrong + 1] = id end
end
return wrong
"""
_SCANNED = {OutboxKind.DOCUMENTS: "documents", OutboxKind.RELATIONS: "relations"}


class RedisGraphProjection(RedisProjection, GraphProjection):
    """The graph, and the documents' own fields, as keys that other programs can read."""

    kinds = frozenset({OutboxKind.DOCUMENTS, OutboxKind.ENTITIES, OutboxKind.RELATIONS})
    needs_origins = True
    needs_vectors = True

    async def get_entities(self, ids: Sequence[str]) -> list[Entity]:
        rows = await read_hashes(self._connection, "entity", ids, ENTITY_FIELDS)
        return [to_entity(id_, row[:-1], int(row[-1])) for id_, row in zip(ids, rows, strict=True) if row]

    async def get_relations(self, ids: Sequence[str]) -> list[Relation]:
        rows = await read_hashes(self._connection, "relation", ids, RELATION_FIELDS)
        return [to_relation(id_, row) for id_, row in zip(ids, rows, strict=True) if row]

    async def rank_incident_relations(self, entity_ids: Sequence[str]) -> list[IncidentRelation]:
        ids = list(dict.fromkeys(entity_ids))
        rows = await ask_packed(self._connection, _STEPS, ids, _WITH_DEGREES)
        steps = {
            (min(near, far), max(near, far)): (int(degree) + int(far_degree), float(weight))
            for near, (degree, *row) in zip(ids, rows, strict=True)
            for far, weight, far_degree in zip(row[::3], row[1::3], row[2::3], strict=True)
        }
        ranked = [IncidentRelation(relation_id(*ends), *step) for ends, step in steps.items()]
        return sorted(ranked, key=lambda item: (-item.degree, -item.weight, item.id))

    async def list_entities(self, offset: int, limit: int) -> list[Entity]:
        if limit < 1:
            return []
        members = await self._connection.read_one(
            "ZRANGE", self._connection.key("entities"), offset, offset + limit - 1
        )
        return await self.get_entities([member_id(member) for member in members])

    async def find_relations_among(self, entity_ids: Sequence[str]) -> list[Relation]:
        wanted = list(dict.fromkeys(entity_ids))
        if not wanted:
            return []
        ends: list[str] = await self._connection.read_one("EVAL", _AMONG, 0, self._connection.prefix, *wanted)
        ids = [relation_id(near, far) for near, far in zip(ends[::2], ends[1::2], strict=True)]
        return sorted(await self.get_relations(ids), key=lambda relation: (-relation.weight, relation.id))

    async def find_steps(self, nodes: Some[str], limit: int | None) -> list[tuple[str, str, float]]:
        ordered = sorted(nodes)
        rows = await ask_packed(self._connection, _STEPS, ordered, "")
        steps = [
            (near, far, float(weight))
            for near, (_, *row) in zip(ordered, rows, strict=True)
            for far, weight in sorted(zip(row[::2], row[1::2], strict=True))
        ]
        return steps[:limit]

    async def order_nodes(self, nodes: Some[str], limit: int) -> list[str]:
        ids = list(nodes)
        rows = await read_hashes(self._connection, "entity", ids, ["name"])
        found = sorted((-int(row[1]), row[0], id_) for id_, row in zip(ids, rows, strict=True) if row)
        return [id_ for *_, id_ in found[:limit]]

    async def apply(self, change: ProjectionChange) -> None:
        """Apply a change in one transaction."""
        await self._connection.write([*self._commands(change), self.mark_change()])

    def _commands(self, change: ProjectionChange) -> Iterator[Command]:
        """Yield the commands that apply a change: data of earlier versions is removed first."""
        prefix = self._connection.prefix
        gone = {kind: list(change.removed.get(kind, ())) for kind in self.kinds}
        for id_ in gone[OutboxKind.DOCUMENTS]:
            yield "DEL", f"{prefix}doc:{id_}"
        yield from _script(_UNLINK, prefix, gone[OutboxKind.RELATIONS], (item.id for item in change.relations))
        yield from _script(_UNRANK, prefix, gone[OutboxKind.ENTITIES], (item.id for item in change.entities))
        for key, fields in self._hashes(change).values():
            yield "HSET", key, *chain.from_iterable(fields.items())
        yield from _script(
            *(_LINK, prefix),
            *((item.source_id, item.target_id, repr(item.weight), first_keyword(item)) for item in change.relations),
        )
        if change.entities:
            yield "SADD", f"{prefix}touched", *(item.id for item in change.entities)
        yield "EVAL", _RANK, 0, prefix
        for kind, put in ((OutboxKind.DOCUMENTS, change.documents), (OutboxKind.RELATIONS, change.relations)):
            if gone[kind]:
                yield "SREM", f"{prefix}{_SCANNED[kind]}", *gone[kind]
            if put:
                yield "SADD", f"{prefix}{_SCANNED[kind]}", *(item.id for item in put)

    def _hashes(self, change: ProjectionChange) -> dict[str, tuple[str, dict[str, str]]]:
        """Return key and fields of the hash of each document, entity and relation, by its id."""
        prefix, vectors = self._connection.prefix, change.vectors.get(Collection.ENTITIES, {})
        documents = {
            item.id: (f"{prefix}doc:{item.id}", document_hash(item, change.chunk_ids.get(item.id, ())))
            for item in change.documents
        }
        entities = {
            item.id: (f"{prefix}entity:{item.id}", entity_hash(item, change.owner_ids, vectors.get(item.id)))
            for item in change.entities
        }
        relations = {item.id: (f"{prefix}relation:{item.id}", relation_hash(item)) for item in change.relations}
        return documents | entities | relations

    async def compare(self, expected: ProjectionChange) -> set[str]:
        """Ignores hash fields that other programs added."""
        prefix, wanted = self._connection.prefix, self._hashes(expected)
        kept = await self._connection.read([("HGETALL", key) for key, _ in wanted.values()])
        rows = zip(wanted.items(), kept, strict=True)
        differing = {id_ for (id_, (_, fields)), held in rows if not fields.items() <= held.items()}
        if ids := [item.id for item in expected.relations]:
            differing.update(await self._connection.read_one("EVAL", _WRONG_RELATIONS, 0, prefix, *ids))
        if degrees := {item.id: str(item.degree) for item in expected.entities}:
            differing.update(await self._connection.read_one("EVAL", _WRONG_ENTITIES, 0, prefix, *degrees))
            counted = await self._connection.read_one("HMGET", f"{prefix}degrees", *degrees)
            differing.update(id_ for id_, count in zip(degrees, counted, strict=True) if (count or "0") != degrees[id_])
        return differing

    async def find_faults(self) -> list[str]:
        """Reads every key: a stray set shows only by its name."""
        strays = 0
        async for page in self._connection.pages():
            strays += await self._connection.read_one("EVAL", _STRAYS, 0, self._connection.prefix, *page)
        return [f"{strays:,} keys belong to no document, entity or relation that is there"] if strays else []

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:
        key = self._connection.key
        if kind is OutboxKind.ENTITIES:
            ids = [member_id(member) for member in await self._connection.read_one("ZRANGE", key("entities"), 0, -1)]
        else:
            ids = [str(id_) for id_ in await self._connection.read_one("SMEMBERS", key(_SCANNED[kind]))]
        return sorted(id_ for id_ in ids if id_ > after)[:limit]


def member_id(member: Any) -> str:
    """Return the id at the end of a member of a sorted set."""
    return str(member).rpartition("\0")[2]


# The reply cache.

_FIELDS = ("text", "model", "input_tokens", "output_tokens", "subject_id", "created_at")
_PAGE = 1_000
# ARGV: prefix.
_DROP = """
local p = ARGV[1]
local function kind(key) return p .. 'type:' .. (string.match(key, '^[^:]*:([^:]*):') or '') end
local function unlist(key)
  local subject = redis.call('HGET', p .. 'reply:' .. key, 'subject_id')
  if subject and subject ~= '' then redis.call('SREM', p .. 'subject:' .. subject, key) end
end
local function drop(key)
  unlist(key)
  redis.call('ZREM', p .. 'replies', key)
  redis.call('SREM', kind(key), key)
  return redis.call('DEL', p .. 'reply:' .. key)
end
"""
# Further ARGV: key, type, fields and values; the last but one is the subject.
_PUT = f"""{_DROP}
local key, fields = ARGV[2], {{}}
unlist(key)
for i = 4, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', p .. 'reply:' .. key, unpack(fields))
redis.call('ZADD', p .. 'replies', 0, key)
redis.call('SADD', p .. 'types', ARGV[3])
redis.call('SADD', kind(key), key)
local subject = redis.call('HGET', p .. 'reply:' .. key, 'subject_id')
if subject ~= '' then redis.call('SADD', p .. 'subject:' .. subject, key) end
"""
# Further ARGV: type, replies at the most.
_DROP_TYPE = f"""{_DROP}
local dropped = 0
for _, key in ipairs(redis.call('SPOP', p .. 'type:' .. ARGV[2], ARGV[3])) do dropped = dropped + drop(key) end
return dropped
"""
# Further ARGV: how many keys stay, these, subjects.
_DROP_ABOUT = f"""{_DROP}
local kept, count = {{}}, tonumber(ARGV[2])
for i = 3, 2 + count do kept[ARGV[i]] = true end
for i = 3 + count, #ARGV do
  for _, key in ipairs(redis.call('SMEMBERS', p .. 'subject:' .. ARGV[i])) do
    if not kept[key] then drop(key) end
  end
end
"""
# More replies than any commit could find of one type.
_ALL = 2_000_000_000


class RedisCacheProjection(RedisProjection, CacheProjection):
    """Replies of one workspace by key, under a prefix of their own that ends in `cache:`."""

    suffix = ":cache"

    async def get_reply(self, key: str) -> CachedReply | None:
        return (await self._read([key]))[0]

    async def put_reply(self, reply: CachedReply) -> None:
        """As durable as Redis is configured to be."""
        usage = reply.usage
        values = (
            *(reply.text.encode("utf-8", "surrogatepass"), reply.model, usage.input_tokens, usage.output_tokens),
            *(reply.subject_id, repr(reply.created_at.timestamp())),
        )
        fields = (item for pair in zip(_FIELDS, values, strict=True) for item in pair)
        named = self._connection.prefix, reply.key, reply.cache_type
        await self._connection.write([("EVAL", _PUT, 0, *named, *fields)])

    async def delete_replies(self, cache_type: str | None = None) -> int:
        if cache_type is None:
            types: list[str] = await self._connection.read_one("SMEMBERS", self._connection.key("types"))
        else:
            types = [cache_type]
        dropped = 0
        for type_ in types:
            while count := await self._connection.read_one(
                "EVAL", _DROP_TYPE, 0, self._connection.prefix, type_, _PAGE
            ):
                dropped += count
        return dropped

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        if limit < 1:
            return []
        lowest = f"({after}" if after else "-"
        listed = self._connection.key("replies")
        keys = await self._connection.read_one("ZRANGEBYLEX", listed, lowest, "+", "LIMIT", 0, limit)
        return [reply for reply in await self._read(keys) if reply is not None]

    async def apply(self, change: ProjectionChange) -> None:
        if subjects := change.removed.get(OutboxKind.SUBJECTS, ()):
            kept = len(change.kept_replies), *change.kept_replies
            dropped = "EVAL", _DROP_ABOUT, 0, self._connection.prefix, *kept, *subjects
            await self._connection.write([dropped, self.mark_change()])

    async def set_cursor(self, version: int) -> None:
        await self._connection.write([("EVAL", _DROP_TYPE, 0, self._connection.prefix, ANSWERS, _ALL)])
        await super().set_cursor(version)

    async def scan(self, kind: OutboxKind, after: str, limit: int) -> list[str]:  # noqa: ARG002 (it keeps replies only)
        """Keys of replies do not belong among the ids of other kinds."""
        return []

    async def _read(self, keys: Sequence[str]) -> list[CachedReply | None]:
        rows = await self._connection.read_bytes(
            [("HMGET", self._connection.key("reply", key), *_FIELDS) for key in keys]
        )
        return [None if row[0] is None else _reply(key, row) for key, row in zip(keys, rows, strict=True)]


def _reply(key: str, row: Sequence[bytes]) -> CachedReply:
    text, model, read, written, subject_id, created_at = (item.decode("utf-8", "surrogatepass") for item in row)
    moment = datetime.fromtimestamp(float(created_at), UTC)
    return CachedReply(key, text, model, Usage(int(read), int(written)), moment, subject_id)
