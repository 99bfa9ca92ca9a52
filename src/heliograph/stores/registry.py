"""Back ends by URL scheme, imported only when used, and the roles that settings assign to external stores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import InvalidRequestError, SettingsError, import_optional
from heliograph.settings import StoreSettings
from heliograph.stores.base import Damage, Store
from heliograph.stores.composed import ComposedStore
from heliograph.stores.projection import Projection


def projection_urls(settings: StoreSettings) -> dict[str, str]:
    """Return the URL per role that an external store serves."""
    urls = {
        "graph": settings.graph_url,
        "vectors": settings.vectors_url,
        "text": settings.text_url,
        "cache": settings.cache_url,
    }
    return {role: url for role, url in urls.items() if url}


class WorkspaceUpkeep(Protocol):
    """The functions by which a home store's package looks after workspaces that are not open; all block.

    Each raises `StoreUnavailable` where the back end cannot be reached.
    """

    IDENTITY_SECONDS: float
    """For how many seconds an identity may be cached; 0 where reading it costs nothing."""

    def find_workspaces(self, settings: StoreSettings) -> list[str]:
        """Return the names of all workspaces, sorted."""
        ...

    def has_workspace(self, settings: StoreSettings) -> bool:
        """Whether the workspace that the settings name exists."""
        ...

    def workspace_identity(self, settings: StoreSettings) -> object:
        """Return a value that no workspace later created under the same name has; None if it does not exist."""
        ...

    def may_have_waiting(self, settings: StoreSettings) -> bool:
        """Whether documents of the workspace may wait to be processed, by one look."""
        ...

    def drop_workspace(self, settings: StoreSettings) -> None:
        """Remove the workspace with all its data; a missing one is fine."""
        ...

    def restore_workspace(self, settings: StoreSettings, backup: Path) -> None:
        """Create the workspace from a backup; raises `InvalidRequestError` where a server's own tools do that."""
        ...

    def salvage_workspace(self, settings: StoreSettings) -> list[Damage] | None:
        """Save the undamaged part of a workspace that cannot be opened; None if nothing is to be done here."""
        ...


_SQLITE = ("heliograph.stores.sqlite.store", "SqliteStore", "heliograph.stores.sqlite.upkeep")
_POSTGRESQL = ("heliograph.stores.postgres.store", "PostgresStore", "heliograph.stores.postgres.upkeep")
# Home stores by scheme: module, class, and the module that is its `WorkspaceUpkeep`.
_BUILT_IN = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL, "postgres": _POSTGRESQL}
_GROUP = "heliograph.stores"

_REDIS = ("redis", "rediss", "unix")
_POSTGRES = ("postgresql", "postgres")
_NEO4J = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
# External stores: role, schemes, module, class.
_EXTERNAL = (
    ("cache", _REDIS, "heliograph.stores.redis", "RedisCacheProjection"),
    ("graph", _REDIS, "heliograph.stores.redis", "RedisGraphProjection"),
    ("graph", _POSTGRES, "heliograph.stores.postgres.projections", "PostgresGraphProjection"),
    ("vectors", _POSTGRES, "heliograph.stores.postgres.projections", "PostgresVectorProjection"),
    ("text", _POSTGRES, "heliograph.stores.postgres.projections", "PostgresTextProjection"),
    ("graph", _NEO4J, "heliograph.stores.neo4j", "Neo4jGraphProjection"),
    ("graph", ("falkordb", "falkordbs"), "heliograph.stores.falkordb", "FalkorGraphProjection"),
    ("vectors", ("qdrant", "qdrants"), "heliograph.stores.qdrant", "QdrantVectorProjection"),
)
_PROJECTIONS: Mapping[tuple[str, str], tuple[str, str]] = {
    (role, scheme): (module, name) for role, schemes, module, name in _EXTERNAL for scheme in schemes
}

ProjectionOpener = Callable[[StoreSettings, str, EmbeddingInfo], Awaitable[Projection]]
StoreOpener = Callable[[StoreSettings, EmbeddingInfo | None], Awaitable[Store]]


async def open_store(settings: StoreSettings, embedding: EmbeddingInfo | None) -> Store:
    """Open the workspace that the settings name.

    External stores may be out of reach: they join when they are back. Without an embedding an existing workspace is
    opened, whichever embedding fills it, and vectors cannot be searched.

    Raises:
        SettingsError: No back end has the scheme of `settings.url`, or of one of the others.
        MissingDependencyError: A back end needs a package that is not installed.
        StoreAccessDenied: An external store refuses the credentials.
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


async def open_projection(role: str, settings: StoreSettings, embedding: EmbeddingInfo) -> Projection:
    """Open the projection of one role as it is, without bringing it up to date.

    Raises:
        SettingsError: No back end of this role has the scheme of its URL.
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


async def salvage_store(settings: StoreSettings) -> list[Damage] | None:
    """Save the undamaged part of a workspace that cannot be opened; return the losses.

    None means that nothing was done: a server looks after its own files, or there are none.

    Raises:
        StoreError: It cannot be saved, or another process has it open.
    """
    upkeep = _find_upkeep(settings)
    return await asyncio.to_thread(upkeep.salvage_workspace, settings) if upkeep is not None else None


async def find_workspaces(settings: StoreSettings) -> list[str]:
    """Return the names of all workspaces in the store that the settings name, sorted.

    Raises:
        InvalidRequestError: The back end cannot list them.
        StoreUnavailable: It cannot be read.
    """
    return await asyncio.to_thread(workspace_upkeep(settings).find_workspaces, settings)


async def drop_workspace(settings: StoreSettings) -> None:
    """Remove the workspace that the settings name with all its data; it must not be open. A missing one is fine.

    External stores that serve its roles are emptied first, so that nothing changes if one is out of reach.

    Raises:
        InvalidRequestError: The back end cannot remove workspaces.
        StoreUnavailable: It, or an external store, cannot be reached.
    """
    if projection_urls(settings) and settings.workspace in await find_workspaces(settings):
        home = await open_store(settings, None)
        filled_with = home.embedding
        await home.close()
        if filled_with is None:
            raise InvalidRequestError(
                f"the store {home.describe()!r} does not say what fills it; remove others by hand"
            )
        for role in projection_urls(settings):
            projection = await open_projection(role, settings, EmbeddingInfo(*filled_with, max_input_tokens=1))
            try:
                await projection.clear()
            finally:
                await projection.close()
    await asyncio.to_thread(workspace_upkeep(settings).drop_workspace, settings)


def workspace_identity(settings: StoreSettings) -> object:
    """Return an identity that no workspace later created under the same name has; None if the back end has none."""
    return identifier(settings)[0](settings)


def identifier(settings: StoreSettings) -> tuple[Callable[[StoreSettings], object], float]:
    """Return the function behind `workspace_identity`, and for how many seconds its result may be cached.

    The function blocks unless that is 0.
    """
    upkeep = _find_upkeep(settings)
    return (lambda _: None, 0.0) if upkeep is None else (upkeep.workspace_identity, upkeep.IDENTITY_SECONDS)


def workspace_upkeep(settings: StoreSettings) -> WorkspaceUpkeep:
    """Return the upkeep functions of the settings' back end; they block.

    Raises:
        InvalidRequestError: The back end has none.
        SettingsError: No back end has the scheme of `settings.url`.
    """
    scheme = settings.url.partition(":")[0]
    opener = _find_opener(scheme)
    upkeep = _find_upkeep(settings)
    if upkeep is None:
        raise InvalidRequestError(f"the store {scheme!r} cannot list, restore or remove workspaces; got {opener!r}")
    return upkeep


def _find_upkeep(settings: StoreSettings) -> WorkspaceUpkeep | None:
    """Return the upkeep functions of the settings' back end; None if it has none."""
    scheme = settings.url.partition(":")[0]
    if scheme in _BUILT_IN:
        module: Any = import_optional(_BUILT_IN[scheme][2], _BUILT_IN[scheme][2].split(".")[2])
        return module
    for entry in entry_points(group=f"{_GROUP}.upkeep", name=scheme):
        return entry.load()
    return None


def _find_opener(scheme: str) -> StoreOpener:
    if scheme in _BUILT_IN:
        return _load(*_BUILT_IN[scheme][:2])
    for entry in entry_points(group=_GROUP, name=scheme):
        return entry.load()
    known = sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=_GROUP))})
    roles = sorted({role for role, other in _PROJECTIONS if other == scheme})
    beside = f"; it serves roles beside one of these: {', '.join(f'store.{role}_url' for role in roles)}"
    raise SettingsError(f"no store serves {scheme!r} (store.url); known: {', '.join(known)}{beside if roles else ''}")


def _find_projection(role: str, url: str) -> ProjectionOpener:
    scheme = url.partition(":")[0]
    if (role, scheme) in _PROJECTIONS:
        return _load(*_PROJECTIONS[role, scheme])
    for entry in entry_points(group=f"{_GROUP}.{role}", name=scheme):
        return entry.load()
    others = {entry.name for entry in entry_points(group=f"{_GROUP}.{role}")}
    known = sorted({name for other, name in _PROJECTIONS if other == role} | others)
    raise SettingsError(f"nothing serves {scheme!r} (store.{role}_url); known: {', '.join(known) or 'none'}")


def _load(module: str, name: str) -> Callable[..., Awaitable[Any]]:
    # A file or a folder of stores has the name of the extra that it needs.
    return getattr(import_optional(module, module.split(".")[2]), name).open
