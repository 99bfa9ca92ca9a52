"""The workspaces in a data folder: each is a folder with a database file in it."""

from __future__ import annotations

import shutil
from pathlib import Path

from heliograph.errors import StoreUnavailable
from heliograph.settings import StoreSettings

__all__ = ["drop_workspace", "find_workspaces"]

_FILE = "heliograph.db"


def find_workspaces(settings: StoreSettings) -> list[str]:
    """Return the names of the workspaces in the data folder, sorted; none if there is no such folder.

    Raises:
        StoreUnavailable: The folder cannot be read.
    """
    try:
        return sorted(entry.name for entry in settings.data_dir.iterdir() if (entry / _FILE).is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreUnavailable(f"the data folder {str(settings.data_dir)!r} cannot be read: {error}") from error


def drop_workspace(settings: StoreSettings) -> None:
    """Remove the workspace that the settings name with everything in it; nothing may have it open.

    Its folder is renamed first, so that what is left of an interrupted removal is no workspace any more.

    Raises:
        StoreUnavailable: It cannot be removed.
    """
    folder = settings.data_dir / settings.workspace
    doomed = settings.data_dir / f".removed-{settings.workspace}"
    try:
        _remove(doomed)
        if folder.exists():
            folder.rename(doomed)
        _remove(doomed)
    except OSError as error:
        raise StoreUnavailable(f"the workspace {settings.workspace!r} cannot be removed: {error}") from error


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
