from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import stores
from benchmarks.marked_tables import render_stores
from benchmarks.registry import Options
from benchmarks.report import Environment, Figure, Report, read_reports, write_report

from tests.servers.redis import running_redis

ROOT = Path(__file__).parents[3]


def _report(*names: str) -> Report:
    whats = ("a document", "mix", "local", "naive", "fusion")
    figures = [
        figure
        for name in names
        for figure in (
            Figure(f"{name}: entities", 100_000),
            Figure(f"{name}: entities filled in a CPU second", 1234),
            *(Figure(f"{name}: {what}", 8.0, "ms") for what in whats),
            *(Figure(f"{name}: {what}, ratio", 1.25) for what in whats),
            *(Figure(f"{name}: {what}, round trips", place) for place, what in enumerate(whats, 3)),
        )
    ]
    notes = tuple(f"{name}: 200 documents." for name in names)
    return Report("stores", "", "", tuple(figures), notes, False, 1.0, Environment.current())


def test_each_store_has_a_row() -> None:
    lines = render_stores(_report("A", "B")).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert rows[2] == ["A", "100,000", "1,234", *(["8 ms (1.2)"] * 5), "3 / 4 / 5 / 6 / 7"]
    assert rows[3][0] == "B"


def test_figures_of_stores_that_are_not_measured_again_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(_report("A", "B"), tmp_path)
    monkeypatch.setattr(stores, "read_reports", lambda: read_reports(tmp_path))
    kept = stores._earlier({"B"})
    assert {figure.name.partition(": ")[0] for figure in kept.figures} == {"A"}
    assert kept.notes == ("A: 200 documents.",)


def test_unknown_stores_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no stores \['mongodb'\]; there are postgres, neo4j_graph"):
        stores.run(Options(quick=True, arguments=("mongodb",)))


@pytest.mark.slow
def test_store_is_measured_beside_the_embedded_one(tmp_path: Path) -> None:
    # Skips where there is no server.
    with running_redis():
        command = [sys.executable, "-m", "benchmarks", "stores", "redis_graph", "--quick", "--results", str(tmp_path)]
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "stores.quick.json").read_text("utf-8"))["figures"]
    found = {figure["name"]: figure["value"] for figure in figures}
    assert found["graph on Redis: entities"] >= 400
    assert found["graph on Redis: local, round trips"] > 0
    assert found["graph on Redis: local, further round trips at top_k 160"] <= 1
