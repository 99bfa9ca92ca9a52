"""A process of its own that moves a workspace; prints what it has done so far.

python migrator.py FROM_URL FROM_FOLDER TO_URL TO_FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from heliograph.maintenance.migration import migrate_workspace
from heliograph.settings import StoreSettings


def _say(kind: str, count: int) -> None:
    print(f"{kind} {count}", flush=True)


async def _move(source: str, source_dir: str, target: str, target_dir: str) -> None:
    here, there = (
        StoreSettings(url=url, data_dir=Path(folder), pool_size=2, write_timeout_seconds=60)
        for url, folder in ((source, source_dir), (target, target_dir))
    )
    report = await migrate_workspace(here, there, _say)
    _say("copied", report.copied)


if __name__ == "__main__":
    asyncio.run(_move(*sys.argv[1:5]))
