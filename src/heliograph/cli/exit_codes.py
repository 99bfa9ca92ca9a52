"""Exit codes, one table: what a script may rely on.

0 is success and 1 a command that ran but did not do all that was asked. Typer ends with 2 when the command line itself
cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.errors import (
    CancelledIngestError,
    ClusterUnavailable,
    ConflictError,
    HeliographError,
    InvalidRequestError,
    MissingDependencyError,
    ModelError,
    NotFoundError,
    SettingsError,
    StaleChangesetError,
    StoreError,
)

__all__ = ["EXIT_BROKEN_PIPE", "EXIT_CODES", "EXIT_FAILED", "EXIT_INTERRUPTED", "exit_code"]

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE

EXIT_CODES: Mapping[type[HeliographError], int] = {
    HeliographError: EXIT_FAILED,
    SettingsError: 2,
    InvalidRequestError: 2,
    MissingDependencyError: 2,
    NotFoundError: 3,
    StoreError: 4,
    ModelError: 5,
    ClusterUnavailable: 5,
    ConflictError: 6,
    StaleChangesetError: 4,
    CancelledIngestError: EXIT_INTERRUPTED,
}


def exit_code(error: HeliographError) -> int:
    """Return the code of an error's class, or of the nearest class above it."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)
