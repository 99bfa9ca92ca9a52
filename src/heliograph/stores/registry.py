"""Back ends by URL scheme, imported only when used.

Packages outside Heliograph register theirs as an entry point of the group `heliograph.stores`: its name is the
scheme, its value a coroutine function `(StoreSettings, EmbeddingInfo) -> Store`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import entry_points

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SettingsError
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store

__all__ = ["open_store"]

_BUILT_IN = {"sqlite": ("heliograph.stores.sqlite.store", "SqliteStore")}
_GROUP = "heliograph.stores"

StoreOpener = Callable[[StoreSettings, EmbeddingInfo], Awaitable[Store]]


async def open_store(settings: StoreSettings, embedding: EmbeddingInfo) -> Store:
    """Open the workspace that the settings name.

    Raises:
        SettingsError: No back end has the scheme of `settings.url`.
        StoreError: The back end cannot open it.
    """
    scheme = settings.url.partition(":")[0]
    return await _find_opener(scheme)(settings, embedding)


def _find_opener(scheme: str) -> StoreOpener:
    if scheme in _BUILT_IN:
        module, name = _BUILT_IN[scheme]
        return getattr(import_module(module), name).open
    for entry in entry_points(group=_GROUP, name=scheme):
        return entry.load()
    known = sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=_GROUP))})
    raise SettingsError(f"no store serves {scheme!r} (store.url); known: {', '.join(known)}")
