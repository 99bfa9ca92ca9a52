"""What httpx raises, and the refusals that come over it, in our words.

For providers that speak plain HTTP without an SDK. `calls.service_errors` knows how services word their failures; here
is what the client itself raises. Messages name the service and hold no key.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx

from heliograph.calls.service_errors import (
    clean_detail,
    error_from_status,
    error_message,
    find_retry_after,
    is_certificate_error,
)
from heliograph.errors import BadModelReply, ModelError, ModelTimeout, ModelUnavailable

_CALL_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)


@contextmanager
def translate_httpx_errors(service: str) -> Generator[None]:
    """Raise httpx's exceptions from the block as ours; let all others pass.

    Args:
        service: Who was called, as a message should name it; must hold no secret.

    Raises:
        ModelError: The subclass that says what happened.
    """
    try:
        yield
    except _CALL_ERRORS as error:
        raise translate_httpx_error(error, service) from error


def translate_httpx_error(error: Exception, service: str) -> ModelError:
    """Return an exception of httpx as ours.

    Args:
        error: What was raised.
        service: Who was called.
    """
    reason = clean_detail(str(error) or type(error).__name__)
    # Subclasses first: a proxy or a protocol that fails is a transport that fails.
    if isinstance(error, httpx.HTTPStatusError):
        return error_from_response(error.response, service)
    if isinstance(error, httpx.TimeoutException):
        return ModelTimeout(f"{service} did not reply in time; try again, or raise `timeout_seconds`")
    if isinstance(error, (httpx.DecodingError, httpx.TooManyRedirects)):
        return BadModelReply(f"{service} sent what is not a valid reply ({reason}); check `base_url`")
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)):
        return ModelUnavailable(f"{service} cannot be called: {reason}; check `base_url` and `api_key`")
    if is_certificate_error(error):
        return ModelUnavailable(
            f"{service} has a TLS certificate that cannot be verified: {reason}; install its authority's certificate"
        )
    if isinstance(error, httpx.TransportError):
        return ModelUnavailable(
            f"{service} cannot be reached: {reason}; check that it runs, and `base_url`", is_transient=True
        )
    return ModelUnavailable(f"{service} cannot be called: {reason}; check the settings of this model")


def error_from_response(response: httpx.Response, service: str, key: str = "") -> ModelError:
    """Return the error that a response of status 300 or more stands for.

    Args:
        response: What came, read.
        service: Who was called.
        key: The key that was sent, so that it is not repeated.
    """
    if response.status_code < 400:
        return ModelUnavailable(
            f"{service} points elsewhere (status {response.status_code}); set `base_url` to the address it names"
        )
    body = _decoded(response)
    detail = clean_detail(error_message(body), key)
    return error_from_status(response.status_code, body, detail, service, find_retry_after(response.headers))


def _decoded(response: httpx.Response) -> Any:
    try:
        return response.json()
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        # A page of a proxy in between says nothing that helps.
        return "" if "html" in response.headers.get("content-type", "") else response.text
