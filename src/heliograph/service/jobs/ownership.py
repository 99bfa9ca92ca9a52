"""Which process runs the jobs of a workspace: the one that holds a lock on a file, which dies with its holder."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from heliograph.errors import NotFoundError, StoreUnavailable


class Ownership:
    """The right to run the jobs of one workspace, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the right if nobody has it; return whether this process has it now.

        Raises:
            NotFoundError: The workspace was removed.
            StoreUnavailable: The file system refuses locks, or the file cannot be made.
        """
        if self._descriptor is not None:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no workspace {self._path.parent.name!r}; it was removed") from error
        except OSError as error:
            raise StoreUnavailable(f"the lock {str(self._path)!r} cannot be made: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise StoreUnavailable(f"the file system refuses locks ({error.strerror}); use a local disk") from error
        self._descriptor = descriptor
        return True

    def give_up(self) -> None:
        """Let other processes have it; does nothing if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
