from __future__ import annotations

import io
import json
import logging
import sys

import pytest
from rich.console import Group, RenderableType

from heliograph.cli.graph import render_entities
from heliograph.cli.output import FlowText, Output, make_streams_safe
from heliograph.cli.rendering import make_table
from heliograph.models import Entity


class Stream(io.TextIOWrapper):
    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def written(self) -> bytes:
        self.flush()
        return self.buffer.getvalue()  # type: ignore[attr-defined]


def test_json_is_ascii_where_the_stream_is_and_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream := Stream("ascii"))
    make_streams_safe()
    Output(is_json=True).json({"name": "望江钟 😀"})
    assert json.loads(stream.written()) == {"name": "望江钟 😀"}


def test_json_survives_lone_surrogates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream := Stream("utf-8"))
    make_streams_safe()
    Output(is_json=True).json({"path": "caf\udce9"})
    assert json.loads(stream.written()) == {"path": "caf\udce9"}


def test_text_cannot_crash_an_ascii_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream := Stream("ascii"))
    make_streams_safe()
    Output().text("望江钟")
    assert stream.written() == b"\\u671b\\u6c5f\\u949f\n"


def test_notes_are_silent_when_quiet_and_warnings_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(is_quiet=True)
    output.note("by the way")
    output.warn("look out")
    assert capsys.readouterr() == ("", "warning: look out\n")


def test_markup_in_messages_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    Output().error("[bold]x[/bold] [1]")
    assert capsys.readouterr().err == "error: [bold]x[/bold] [1]\n"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [({}, ["warning: w"]), ({"is_quiet": True}, []), ({"is_verbose": True}, ["INFO", "WARNING"])],
)
def test_logging_follows_the_flags(
    flags: dict[str, bool], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("heliograph.test")
    with Output(**flags).logging():
        logger.info("i")
        logger.warning("w")
    written = capsys.readouterr().err.splitlines()
    assert len(written) == len(expected)
    assert all(part in line for part, line in zip(expected, written, strict=True))


def test_what_libraries_log_shows_when_verbose_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    for flags in ({}, {"is_verbose": True}):
        with Output(**flags).logging():
            logging.getLogger("neo4j.pool").error("unable to route")
            logging.getLogger("heliograph.test").warning("w")
    brief, *verbose = capsys.readouterr().err.splitlines()
    assert brief == "warning: w"
    assert ["unable to route" in line for line in verbose] == [True, False]


def test_logging_leaves_no_handler_behind() -> None:
    loggers = [logging.getLogger("heliograph"), logging.getLogger()]
    before = [list(logger.handlers) for logger in loggers]
    with Output().logging():
        pass
    assert [logger.handlers for logger in loggers] == before


LONG = "Hester Tarrant kept the Gannet Head light for nine years, and then she went. " * 5


def piped(monkeypatch: pytest.MonkeyPatch, renderable: RenderableType) -> list[str]:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "stdout", stream := Stream("utf-8"))
    Output().show(renderable)
    return stream.written().decode().splitlines()


def test_nothing_is_cut_or_wrapped_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    entity = Entity("e", f"The Gannet Head {'light ' * 20}house", type="place", description=LONG)
    head, row = piped(monkeypatch, render_entities([entity, entity]))[:2]
    assert head.split() == ["entity", "type", "relations", "description"]
    assert row.startswith(f"{entity.name}  place")
    assert row.endswith(LONG.strip())


def test_lines_in_a_pipe_have_no_spaces_at_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table({})
    table.add_row("a", "long text")
    table.add_row("b", "c")
    assert piped(monkeypatch, table)[1:] == ["a  long text", "b  c"]


def test_row_is_one_line_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table({}, "Notes")
    table.add_column("note")
    table.add_column("count", justify="right")
    table.add_column("of")
    table.add_row(Group(FlowText("钟"), FlowText("two  words\n and more")), "7", "a")
    table.add_row("x", "1,000", "b")
    assert piped(monkeypatch, table) == [
        "Notes",
        f"{'note':24}  count  of",
        "钟 / two  words and more      7  a",
        f"{'x':24}  1,000  b",
    ]


def test_one_long_cell_widens_no_other_line_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = make_table({})
    for text in ("x" * 100_000, *"abc"):
        table.add_row(text, text)
    rendered = ["".join(segment.text for segment in line) for line in Output().console.render_lines(table, pad=False)]
    assert [len(line) for line in rendered[1:]] == [200_002, *[203] * 3]


def test_columns_are_kept_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stdout", stream := Stream("utf-8"))
    Output().show(render_entities([Entity("e", "Gannet Head", type="place", description=LONG)]))
    lines = stream.written().decode().splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[-1].rstrip().endswith("...")


def test_cells_of_tables_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table({})
    table.add_row("\x1b[31mred\x07")
    assert piped(monkeypatch, table)[-1] == "\ufffd[31mred\ufffd"
