"""What the exceptions of Qdrant's client mean."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from heliograph.errors import StoreAccessDenied, StoreError, StoreUnavailable


@contextmanager
def translate_errors(where: str) -> Generator[None]:
    """Turn the client's exceptions into `StoreError`s that name the place."""
    try:
        yield
    except UnexpectedResponse as error:
        message = f"Qdrant at {where!r} answered {error.status_code} {error.reason_phrase}: {error.content[:300]!r}"
        if error.status_code in (401, 403):
            raise StoreAccessDenied(f"{message}; check the API key in store.vectors_url") from error
        if error.status_code == 404 and b"ollection" in error.content:
            # Removed behind our back, or lost with the server's files; whoever follows makes it anew.
            raise StoreUnavailable(f"{message}; it is made again") from error
        if error.status_code is not None and 400 <= error.status_code < 500 and error.status_code != 429:
            raise StoreError(message) from error
        raise StoreUnavailable(f"{message}; try again") from error
    except (ApiException, QdrantException, OSError, RuntimeError, TimeoutError) as error:
        # Time-outs have no words of their own.
        reason = getattr(error, "source", error)
        raise StoreUnavailable(f"Qdrant at {where!r} is out of reach: {reason!r}; check store.vectors_url") from error
    except ValueError as error:
        raise StoreUnavailable(f"what answers at {where!r} is no Qdrant: {error}; check store.vectors_url") from error
