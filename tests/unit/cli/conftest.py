from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from heliograph.cli import session
from heliograph.cli.app import app
from heliograph.settings import Settings
from heliograph.sync import Heliograph
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

STORY = """# The Lamps of Carrow Quay

Hester Tarrant kept the Gannet Head light for nine years. Tobias Fenn wound the clock of Gannet Head every Sunday.

## The green book

Beatrice Sorley gave the green book of Tobias Fenn to Nell Tarrant. Nell Tarrant wrote for the Skerravane Courier.
"""
CHINESE = """# 望江钟

望江钟由沈万年铸造，挂在云渡镇的渡口。水位涨过石阶，林知远便敲钟三声。
"""


@dataclass
class World:
    """The command line on fake models, in a folder of its own."""

    folder: Path
    chat: FakeChatModel | None = None
    embedding: FakeEmbeddingModel = field(default_factory=FakeEmbeddingModel)
    settings: list[Settings] = field(default_factory=list)

    def make_engine(self, settings: Settings) -> Heliograph:
        self.settings.append(settings)
        return Heliograph(settings=settings, chat=self.chat, embedding=self.embedding)

    def run(self, *args: str, width: int = 100, **options: Any) -> Result:
        runner = CliRunner(env={"COLUMNS": str(width), "FORCE_COLOR": None, "NO_COLOR": "1"})
        result = runner.invoke(app, list(args), **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *args: str, **options: Any) -> Any:
        result = self.run("--json", *args, **options)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return name


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world without documents; the working directory is its folder."""
    for name in [name for name in os.environ if name.startswith("HELIOGRAPH_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path)
    monkeypatch.setattr(session, "make_engine", world.make_engine)
    return world


@pytest.fixture
def story(world: World) -> World:
    """A world with two documents, one English and one Chinese."""
    world.write("docs/story.md", STORY)
    world.write("docs/clock.md", CHINESE)
    assert world.run("index", "docs").exit_code == 0
    return world
