"""Where a command writes: results to standard output, everything said about them to standard error.

With `--json` standard output carries one JSON document and nothing else. Neither stream can fail on a character that
its encoding lacks: it is written as an escape that JSON reads back.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

from rich.console import Console, RenderableType
from rich.text import Text

from heliograph.cli.flow import UNBOUNDED_CELLS, FlowText, has_bounds, printable

__all__ = ["Output", "discard_stdout", "make_streams_safe"]


class _Console(Console):
    @property
    def has_given_width(self) -> bool:
        """Whether `COLUMNS` says how wide lines may be."""
        return self._width is not None

    def on_broken_pipe(self) -> NoReturn:
        """Let the error through: one place, at the edge, decides what a closed pipe means."""
        raise


class Output:
    """The two streams of one command.

    Attributes:
        is_json: Whether results are written as JSON.
        is_quiet: Whether only results, warnings and errors are written.
        is_verbose: Whether the log is written too.
        console: Standard output.
        notes: Standard error.
    """

    def __init__(self, *, is_json: bool = False, is_quiet: bool = False, is_verbose: bool = False) -> None:
        self.is_json = is_json
        self.is_quiet = is_quiet
        self.is_verbose = is_verbose
        self.console = _Console(highlight=False, markup=False, emoji=False)
        if not (self.console.is_terminal or self.console.has_given_width):
            self.console.width = UNBOUNDED_CELLS
        self.notes = _Console(stderr=True, highlight=False, markup=False, emoji=False)

    def show(self, *renderables: RenderableType) -> None:
        """Print to standard output: to fit a terminal, or `COLUMNS`; elsewhere whole, in lines as long as it takes."""
        is_cut = has_bounds(self.console)
        for renderable in renderables:
            self.console.print(renderable, crop=is_cut)

    def text(self, text: str) -> None:
        """Print text from outside: wrapped on a terminal, line for line as it is elsewhere."""
        if self.console.is_terminal:
            self.console.print(FlowText(text))
        else:
            self.piece(text + "\n")

    def piece(self, text: str) -> None:
        """Print a part of a text at once, without a line end."""
        self.console.file.write(printable(text))
        self.console.file.flush()

    def json(self, value: Any) -> None:
        """Print a plain value as JSON."""
        is_unicode = self.console.encoding.lower().replace("-", "").startswith("utf")
        self.console.file.write(json.dumps(value, ensure_ascii=not is_unicode, indent=2) + "\n")
        self.console.file.flush()

    def note(self, text: str) -> None:
        """Say something about what is done, unless told to be quiet."""
        if not self.is_quiet:
            self._say(text, "dim")

    def warn(self, text: str) -> None:
        """Say what did not go as one would expect."""
        self._say(f"warning: {text}", "yellow")

    def error(self, text: object) -> None:
        """Say what failed."""
        self._say(f"error: {text}", "red")

    def waiting(self, text: str) -> AbstractContextManager[object]:
        """Show that something is under way, on a terminal."""
        if self.is_quiet or not self.notes.is_terminal:
            return nullcontext()
        return self.notes.status(Text(text, "dim"), spinner="line")

    @contextmanager
    def counting(self, text: str) -> Generator[Callable[[str, int], None]]:
        """Show, on a terminal, what is under way; what is given is told what is counted, and how far that is."""
        if self.is_quiet or not self.notes.is_terminal:
            yield lambda _kind, _count: None
            return
        with self.notes.status(Text(text, "dim"), spinner="line") as status:
            yield lambda kind, count: status.update(Text(f"{kind}: {count:,}", "dim"))

    @contextmanager
    def logging(self) -> Generator[None]:
        """Write the log of Heliograph to standard error: warnings, or all of it when verbose."""
        logger = logging.getLogger("heliograph")
        handler = _LogHandler(self)
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG if self.is_verbose else logging.ERROR if self.is_quiet else logging.WARNING)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)

    def _say(self, text: str, style: str) -> None:
        self.notes.print(Text(printable(text), style), soft_wrap=True)


class _LogHandler(logging.Handler):
    """Writes log records through the console, so that they do not tear a progress bar."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self.setFormatter(logging.Formatter("{asctime} {levelname} {name}: {message}", style="{"))

    def emit(self, record: logging.LogRecord) -> None:
        brief = f"{record.levelname.lower()}: {record.getMessage()}"
        text = self.format(record) if self._output.is_verbose else brief
        self._output.notes.print(Text(printable(text), "dim"), soft_wrap=True)


def make_streams_safe() -> None:
    """Let standard output and error escape what their encoding lacks, lone surrogates included.

    One that was closed before the process began leads nowhere.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, "w"), "utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Send what is still buffered nowhere, after a reader has closed the pipe."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
