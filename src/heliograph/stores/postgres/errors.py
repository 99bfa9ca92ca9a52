"""What psycopg's exceptions mean, translated here and nowhere else.

A message names the server by its label, which holds no password. Text of the server is added; text about the address
itself is not, since it may quote the address.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from heliograph.errors import SchemaMismatch, StoreAccessDenied, StoreError, StoreUnavailable
from heliograph.stores.postgres.driver import PoolClosed, PoolTimeout, psycopg

_ERRORS = psycopg.errors

# The first that fits counts, so the special stand before the general.
_UNAVAILABLE: tuple[tuple[type[Exception], str], ...] = (
    (PoolClosed, "it is closed; open it again"),
    (PoolTimeout, "no connection was to be had in time; check that the server runs and takes more connections"),
    (_ERRORS.InvalidCatalogName, "there is no such database; make it (createdb), or check the URL in the settings"),
    (_ERRORS.LockNotAvailable, "another process has been writing for too long; raise store.write_timeout_seconds"),
    (_ERRORS.DeadlockDetected, "two processes waited for each other; try again, nothing was changed"),
    (_ERRORS.SerializationFailure, "other processes changed the same rows; try again, nothing was changed"),
    (_ERRORS.QueryCanceled, "the server ended the statement; try again, or raise its statement_timeout"),
    (_ERRORS.DiskFull, "the server's disk is full; free some space and try again, nothing was changed"),
    (_ERRORS.InsufficientResources, "the server lacks memory, disk or connections; see its log"),
    (_ERRORS.ReadOnlySqlTransaction, "the server takes no writes; connect to the primary"),
    (_ERRORS.InsufficientPrivilege, "the user lacks a right; grant it (docs/stores.md says which)"),
    (_ERRORS.DataCorrupted, "its files are damaged; restore them from a backup"),
    (_ERRORS.IndexCorrupted, "an index is damaged; run 'heliograph check --repair', or REINDEX"),
    (_ERRORS.OperatorIntervention, "the server is shutting down or starting up; try again"),
    (psycopg.OperationalError, "it is out of reach; check that the server runs and that the URL leads to it"),
    (psycopg.InterfaceError, "the connection is closed; open the store again"),
)
_DENIED = (_ERRORS.InvalidPassword, _ERRORS.InvalidAuthorizationSpecification)
# While a connection is made the driver knows no codes of errors, only what the server says, if it says it in English.
_REFUSALS = re.compile(r'authentication failed|role ".*" does not exist|no pg_hba\.conf entry|no password supplied')
_MISMATCH: tuple[tuple[type[Exception], str], ...] = (
    (_ERRORS.UndefinedTable, "a table is missing; it belongs to another program, or was changed by hand"),
    (_ERRORS.UndefinedColumn, "a column is missing; it belongs to another program, or was changed by hand"),
    (_ERRORS.UndefinedObject, "the extension 'vector' (pgvector) is missing; install it and CREATE EXTENSION vector"),
    (_ERRORS.UndefinedFile, "the extension 'vector' (pgvector) is not installed on the server; install it"),
)


@contextmanager
def translate_errors(label: str) -> Generator[None]:
    """Turn what psycopg raises about the server called `label` into `StoreError`s."""
    try:
        yield
    except (psycopg.Error, PoolClosed, PoolTimeout) as error:
        said = " ".join(str(error).split())
        if _is_refused(error):
            raise StoreAccessDenied(
                f"the store {label!r} refuses the user or the password; check the URL in the settings ({said:.500})"
            ) from error
        for kind, meaning in _UNAVAILABLE:
            if isinstance(error, kind):
                raise StoreUnavailable(f"the store {label!r} failed: {meaning} ({said:.500})") from error
        for kind, meaning in _MISMATCH:
            if isinstance(error, kind):
                raise SchemaMismatch(f"the store {label!r} cannot be used: {meaning} ({said:.500})") from error
        raise StoreError(f"the store {label!r} failed unexpectedly, please report this: {said:.500}") from error


def _is_refused(error: Exception) -> bool:
    if isinstance(error, _DENIED):
        return True
    is_coded = isinstance(error, psycopg.Error) and error.sqlstate is not None
    return isinstance(error, psycopg.OperationalError) and not is_coded and bool(_REFUSALS.search(str(error)))


def is_lost_connection(error: Exception) -> bool:
    """Whether the connection itself is gone, as after a restart of the server; the same call may succeed on another."""
    if isinstance(error, PoolTimeout | _ERRORS.QueryCanceled | _ERRORS.InsufficientResources):
        return False
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
