"""Makes the application: middleware, error handlers, and the table of routers.

The service is opened when the application starts and closed when it stops.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from heliograph._version import __version__
from heliograph.opening import Given
from heliograph.server.errors import add_error_handlers
from heliograph.service.service import Service
from heliograph.settings import Settings

__all__ = ["create_app"]

_ROUTERS: tuple[APIRouter, ...] = ()


def create_app(settings: Settings | None = None, given: Given | None = None) -> FastAPI:
    """Return the application, which opens what the settings name once it is started.

    Args:
        settings: None reads `heliograph.toml` and the environment.
        given: Models to use in place of those of the settings.

    Raises:
        SettingsError: A setting is not valid.
    """
    service = Service(settings or Settings.load(), given)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with service:
            yield

    app = FastAPI(
        title="Heliograph", version=__version__, lifespan=lifespan, root_path=service.settings.server.root_path
    )
    app.state.service = service
    add_error_handlers(app)
    for router in _ROUTERS:
        app.include_router(router)
    return app
