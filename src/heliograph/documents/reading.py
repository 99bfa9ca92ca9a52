"""From a path to bytes: only regular files, only as long as allowed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from heliograph.documents.base import RawDocument
from heliograph.errors import IngestError

__all__ = ["read_file"]


def read_file(path: str | os.PathLike[str], max_bytes: int, name: str = "") -> RawDocument:
    """Return a file's bytes; blocks.

    Args:
        path: The file; links are followed.
        max_bytes: A longer file is refused unread.
        name: What the document is called, here and in messages; empty takes the path.

    Raises:
        IngestError: It is missing, unreadable, no regular file, or too long.
    """
    name = name or os.fspath(path)
    try:
        status = Path(path).stat()
        # A pipe or a device would never end.
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise IngestError(f"{name!r} is {kind}; give files, or folders that hold them")
        with Path(path).open("rb") as file:
            # One byte more, so that a file that grows meanwhile is noticed.
            data = file.read(max_bytes + 1) if status.st_size <= max_bytes else b""
    except OSError as error:
        raise IngestError(f"{name!r} cannot be read ({error.strerror}); check the path and its permissions") from error
    except ValueError as error:
        raise IngestError(f"{name!r} is not a path ({error})") from error
    if status.st_size > max_bytes or len(data) > max_bytes:
        size = max(status.st_size, len(data))
        raise IngestError(
            f"{name!r} has {size:,} bytes, more than {max_bytes:,}; split it, or raise documents.max_file_bytes"
        )
    return RawDocument(name, data)
