"""The service, `stats` and `doctor` while an engine beside the store is away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("redis", reason="needs: pip install 'heliograph[redis]'")

from typer.testing import CliRunner

from heliograph.cli.app import app as commands

from ..servers.process import free_port
from ..unit.server.guarded import ADMIN, guarded_settings, served

TEXT = "The harbour master of Port Ellen keeps the lamp oil in the old customs house."


def _away() -> str:
    return f"redis://:hunter2@127.0.0.1:{free_port()}/0"


async def test_service_serves_what_it_can(tmp_path: Path) -> None:
    settings = guarded_settings(tmp_path)
    store = settings.store.model_copy(update={"graph_url": _away()})
    async with served(settings.model_copy(update={"store": store})) as (app, client):
        async with app.state.service.workspaces.use() as kb:
            await kb.insert(TEXT, sources=["port.md"])
        health = (await client.get("/health", headers=ADMIN)).json()
        assert (health["status"], health["condition"]) == ("healthy", "degraded")
        (engine,) = health["engines"]
        assert engine["name"].startswith("graph:redis:127.0.0.1")
        assert engine["lag"] > 0
        assert "out of reach" in engine["trouble"]
        assert "hunter2" not in json.dumps(health)
        assert "engines" not in (await client.get("/health")).json()
        asked = {"query": "Who is the harbour master of Port Ellen?", "only_need_context": True}
        assert (await client.post("/query", json=asked | {"mode": "naive"}, headers=ADMIN)).status_code == 200
        refused = await client.post("/query", json=asked | {"mode": "local"}, headers=ADMIN)
        assert refused.status_code == 503
        assert "cannot be asked now" in refused.json()["detail"]


def test_commands_say_what_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_STORE__DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HELIOGRAPH_STORE__GRAPH_URL", _away())
    monkeypatch.setenv("COLUMNS", "1000")
    source = tmp_path / "port.md"
    source.write_text(TEXT)
    runner = CliRunner()
    assert runner.invoke(commands, ["index", str(source)]).exit_code == 0
    stats = json.loads(runner.invoke(commands, ["--json", "stats"]).stdout)
    ((name, lag),) = stats["lags"].items()
    assert lag > 0
    assert "out of reach" in stats["troubles"][name]
    shown = runner.invoke(commands, ["stats"]).stdout
    assert "cannot be asked now" in shown
    told = runner.invoke(commands, ["doctor"]).stdout
    assert "cannot be asked now" in told
    assert "hunter2" not in shown + told
    assert runner.invoke(commands, ["check"]).exit_code != 0
