"""Programs written against LightRAG, run on the real package and on ours, with the same fakes: what each sees is equal.

The real package is not installed with the tests. `HELIOGRAPH_TEST_LIGHTRAG` names a Python that has `lightrag-hku`
1.5.7; without one, programs run on ours alone and are not compared, which is told.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from heliograph.lightrag.utils import always_get_an_event_loop

from . import outsiders, programs, tutorials

_RUN = Path(__file__).parent / "run.py"
_PYTHON = os.environ.get("HELIOGRAPH_TEST_LIGHTRAG", "")
NAMES = [program.__name__ for program in (*programs.PROGRAMS, *tutorials.TUTORIALS, *outsiders.OUTSIDERS)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run all programs on the real package."""
    if not _PYTHON:
        pytest.skip("HELIOGRAPH_TEST_LIGHTRAG names no Python with lightrag-hku 1.5.7: nothing was compared")
    folder = tmp_path_factory.mktemp("real")
    output = folder / "seen.json"
    subprocess.run([_PYTHON, str(_RUN), str(folder), str(output)], check=True, capture_output=True, cwd=folder)
    return json.loads(output.read_text("utf-8"))


async def _ended() -> None:
    """Wait for the end of what an engine closes when nobody holds it any more."""
    await asyncio.sleep(0)
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    await asyncio.get_running_loop().shutdown_asyncgens()


def _ours(name: str, folder: Path) -> Any:
    try:
        seen = programs.run("heliograph.lightrag", name, folder)
    finally:
        # What sync methods ran in is left to the end of the process, which is here.
        loop = always_get_an_event_loop()
        loop.run_until_complete(_ended())
        loop.close()
        asyncio.set_event_loop(None)
    return json.loads(json.dumps(seen, ensure_ascii=False, default=str))


@pytest.mark.parametrize("name", NAMES)
def test_program_runs_on_our_package(name: str, tmp_path: Path) -> None:
    assert _ours(name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_program_sees_what_it_sees_on_the_real_package(name: str, tmp_path: Path, real: dict[str, Any]) -> None:
    assert "failed" not in real[name], real[name]["failed"]
    assert _ours(name, tmp_path) == real[name]
