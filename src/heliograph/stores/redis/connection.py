"""One connection pool to Redis, the names of a workspace's keys, and what the driver's exceptions mean.

Keys are `heliograph:{workspace}:...`; the braces are Redis's own, so that in a cluster all keys of a workspace lie
together and can be changed together.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.exceptions import (
    AuthenticationError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from heliograph.errors import SettingsError, StoreError, StoreUnavailable

__all__ = ["RedisConnection"]

_LOGGER = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 10.0
# Refusals that pass, or that an operator ends; the driver has classes for two of them.
_PASSING = ("MISCONF", "BUSY", "Query timed out")
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
    """

    def __init__(
        self, url: str, workspace: str, setting: str, engine: str = "Redis", timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> None:
        parts = urlsplit(url)
        try:
            self.where = f"{parts.hostname or parts.path}:{parts.port or 6379}"
            self.client = Redis.from_url(
                url, decode_responses=True, socket_timeout=timeout_seconds, socket_connect_timeout=_TIMEOUT_SECONDS
            )
        except ValueError as error:
            example = f"{engine.lower()}://host:6379/0"
            raise SettingsError(f"{setting} is no address of {engine}: {error}; write {example}") from None
        self._prefix = f"heliograph:{{{workspace}}}:"
        self._setting = setting
        self._engine = engine

    def key(self, *parts: str) -> str:
        """Return the name of a key of this workspace."""
        return self._prefix + ":".join(parts)

    @property
    def prefix(self) -> str:
        """What all keys of this workspace begin with."""
        return self._prefix

    @contextmanager
    def errors(self) -> Generator[None]:
        """Turn the driver's exceptions into `StoreError`s that name the place."""
        try:
            yield
        except AuthenticationError as error:
            raise StoreUnavailable(
                f"{self._engine} at {self.where!r} refuses: {error}; check {self._setting}"
            ) from error
        except ResponseError as error:
            is_passing = isinstance(error, OutOfMemoryError | ReadOnlyError) or str(error).startswith(_PASSING)
            kind = StoreUnavailable if is_passing else StoreError
            raise kind(f"{self._engine} at {self.where!r} refuses: {error}") from error
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            raise StoreUnavailable(
                f"{self._engine} at {self.where!r} is out of reach: {error}; check {self._setting}"
            ) from error
        except RedisError as error:
            raise StoreError(f"{self._engine} at {self.where!r} failed: {error}") from error

    async def check_durability(self) -> Mapping[str, str]:
        """Return how Redis keeps what it is given, and warn where it may drop it; nothing if it does not tell."""
        try:
            found = await self.client.config_get("appendonly", "maxmemory-policy")
        except ResponseError:
            # Managed services hide their configuration.
            return {}
        if found.get("appendonly") == "no":
            _LOGGER.warning(
                "%s at %r forgets on a crash (appendonly no); it is filled again then", self._engine, self.where
            )
        if found.get("maxmemory-policy", _SAFE_POLICY) != _SAFE_POLICY:
            _LOGGER.warning(
                "%s at %r may drop keys when full (maxmemory-policy %s); set it to %s",
                *(self._engine, self.where, found["maxmemory-policy"], _SAFE_POLICY),
            )
        return {str(name): str(value) for name, value in found.items()}

    async def clear(self) -> None:
        """Remove all keys of this workspace that begin with any of its prefixes, some at a time."""
        async for keys in self._pages():
            await self.client.unlink(*keys)

    async def _pages(self) -> AsyncGenerator[list[str]]:
        pattern = self._prefix.replace("[", "\\[").replace("*", "\\*").replace("?", "\\?") + "*"
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
        await self.client.aclose()
