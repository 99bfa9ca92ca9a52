"""A closed workspace for frameworks to open, with fakes in place of the models of the settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from heliograph.adapters import passages
from heliograph.sync import Heliograph
from heliograph.testing.fakes import FakeEmbeddingModel

from ..ingest.world import SpelledExtractor

QUESTION = "Whom does Ann lead?"
DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the folder of a workspace with two documents."""

    def opened(data_dir: str | None = None, *, workspace: str | None = None) -> Heliograph:
        return Heliograph(data_dir, workspace=workspace, embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor())

    monkeypatch.setattr(passages, "Heliograph", opened)
    monkeypatch.chdir(tmp_path)
    with opened("kb") as kb:
        kb.insert(
            ["# Team\n\nAnn (person): leads.\nAnn -> Bob [leads] 1.0: Ann leads Bob.", "Cy (place): a town."],
            sources=["team.md", "town.md"],
            metadata=[{"team": "red"}, {"team": "blue"}],
        )
    return "kb"


def example(heading: str) -> str:
    """Return the example below a heading of the page of adapters."""
    page = (DOCS / "adapters.md").read_text("utf-8")
    found = re.search(rf"^## {heading}\n.*?^```python[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]
