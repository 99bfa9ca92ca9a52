"""What works offline tells nobody of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Each is the first to import onnxruntime in some use.
_USERS = ("heliograph.text.chinese", "heliograph.embedding.e5.model", "heliograph.rerank.onnx")


@pytest.mark.parametrize("module", _USERS)
def test_onnxruntime_keeps_no_id_of_this_machine_and_reports_nothing(module: str, tmp_path: Path) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", f"import {module}"], env=environment, check=True, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
