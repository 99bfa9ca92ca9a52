from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from heliograph.cli.app import app, load_command
from heliograph.cli.session import EXIT_BROKEN_PIPE, EXIT_CODES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text("utf-8")
SHOWN = get_command(app).commands  # type: ignore[attr-defined]
COMMANDS = {name: load_command(name) for name in SHOWN}


def section(name: str) -> str:
    found = re.search(rf"^### {name}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/cli.md has no section {name!r}"
    return found[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_command_is_documented_with_an_example_and_all_options(name: str) -> None:
    text = section(name)
    assert f"heliograph {name}" in text
    for param in COMMANDS[name].params:
        for option in param.opts:
            if option.startswith("-") and option not in ("--help", "-h"):
                assert f"`{option}" in text, option


@pytest.mark.parametrize("name", COMMANDS)
def test_command_says_what_it_does(name: str) -> None:
    assert COMMANDS[name].help
    assert SHOWN[name].help == COMMANDS[name].help
    assert all(param.help for param in COMMANDS[name].params if param.name != "help")


def test_global_options_are_documented() -> None:
    for param in get_command(app).params:
        assert all(f"`{option}" in PAGE for option in param.opts)


def test_page_documents_no_command_that_is_not_there() -> None:
    assert set(re.findall(r"^### (\S+)$", PAGE, re.MULTILINE)) == set(COMMANDS)


def test_exit_codes_are_documented() -> None:
    for code in {0, EXIT_BROKEN_PIPE, *EXIT_CODES.values()}:
        assert f"\n| {code} |" in PAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_flags_as_flags(name: str) -> None:
    told = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout
    assert "--help" in told
    assert "bool" not in told.lower()
