"""Every benchmark that needs no real model runs, in small; its figures are not looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.postgres import running_postgres

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "add_document",
        "bulk",
        "query_context",
        "service_query",
        "service_start",
        "service_workspaces",
        "text_scale",
        "open_store",
        "scale",
    ],
)
def test_benchmark_runs(name: str, tmp_path: Path) -> None:
    results = tmp_path / "results"
    command = [sys.executable, "-m", "benchmarks", name, "--quick", "--results", str(results)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads((results / f"{name}.quick.json").read_text("utf-8"))
    assert report["figures"]
    assert all(figure["value"] > 0 for figure in report["figures"])
    assert report["title"] in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scale_postgres", "cluster_scale"])
def test_benchmark_on_postgres_runs(name: str, tmp_path: Path) -> None:
    # Skips where there is no server.
    with running_postgres():
        command = [sys.executable, "-m", "benchmarks", name, "--quick", "--results", str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / f"{name}.quick.json").read_text("utf-8"))["figures"]


@pytest.mark.slow
def test_retrieval_runs_on_a_set_of_its_own(tmp_path: Path) -> None:
    passages = [
        {"id": "p1", "title": "Gannet Head", "text": "Ada Pell keeps the lamp at Gannet Head."},
        {"id": "p2", "title": "Kestrel Mill", "text": "The mill makes paper from flax and sells it in Leith."},
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, passages)), "utf-8")
    (tmp_path / "queries.jsonl").write_text(json.dumps({"question": "Who keeps the lamp?", "gold": ["p1"]}), "utf-8")
    command = [sys.executable, "-m", "benchmarks", "retrieval", str(tmp_path), "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "retrieval.json").read_text("utf-8"))["figures"]
    assert {figure["value"] for figure in figures} == {100.0}
