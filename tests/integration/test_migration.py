"""From the embedded store to a server and back, killed on the way: the same workspace comes out."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from heliograph.settings import StoreSettings
from heliograph.stores.registry import open_store

from ..contract.congruence import World, answer, make_questions, see
from ..servers.postgres import PostgresServer
from ..unit.maintenance.migration.conftest import INFO, fill

MIGRATOR = Path(__file__).parent / "migrator.py"


async def _move(source: StoreSettings, target: StoreSettings, killed_at: str | None = None) -> int:
    """Move in a process of its own, killed as soon as it says so; return what it copied if it got to its end."""
    places = [str(part) for settings in (source, target) for part in (settings.url, settings.data_dir)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(MIGRATOR), *places), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    copied = 0
    async for line in process.stdout:
        kind, _, count = line.decode().strip().rpartition(" ")
        if kind == killed_at:
            process.kill()
        if kind == "copied":
            copied = int(count)
    code = await process.wait()
    assert code == 0 or killed_at is not None
    return copied


async def _expect_alike(one: StoreSettings, other: StoreSettings) -> None:
    worlds = [World(await open_store(settings, INFO)) for settings in (one, other)]
    for question in make_questions(20, seed=5):
        left, right = [await answer(world, question) for world in worlds]
        assert left == right, question
    assert await see(worlds[0]) == await see(worlds[1])
    for world in worlds:
        await world.store.close()


async def _expect_there_and_back(folder: Path, server: StoreSettings) -> None:
    first, back = (StoreSettings(data_dir=folder / name, durability="normal") for name in ("first", "back"))
    await fill(first, 80)
    for mark in ("documents", "name rules", "comparing chunks"):
        await _move(first, server, mark)
    await _move(first, server)
    await _expect_alike(first, server)
    await _move(server, back, "entity evidence")
    assert await _move(server, back) > 0
    await _expect_alike(first, back)
    assert await _move(server, back) == 0


@pytest.mark.slow
async def test_workspace_goes_to_postgres_and_back(tmp_path: Path, postgres_server: PostgresServer) -> None:
    server = StoreSettings(url=postgres_server.make_database(), data_dir=tmp_path / "unused", pool_size=2)
    await _expect_there_and_back(tmp_path, server)
