"""What changes in a folder: signals from the system, or a look now and then, and comparisons of what is there.

A signal only says that something changed; what did is found by comparing two snapshots. So nothing depends on how a
system reports a move or an editor saves a file, and without the package `watchfiles` polling gives the same result.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heliograph.documents.files import FileFilter, find_files
from heliograph.documents.optional import import_package
from heliograph.errors import MissingDependencyError

__all__ = ["Snapshot", "signals", "snapshot"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a folder.

    Attributes:
        files: Path to what tells one state of a file from another.
    """

    files: Mapping[str, tuple[int, int, int]]

    def changed_since(self, before: Snapshot) -> list[str]:
        """Return the files that are new or different."""
        return [path for path, state in self.files.items() if before.files.get(path) != state]

    def gone_since(self, before: Snapshot) -> list[str]:
        """Return the files that are no longer there."""
        return [path for path in before.files if path not in self.files]


def snapshot(folder: str | os.PathLike[str], files: FileFilter) -> Snapshot:
    """Return what a folder holds now; blocks.

    Raises:
        IngestError: The folder does not exist.
    """
    states: dict[str, tuple[int, int, int]] = {}
    for path in find_files([folder], files):
        try:
            status = path.stat()
        except OSError:
            # Gone since it was listed.
            continue
        states[str(path)] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return Snapshot(states)


async def signals(
    folder: Path, watch_by: Literal["auto", "system", "polling"], poll_seconds: float
) -> AsyncGenerator[None]:
    """Yield whenever something in a folder may have changed, from the first `anext` on.

    Args:
        folder: The folder.
        watch_by: `system` uses what the system reports, `polling` yields at intervals; `auto` takes the first if
            `watchfiles` is installed.
        poll_seconds: The interval.

    Raises:
        MissingDependencyError: `system` is asked for and `watchfiles` is not installed.
    """
    watchfiles = None
    if watch_by != "polling":
        try:
            watchfiles = import_package("watchfiles", "watchfiles", "watch")
        except MissingDependencyError:
            if watch_by == "system":
                raise
    if watchfiles is None:
        while True:
            await asyncio.sleep(poll_seconds)
            yield
    async for _ in watchfiles.awatch(folder, debounce=400, step=50, ignore_permission_denied=True):
        yield
