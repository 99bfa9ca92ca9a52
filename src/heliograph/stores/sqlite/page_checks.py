"""Checksums of a file's pages: SQLite's own `cksumvfs`, which writes one with every page and compares it when read.

Without them a bit that a disk has lost is an answer that nobody knows to be wrong. A file has them if eight bytes of
every page are reserved, so one that was made without is written anew once. What is read in vain is an
`apsw.IOError` with the code `SQLITE_IOERR_DATA`. The log has checksums of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
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
# A page that another process writes meanwhile may be read half.
_LOOKS = 3
_PAGES_AT_ONCE = 512


@cache
def register() -> None:
    """Make the checksums known to SQLite, for this process; files without reserved bytes are not touched by them.

    Raises:
        MissingDependencyError: The build of SQLite came without them.
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
    with path.open("rb") as file:
        header = file.read(_RESERVED_AT + 1)
    return len(header) > _RESERVED_AT and header[_RESERVED_AT] == RESERVED_BYTES


def is_broken_page(error: Exception) -> bool:
    """Whether SQLite failed because a page is not what was written."""
    code = getattr(error, "extendedresult", None)
    return isinstance(error, apsw.IOError) and code == apsw.SQLITE_IOERR_DATA


def protect(connection: apsw.Connection, path: Path) -> None:
    """Give checksums to the pages of a file that has none, if nobody else has it open; else another time.

    Nobody else, since who does not know that there are checksums would write pages without.

    Args:
        connection: The only one of this process, outside a transaction; its journal is the log before and after.
        path: Its file.
    """
    connection.set_busy_timeout(0)
    try:
        connection.pragma("journal_mode", "delete")
        connection.reserve_bytes(reserve=RESERVED_BYTES)
        connection.execute("VACUUM")
    except apsw.BusyError:
        _LOGGER.info("the pages of %r get their checksums when no other process has it open", str(path))
    except apsw.FullError:
        _LOGGER.warning("the pages of %r get no checksums: there is no room for a second copy of it", str(path))


def damaged_pages(path: Path) -> list[int]:
    """Return the numbers, from 1, of those pages of a file with checksums that are not what was written; blocks.

    What stands in the log and not yet in the file is not looked at.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(100)[_PAGE_SIZE_AT], "big")
        size = 65_536 if size == 1 else size
        if size < 512 or size & (size - 1):
            return [1]
        found: list[int] = []
        for first, pages in _read_pages(path, size):
            places = np.flatnonzero(~_are_whole(pages)) + first
            found += [place + 1 for place in places.tolist() if not _is_whole_now(path, place, size)]
    return found


def _read_pages(path: Path, size: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """Yield numbers, from 0, and pages as words, `(n, size / 4)`; a page that is cut off at the end is left out."""
    first = 0
    with path.open("rb") as file:
        while block := file.read(size * _PAGES_AT_ONCE):
            count = len(block) // size
            yield first, np.frombuffer(block[: count * size], "<u4").reshape(count, -1)
            first += count


def _is_whole_now(path: Path, place: int, size: int) -> bool:
    """Whether one of a few more looks at a page finds it whole."""
    with path.open("rb") as file:
        for _ in range(_LOOKS):
            file.seek(place * size)
            if _are_whole(np.frombuffer(file.read(size), "<u4").reshape(1, -1)).all():
                return True
    return False


def _are_whole(pages: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return which pages are what their checksum says: two sums over pairs of words, as `cksumvfs` adds them up."""
    columns = np.ascontiguousarray(pages.T)
    odd = even = np.zeros(len(pages), np.uint32)
    for place in range(0, len(columns) - 2, 2):
        odd = odd + columns[place] + even
        even = even + columns[place + 1] + odd
    return (odd == columns[-2]) & (even == columns[-1])
