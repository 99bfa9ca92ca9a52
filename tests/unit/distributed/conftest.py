from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest

from tests.memory_store import MemoryStore

from .world import HereLauncher


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def launcher() -> HereLauncher:
    return HereLauncher()


@pytest.fixture
async def stack() -> AsyncGenerator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "heliograph.distributed")
