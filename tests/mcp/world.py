"""Clients of the SDK, connected to a service on loopback or to a process of their own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from jsonschema import Draft202012Validator
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from mcp import Client, StdioServerParameters

__all__ = ["checked", "connected", "over_stdio", "text_of", "until"]


@asynccontextmanager
async def connected(address: str, key: str = "", mode: str = "legacy", **headers: str) -> AsyncGenerator[Client]:
    """Give a client of a service; it sends the key and the headers with every request."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()} | ({"X-API-Key": key} if key else {})
    async with httpx2.AsyncClient(headers=sent, timeout=30) as http:
        transport = streamable_http_client(f"{address}/mcp", http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=60) as client:
            yield client


@asynccontextmanager
async def over_stdio(folder: Path, *options: str, mode: str = "legacy") -> AsyncGenerator[Client]:
    """Give a client of a process of its own that keeps its data in a folder."""
    command = ["-m", "heliograph", "mcp", "--data-dir", str(folder), *options]
    parameters = StdioServerParameters(command=sys.executable, args=command, cwd=folder)
    async with Client(parameters, mode=mode, read_timeout_seconds=120) as client:
        yield client


async def checked(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool that is to work, and return its result, which fits the schema that the tool declares."""
    result = await client.call_tool(name, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, text_of(result)
    (tool,) = [tool for tool in (await client.list_tools()).tools if tool.name == name]
    Draft202012Validator(tool.input_schema).validate(arguments)
    Draft202012Validator(tool.output_schema or False).validate(result.structured_content)
    assert text_of(result)
    return dict(result.structured_content or {})


def text_of(result: CallToolResult) -> str:
    """Return the text of a result."""
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds; fails after a minute."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.01)
