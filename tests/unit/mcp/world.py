"""A workspace with two documents, offered to a client in the same process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliograph.engine import Given
from heliograph.mcp.protocol import make_server
from heliograph.mcp.tools import Host
from heliograph.service.access import Principal, Role
from heliograph.service.admission import Admission
from heliograph.service.workspaces import Workspaces
from heliograph.settings import McpSettings, Settings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel
from mcp import Client

from ...mcp.world import checked, text_of
from ...serving import ANSWER, ONE, TWO
from ..ingest.world import SpelledExtractor

__all__ = ["World", "checked", "failure", "offered", "text_of"]


@dataclass
class World:
    """What is offered, to whom, and the models behind it."""

    client: Client
    workspaces: Workspaces
    chat: FakeChatModel
    embedding: FakeEmbeddingModel
    extractor: SpelledExtractor = field(default_factory=SpelledExtractor)


@asynccontextmanager
async def offered(
    folder: Path, role: Role = Role.ADMIN, mode: str = "auto", window: int = 0, **mcp: Any
) -> AsyncGenerator[World]:
    """Offer a workspace in a folder, which is filled if it is new; the chat model reads `window` tokens."""
    chat, embedding, extractor = FakeChatModel(ANSWER), FakeEmbeddingModel(16), SpelledExtractor()
    settings = Settings.load(store={"data_dir": folder}, chat={"context_tokens": window})
    workspaces = Workspaces(settings, Given(chat=chat, embedding=embedding, extractor=extractor))
    await workspaces.open()
    try:
        async with workspaces.use() as engine:
            await engine.insert([ONE, TWO], sources=["one.md", "two.md"], metadata=[{"team": "red"}, {"team": "blue"}])
        caller = Principal("tester", role), "default"
        server = make_server(Host(workspaces, Admission(4, 16)), McpSettings(**mcp), lambda _: caller)
        async with Client(server, mode=mode) as client:
            yield World(client, workspaces, chat, embedding, extractor)
    finally:
        await workspaces.close()


async def failure(client: Client, name: str, /, **arguments: Any) -> str:
    """Call a tool that is to fail, and return what it tells."""
    result = await client.call_tool(name, arguments)
    assert result.is_error
    assert result.structured_content is None
    return text_of(result)
