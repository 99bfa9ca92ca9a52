from __future__ import annotations

import errno

import pytest
import typer
from typer.testing import CliRunner

from heliograph.cli.app import app
from heliograph.cli.output import Output
from heliograph.cli.session import global_options_first, reported_errors
from heliograph.errors import NotFoundError

from .conftest import World


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["stats", "--json"], ["--json", "stats"]),
        (["query", "why?", "--workspace", "w", "-q"], ["--workspace", "w", "-q", "query", "why?"]),
        (["stats", "--data-dir=kb"], ["--data-dir=kb", "stats"]),
        (["query", "--", "--json"], ["query", "--", "--json"]),
        (["stats", "--workspace"], ["--workspace"]),
        ([], []),
    ],
)
def test_global_options_may_stand_anywhere(args: list[str], expected: list[str]) -> None:
    assert global_options_first(args) == expected


def test_reported_errors_prints_one_line_and_sets_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as raised, reported_errors(Output()):
        raise NotFoundError("there is no 'x'")
    assert raised.value.exit_code == 3
    assert capsys.readouterr().err == "error: there is no 'x'\n"


def test_reported_errors_shows_a_traceback_when_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), reported_errors(Output(is_verbose=True)):
        raise NotFoundError("gone")
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "what is printed: No space left on device; check the path"),
        (OSError(errno.EACCES, "Permission denied", "kb"), "'kb': Permission denied; check the path"),
        (OSError(errno.EMFILE, "Too many open files"), "the system refused: Too many open files\n"),
        (TimeoutError("timed out"), "the system refused: timed out\n"),
    ],
)
def test_refusals_of_the_system_are_told(error: OSError, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as raised, reported_errors(Output()):
        raise error
    assert raised.value.exit_code == 1
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_reported_errors_takes_an_interrupt_for_130() -> None:
    with pytest.raises(typer.Exit) as raised, reported_errors(Output()):
        raise KeyboardInterrupt
    assert raised.value.exit_code == 130


def test_reported_errors_lets_defects_through() -> None:
    with pytest.raises(ZeroDivisionError), reported_errors(Output()):
        _ = 1 / 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["query", "why?", "--mode", "foo"], "for '--mode' / '-m': 'foo' is not one of"),
        (["bogus"], "No such command 'bogus'; 'heliograph --help' shows how"),
        (["ask", "Who?"], "No such command 'ask'; 'query' may be meant; 'heliograph --help' shows how"),
        (["indx"], "No such command 'indx'; 'index' may be meant; 'heliograph --help' shows how"),
        (["--bogus"], "No such option: --bogus"),
        (["index"], "Missing argument 'paths'; 'heliograph index --help' shows how"),
    ],
)
def test_command_line_that_cannot_be_read_is_told_in_one_line(args: list[str], said: str) -> None:
    result = CliRunner().invoke(app, args, prog_name="heliograph")
    assert result.exit_code == 2
    assert result.stdout == ""
    # As one line, whatever the width that it is wrapped at.
    assert said in " ".join(result.stderr.split())
    assert result.stderr.startswith("error: ")


def test_no_command_at_all_tells_where_to_start() -> None:
    shown = CliRunner().invoke(app, [], prog_name="heliograph")
    assert shown.exit_code == 0
    for command in ("demo", "index", "query", "serve", "doctor"):
        assert f"  heliograph {command} " in shown.output


def test_first_documents_are_followed_by_what_to_do_next(world: World) -> None:
    world.write("a.md", "Hester Tarrant kept the Gannet Head light.")
    assert "now ask: heliograph query" in world.run("index", "a.md").stderr
    world.write("b.md", "Tobias Fenn wound the clock of Gannet Head.")
    assert "now ask" not in world.run("index", "b.md").stderr
    assert "now ask" not in world.run("--json", "index", "b.md").stderr


@pytest.mark.parametrize("command", ["documents", "entities", "batches", "curations"])
def test_offset_beyond_all_is_refused(command: str, story: World) -> None:
    result = story.run(command, "--offset", "9" * 20)
    assert result.exit_code == 2
    assert "--offset" in result.stderr
