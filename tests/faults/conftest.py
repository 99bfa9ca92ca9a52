"""Short waits for all tests of faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph.stores import composed
from heliograph.stores.base import Store

from .engines import Graph, open_home


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composed, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(composed, "_REACH_SECONDS", 0.3)
    monkeypatch.setattr(composed, "_OPEN_SECONDS", 0.3)
    monkeypatch.setattr(composed, "_COMMIT_SECONDS", 0.2)
    monkeypatch.setattr(composed, "_LAG_SECONDS", 0.2)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[Store]:
    store = await open_home(tmp_path / "home")
    yield store
    await store.close()


@pytest.fixture
def graph() -> Graph:
    return Graph()
