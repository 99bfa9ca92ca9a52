"""Back ends by URL scheme, imported only when used.

Packages outside Heliograph register theirs as an entry point of the group `heliograph.stores`: its name is the
scheme, its value a coroutine function `(StoreSettings, EmbeddingInfo | None) -> Store`. What stands beside such a store
is registered in `heliograph.stores.graph`, `.vectors` or `.cache`: `(StoreSettings, url, EmbeddingInfo) -> Projection`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import InvalidRequestError, MissingDependencyError, SettingsError
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.composed.store import ComposedStore
from heliograph.stores.projection import Projection

__all__ = [
    "drop_workspace",
    "find_workspaces",
    "open_projection",
    "open_store",
    "projection_urls",
    "restore_store",
    "workspace_identity",
]

_BUILT_IN = {
    "sqlite": ("heliograph.stores.sqlite.store", "SqliteStore"),
    "postgresql": ("heliograph.stores.postgres.store", "PostgresStore"),
    "postgres": ("heliograph.stores.postgres.store", "PostgresStore"),
    **dict.fromkeys(("redis", "rediss", "unix"), ("heliograph.stores.redis.store", "RedisStore")),
}
_RESTORES = {"sqlite": ("heliograph.stores.sqlite.upkeep", "restore_file")}
_WORKSPACES = {
    "sqlite": "heliograph.stores.sqlite.workspaces",
    "postgresql": "heliograph.stores.postgres.workspaces",
    "postgres": "heliograph.stores.postgres.workspaces",
    **dict.fromkeys(("redis", "rediss", "unix"), "heliograph.stores.redis.workspaces"),
}
_GROUP = "heliograph.stores"

# What may stand beside the store with the truth, per role and scheme.
_PROJECTIONS: Mapping[tuple[str, str], tuple[str, str, str]] = {
    ("cache", "redis"): ("heliograph.stores.redis.cache", "RedisCacheProjection", "redis"),
    ("cache", "rediss"): ("heliograph.stores.redis.cache", "RedisCacheProjection", "redis"),
    ("cache", "unix"): ("heliograph.stores.redis.cache", "RedisCacheProjection", "redis"),
    **{
        ("graph", scheme): ("heliograph.stores.neo4j.graph", "Neo4jGraphProjection", "neo4j")
        for scheme in ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
    },
    ("graph", "falkordb"): ("heliograph.stores.falkordb.graph", "FalkorGraphProjection", "falkordb"),
    ("graph", "falkordbs"): ("heliograph.stores.falkordb.graph", "FalkorGraphProjection", "falkordb"),
    ("graph", "redis"): ("heliograph.stores.redis.graph", "RedisGraphProjection", "redis"),
    ("graph", "rediss"): ("heliograph.stores.redis.graph", "RedisGraphProjection", "redis"),
    ("graph", "unix"): ("heliograph.stores.redis.graph", "RedisGraphProjection", "redis"),
    ("vectors", "qdrant"): ("heliograph.stores.qdrant.vectors", "QdrantVectorProjection", "qdrant"),
    ("vectors", "qdrants"): ("heliograph.stores.qdrant.vectors", "QdrantVectorProjection", "qdrant"),
}

ProjectionOpener = Callable[[StoreSettings, str, EmbeddingInfo], Awaitable[Projection]]
StoreOpener = Callable[[StoreSettings, EmbeddingInfo | None], Awaitable[Store]]


async def open_store(settings: StoreSettings, embedding: EmbeddingInfo | None) -> Store:
    """Open the workspace that the settings name.

    Engines beside the store with the truth may be out of reach: they join when they are back.

    Args:
        settings: Which back end, and where.
        embedding: What fills it; None opens one that is there, whatever fills it, and searches no vectors.

    Raises:
        SettingsError: No back end has the scheme of `settings.url`, or of one of the others.
        MissingDependencyError: A back end needs a package that is not installed.
        StoreAccessDenied: An engine refuses who asks.
        StoreError: A back end cannot open it.
    """
    scheme = settings.url.partition(":")[0]
    home = await _find_opener(scheme)(settings, embedding)
    if embedding is None or not projection_urls(settings):
        return home
    async with AsyncExitStack() as stack:
        stack.push_async_callback(home.close)
        projections: list[Projection] = []
        for role in projection_urls(settings):
            projections.append(await _read_projection(role, settings, embedding))
            stack.push_async_callback(projections[-1].close)
        composed = await ComposedStore(home, projections, settings.max_lag).open()
        stack.pop_all()
    return composed


def projection_urls(settings: StoreSettings) -> dict[str, str]:
    """Return where the roles are served that the store with the truth does not serve itself."""
    urls = {"graph": settings.graph_url, "vectors": settings.vectors_url, "cache": settings.cache_url}
    return {role: url for role, url in urls.items() if url}


async def open_projection(role: str, settings: StoreSettings, embedding: EmbeddingInfo) -> Projection:
    """Open what serves one role beside the store with the truth, as it is: nothing brings it up to date.

    Raises:
        SettingsError: Nothing serves the scheme of its URL.
        StoreError: It cannot be opened.
    """
    projection = await _read_projection(role, settings, embedding)
    try:
        await projection.prepare()
    except BaseException:
        await projection.close()
        raise
    return projection


async def _read_projection(role: str, settings: StoreSettings, embedding: EmbeddingInfo) -> Projection:
    url = projection_urls(settings)[role]
    return await _find_projection(role, url)(settings, url, embedding)


async def restore_store(settings: StoreSettings, backup: Path) -> None:
    """Make the workspace that the settings name from a backup that the same back end wrote.

    Raises:
        ConflictError: There is such a workspace already.
        InvalidRequestError: The file is no backup that can be used, or the back end brings none back.
        SettingsError: No back end has the scheme of `settings.url`.
        StoreUnavailable: The workspace cannot be written.
    """
    scheme = settings.url.partition(":")[0]
    opener = _find_opener(scheme)
    if scheme not in _RESTORES:
        raise InvalidRequestError(f"the store {scheme!r} brings no backups back, its operators do; got {opener!r}")
    module, name = _RESTORES[scheme]
    await asyncio.to_thread(getattr(import_module(module), name), backup, settings.data_dir / settings.workspace)


async def find_workspaces(settings: StoreSettings) -> list[str]:
    """Return the names of all workspaces where the settings point to, sorted.

    Raises:
        InvalidRequestError: The back end cannot tell.
        StoreUnavailable: It cannot be read.
    """
    return await asyncio.to_thread(_workspaces_of(settings).find_workspaces, settings)


async def drop_workspace(settings: StoreSettings) -> None:
    """Remove the workspace that the settings name, all of it; nothing may have it open. None there is fine.

    Other engines that serve roles of it are emptied first, so that one out of reach leaves all as it was.

    Raises:
        InvalidRequestError: The back end removes none.
        StoreUnavailable: It, or another engine, cannot be reached.
    """
    if projection_urls(settings) and settings.workspace in await find_workspaces(settings):
        await _clear_projections(settings)
    await asyncio.to_thread(_workspaces_of(settings).drop_workspace, settings)


async def _clear_projections(settings: StoreSettings) -> None:
    home = await open_store(settings, None)
    filled_with = home.embedding
    await home.close()
    if filled_with is None:
        raise InvalidRequestError(f"the store {home.describe()!r} does not say what fills it; remove others by hand")
    for role in projection_urls(settings):
        projection = await open_projection(role, settings, EmbeddingInfo(*filled_with, max_input_tokens=1))
        try:
            await projection.clear()
        finally:
            await projection.close()


def workspace_identity(settings: StoreSettings) -> object:
    """Return what tells a workspace from another one that is later made under its name; None if the back end cannot.

    Raises:
        SettingsError: No back end has the scheme of `settings.url`.
    """
    module = _WORKSPACES.get(settings.url.partition(":")[0])
    identity = getattr(import_module(module), "workspace_identity", None) if module else None
    return identity(settings) if identity else None


def _workspaces_of(settings: StoreSettings) -> ModuleType:
    scheme = settings.url.partition(":")[0]
    opener = _find_opener(scheme)
    if scheme not in _WORKSPACES:
        raise InvalidRequestError(f"the store {scheme!r} cannot list or remove workspaces; got {opener!r}")
    return import_module(_WORKSPACES[scheme])


def _find_opener(scheme: str) -> StoreOpener:
    if scheme in _BUILT_IN:
        module, name = _BUILT_IN[scheme]
        try:
            return getattr(import_module(module), name).open
        except ModuleNotFoundError as error:
            # A folder of stores has the name of the extra that it needs.
            raise MissingDependencyError(error.name or scheme, module.split(".")[2]) from error
    for entry in entry_points(group=_GROUP, name=scheme):
        return entry.load()
    known = sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=_GROUP))})
    raise SettingsError(f"no store serves {scheme!r} (store.url); known: {', '.join(known)}")


def _find_projection(role: str, url: str) -> ProjectionOpener:
    scheme = url.partition(":")[0]
    if (role, scheme) in _PROJECTIONS:
        module, name, extra = _PROJECTIONS[role, scheme]
        try:
            return getattr(import_module(module), name).open
        except ModuleNotFoundError as error:
            raise MissingDependencyError(error.name or scheme, extra) from error
    for entry in entry_points(group=f"{_GROUP}.{role}", name=scheme):
        return entry.load()
    others = {entry.name for entry in entry_points(group=f"{_GROUP}.{role}")}
    known = sorted({name for other, name in _PROJECTIONS if other == role} | others)
    raise SettingsError(f"nothing serves {scheme!r} (store.{role}_url); known: {', '.join(known) or 'none'}")
