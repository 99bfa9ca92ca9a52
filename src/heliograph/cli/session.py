"""One call of the command line: the state its commands share, and how it ends.

A `Session` holds the settings in force, the output, and the engine; `make_engine` is the only place that makes one.
Errors become one line on standard error and an exit code of `EXIT_CODES`, a table that scripts may rely on. The first
Ctrl-C stops a command cleanly, the second ends the process at once. Global options may stand before or after a command.
`heliograph --help` imports this module, so it imports neither the engine nor the settings.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

import heliograph
import heliograph.errors as errors
from heliograph.cli.output import Output, discard_stdout, make_streams_safe

if TYPE_CHECKING:
    from heliograph.settings import Settings, StoreSettings
    from heliograph.sync import Heliograph


# Exit codes, which scripts may rely on.
#
# 0 is success and 1 a command that ran but did not do all that it should. Typer ends with 2 when the command line
# itself cannot be read.

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE

EXIT_CODES: Mapping[type[errors.HeliographError], int] = {
    errors.HeliographError: EXIT_FAILED,
    errors.SettingsError: 2,
    errors.InvalidRequestError: 2,
    errors.MissingDependencyError: 2,
    errors.NotFoundError: 3,
    errors.StoreError: 4,
    errors.ModelError: 5,
    errors.ClusterUnavailable: 5,
    errors.ConflictError: 6,
    errors.StaleChangesetError: 4,
    errors.CancelledIngestError: EXIT_INTERRUPTED,
}


def exit_code(error: errors.HeliographError) -> int:
    """Return the code of an error's class, or of its nearest base class with one."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


# Ctrl-C: the first stops a command cleanly, the second ends the process at once.
#
# Cleanly means that an ingest is cancelled and anything else gets a `KeyboardInterrupt`. Ending at once loses nothing:
# every document is one transaction.


class Interrupts:
    """Handles SIGINT while its block runs; does nothing outside the main thread, where signals cannot be caught."""

    def __init__(self, output: Output) -> None:
        self.is_stopping = False
        self._output = output
        self._cancel: Callable[[], None] | None = None
        self._is_main = threading.current_thread() is threading.main_thread()
        self._before = signal.getsignal(signal.SIGINT)

    @contextmanager
    def cancelling(self, cancel: Callable[[], None]) -> Generator[None]:
        """Within the block, call `cancel` on the first SIGINT and let the work finish."""
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    def __enter__(self) -> Self:
        if self._is_main:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_main:
            signal.signal(signal.SIGINT, signal.default_int_handler if self._before is None else self._before)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_stopping:
            self._output.notes.show_cursor()
            os._exit(EXIT_INTERRUPTED)
        self.is_stopping = True
        if self._cancel is None:
            raise KeyboardInterrupt
        self._cancel()
        self._output.note("stopping after the commits under way; press Ctrl-C again to stop at once")


class Session:
    """One call of the command line; its folder and workspace override those of the settings."""

    def __init__(
        self, output: Output, interrupts: Interrupts, data_dir: Path | None = None, workspace: str | None = None
    ) -> None:
        self.output = output
        self.interrupts = interrupts
        given = {"data_dir": data_dir, "workspace": workspace}
        self._store = {name: value for name, value in given.items() if value is not None}

    @property
    def given_settings(self) -> tuple[str, ...]:
        """Paths of the settings from the command line, such as `store.data_dir`."""
        return tuple(f"store.{name}" for name in self._store)

    @cached_property
    def settings(self) -> Settings:
        """The settings in force, read on first access.

        Raises:
            SettingsError: One of them is not valid.
        """
        return self.load_settings()

    def load_settings(self, **sections: Mapping[str, Any]) -> Settings:
        """Read the settings, overridden by some sections and the command line's own options; raises `SettingsError`."""
        store = {**sections.get("store", {}), **self._store}
        return heliograph.Settings.load(**sections | {"store": store} if store else sections)

    @contextmanager
    def engine(self, settings: Settings | None = None, *, creates: bool = False) -> Generator[Heliograph]:
        """Open the engine for a block, with these settings or those in force; may create the workspace.

        Raises:
            NotFoundError: The workspace does not exist and is not to be created.
            HeliographError: It cannot be opened.
        """
        settings = settings or self.settings
        store = settings.store
        if not creates and asyncio.run(workspace_is_missing(store)):
            raise errors.NotFoundError(
                f"there is no workspace {store.workspace!r} in {store.place!r} yet; run 'heliograph index PATHS', or "
                f"check {'--data-dir' if store.is_embedded else 'store.url'} and --workspace"
            )
        with uncollected(), self.output.waiting("opening the workspace"):
            engine = make_engine(settings)
            engine.open()
        try:
            yield engine
        finally:
            engine.close()


def make_engine(settings: Settings) -> Heliograph:
    """Return an unopened engine for these settings."""
    return heliograph.Heliograph(settings=settings)


@contextmanager
def uncollected() -> Generator[None]:
    """Suspend garbage collection for the block, and exempt its objects forever: imports stay until the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


async def workspace_is_missing(store: StoreSettings) -> bool:
    """Return whether the workspace was never stored; False if a third-party back end cannot say.

    Raises:
        StoreUnavailable: The server cannot be reached.
    """
    if store.is_embedded:
        return not (store.data_dir / store.workspace).is_dir()
    try:
        upkeep = import_module("heliograph.stores.registry").workspace_upkeep(store)
        return not await asyncio.to_thread(upkeep.has_workspace, store)
    except errors.InvalidRequestError:
        return False


# The edge of the process: options in any position, and errors turned into one line and an exit code.

# A prefix that the validation of options puts before its message.
_NOISE = "Value error, "
# Errors with these codes and no file name concern standard output.
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
    """The commands; an exception of any of them ends here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        make_streams_safe()
        if not args:
            return super().parse_args(ctx, args)
        with reported_errors(Output()):
            return super().parse_args(ctx, global_options_first(args))

    def invoke(self, ctx: Any) -> Any:
        given = ctx.params
        output = Output(is_quiet=bool(given.get("quiet")), is_verbose=bool(given.get("verbose")))
        with reported_errors(output), output.logging():
            return super().invoke(ctx)


@contextmanager
def reported_errors(output: Output) -> Generator[None]:
    """Turn exceptions of a command into a line on standard error and `typer.Exit`.

    The same goes for a command line that cannot be read. A traceback is shown when verbose. An exception that comes
    neither from Heliograph nor from the system is a defect and goes through.
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
        # The code that writes the help text ends the process itself when the pipe is closed.
        if isinstance(error.__context__, BrokenPipeError):
            raise typer.Exit(EXIT_BROKEN_PIPE) from None
        raise
    except TyperException as error:
        said = " ".join(error.format_message().replace(_NOISE, "").split()).rstrip(".")
        command = getattr(getattr(error, "ctx", None), "command_path", "")
        output.error(f"{said}; '{command} --help' shows how" if command else said)
        raise typer.Exit(error.exit_code) from None
    except (errors.HeliographError, OSError) as error:
        if output.is_verbose:
            output.note(traceback.format_exc().rstrip())
        if isinstance(error, errors.HeliographError):
            output.error(error)
            raise typer.Exit(exit_code(error)) from None
        refused = error.strerror or error
        if error.filename is None and error.errno not in _WRITING:
            output.error(f"the system refused: {refused}")
        else:
            name = "what is printed" if error.filename is None else repr(str(error.filename))
            output.error(f"{name}: {refused}; check the path, its permissions and the space that is left")
        raise typer.Exit(EXIT_FAILED) from None


def global_options_first(args: Sequence[str]) -> list[str]:
    """Return the arguments with the global options moved to the front; those after `--` stay.

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
                # Alone, so that the error is about the missing value and not about the next argument.
                return [word]
            first += [word, value]
        else:
            rest.append(word)
    return [*first, *rest]
