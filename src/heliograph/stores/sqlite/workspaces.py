"""The workspaces in a data folder: each is a folder with a database file in it."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress

from heliograph.errors import StoreUnavailable
from heliograph.settings import StoreSettings

# Asking for an identity costs nothing.
IDENTITY_SECONDS = 0.0
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


def workspace_identity(settings: StoreSettings) -> tuple[int, int] | None:
    """Return which file the workspace is now: another one if it was removed and made again, None if it is not there."""
    try:
        status = (settings.data_dir / settings.workspace / _FILE).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def drop_workspace(settings: StoreSettings) -> None:
    """Remove the workspace that the settings name with everything in it; nothing in this process may have it open.

    Its folder is renamed first, so that what is left of an interrupted removal is no workspace any more, and whoever
    has it open in another process cannot commit to it (`Database.write`).

    Raises:
        StoreUnavailable: It cannot be removed.
    """
    folder = settings.data_dir / settings.workspace
    doomed = settings.data_dir / f".removed-{settings.workspace}-{secrets.token_hex(8)}"
    try:
        for left in settings.data_dir.glob(f".removed-{settings.workspace}-*"):
            # Perhaps another process is at it now.
            shutil.rmtree(left, ignore_errors=True)
        # Of two that remove it at once, one finds nothing any more.
        with suppress(FileNotFoundError):
            folder.rename(doomed)
            shutil.rmtree(doomed)
    except OSError as error:
        raise StoreUnavailable(f"the workspace {settings.workspace!r} cannot be removed: {error}") from error
