"""Builds the application: middleware, error handlers, and the table of routers.

The service is opened when the application starts and closed when it stops.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from heliograph._version import __version__
from heliograph.engine import Given
from heliograph.server.mcp_route import McpRoute
from heliograph.server.openapi import Shapes, describe_api
from heliograph.server.pages import add_pages
from heliograph.server.requests import PUBLIC_PATHS, Drain, Requests
from heliograph.server.responses import add_error_handlers
from heliograph.server.routes import chat_clients, document_intake, documents, events, graph, query
from heliograph.server.routes import service as service_routes
from heliograph.service.service import Service
from heliograph.settings import Settings

_ROUTERS: tuple[APIRouter, ...] = (
    service_routes.router,
    query.router,
    document_intake.router,
    # Before `/documents/{id}`, since two of its paths are below `/documents`.
    graph.router,
    documents.router,
    events.router,
    chat_clients.ollama_router,
    chat_clients.openai_router,
)
# Failure bodies for clients that expect another shape, by prefix of the path.
_PROBLEM_SHAPES: Shapes = {
    "/api/": chat_clients.render_ollama_problem,
    "/api/v1/": None,
    "/v1/": chat_clients.render_openai_problem,
}


def create_app(settings: Settings | None = None, given: Given | None = None, shared: Path | None = None) -> FastAPI:
    """Return the application, which opens the service of the settings when it starts.

    Args:
        settings: None reads `heliograph.toml` and the environment.
        given: Models to use instead of those in the settings.
        shared: The folder for metrics of all workers, if there are several.

    Raises:
        SettingsError: A setting is not valid.
    """
    service = Service(settings or Settings.load(), given, shared)
    drain = Drain(service.settings.server.shutdown_seconds)
    agents = McpRoute(service, drain)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with service, agents.run():
            yield

    server = service.settings.server
    app = FastAPI(
        title="Heliograph",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.state.drain = drain
    app.state.problem_shapes = _PROBLEM_SHAPES
    routes = [route for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    app.state.own_paths = [(route.methods, route.path_regex) for route in routes if ":path}" not in route.path]
    app.openapi = lambda: describe_api(app, PUBLIC_PATHS, _PROBLEM_SHAPES, is_open=service.access.is_open)
    add_error_handlers(app)
    app.add_middleware(Requests, service=service, drain=drain)
    for router in _ROUTERS:
        app.include_router(router)
    agents.add_to(app)
    add_pages(app, server)
    return app
