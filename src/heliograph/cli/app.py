"""The command line: global options, and the table of commands by group.

A command's module, and with it the engine, is imported when the command is called. The overview needs one line of each
command: it is read from the compiled modules, without running them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from types import CodeType
from typing import Annotated, Any

import typer
from typer.main import get_command

from heliograph._version import __version__
from heliograph.cli.output import Output, discard_stdout
from heliograph.cli.session import CommandGroup, Interrupts, PlainCommand, Session, uncollected

# Functions by the modules that define them, in the order of the overview.
_GROUPS: Mapping[str, str] = {
    "Documents": """documents.index documents.watch documents.documents documents.document documents.delete
        documents.retry documents.resume upkeep.batches""",
    "Questions": "query.query demo.demo analysis.eval_",
    "Analysis": "analysis.inspect analysis.compare analysis.visualize analysis.benchmark analysis.assert_",
    "Graph": """graph.entities graph.entity graph.relation graph.neighbours graph.paths graph.history
        graph.duplicates""",
    "Curation": """graph.create graph.edit graph.rename graph.merge graph.split graph.hide
        graph.undo graph.curations graph.insert_graph""",
    "Upkeep": """upkeep.check upkeep.rebuild upkeep.backup upkeep.restore upkeep.export upkeep.import_
        upkeep.migrate upkeep.reembed upkeep.vacuum upkeep.clear upkeep.forget_store""",
    "Service": "serve.serve serve.mcp serve.hash_password serve.make_key",
    "This installation": "installation.stats installation.settings installation.doctor",
}


# Names that other programs use for these commands.
_OTHER_NAMES = {
    "index": "add ingest insert load upload scan build",
    "query": "ask search chat question",
    "documents": "list ls docs files status",
    "delete": "rm remove",
    "serve": "server start run web webui ui api up",
    "entities": "graph nodes",
    "settings": "config configure env",
    "doctor": "health info",
    "import": "migrate-from lightrag",
}
_START = """Documents in, answers with citations out: a GraphRAG engine that works offline.

  heliograph demo               index the sample documents and ask them four questions
  heliograph index docs/        take in files, folders and web pages; again to update them
  heliograph query "Who ...?"   ask, and see what the answer cites
  heliograph serve              the same in the browser and over HTTP
  heliograph doctor             what is configured, what is reachable

heliograph --help lists all commands; COMMAND --help tells what one can do."""


def main() -> None:
    """Run the command line and exit."""
    try:
        app()
    finally:
        # Flush now, while a closed pipe or a full disk can still be ignored.
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
    if ctx.invoked_subcommand is None:
        typer.echo(_START)
        raise typer.Exit
    output = Output(is_json=json, is_quiet=quiet, is_verbose=verbose)
    ctx.obj = Session(output, ctx.with_resource(Interrupts(output)), data_dir, workspace)


class _Commands(CommandGroup):
    """Knows commands by name and summary; imports a command when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in _FUNCTIONS and (near := _nearest(args[0])):
            raise ctx.fail(f"No such command {args[0]!r}; '{near}' may be meant")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(command.name or ""), rest


def _name(function: str) -> str:
    # `import` cannot be the name of a function.
    return function.rstrip("_").replace("_", "-")


_FUNCTIONS = {_name(path.partition(".")[2]): path for paths in _GROUPS.values() for path in paths.split()}


def _nearest(name: str) -> str:
    """Return the command that an unknown name probably means; empty if none is likely."""
    wanted = name.lower().replace("_", "-")
    for command, others in _OTHER_NAMES.items():
        if wanted in others.split():
            return command
    return next(iter(get_close_matches(wanted, _FUNCTIONS, 1, 0.7)), "")


def load_command(name: str) -> Any:
    """Import a command and return it, with its options, as the command line runs it.

    The command gets the session, and the option records that it shares with others, each built from single options.
    """
    path, _, name_of_function = _FUNCTIONS[name].partition(".")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    with uncollected():
        function = getattr(import_module(f"heliograph.cli.{path}"), name_of_function)
        # The command line passes its context, which holds the session.
        session, *taken = signature(function, eval_str=True).parameters.values()
        records: dict[str, Any] = {item.name: item.annotation for item in taken if is_dataclass(item.annotation)}
        options = [session.replace(annotation=typer.Context)]
        for item in taken:
            kind = records.get(item.name)
            options += signature(kind, eval_str=True).parameters.values() if kind else [item]

        def run(session: typer.Context, **given: Any) -> Any:
            for name, kind in records.items():
                given[name] = kind(**{item.name: given.pop(item.name) for item in fields(kind)})
            return function(session.obj, **given)

        command: Any = wraps(function)(run)
        command.__signature__ = Signature([item.replace(kind=Parameter.KEYWORD_ONLY) for item in options])
        command.__annotations__ = {item.name: item.annotation for item in options}
        alone.command(name, cls=PlainCommand)(command)
        return get_command(alone)


@cache
def _docstrings(module: str) -> Mapping[str, str]:
    """Return the docstrings of a module's functions, without running the module."""
    spec = find_spec(f"heliograph.cli.{module}")
    loader: Any = spec and spec.loader
    code = loader.get_code(f"heliograph.cli.{module}")
    functions = [item for item in code.co_consts if isinstance(item, CodeType)]
    # The first constant of a function that has a docstring.
    return {item.co_name: item.co_consts[0] for item in functions if item.co_consts and item.co_consts[0]}


def _make_app() -> typer.Typer:
    made = typer.Typer(
        cls=_Commands,
        invoke_without_command=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="The options above may stand before or after the command.",
    )
    made.callback()(_begin)
    for panel, paths in _GROUPS.items():
        for path in paths.split():
            module, _, function = path.partition(".")
            summary = cleandoc(_docstrings(module).get(function, ""))
            made.command(_name(function), help=summary, rich_help_panel=panel)(lambda: None)
    return made


app = _make_app()
