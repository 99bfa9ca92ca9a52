"""A real service on loopback, with two small documents in it, for tests with clients of others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from heliograph.engine import Given
from heliograph.server.app import create_app
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

from .unit.ingest.world import SpelledExtractor

__all__ = ["ANSWER", "EVIL", "ONE", "TWO", "Serve", "serving"]

ONE = "Ann (person): leads the team.\nBob (person): writes.\nAnn -> Bob [leads] 1.0: Ann leads Bob."
TWO = "Annie (person): paints.\nCy (place): a town.\nAnnie -> Cy [lives in] 2.0: Annie lives in Cy."
EVIL = "<img src=x onerror=document.title='taken'>.md"
ANSWER = "Ann leads Bob [1]. <b>Nobody</b> is bold."

Serve = Callable[..., str]


@contextmanager
def serving(folder: Path) -> Generator[Serve]:
    """Give a function that starts a service, with the settings of the server that it is given, and returns its address.

    Args:
        folder: Where it keeps its data. A `prefix` is put before all paths, as a proxy does; nothing lies elsewhere.
    """
    with ExitStack() as stack:

        def start(
            chat: FakeChatModel | None = None, mcp: Mapping[str, Any] | None = None, *, prefix: str = "", **server: Any
        ) -> str:
            settings = Settings.load(store={"data_dir": folder}, server=server, mcp=mcp or {})
            given = Given(embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor(), chat=chat)
            # In a thread, as the caller may have an event loop of its own.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(lambda: asyncio.run(_fill(settings, given))).result()
            return stack.enter_context(_running(settings, given, prefix))

        yield start


async def _fill(settings: Settings, given: Given) -> None:
    app = create_app(settings, given)
    async with app.router.lifespan_context(app), app.state.service.workspaces.use() as engine:
        await engine.insert([ONE, TWO], sources=[EVIL, "two.md"])


@contextmanager
def _running(settings: Settings, given: Given, prefix: str) -> Generator[str]:
    app = create_app(settings, given)
    server = uvicorn.Server(uvicorn.Config(_below(app, prefix), host="127.0.0.1", port=0, log_config=None, ws="none"))
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        while not server.started and thread.is_alive():
            thread.join(0.05)
        assert server.started, "the service did not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}{prefix}"
    finally:
        # Pages that are open follow what is under way until they are told that the service ends.
        if loops and thread.is_alive():
            loops[0].call_soon_threadsafe(app.state.drain.begin)
        server.should_exit = True
        thread.join()


def _below(app: ASGIApp, prefix: str) -> ASGIApp:
    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and prefix:
            if not scope["path"].startswith(f"{prefix}/"):
                await PlainTextResponse("nothing is here", 404)(scope, receive, send)
                return
            scope = {**scope, "root_path": prefix}
        await app(scope, receive, send)

    return served
