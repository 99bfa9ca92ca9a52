from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMMAND = (sys.executable, "-m", "heliograph")


def test_closed_pipe_is_passed_over_in_silence(tmp_path: Path) -> None:
    process = subprocess.Popen(
        (*COMMAND, "settings", "--markdown"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
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
