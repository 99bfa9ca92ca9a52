"""How the engine `ray` is asked for, and what is said where that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from heliograph import AsyncHeliograph, Settings
from heliograph.cli.app import app
from heliograph.distributed import ray_cluster
from heliograph.distributed.ray_cluster import OwnThread
from heliograph.errors import MissingDependencyError, SettingsError
from heliograph.testing.fakes import FakeEmbeddingModel


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no engine 'spark'; take 'local' or 'ray'"):
        AsyncHeliograph(tmp_path, engine="spark")


def test_the_engine_given_goes_over_the_settings(tmp_path: Path) -> None:
    settings = Settings.load(ingest={"engine": "ray", "chunk_tokens": 300})
    kb = AsyncHeliograph(tmp_path, settings=settings, engine="local")
    assert (kb.settings.ingest.engine, kb.settings.ingest.chunk_tokens) == ("local", 300)


async def test_without_ray_opening_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"heliograph\[ray\]"):
        await AsyncHeliograph(tmp_path, engine="ray", embedding=FakeEmbeddingModel()).open()


@pytest.mark.parametrize(
    "options", [["--workers", "2"], ["--address", "auto"], ["--engine", "local", "--workers", "2"]]
)
def test_options_of_a_cluster_need_its_engine(options: list[str], tmp_path: Path) -> None:
    command = ["--data-dir", str(tmp_path), "index", str(tmp_path), *options]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "--engine ray" in result.output


def test_a_thread_of_its_own_raises_where_work_is_given_and_goes_on() -> None:
    thread = OwnThread("test")
    done: list[int] = []
    with pytest.raises(KeyError):
        thread.run(lambda: {}["missing"])
    thread.run(lambda: done.append(1))
    thread.end()
    assert done == [1]
