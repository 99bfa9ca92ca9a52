"""Checksums of a file's pages: SQLite's own `cksumvfs`, which writes one with every page and verifies it on reading.

Without them a bit flip on disk would silently become a wrong answer. A file has them if eight bytes of every page are
reserved, so a file that was created without is rewritten once. Reading a damaged page raises an `apsw.IOError` with the
code `SQLITE_IOERR_DATA`. The log has checksums of its own.

`cksumvfs` learns from the first page that a file has them, so pages of a new file that do not fit into the cache, and
are written before the first, get none: `write_checksums` adds them in files that are not open yet.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import apsw
import apsw.sqlite_extra
import numpy as np
from numpy.typing import NDArray

from heliograph.errors import MissingDependencyError

VFS = "cksmvfs"

_LOGGER = logging.getLogger(__name__)
RESERVED_BYTES = 8
_RESERVED_AT = 20
_PAGE_SIZE_AT = slice(16, 18)
# A page that another process is writing may be read half.
_LOOKS = 3
_PAGES_AT_ONCE = 512
# When a file is rewritten in place, all its pages are held in memory until the first is written.
_MOST_PROTECTED_BYTES = 256 * 2**20


@cache
def register() -> None:
    """Register the checksum VFS for this process; it leaves files without reserved bytes alone.

    Raises:
        MissingDependencyError: The build of SQLite came without it.
    """
    connection = apsw.Connection(":memory:")
    try:
        apsw.sqlite_extra.load(connection, "cksumvfs")
    except (LookupError, apsw.sqlite_extra.NotAvailable, apsw.Error) as error:
        raise MissingDependencyError("apsw") from error
    finally:
        connection.close()


def has_checksums(path: Path) -> bool:
    """Whether the first page of a file says that its pages have checksums."""
    with _opened(path) as file:
        header = file.xRead(_RESERVED_AT + 1, 0)
    return len(header) > _RESERVED_AT and header[_RESERVED_AT] == RESERVED_BYTES


def is_broken_page(error: Exception) -> bool:
    """Whether SQLite failed because a page is damaged."""
    code = getattr(error, "extendedresult", None)
    return isinstance(error, apsw.IOError) and code == apsw.SQLITE_IOERR_DATA


def protect(connection: apsw.Connection, path: Path) -> None:
    """Add checksums to the pages of a file that has none, if no other process has it open; otherwise do nothing.

    No other process, since one that does not know of the checksums would write pages without. A file of more than
    256 MiB is left as it is: its backup has checksums, so it gets them by being restored.

    Args:
        connection: The only one of this process, outside a transaction; its journal is the log before and after.
        path: Its file.
    """
    if path.stat().st_size > _MOST_PROTECTED_BYTES:
        _LOGGER.info("the pages of %r have no checksums; a backup of it that is restored has them", str(path))
        return
    connection.set_busy_timeout(0)
    connection.pragma("cache_spill", False)
    try:
        connection.pragma("journal_mode", "delete")
        connection.reserve_bytes(reserve=RESERVED_BYTES)
        connection.execute("VACUUM")
    except (apsw.BusyError, apsw.FullError) as error:
        # Otherwise the next VACUUM would do it, whose first pages may get no checksums.
        connection.reserve_bytes(reserve=0)
        reason = "there is no room for a second copy" if isinstance(error, apsw.FullError) else "others have it open"
        _LOGGER.warning("the pages of %r get their checksums when it is opened another time: %s", str(path), reason)
    finally:
        connection.pragma("cache_spill", True)


def write_checksums(path: Path) -> None:
    """Write the checksum of every page of a file that has room for them, is not open and has no log; blocks."""
    with path.open("rb+") as file:
        header = file.read(100)
        size = _page_size(header)
        if not size or header[_RESERVED_AT] != RESERVED_BYTES:
            return
        place = 0
        while True:
            file.seek(place)
            block = file.read(size * _PAGES_AT_ONCE)
            pages = np.frombuffer(block[: len(block) // size * size], "<u4").reshape(-1, size // 4).copy()
            if not len(pages):
                return
            pages[:, -2:] = np.column_stack(_sums(pages))
            file.seek(place)
            file.write(pages.tobytes())
            place += pages.nbytes


def damaged_pages(path: Path) -> list[int]:
    """Return the numbers, from 1, of the damaged pages of a file with checksums; blocks.

    Pages in the log that are not yet in the file are not checked.
    """
    found: list[int] = []
    with _opened(path) as file:
        if not (size := _page_size(file.xRead(100, 0))):
            return [1]
        for first in range(0, file.xFileSize() // size, _PAGES_AT_ONCE):
            broken = np.flatnonzero(~_are_whole(_read(file, first, size)))
            for _ in range(_LOOKS - 1):
                if len(broken):
                    broken = broken[~_are_whole(_read(file, first, size)[broken])]
            found += (broken + first + 1).tolist()
    return found


@contextmanager
def _opened(path: Path) -> Generator[apsw.VFSFile]:
    """Open a file that a connection of this process may have open too.

    Through SQLite, since closing any other descriptor of a file releases all locks of the process on it.
    """
    file = apsw.VFSFile("unix", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        yield file
    finally:
        file.xClose()


def _page_size(header: bytes) -> int:
    """Return the size of the pages of a file, in bytes; 0 if its first bytes do not say."""
    size = int.from_bytes(header[_PAGE_SIZE_AT], "big")
    size = 65_536 if size == 1 else size
    return 0 if size < 512 or size & (size - 1) else size


def _read(file: apsw.VFSFile, first: int, size: int) -> NDArray[np.uint32]:
    """Return pages from a number on, counted from 0, as words, `(n, size / 4)`; a truncated page is left out."""
    count = min(_PAGES_AT_ONCE, file.xFileSize() // size - first)
    block = file.xRead(size * count, size * first)
    return np.frombuffer(block[: len(block) // size * size], "<u4").reshape(-1, size // 4)


def _are_whole(pages: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return which pages match their checksum."""
    odd, even = _sums(pages)
    return (odd == pages[:, -2]) & (even == pages[:, -1])


def _sums(pages: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return two sums over pairs of words of each page, except the last pair, as `cksumvfs` computes them."""
    columns = np.ascontiguousarray(pages.T)
    odd = even = np.zeros(len(pages), np.uint32)
    for place in range(0, len(columns) - 2, 2):
        odd = odd + columns[place] + even
        even = even + columns[place + 1] + odd
    return odd, even
