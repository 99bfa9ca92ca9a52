"""One process of the service, whatever faces it has: HTTP, MCP or both. Opens and closes its parts in order."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Self

from heliograph.opening import Given
from heliograph.service.workspaces import Workspaces
from heliograph.settings import Settings

__all__ = ["Service"]


class Service:
    """What routes and tools call.

    Args:
        settings: Of the service and of every workspace.
        given: Models to use in place of those of the settings.

    Attributes:
        settings: As given.
        workspaces: Lends engines.
    """

    def __init__(self, settings: Settings, given: Given | None = None) -> None:
        self.settings = settings
        self.workspaces = Workspaces(settings, given)
        self._stack = AsyncExitStack()

    async def open(self) -> Self:
        """Open everything, or nothing.

        Raises:
            SettingsError: The settings do not go together.
            StoreError: A store cannot be opened.
            ModelError: A model cannot be made ready.
        """
        async with AsyncExitStack() as stack:
            await self.workspaces.open()
            stack.push_async_callback(self.workspaces.close)
            self._stack = stack.pop_all()
        return self

    async def close(self) -> None:
        """Finish what is under way and close everything; closing twice does nothing."""
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
