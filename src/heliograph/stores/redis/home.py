"""Making a workspace in Redis, and finding out what fills one that is there."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping

from redis.exceptions import NoPermissionError, ResponseError

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SchemaMismatch, SettingsError, StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores.redis.connection import RedisConnection
from heliograph.stores.redis.keys import WORKSPACES
from heliograph.stores.redis.projection import CURSOR
from heliograph.stores.redis.session import Session

__all__ = ["settle"]

_LOGGER = logging.getLogger(__name__)
_FORMAT = 1
_LEAST_VERSION = 6
_LOST = "what was stored is lost then, so set appendonly to yes"
# ARGV: prefix, cursor of a graph that stands beside another store, name of the workspace, key of all workspaces,
# format, name and dimension of an embedding or two empty texts, and a token of what is made now. Answers 0 where there
# is such a graph, else what fills the workspace, which is made first if an embedding is given.
_SETTLE = """
local p = ARGV[1]
local home = p .. 'home'
if redis.call('EXISTS', home) == 0 then
  if redis.call('EXISTS', ARGV[2]) == 1 then return 0 end
  if ARGV[6] == '' then return {} end
  redis.call('HSET', home, 'format', ARGV[5], 'embedding_name', ARGV[6], 'embedding_dimension', ARGV[7],
    'made', ARGV[8])
  if redis.call('EXISTS', p .. 'version') == 0 then redis.call('SET', p .. 'version', 0) end
end
redis.call('SADD', ARGV[4], ARGV[3])
return redis.call('HMGET', home, 'format', 'embedding_name', 'embedding_dimension')
"""


async def settle(
    connection: RedisConnection, settings: StoreSettings, embedding: EmbeddingInfo | None
) -> tuple[tuple[str, int], Mapping[str, str]]:
    """Return which embedding fills a workspace, which is made if it is new, and what there is to say of the server.

    Raises:
        SettingsError: The keys are those of a graph beside another store.
        StoreUnavailable: There is no such workspace and no embedding was given, or Redis cannot be used.
        SchemaMismatch: It was made by a newer version, or with another embedding.
    """
    described = await _describe(connection, is_durable=settings.durability == "full")
    name, dimension = (embedding.name, embedding.dimension) if embedding else ("", 0)
    cursor = connection.key(*CURSOR)
    values = connection.prefix, cursor, settings.workspace, WORKSPACES, _FORMAT, name, dimension, secrets.token_hex(8)
    found = await Session(connection).read_one("EVAL", _SETTLE, 0, *values)
    place = f"the workspace {settings.workspace!r} in the Redis at {connection.where!r}"
    if found == 0:
        raise SettingsError(
            f"the keys of {place} are those of a graph beside another store (store.graph_url there); name another "
            "workspace or database in store.url, or remove them"
        )
    if not found:
        raise StoreUnavailable(f"there is no such thing as {place} yet; index something into it first")
    return _check(place, found, embedding), described


def _check(place: str, found: list[str], embedding: EmbeddingInfo | None) -> tuple[str, int]:
    made, name, dimension = int(found[0]), found[1], int(found[2])
    if made > _FORMAT:
        raise SchemaMismatch(
            f"{place} was made by a newer version (format {made}, not {_FORMAT}); install that version"
        )
    if embedding is not None and (name, dimension) != (embedding.name, embedding.dimension):
        raise SchemaMismatch(
            f"{place} was built with the embedding {name!r} of dimension {dimension}, but {embedding.name!r} of "
            f"dimension {embedding.dimension} is configured; set the embedding back, or run 'heliograph reembed'"
        )
    return name, dimension


async def _describe(connection: RedisConnection, *, is_durable: bool) -> Mapping[str, str]:
    with connection.errors():
        durability = await connection.check_durability(_LOST)
        try:
            version = str((await connection.client.info("server")).get("redis_version", ""))
        except (NoPermissionError, ResponseError):
            # Managed services hide what they are.
            version = ""
    if (found := re.match(r"\d+", version)) and int(found[0]) < _LEAST_VERSION:
        raise StoreUnavailable(f"Redis at {connection.where!r} is {version}; {_LEAST_VERSION}.0 or later is needed")
    if is_durable and durability.get("appendonly") == "yes" and durability.get("appendfsync") != "always":
        _LOGGER.warning(
            "Redis at %r may lose the last second on a loss of power (appendfsync %s); set it to always, or "
            "store.durability to normal",
            *(connection.where, durability.get("appendfsync")),
        )
    return {"server": f"Redis {version}".strip(), **durability}
