"""No process of ours runs files of the folder it works in, which may be anybody's: a folder of manuals, an upload."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MARK = "was-run"
PAGE = "<h1>Gateway</h1><p>The gateway of the harbour sends a message to Gannet Head every four hours.</p>"
# What Python itself imports before it looks at the package that `python -m` names.
BEFORE_US = "import runpy, typing, sys; print(*sys.modules)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module of every name that Python, a library or the engine may ask for; each leaves a mark."""
    names = {name for name in (*sys.stdlib_module_names, *packages_distributions()) if name.isidentifier()}
    mark = tmp_path / MARK
    for name in names - {"heliograph"}:
        lines = (
            "import os, sys",
            f"descriptor = os.open({str(mark)!r}, os.O_APPEND | os.O_CREAT | os.O_WRONLY)",
            f"os.write(descriptor, ({name!r} + ' in ' + ' '.join(sys.orig_argv) + os.linesep).encode())",
            "os._exit(97)",
        )
        (tmp_path / f"{name}.py").write_text("\n".join(lines), "utf-8")
    (tmp_path / "page.html").write_text(PAGE, "utf-8")
    return tmp_path


def what_ran(folder: Path) -> str:
    mark = folder / MARK
    return mark.read_text("utf-8") if mark.exists() else ""


def run(folder: Path, command: Sequence[str], **environment: str) -> str:
    """Run a command in the folder and return what it prints, unless it ran a file of the folder or failed."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env={**variables, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert what_ran(folder) == ""
    assert done.returncode == 0, done.stderr
    # How wide columns are depends on the terminal.
    return " ".join(done.stdout.split())


def heliograph() -> str:
    return str(Path(sys.executable).with_name("heliograph"))


def test_indexing_runs_no_file_of_the_folder(folder: Path) -> None:
    assert "processed 1 page.html" in run(folder, [heliograph(), "index", "page.html", "--data-dir", "kb"])


@pytest.mark.parametrize("path", [":", ".", ":{folder}"])
def test_reading_in_a_process_of_its_own_runs_none_whatever_python_was_told(folder: Path, path: str) -> None:
    # What the program itself imports later, from a path that it made hostile, is its own affair: it has the loaders.
    read = (
        "import os, sys; from heliograph.documents.isolation import DocumentReader; "
        "from heliograph.documents.registry import known_suffixes; known_suffixes(); "
        "from heliograph.documents.base import Limits, RawDocument; "
        "os.chdir(sys.argv[1]); sys.path[:0] = ['', '.', sys.argv[1]]; "
        "os.environ.update(PYTHONPATH=sys.argv[2], PYTHONSTARTUP='json.py', PYTHONHOME='.', LD_PRELOAD='./x.so'); "
        "raw = RawDocument('page.html', open('page.html', 'rb').read()); "
        "reader = DocumentReader(Limits()); print(len(reader.load(raw).text)); reader.close()"
    )
    command = [sys.executable, "-c", read, str(folder), path.format(folder=folder)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300, check=False)
    assert what_ran(folder) == ""
    assert int(done.stdout) > 50, done.stderr


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed; pip install 'heliograph[ray]'")
def test_workers_of_a_cluster_run_no_file_of_the_folder(folder: Path) -> None:
    command = [heliograph(), "index", "page.html", "--data-dir", "kb", "--engine", "ray", "--workers", "1"]
    assert "processed 1 page.html" in run(folder, command, HELIOGRAPH_RAY__START_TIMEOUT_SECONDS="300")


def test_python_m_runs_none_once_it_has_come_to_the_package(folder: Path) -> None:
    before = subprocess.run([sys.executable, "-c", BEFORE_US], capture_output=True, text=True, check=True)
    for name in before.stdout.split():
        (folder / f"{name}.py").unlink(missing_ok=True)
    assert "processed 1 page.html" in run(
        folder, [sys.executable, "-m", "heliograph", "index", "page.html", "--data-dir", "kb"]
    )


def test_workers_of_the_service_run_no_file_of_the_folder(folder: Path) -> None:
    command = [heliograph(), "serve", "--workers", "2", "--port", "0", "--data-dir", "kb"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with subprocess.Popen(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as service:
        assert service.stdout is not None
        told = next((line for line in service.stdout if "http://" in line or what_ran(folder)), "")
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=60)
    assert what_ran(folder) == ""
    assert "http://127.0.0.1" in told
