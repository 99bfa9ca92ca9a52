"""One connection pool to Redis, commands in one round trip, keys, errors, and what both roles in it have in common."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlsplit

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
from heliograph.settings import StoreSettings
from heliograph.stores.projection import Projection

# The names of all keys of a workspace, and what stands under each.
#
# They begin with `heliograph:{<workspace>}:`. Where the score is not said, members of sorted sets have score 0, so
# that they stand in the order of their bytes. `<sort>` is a field by which documents are sorted.
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
# Of replies of models (`store.cache_url`; the workspace's name then ends in `:cache`):
#     reply:<key>                   hash
#     replies                       sorted set of keys
#     types, type:<type>            sets of types, and of keys of a type
#     subject:<id>                  set of keys of replies about it
#
# Of both:
#     cursor:2                      data version up to which changes of the home store have been applied
#     applied                       token of the last change


# Commands are plain tuples. Texts come back as `str`, whatever `read_bytes` returns as `bytes`.
Command = tuple[str | bytes | int | float, ...]

_LOGGER = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 10.0
_MOST_CONNECTIONS = 50
# Of calls whose connection broke, such as one that lay idle for long; a call that got no answer is not repeated.
_RETRIES = 3
# Refusals that pass, or that an operator ends; the driver has classes for two of them.
_PASSING = ("MISCONF", "BUSY", "Query timed out", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS")
_SAFE_POLICY = "noeviction"


class RedisConnection:
    """A Redis, as one workspace sees it.

    Args:
        url: Such as `redis://[[user]:password@]host[:port][/database]`, `rediss://` by TLS, or `unix:///path`.
        workspace: Whose keys.
        setting: Named in errors, such as `store.cache_url`.
        engine: What is there, for messages; others speak the protocol too.
        timeout_seconds: How long an answer may take.

    Attributes:
        client: Speaks to it.
        where: Host and port, for messages; no secrets.
        prefix: What all keys of the workspace begin with.
    """

    def __init__(
        self, url: str, workspace: str, setting: str, engine: str = "Redis", timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> None:
        parts = urlsplit(url)
        try:
            self.where = f"{parts.hostname or parts.path}:{parts.port or 6379}"
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=_MOST_CONNECTIONS,
                timeout=timeout_seconds,
                decode_responses=True,
                # Texts of the wild hold lone surrogates now and then; they come back as they went.
                encoding_errors="surrogatepass",
                socket_timeout=timeout_seconds,
                socket_connect_timeout=_TIMEOUT_SECONDS,
                retry=Retry(ExponentialWithJitterBackoff(), _RETRIES, (RedisConnectionError,)),
            )
            self.client = Redis.from_pool(pool)
        except ValueError as error:
            example = f"{engine.lower()}://host:6379/0"
            raise SettingsError(f"{setting} is no address of {engine}: {error}; write {example}") from None
        self.prefix = f"heliograph:{{{workspace}}}:"
        self._setting = setting
        self._engine = engine
        self._is_closed = False

    def key(self, *parts: str) -> str:
        """Return the name of a key of this workspace."""
        return self.prefix + ":".join(parts)

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answer to each command, all sent in one round trip; nothing without commands."""
        return await self._run(commands, {}, is_transaction=False) if commands else []

    async def read_bytes(self, commands: Sequence[Command]) -> list[Any]:
        """Return what `read` does with bytes in place of texts."""
        return await self._run(commands, {NEVER_DECODE: True}, is_transaction=False) if commands else []

    async def read_one(self, *command: str | bytes | int | float) -> Any:
        """Return the answer to one command."""
        return (await self.read([command]))[0]

    async def write(self, commands: Sequence[Command]) -> list[Any]:
        """Run all commands in one transaction; return their answers.

        It may be sent again after a connection broke, so commands must be such as can be repeated.
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
        """Turn the driver's exceptions into `StoreError`s that name the place."""
        if self._is_closed:
            # The driver would connect again.
            raise StoreUnavailable(f"{self._engine} at {self.where!r} is closed; open it again")
        try:
            yield
        except (AuthenticationError, NoPermissionError) as error:
            raise StoreAccessDenied(
                f"{self._engine} at {self.where!r} refuses: {error}; check {self._setting}"
            ) from error
        except ResponseError as error:
            is_passing = isinstance(error, OutOfMemoryError | ReadOnlyError) or str(error).startswith(_PASSING)
            kind = StoreUnavailable if is_passing else StoreError
            raise kind(f"{self._engine} at {self.where!r} refuses: {error}") from error
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            reason = str(error) or "no answer in time"
            raise StoreUnavailable(
                f"{self._engine} at {self.where!r} is out of reach: {reason}; check {self._setting}"
            ) from error
        except RedisError as error:
            raise StoreError(f"{self._engine} at {self.where!r} failed: {error}") from error

    async def check_durability(self) -> Mapping[str, str]:
        """Return how Redis keeps data, and warn where it may drop some; nothing if it does not say."""
        try:
            found = await self.client.config_get("appendonly", "appendfsync", "maxmemory-policy")
        except ResponseError:
            # Managed services hide their configuration.
            return {}
        if found.get("appendonly") == "no":
            _LOGGER.warning("%s at %r forgets on a crash (appendonly no); it is filled again", self._engine, self.where)
        if found.get("maxmemory-policy", _SAFE_POLICY) != _SAFE_POLICY:
            _LOGGER.warning(
                "%s at %r may drop keys when full (maxmemory-policy %s); set it to %s",
                *(self._engine, self.where, found["maxmemory-policy"], _SAFE_POLICY),
            )
        return {str(name): str(value) for name, value in found.items()}

    async def pages(self) -> AsyncGenerator[list[str]]:
        """Yield all keys of this workspace, some at a time; one may come twice."""
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
        """Let go of all connections."""
        self._is_closed = True
        await self.client.aclose()


# What the graph and the cache in Redis have in common: a connection, a cursor, an end.


# The number is the layout's: what an earlier one filled has no cursor here, and is made anew.
CURSOR = ("cursor", "3")
_APPLIED = "applied"
# KEYS: cursor, applied. ARGV: version, cursor as it was or '', mark of the last change or ''. A Redis that was started
# again may have lost what it took in last: the cursor must not pass over that. The command itself may come twice.
_MOVE = """
local cursor, mark = redis.call('GET', KEYS[1]) or '-1', redis.call('GET', KEYS[2])
if ARGV[2] ~= '' and cursor ~= ARGV[2] and cursor ~= ARGV[1] or ARGV[3] ~= '' and mark ~= ARGV[3] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""


class RedisProjection(Projection):
    """One role of one workspace in Redis.

    Attributes:
        suffix: Goes after the name of the workspace in keys, so that roles do not meet.
    """

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
        """Read the address; Redis is first called when it is prepared.

        Raises:
            SettingsError: The address is none.
        """
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
        """Return the command that ends the transaction of a change, by which it is known to be there still."""
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
