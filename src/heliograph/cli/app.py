"""The command line: global options, and the table of commands by group."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from heliograph._version import __version__
from heliograph.cli.analysis import assert_, benchmark, compare, inspect, visualize
from heliograph.cli.curation import (
    create,
    curations,
    duplicates,
    edit,
    hide,
    history,
    insert_graph,
    merge,
    rename,
    split,
    undo,
)
from heliograph.cli.demo import demo
from heliograph.cli.documents import delete, document, documents, index, resume, retry
from heliograph.cli.edge import CommandGroup, PlainCommand
from heliograph.cli.eval import eval_
from heliograph.cli.graph import entities, entity, neighbours, paths, relation
from heliograph.cli.interrupt import Interrupts
from heliograph.cli.mcp import mcp
from heliograph.cli.output import Output, discard_stdout
from heliograph.cli.query import query
from heliograph.cli.serve import hash_password, make_key, serve
from heliograph.cli.session import Session
from heliograph.cli.state import doctor, settings, stats
from heliograph.cli.transfer import export, import_, migrate
from heliograph.cli.upkeep import backup, batches, check, clear, forget_store, rebuild, reembed, restore, vacuum
from heliograph.cli.watch import watch

__all__ = ["app", "main"]

_GROUPS: Mapping[str, tuple[Callable[..., None], ...]] = {
    "Documents": (index, watch, documents, document, delete, retry, resume, batches),
    "Questions": (query, demo, eval_),
    "Analysis": (inspect, compare, visualize, benchmark, assert_),
    "Graph": (entities, entity, relation, neighbours, paths, history, duplicates),
    "Curation": (create, edit, rename, merge, split, hide, undo, curations, insert_graph),
    "Upkeep": (check, rebuild, backup, restore, export, import_, migrate, reembed, vacuum, clear, forget_store),
    "Service": (serve, mcp, hash_password, make_key),
    "This installation": (stats, settings, doctor),
}


def main() -> None:
    """Run the command line of this process and end it."""
    try:
        app()
    finally:
        _flush()


def _flush() -> None:
    """Write out what is buffered now, where a pipe that was closed or a full disk can still be passed over."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_stdout()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"heliograph {__version__}")
        raise typer.Exit


def _begin(
    ctx: typer.Context,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the store.", show_default=False)
    ] = None,
    workspace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Workspace within it.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results, warnings and errors only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print the log, and tracebacks of errors.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version.")
    ] = False,
) -> None:
    """Documents in, answers with citations out: a GraphRAG engine that works offline."""
    output = Output(is_json=json, is_quiet=quiet, is_verbose=verbose)
    ctx.obj = Session(output, ctx.with_resource(Interrupts(output)), data_dir, workspace)


def _make_app() -> typer.Typer:
    made = typer.Typer(
        cls=CommandGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="The options above may stand before or after the command.",
    )
    made.callback()(_begin)
    for panel, commands in _GROUPS.items():
        for command in commands:
            # `import` cannot be the name of a function.
            name = command.__name__.rstrip("_").replace("_", "-")
            made.command(name, cls=PlainCommand, rich_help_panel=panel)(command)
    return made


app = _make_app()
