"""The example of docs/third-party-stores.md works as it stands: installed by entry point, proven by the suites."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "docs" / "third-party-stores.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_example_passes_the_suites_it_names(tmp_path: Path) -> None:
    (_, store), (_, project), (_, test) = _BLOCK.findall(_PAGE.read_text("utf-8"))
    (tmp_path / "my_store.py").write_text(store, "utf-8")
    (tmp_path / "test_my_store.py").write_text(test, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", "utf-8")
    scheme = re.search(r'stores\.(\w+)"\]\n(.*)\n', project)
    assert scheme is not None
    # What an installed package leaves for others to find it by.
    installed = tmp_path / "my_store-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-store\nVersion: 1\n", "utf-8")
    entry = scheme[2].replace('"', "")
    (installed / "entry_points.txt").write_text(f"[heliograph.stores.{scheme[1]}]\n{entry}\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_store.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
