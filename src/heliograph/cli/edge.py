"""The edge of the process: options that may stand anywhere, and errors turned into one line and an exit code."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from heliograph.cli.exit_codes import EXIT_BROKEN_PIPE, EXIT_FAILED, EXIT_INTERRUPTED, exit_code
from heliograph.cli.output import Output, discard_stdout, make_streams_safe
from heliograph.errors import HeliographError

__all__ = ["CommandGroup", "PlainCommand", "global_options_first", "reported_errors"]

# Said by the validation of options before what is wrong.
_NOISE = "Value error, "
# What fails so without a name is what standard output leads to.
_WRITING = frozenset({errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG})
_FLAGS = frozenset({"--json", "--quiet", "-q", "--verbose", "-v"})
_VALUED = frozenset({"--data-dir", "--workspace"})


class _PlainFlags:
    """Help that shows an option without a value as a flag, not as one that takes a `bool`."""

    def get_params(self, ctx: Any) -> Any:
        params: Any = super().get_params(ctx)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class PlainCommand(_PlainFlags, TyperCommand):
    """One command."""


class CommandGroup(_PlainFlags, TyperGroup):
    """The commands; whatever one of them raises ends here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102 (an override)
        make_streams_safe()
        if not args:
            return super().parse_args(ctx, args)
        with reported_errors(Output()):
            return super().parse_args(ctx, global_options_first(args))

    def invoke(self, ctx: Any) -> Any:  # noqa: D102
        given = ctx.params
        output = Output(is_quiet=bool(given.get("quiet")), is_verbose=bool(given.get("verbose")))
        with reported_errors(output), output.logging():
            return super().invoke(ctx)


@contextmanager
def reported_errors(output: Output) -> Generator[None]:
    """Turn what a command raises into a line on standard error and `typer.Exit`.

    So is a command line that cannot be read. A traceback is shown when verbose. What comes neither from Heliograph nor
    from the system is a defect and goes through.
    """
    try:
        yield
    except KeyboardInterrupt:
        output.note("interrupted")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        discard_stdout()
        raise typer.Exit(EXIT_BROKEN_PIPE) from None
    except SystemExit as error:
        # What writes the help text ends the process itself when the pipe is closed.
        if isinstance(error.__context__, BrokenPipeError):
            raise typer.Exit(EXIT_BROKEN_PIPE) from None
        raise
    except TyperException as error:
        output.error(_tell_usage(error))
        raise typer.Exit(error.exit_code) from None
    except (HeliographError, OSError) as error:
        if output.is_verbose:
            output.note(traceback.format_exc().rstrip())
        output.error(error if isinstance(error, HeliographError) else _tell_system(error))
        code = exit_code(error) if isinstance(error, HeliographError) else EXIT_FAILED
        raise typer.Exit(code) from None


def _tell_usage(error: TyperException) -> str:
    said = " ".join(error.format_message().replace(_NOISE, "").split()).rstrip(".")
    command = getattr(getattr(error, "ctx", None), "command_path", "")
    return f"{said}; '{command} --help' shows how" if command else said


def _tell_system(error: OSError) -> str:
    """Return what the system refused, and what of where that is known."""
    if error.filename is None and error.errno not in _WRITING:
        return f"the system refused: {error.strerror or error}"
    name = "what is printed" if error.filename is None else repr(str(error.filename))
    return f"{name}: {error.strerror or error}; check the path, its permissions and the space that is left"


def global_options_first(args: Sequence[str]) -> list[str]:
    """Return the arguments with the options that every command has moved to the front; those after `--` stay.

    So `heliograph stats --json` and `heliograph --json stats` are the same.
    """
    first: list[str] = []
    rest: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            return [*first, *rest, word, *words]
        if word in _FLAGS or ("=" in word and word.partition("=")[0] in _VALUED):
            first.append(word)
        elif word in _VALUED:
            value = next(words, None)
            if value is None:
                # Alone, so that the complaint is about the missing value and not about what would follow.
                return [word]
            first += [word, value]
        else:
            rest.append(word)
    return [*first, *rest]
