"""The command that offers a workspace to agents: mcp."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from heliograph.cli.session import current_session

__all__ = ["mcp"]


def mcp(
    ctx: typer.Context,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only tools that change nothing.")] = False,
    name_separator: Annotated[
        str | None,
        typer.Option(metavar=".|_|-", help="Stands between the parts of tools' names.", show_default=False),
    ] = None,
) -> None:
    """Offer the workspace to an agent by the Model Context Protocol, over standard input and output."""
    session = current_session(ctx)
    given: dict[str, Any] = {"read_only": read_only or None, "name_separator": name_separator}
    settings = session.load_settings(mcp={name: value for name, value in given.items() if value is not None})
    # Imported on use: other commands start faster without the protocol's SDK.
    stdio = import_module("heliograph.mcp.stdio")
    if session.interrupts.is_stopping:
        # What was raised in the midst of an import can be lost there.
        raise KeyboardInterrupt
    stdio.run_stdio(settings)
