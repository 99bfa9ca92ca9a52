"""The store is killed at arbitrary instants of writing; what it acknowledged is there, and all roles agree."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from heliograph.ids import name_to_entity_id as entity
from heliograph.stores.changeset import Collection
from heliograph.testing.examples import unit_vector

from .conftest import OpenStore

WRITER = """
import asyncio, sys
from pathlib import Path
from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.sqlite.store import SqliteStore
from heliograph.testing.examples import DIMENSION, example_changeset

async def main(folder, start):
    settings = StoreSettings(data_dir=Path(folder), durability="normal")
    store = await SqliteStore.open(settings, EmbeddingInfo("example", DIMENSION, 512))
    for number in range(start, start + 10_000):
        await store.apply(example_changeset(f"{number}.md", [f"E{number}"], text=f"word{number} " * 50))
        print(number, flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.slow
async def test_killed_writer_loses_nothing_acknowledged(open_store: OpenStore, tmp_path: Path) -> None:
    count = 0
    for written in (1, 3, 7, 20):
        acknowledged = _write_until_killed(tmp_path, count, written)
        store = await open_store()
        stats = await store.get_stats()
        assert stats.chunks > max(acknowledged)
        assert stats.chunks == stats.entities == stats.data_version
        for number in range(count, stats.chunks):
            (hit,) = await store.vectors.search(Collection.ENTITIES, unit_vector(entity(f"E{number}")), 1, 0.9)
            assert hit.id == entity(f"E{number}")
            assert len(await store.text.search(Collection.CHUNKS, [f"word{number}"], 5)) == 1
        count = stats.chunks
        await store.close()


def _write_until_killed(folder: Path, start: int, documents: int) -> list[int]:
    command = [sys.executable, "-c", WRITER, str(folder), str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(documents)]
        process.send_signal(signal.SIGKILL)
        return acknowledged + [int(line) for line in process.stdout.read().splitlines() if line]
