"""What changes in a folder: signals from the system, or a look now and then, and comparisons of what is there.

A signal only says that something changed; what did is found by comparing two snapshots. So nothing depends on how a
system reports a move or an editor saves a file, and without the package `watchfiles` polling gives the same result.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heliograph.documents.files import FileFilter, find_files
from heliograph.documents.optional import import_package
from heliograph.errors import IngestError, MissingDependencyError

__all__ = ["Snapshot", "signals", "snapshot"]

# What `watchfiles` raises of a name that is no text, there or new (alone or in a group), and where the system's limit
# of watched folders is reached.
_NO_REPORTS = (ExceptionGroup, RuntimeError, UnicodeError, OSError)

_log = logging.getLogger(__name__)


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
            `watchfiles` is installed and as long as it can report.
        poll_seconds: The interval.

    Raises:
        MissingDependencyError: `system` is asked for and `watchfiles` is not installed.
        IngestError: `system` is asked for and cannot report of this folder; `auto` then goes on by polling.
    """
    if watch_by != "polling":
        try:
            watchfiles = import_package("watchfiles", "watchfiles", "watch")
            async for _ in watchfiles.awatch(folder, debounce=400, step=50, ignore_permission_denied=True):
                yield
        except MissingDependencyError:
            if watch_by == "system":
                raise
        except _NO_REPORTS as error:
            reason = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            if watch_by == "system":
                raise IngestError(
                    f"the system cannot report what changes in {str(folder)!r} ({reason}); rename what is named there, "
                    "or set documents.watch_by to 'auto' or 'polling'"
                ) from error
            _log.warning("what changes in %r is looked for every %g s: %s", str(folder), poll_seconds, reason)
            # What it could not report.
            yield
    while True:
        await asyncio.sleep(poll_seconds)
        yield
