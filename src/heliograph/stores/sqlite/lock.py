"""Advisory file locks between processes; the operating system drops them when their holder dies."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from heliograph.errors import StoreUnavailable

_POLL_SECONDS = 0.05
_HOLDER_LENGTH = 40


@contextmanager
def try_file_lock(path: Path) -> Generator[bool]:
    """Hold the lock if it is free now; yields whether it is held."""
    descriptor = _open(path)
    try:
        yield _try_lock(descriptor)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def file_lock(path: Path, timeout_seconds: float, purpose: str) -> AsyncGenerator[None]:
    """Hold the lock, waiting for it without blocking the event loop.

    Raises:
        StoreUnavailable: Somebody else still holds it after `timeout_seconds`; names the holder.
    """
    descriptor = _open(path)
    try:
        deadline = time.monotonic() + timeout_seconds
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, _HOLDER_LENGTH, 0).decode("utf-8", "replace").strip() or "another process"
                raise StoreUnavailable(
                    f"{holder} has been {purpose} {str(path.parent)!r} for more than {timeout_seconds:g} s; "
                    "wait for it to finish, or raise store.write_timeout_seconds"
                )
            await asyncio.sleep(_POLL_SECONDS)
        # Padded, so that no longer text of an earlier holder shows behind it: truncating costs more than all the rest.
        os.pwrite(descriptor, f"process {os.getpid()}".ljust(_HOLDER_LENGTH).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreUnavailable(
            f"the lock file {str(path)!r} cannot be opened ({error.strerror}); check that the folder may be written"
        ) from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise StoreUnavailable(f"the file system refuses locks ({error.strerror}); use a local disk") from error
    return True
