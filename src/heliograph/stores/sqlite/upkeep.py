"""Keeping the embedded store's file well: workspaces of a folder, giving space back, emptying, copying, restoring."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw

from heliograph.errors import ConflictError, InvalidRequestError, StoreUnavailable
from heliograph.settings import StoreSettings
from heliograph.stores.changeset import Collection
from heliograph.stores.sqlite.database import (
    check_path,
    data_version,
    fetch,
    find_companions,
    translate_errors,
)
from heliograph.stores.sqlite.page_checks import RESERVED_BYTES, write_checksums
from heliograph.stores.sqlite.schema import APPLICATION_ID, LATEST_VERSION
from heliograph.stores.sqlite.search import SEARCHED, log_changes
from heliograph.stores.sqlite.side_tables import note_reset

# The workspaces in a data folder: each is a folder with a database file in it.

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


FILE_NAME = "heliograph.db"
_KEPT_TABLES = ("meta", "outbox_reader")
_FULL_TEXT = ("chunks_terms", "entities_terms", "names_terms")


def vacuum(connection: apsw.Connection) -> None:
    """Write the file anew without what was deleted; takes room for a second copy while it runs.

    Args:
        connection: The writer's, outside a transaction.
    """
    for table in _FULL_TEXT:
        # Terms of deleted rows stay in the index until its parts are merged into one.
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    # The second copy, which may be large, goes to a file and not into memory.
    connection.pragma("temp_store", "file")
    try:
        connection.execute("VACUUM")
    finally:
        connection.pragma("temp_store", "memory")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def clear(connection: apsw.Connection) -> int:
    """Within a writing transaction, delete all but what says how the store was made; return the new data version."""
    version = data_version(connection) + 1
    vectors = {item.value: f"{item.value}_vector" for item in Collection}
    texts = {f"{item.value}_terms": f"{item.value}_words" for item in SEARCHED}
    for name, table in (vectors | texts).items():
        # Indexes in memory, of whatever process, take these out before anything new comes in under the same keys.
        log_changes(connection, name, version, (key for (key,) in fetch(connection, f"SELECT key FROM {table}")))
    for table in _FULL_TEXT:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
    for table in _plain_tables(connection):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
    note_reset(connection, version)
    return version


def _plain_tables(connection: apsw.Connection) -> list[str]:
    """Return the tables with rows of their own: not those of the full-text index, nor what is kept."""
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    names = [name for (name,) in fetch(connection, query)]
    kept = (*_KEPT_TABLES, "vector_change", "accelerator")
    return [name for name in names if name not in kept and "_terms_" not in name and not name.startswith("sqlite_")]


def write_backup(connect: Callable[[], apsw.Connection], target: Path) -> None:
    """Copy the store that `connect` opens, as of one moment, into the new file `target`; blocks.

    Raises:
        ConflictError: There is such a file already.
        StoreUnavailable: The copy cannot be written, and nothing is left of it; or its path is none for SQLite.
    """
    check_path(target)
    if target.exists():
        raise ConflictError(f"the file {str(target)!r} is there already; choose another name for the backup")
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        # An empty file is written into, and keeps to whom it belongs.
        part.touch(mode=0o600)
        with translate_errors(target):
            connection = connect()
            try:
                # The copy has room for checksums though the file may have none.
                connection.reserve_bytes(reserve=RESERVED_BYTES)
                connection.execute("VACUUM INTO ?", (str(part),))
            finally:
                connection.close()
        write_checksums(part)
        _make_durable(part)
        os.link(part, target)
    except FileExistsError:
        raise ConflictError(f"the file {str(target)!r} was made meanwhile; choose another name") from None
    except OSError as error:
        raise StoreUnavailable(f"the backup {str(target)!r} cannot be written ({error.strerror})") from error
    finally:
        part.unlink(missing_ok=True)


def restore_file(backup: Path, folder: Path) -> None:
    """Make `folder` a workspace with the contents of a backup; blocks.

    Raises:
        InvalidRequestError: The file is not a whole backup of this version or an earlier one.
        ConflictError: There is a workspace in the folder already.
        StoreUnavailable: The folder cannot be written, or a path is none for SQLite.
    """
    check_path(backup)
    check_path(folder)
    _check_backup(backup)
    target = folder / FILE_NAME
    if target.exists():
        raise ConflictError(
            f"there is a workspace in {str(folder)!r} already; restore into another workspace, or clear that one first"
        )
    part = folder / f".{FILE_NAME}.{secrets.token_hex(4)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy(backup, part)
        # What is left of a database that is gone says nothing of this one; its log would even be read into it.
        for left in find_companions(target):
            left.unlink(missing_ok=True)
        os.link(part, target)
    except FileExistsError:
        raise ConflictError(f"a workspace was made in {str(folder)!r} meanwhile; choose another") from None
    except OSError as error:
        raise StoreUnavailable(f"the workspace {str(folder)!r} cannot be written ({error.strerror})") from error
    finally:
        part.unlink(missing_ok=True)


def _copy(backup: Path, target: Path) -> None:
    with backup.open("rb") as source, target.open("xb") as copy:
        while block := source.read(1 << 20):
            copy.write(block)
    _make_durable(target)


def _check_backup(path: Path) -> None:
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            application, version = (int(connection.pragma(name)) for name in ("application_id", "user_version"))
            verdict = connection.pragma("quick_check")
        finally:
            connection.close()
    except apsw.Error as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read as a backup ({error}); check the path") from error
    if application != APPLICATION_ID or verdict != "ok":
        raise InvalidRequestError(f"{str(path)!r} is not a whole backup of a workspace; use another one")
    if version > LATEST_VERSION:
        raise InvalidRequestError(
            f"the backup {str(path)!r} was made by a newer version (schema {version}, this one knows "
            f"{LATEST_VERSION}); upgrade Heliograph"
        )


def _make_durable(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
