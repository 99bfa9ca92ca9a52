from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "heliograph")
# Some of what the engine and the service are made of.
HEAVY = {"apsw", "fastapi", "httpx", "mcp", "numpy", "onnxruntime", "openai", "sentencepiece", "uvicorn"}


@pytest.mark.parametrize("arguments", [("settings", "--markdown"), ("--help",), ("query", "--help")])
def test_closed_pipe_is_passed_over_in_silence(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    process = subprocess.Popen((*COMMAND, *arguments), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(60) == 141


def test_help_prints_on_an_ascii_terminal(tmp_path: Path) -> None:
    environment = {"PYTHONIOENCODING": "ascii"}
    found = subprocess.run((*COMMAND, "--help"), cwd=tmp_path, capture_output=True, env=environment, check=False)
    assert found.returncode == 0, found.stderr
    assert b"neighbours" in found.stdout


def test_interrupt_while_the_program_is_read_in_shows_no_traceback(tmp_path: Path) -> None:
    program = """
import os, signal
# Who starts tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import heliograph.cli
heliograph.cli.import_module = lambda name: os.kill(os.getpid(), signal.SIGINT)
heliograph.cli.main()
"""
    found = subprocess.run((sys.executable, "-c", program), cwd=tmp_path, capture_output=True, check=False)
    assert found.returncode == -signal.SIGINT
    assert found.stderr == b""


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), (), ("--no-such-option",), ("no-such-command",)])
def test_what_needs_no_engine_loads_none(arguments: tuple[str, ...], tmp_path: Path) -> None:
    loaded = _loaded_by(arguments, tmp_path)
    assert "typer" in loaded
    assert not HEAVY & loaded
    assert _parts(loaded) <= {"_version", "cli", "errors"}


@pytest.mark.parametrize("mode", ["auto", "mix"])
def test_question_loads_what_answers_it_and_no_more(mode: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("The Lantern gateway forwards readings over MQTT.", "utf-8")
    subprocess.run((*COMMAND, "index", "a.md"), cwd=tmp_path, capture_output=True, check=True)
    loaded = _loaded_by(("query", "--mode", mode, "What does the Lantern gateway forward?"), tmp_path)
    assert "heliograph.query.answers.answer" in loaded
    assert not loaded & {"fastapi", "httpx", "mcp", "numpy.ma", "onnx", "openai", "uvicorn"}
    assert not loaded & {f"heliograph.extraction.{name}" for name in ("chat", "local", "local_subjects", "replies")}
    assert not _parts(loaded) & {
        *("adapters", "analysis", "client", "distributed", "evaluation", "lightrag", "mcp", "monitoring"),
        *("server", "service", "testing", "wire"),
    }


def _loaded_by(arguments: tuple[str, ...], folder: Path) -> set[str]:
    """Return the names of all modules that are in memory after a command."""
    program = """
import sys
from heliograph.cli import main
try:
    main()
finally:
    for name in sorted(sys.modules):
        print(name, file=sys.stderr)
"""
    command = (sys.executable, "-c", program, *arguments)
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return set(found.stderr.splitlines())


def _parts(modules: set[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if name.startswith("heliograph.")}


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_passed_over(closed: str, tmp_path: Path) -> None:
    line = f"exec {shlex.quote(sys.executable)} -m heliograph make-key {closed}"
    found = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, check=False)
    assert found.returncode == 0
    assert found.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_is_told_in_words(tmp_path: Path) -> None:
    found = subprocess.run(
        ["sh", "-c", f"exec {shlex.quote(sys.executable)} -m heliograph make-key >/dev/full"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    assert found.stderr.startswith("error: what is printed: No space left on device; check")
