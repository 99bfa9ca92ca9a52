"""Errors of model services by status, body and transport, as ours; and checks of addresses before they are used."""

from __future__ import annotations

import json
import math
import re
import ssl
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from email.utils import mktime_tz, parsedate_tz
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
from pydantic import SecretStr

from heliograph.errors import (
    BadModelReply,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    SettingsError,
)

# Checking addresses and keys of model services before anything is sent, and redacting addresses for messages.


def checked_address(url: str) -> str:
    """Return an address that can be called, or raise a `SettingsError`, which does not repeat it."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not url.isprintable() or " " in url:
        raise SettingsError("`base_url` is not an address; write it like 'http://localhost:8080/v1'")
    return url


def shown_address(url: str) -> str:
    """Return an address without the user name, password and query that may be in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def checked_key(api_key: SecretStr) -> str:
    """Return a key as it is sent, empty if there is none, or raise a `SettingsError`, which does not repeat it."""
    key = api_key.get_secret_value().strip()
    if not (key.isascii() and key.isprintable()):
        raise SettingsError("`api_key` holds characters that no key has; copy it again")
    return key


_MAX_DETAIL_CHARACTERS = 300
_MIN_SECRET_CHARACTERS = 8
_SECRETS = re.compile(r"\b(?:sk|pk|rk|hf|gsk|xai)[-_][\w*.\-]{6,}|(?<=bearer )\S+", re.IGNORECASE)

_CONTEXT_CODES = {"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"}
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance"}
RATE_CODES = {"429", "rate_limit_exceeded", "rate_limit_error", "too_many_requests"}
_FILTER_CODES = {"content_filter", "content_policy_violation", "data_inspection_failed"}

# The messages of services that send no error code for it.
_CONTEXT_WORDS = re.compile(
    r"maximum context length"  # OpenAI, vLLM, DeepSeek, Mistral
    r"|longer than the maximum model length|too long to fit into the model"  # vLLM
    r"|max_tokens must be at least 1, got -\d"  # vLLM, when the prompt alone fills the window
    r"|exceeds? the available context size|context size has been exceeded"  # llama.cpp
    r"|too large to process|larger than the max context size|exceeds? n_ctx"  # llama.cpp embeddings
    r"|exceed context window"  # llama-cpp-python
    r"|exceed(?:s|ed)? (?:the |max(?:imum)? )?context length"  # Ollama
    r"|prompt is too long|request too large|token count .{0,40}exceeds the maximum"  # hosted services
    r"|must have less than \d+ tokens",  # text-embeddings-inference
    re.IGNORECASE,
)

_ADVICE = {
    401: "it refuses the key; check `api_key`",
    402: "the account has no credit left; top it up or use another key",
    403: "the key may not use this model or service; check `api_key` and `model`",
    404: "check `model` and `base_url` (which usually ends in /v1)",
    405: "check `base_url` (which usually ends in /v1)",
}


def error_from_status(
    status: int, body: object, detail: str, service: str, retry_after_seconds: float | None = None
) -> ModelError:
    """Return the error for a refused request.

    Args:
        status: The HTTP status, 400 or more.
        body: Its body, decoded if it was JSON.
        detail: The body in one line without keys, from `clean_detail`.
        service: The name of the service.
        retry_after_seconds: How long the service asks to wait, if it said so.
    """
    codes = error_codes(body)
    said = f"status {status}: {detail}" if detail else f"status {status}"
    if status not in {401, 403, 404} and (status == 413 or codes & _CONTEXT_CODES or _CONTEXT_WORDS.search(detail)):
        return ContextTooLong(
            f"{service} cannot read a request this long ({said}); use smaller chunks or budgets, or a larger window"
        )
    if codes & _FILTER_CODES:
        return BadModelReply(f"{service} refuses this text ({said}); change the text or the model")
    if codes & _QUOTA_CODES:
        return ModelUnavailable(f"{service} failed ({said}); {_ADVICE[402]}")
    if status == 401:
        # Services repeat parts of the key here.
        return ModelUnavailable(f"{service} failed (status 401); {_ADVICE[401]}")
    if status == 408:
        return ModelTimeout(f"{service} did not reply in time ({said}); try again")
    if status == 429 or (status in {503, 529} and retry_after_seconds is not None):
        return RateLimited(
            f"{service} takes no more calls for now ({said}); wait, or lower `max_concurrency`", retry_after_seconds
        )
    if status in {409, 425} or (status >= 500 and status != 501):
        return ModelUnavailable(f"{service} failed ({said}); try again, and check its log", is_transient=True)
    advice = _ADVICE.get(status, "check `model` and the other settings of this model")
    return ModelUnavailable(f"{service} failed ({said}); {advice}")


def error_fields(body: object) -> Mapping[str, Any]:
    """Return the fields of an error body; most services wrap them in `error`, the openai SDK unwraps them."""
    if not isinstance(body, Mapping):
        return {}
    fields = cast("Mapping[str, Any]", body)
    inner = fields.get("error")
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else fields


def error_codes(body: object) -> set[str]:
    """Return the codes and types that an error body names, in lower case."""
    fields = error_fields(body)
    return {str(fields[name]).lower() for name in ("code", "type") if fields.get(name) is not None}


def error_message(body: object) -> str:
    """Return the message of an error body unchanged; empty if it has no known form."""
    if isinstance(body, str):
        return body
    fields = error_fields(body)
    for name in ("message", "error", "detail"):
        if fields.get(name):
            return str(fields[name])
    return ""


def clean_detail(text: str, secret: str = "") -> str:
    """Return a service's message in one short line without keys; `secret` is the key that was sent."""
    if len(secret) >= _MIN_SECRET_CHARACTERS:
        text = text.replace(secret, "[key]")
    text = " ".join(_SECRETS.sub("[key]", text).split())
    return text if len(text) <= _MAX_DETAIL_CHARACTERS else text[: _MAX_DETAIL_CHARACTERS - 1] + "…"


def find_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how long a response asks to wait: milliseconds, seconds or an HTTP date (RFC 9110, 10.2.3)."""
    for name, units_per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / units_per_second
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    try:
        date = parsedate_tz(headers.get("retry-after", ""))
        return None if date is None else max(mktime_tz(date) - time.time(), 0.0)
    except (ValueError, OverflowError, IndexError):
        return None


def connection_error(error: Exception, reason: str, service: str) -> ModelUnavailable:
    """Return the error for a failed connection to a service."""
    if is_certificate_error(error):
        return ModelUnavailable(
            f"{service} has a TLS certificate that cannot be verified: {reason}; install its authority's certificate"
        )
    return ModelUnavailable(
        f"{service} cannot be reached: {reason}; check that it runs, and `base_url`", is_transient=True
    )


def is_certificate_error(error: BaseException) -> bool:
    """Return whether an exception was caused by a TLS certificate that cannot be verified."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


# Translating httpx's exceptions, and error responses received through it.
#
# For providers that speak plain HTTP without an SDK. `calls.service_errors` knows how services word their failures;
# here are the exceptions of the client itself. Messages name the service and hold no key.

_CALL_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)


@contextmanager
def translate_httpx_errors(service: str) -> Generator[None]:
    """Translate httpx's exceptions from the block into ours; let all others pass. `service` holds no secret.

    Raises:
        ModelError: The subclass for the failure.
    """
    try:
        yield
    except _CALL_ERRORS as error:
        raise translate_httpx_error(error, service) from error


def translate_httpx_error(error: Exception, service: str) -> ModelError:
    """Return our error for an exception of httpx."""
    reason = clean_detail(str(error) or type(error).__name__)
    # Subclasses first: proxy and protocol errors are transport errors.
    if isinstance(error, httpx.HTTPStatusError):
        return error_from_response(error.response, service)
    if isinstance(error, httpx.TimeoutException):
        return ModelTimeout(f"{service} did not reply in time; try again, or raise `timeout_seconds`")
    if isinstance(error, (httpx.DecodingError, httpx.TooManyRedirects)):
        return BadModelReply(f"{service} sent what is not a valid reply ({reason}); check `base_url`")
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)):
        return ModelUnavailable(f"{service} cannot be called: {reason}; check `base_url` and `api_key`")
    if is_certificate_error(error) or isinstance(error, httpx.TransportError):
        return connection_error(error, reason, service)
    return ModelUnavailable(f"{service} cannot be called: {reason}; check the settings of this model")


def error_from_response(response: httpx.Response, service: str, key: str = "") -> ModelError:
    """Return the error for a response of status 300 or more that was read; does not repeat the key that was sent."""
    if response.status_code < 400:
        return ModelUnavailable(
            f"{service} points elsewhere (status {response.status_code}); set `base_url` to the address it names"
        )
    try:
        body: Any = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        # An HTML page of a proxy says nothing helpful.
        body = "" if "html" in response.headers.get("content-type", "") else response.text
    detail = clean_detail(error_message(body), key)
    return error_from_status(response.status_code, body, detail, service, find_retry_after(response.headers))
