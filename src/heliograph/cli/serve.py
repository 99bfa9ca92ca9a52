"""The commands of the service: serve, mcp, hash-password, make-key.

The server and the MCP service are imported when they start, so that the other commands need none of their packages.
"""

from __future__ import annotations

import gc
import getpass
import hashlib
import secrets
import sys
from typing import Annotated, Any

import typer

from heliograph.cli.session import Session
from heliograph.errors import InvalidRequestError, import_optional

_KEY_BYTES = 32


def serve(
    session: Session,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Processes that serve.", show_default=False)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on any address without asking for credentials.")
    ] = False,
    root_path: Annotated[
        str | None, typer.Option(metavar="PREFIX", help="Prefix that a proxy puts before paths.", show_default=False)
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Host name to answer by (NAME:* with any port); can be repeated."),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="text|json", help="How the log is written.", show_default=False)
    ] = None,
) -> None:
    """Serve HTTP requests until stopped, in the form that LightRAG's clients know."""
    given: dict[str, Any] = {
        "host": host,
        "port": port,
        "workers": workers,
        "root_path": root_path,
        "allowed_hosts": allowed_host or None,
        "log_format": log_format,
        "insecure": insecure or None,
        "log_level": "debug" if session.output.is_verbose else "warning" if session.output.is_quiet else None,
    }
    settings = session.load_settings(server={name: value for name, value in given.items() if value is not None})
    # Imported on use: other commands start faster without a web framework. Imported objects stay alive, so searching
    # them for garbage, now and later, is wasted time: a sixth of the start.
    gc.disable()
    run = import_optional("heliograph.server.run", "server")
    gc.freeze()
    gc.enable()

    def announce(address: str) -> None:
        session.output.note(f"listening on {address} (Ctrl-C stops)")
        if notice := run.describe_names(settings):
            session.output.note(notice)

    if session.interrupts.is_stopping:
        # An exception during an import can be lost.
        raise KeyboardInterrupt
    code = run.run_server(settings, announce)
    if code:
        raise typer.Exit(code)


def hash_password(session: Session) -> None:
    """Read a password, unseen or from standard input, and print its hash for `server.accounts`."""
    passwords = import_optional("heliograph.service.access", "server")
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise InvalidRequestError("the two passwords differ; try again")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    hashed: str = passwords.hash_password(password)
    session.output.told({"password_hash": hashed}, hashed)


def make_key(session: Session) -> None:
    """Make a key for `server.keys`: the key itself, for its user, and its SHA-256, for the settings."""
    key = secrets.token_urlsafe(_KEY_BYTES)
    digest = hashlib.sha256(key.encode()).hexdigest()
    session.output.told({"key": key, "key_sha256": digest}, f"key:        {key}\nkey_sha256: {digest}")


# The command `mcp`, which offers a workspace to agents.


def mcp(
    session: Session,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only tools that change nothing.")] = False,
    name_separator: Annotated[
        str | None,
        typer.Option(metavar=".|_|-", help="Stands between the parts of tools' names.", show_default=False),
    ] = None,
) -> None:
    """Offer the workspace to an agent by the Model Context Protocol, over standard input and output."""
    given: dict[str, Any] = {"read_only": read_only or None, "name_separator": name_separator}
    settings = session.load_settings(mcp={name: value for name, value in given.items() if value is not None})
    # Imported on use: other commands start faster without the protocol's SDK.
    stdio = import_optional("heliograph.mcp.stdio", "server")
    if session.interrupts.is_stopping:
        # An exception during an import can be lost.
        raise KeyboardInterrupt
    stdio.run_stdio(settings)
