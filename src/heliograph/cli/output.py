"""Where a command writes: results to standard output, all messages about them to standard error.

With `--json` standard output has one JSON document and nothing else. Text of documents and models goes through
`printable`, `FlowText` or `BriefText` first: control characters become visible, and lines wrap well in English and in
Chinese. No character that the terminal's encoding lacks makes a command fail. `heliograph --help` imports this module.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

import typer
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.style import StyleType
from rich.text import Text

from heliograph.errors import InvalidRequestError

# Text that wraps well in English and in Chinese, and cannot control the terminal it is printed to.
#
# Text of documents and models goes through `printable` or `FlowText` before it is shown: control characters are made
# visible, and lines may break between Chinese characters, except where punctuation must stay with its neighbour.

# Width if the output is no terminal: nothing is wrapped or cut there.
UNBOUNDED_CELLS = 1_000_000

_WIDE = "\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60"
_OPENING = "（《〈「『【〔“‘［｛"
_CLOSING = "，。、；：？！）》〉」』】〕”’…—～％·］｝"
# One unbreakable unit: a wide character, or a run of others, with its punctuation.
_UNIT = re.compile(rf"[{_OPENING}]*(?:[{_WIDE}]|[^\s{_WIDE}{_OPENING}]+)[{_CLOSING}]*\s*|\s+|[{_OPENING}]+")
# Terminals act on these; line ends and tabs are layout.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINE_END = re.compile("\r\n?|[\u2028\u2029\x85\x0b\x0c]")
_SPACE = re.compile(r"\s+")


def printable(text: str) -> str:
    """Return a text with one kind of line end and its control characters replaced by U+FFFD."""
    return _CONTROL.sub("\ufffd", _LINE_END.sub("\n", text))


def has_bounds(console: Console) -> bool:
    """Whether output must fit a width."""
    return console.width < UNBOUNDED_CELLS


def one_line(text: str, max_cells: int | None) -> str:
    """Return a text on one line, cut to this many terminal cells with dots if it is longer; None cuts nothing."""
    flat = _SPACE.sub(" ", printable(text)).strip()
    # Few characters have no width, so most texts are known to be too long without measuring.
    if max_cells is None or (len(flat) <= 4 * max_cells and cell_len(flat) <= max_cells):
        return flat
    return chop_cells(flat[: max_cells + 1], max(1, max_cells - 3))[0].rstrip() + "..."


def flat_text(shown: RenderableType | None) -> str:
    """Return a string, a text of any kind or a group of them on one line, without styles, uncut.

    Spaces within a line stay as they are; strokes separate the parts of a group.
    """
    if isinstance(shown, Group):
        return " / ".join(filter(None, map(flat_text, shown.renderables)))
    first, *more = printable(str(shown or "")).expandtabs(4).split("\n")
    return " ".join(filter(None, (first.rstrip(), *(line.strip() for line in more))))


class FlowText:
    """Text from outside, ready to print: harmless, and wrapped at words or between Chinese characters.

    It is a renderable of its own, because a console joins `Text`s into one and so forgets how they wrap.
    """

    def __init__(self, text: str, style: StyleType = "") -> None:
        self._text = Text(printable(text).expandtabs(4), style=style)

    def __str__(self) -> str:
        return self._text.plain

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._text.split(allow_blank=True):
            for part in line.divide(_breaks(line.plain, options.max_width)):
                part.rstrip()
                part.no_wrap = True
                yield part

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        lines = self._text.plain.splitlines()
        widest = max((cell_len(line) for line in lines), default=0)
        least = max((cell_len(unit.rstrip()) for line in lines for unit in _units(line)), default=0)
        return Measurement(least, widest)


class BriefText:
    """The beginning of a text on one line, or the whole text where nothing is cut."""

    def __init__(self, text: str, max_cells: int) -> None:
        self._text = text
        self._max_cells = max_cells

    def __str__(self) -> str:
        return one_line(self._text, None)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._shown(console).__rich_console__(console, options)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return self._shown(console).__rich_measure__(console, options)

    def _shown(self, console: Console) -> FlowText:
        return FlowText(one_line(self._text, self._max_cells if has_bounds(console) else None))


def _units(line: str) -> Iterator[str]:
    return (match.group() for match in _UNIT.finditer(line))


def _breaks(line: str, width: int) -> list[int]:
    """Return the offsets before which a line is broken so that no part is wider than `width` cells."""
    breaks: list[int] = []
    used = position = 0
    for unit in _units(line):
        size = cell_len(unit.rstrip())
        if used and used + size > width:
            breaks.append(position)
            used = 0
        if size > width:
            pieces = chop_cells(unit, width)
            for piece in pieces[:-1]:
                position += len(piece)
                breaks.append(position)
            unit = pieces[-1]
        used += cell_len(unit)
        position += len(unit)
    return breaks


class _Console(Console):
    @property
    def has_given_width(self) -> bool:
        """Return whether `COLUMNS` sets the line width."""
        return self._width is not None

    def on_broken_pipe(self) -> NoReturn:
        """Let the error through: one place, in `session`, decides what a closed pipe means."""
        raise


class Output:
    """The two streams of one command; quiet shows only results, warnings and errors, verbose also the log."""

    def __init__(self, *, is_json: bool = False, is_quiet: bool = False, is_verbose: bool = False) -> None:
        self.is_json = is_json
        self.is_quiet = is_quiet
        self.is_verbose = is_verbose
        self.console = _Console(highlight=False, markup=False, emoji=False)
        if not (self.console.is_terminal or self.console.has_given_width):
            self.console.width = UNBOUNDED_CELLS
        self.notes = _Console(stderr=True, highlight=False, markup=False, emoji=False)

    def show(self, *renderables: RenderableType) -> None:
        """Print to standard output: fitted to a terminal or `COLUMNS`, else with lines of any length."""
        is_cut = has_bounds(self.console)
        for renderable in renderables:
            self.console.print(renderable, crop=is_cut)

    def result(self, plain: Any, render: Callable[[], RenderableType]) -> None:
        """Print the result of a command: as JSON with `--json`, else rendered for people."""
        if self.is_json:
            self.json(plain)
        else:
            self.show(render())

    def told(self, plain: Any, text: str) -> None:
        """Print a result that is a text: as JSON with `--json`."""
        if self.is_json:
            self.json(plain)
        else:
            self.text(text)

    def done(self, plain: Any, note: str) -> None:
        """Print what a command did: as JSON with `--json`, else as a note."""
        if self.is_json:
            self.json(plain)
        else:
            self.note(note)

    def confirm(self, question: str) -> None:
        """Ask for confirmation of an action that cannot be undone.

        Raises:
            InvalidRequestError: There is no terminal to answer from, as in a script.
            typer.Abort: The answer is no.
        """
        try:
            is_wanted = typer.confirm(question, err=True)
        except typer.Abort:
            if sys.stdin.isatty():
                raise
            self.notes.print()
            raise InvalidRequestError("nobody is there to answer; give --yes to be asked nothing") from None
        if not is_wanted:
            raise typer.Abort

    def text(self, text: str) -> None:
        """Print text from outside: wrapped on a terminal, else with its own lines."""
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
        """Print a note, unless `--quiet` is set."""
        if not self.is_quiet:
            self._say(text, "dim")

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._say(f"warning: {text}", "yellow")

    def error(self, text: object) -> None:
        """Print an error."""
        self._say(f"error: {text}", "red")

    def waiting(self, text: str) -> AbstractContextManager[object]:
        """Show on a terminal that something is under way."""
        if self.is_quiet or not self.notes.is_terminal:
            return nullcontext()
        return self.notes.status(Text(text, "dim"), spinner="line")

    @contextmanager
    def counting(self, text: str) -> Generator[Callable[[str, int], None]]:
        """Show progress on a terminal. Yields a callback `(label, count)`."""
        if self.is_quiet or not self.notes.is_terminal:
            yield lambda _kind, _count: None
            return
        with self.notes.status(Text(text, "dim"), spinner="line") as status:
            yield lambda kind, count: status.update(Text(f"{kind}: {count:,}", "dim"))

    @contextmanager
    def logging(self) -> Generator[None]:
        """Write the log of Heliograph to standard error: warnings, or all of it when verbose.

        Where a library's log messages matter, Heliograph reports the problem itself; verbose shows them as they are.
        """
        logger, root = logging.getLogger("heliograph"), logging.getLogger()
        handler = _LogHandler(self)
        before = logger.level
        logger.addHandler(handler)
        # Without a handler, Python would print their warnings as they are.
        of_others = _LogHandler(self) if self.is_verbose else logging.NullHandler()
        of_others.addFilter(lambda record: record.name.partition(".")[0] != logger.name)
        root.addHandler(of_others)
        logger.setLevel(logging.DEBUG if self.is_verbose else logging.ERROR if self.is_quiet else logging.WARNING)
        try:
            yield
        finally:
            root.removeHandler(of_others)
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
    """Escape characters that the encoding of standard output and error lacks, lone surrogates included.

    A stream that was closed before the process began is replaced by one that discards.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, "w"), "utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Discard buffered output after the reader has closed the pipe."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
