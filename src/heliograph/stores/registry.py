"""Back ends by URL scheme, imported only when used.

Packages outside Heliograph register theirs as an entry point of the group `heliograph.stores`: its name is the
scheme, its value a coroutine function `(StoreSettings, EmbeddingInfo | None) -> Store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import InvalidRequestError, SettingsError
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store

__all__ = ["drop_workspace", "find_workspaces", "open_store", "restore_store"]

_BUILT_IN = {"sqlite": ("heliograph.stores.sqlite.store", "SqliteStore")}
_RESTORES = {"sqlite": ("heliograph.stores.sqlite.upkeep", "restore_file")}
_WORKSPACES = {"sqlite": "heliograph.stores.sqlite.workspaces"}
_GROUP = "heliograph.stores"

StoreOpener = Callable[[StoreSettings, EmbeddingInfo | None], Awaitable[Store]]


async def open_store(settings: StoreSettings, embedding: EmbeddingInfo | None) -> Store:
    """Open the workspace that the settings name.

    Args:
        settings: Which back end, and where.
        embedding: What fills it; None opens one that is there, whatever fills it, and searches no vectors.

    Raises:
        SettingsError: No back end has the scheme of `settings.url`.
        StoreError: The back end cannot open it.
    """
    scheme = settings.url.partition(":")[0]
    return await _find_opener(scheme)(settings, embedding)


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

    Raises:
        InvalidRequestError: The back end removes none.
        StoreUnavailable: It cannot be removed.
    """
    await asyncio.to_thread(_workspaces_of(settings).drop_workspace, settings)


def _workspaces_of(settings: StoreSettings) -> ModuleType:
    scheme = settings.url.partition(":")[0]
    opener = _find_opener(scheme)
    if scheme not in _WORKSPACES:
        raise InvalidRequestError(f"the store {scheme!r} cannot list or remove workspaces; got {opener!r}")
    return import_module(_WORKSPACES[scheme])


def _find_opener(scheme: str) -> StoreOpener:
    if scheme in _BUILT_IN:
        module, name = _BUILT_IN[scheme]
        return getattr(import_module(module), name).open
    for entry in entry_points(group=_GROUP, name=scheme):
        return entry.load()
    known = sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=_GROUP))})
    raise SettingsError(f"no store serves {scheme!r} (store.url); known: {', '.join(known)}")
