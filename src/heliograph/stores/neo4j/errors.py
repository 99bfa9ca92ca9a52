"""What the exceptions of Neo4j's driver mean."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from neo4j.exceptions import (
    AuthError,
    ConfigurationError,
    ConnectionPoolError,
    DatabaseError,
    DriverError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)

from heliograph.errors import SettingsError, StoreAccessDenied, StoreError, StoreUnavailable

_SECURITY = "Neo.ClientError.Security."
_OUT_OF_REACH = (ServiceUnavailable, SessionExpired, ConnectionPoolError, OSError)
# What passes by itself, or what an operator ends, such as a full disk.
_PASSING = (TransientError, DatabaseError)


@contextmanager
def translate_errors(where: str) -> Generator[None]:
    """Turn the driver's exceptions into `StoreError`s that name the place; a bad address is a `SettingsError`."""
    try:
        yield
    except ConfigurationError as error:
        raise SettingsError(f"store.graph_url does not suit Neo4j at {where!r}: {error}") from error
    except _OUT_OF_REACH as error:
        reason = str(error) or "no answer in time"
        raise StoreUnavailable(f"Neo4j at {where!r} is out of reach: {reason}; check store.graph_url") from error
    except _PASSING as error:
        raise StoreUnavailable(f"Neo4j at {where!r} cannot serve now: {error.message} ({error.code})") from error
    except Neo4jError as error:
        if isinstance(error, AuthError) or str(error.code).startswith(_SECURITY):
            raise StoreAccessDenied(
                f"Neo4j at {where!r} refuses: {error.message}; check the user and password in store.graph_url"
            ) from error
        raise StoreError(f"Neo4j at {where!r} refuses: {error.message} ({error.code})") from error
    except DriverError as error:
        raise StoreError(f"Neo4j at {where!r} failed: {error}") from error
