"""What the openai SDK raises, in our words.

The one place where its exceptions, and the ways in which compatible services (OpenAI, vLLM, llama.cpp, Ollama, and
others) word their failures, become `ModelError`s. A message names the service, quotes what it said in brief and tells
what to do; keys never get into it, and a service's error body is not chained to it, since bodies echo keys.
"""

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

import httpx
import openai

from heliograph.errors import (
    BadModelReply,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)

__all__ = ["error_from_body", "translate_openai_error", "translate_openai_errors"]

_MAX_DETAIL_CHARACTERS = 300
_MIN_SECRET_CHARACTERS = 8
_SECRETS = re.compile(r"\b(?:sk|pk|rk|hf|gsk|xai)[-_][\w*.\-]{6,}|(?<=bearer )\S+", re.IGNORECASE)

_CONTEXT_CODES = {"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"}
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance"}
_RATE_CODES = {"429", "rate_limit_exceeded", "rate_limit_error", "too_many_requests"}
_FILTER_CODES = {"content_filter", "content_policy_violation", "data_inspection_failed"}

# Services that send no code say it in words; these are theirs.
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


@contextmanager
def translate_openai_errors(service: str) -> Generator[None]:
    """Raise the SDK's exceptions from the block as ours; let all others pass.

    Args:
        service: Who was called, as a message should name it, for example `chat model 'qwen3' at 'http://...'`; must
            hold no secret.

    Raises:
        ModelError: The subclass that says what happened.
    """
    try:
        yield
    except openai.APIStatusError as error:
        raise translate_openai_error(error, service) from None
    except (openai.OpenAIError, httpx.TransportError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise translate_openai_error(error, service) from error


def translate_openai_error(
    error: openai.OpenAIError | httpx.TransportError | json.JSONDecodeError | UnicodeDecodeError, service: str
) -> ModelError:
    """Return an exception of the SDK as ours, or one of the libraries under it that it lets through.

    Args:
        error: What was raised.
        service: Who was called.
    """
    # Subclasses first: APITimeoutError is an APIConnectionError, and both are APIErrors.
    if isinstance(error, openai.APIStatusError):
        return _from_status_error(error, service)
    if isinstance(error, (openai.APITimeoutError, httpx.TimeoutException)):
        return ModelTimeout(f"{service} did not reply in time; try again, or raise `timeout_seconds`")
    if isinstance(error, (openai.APIConnectionError, httpx.TransportError)):
        return _from_connection_error(error, service)
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return BadModelReply(f"{service} withheld its reply (content filter); change the text or the model")
    if isinstance(error, openai.LengthFinishReasonError):
        return BadModelReply(f"{service} was cut off before its reply was complete; raise `max_output_tokens`")
    if isinstance(error, (openai.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError)):
        return BadModelReply(
            f"{service} sent what is not a valid reply ({type(error).__name__}); check that `base_url` is the address "
            "of an OpenAI-compatible service (it usually ends in /v1)"
        )
    if isinstance(error, openai.APIError):
        return error_from_body(error.body or error.message, service)
    return ModelUnavailable(f"{service} cannot be called: {_clean(str(error))}; check the settings of this model")


def error_from_body(body: object, service: str) -> ModelError:
    """Return the error that an error object stands for which came in place of a reply, under status 200.

    Args:
        body: The error object, or its text.
        service: Who was called.
    """
    code = _fields(body).get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    if _codes(body) & _RATE_CODES:
        status = 429
    return _from_status(status, body, _clean(_message(body)), service, retry_after_seconds=None)


def _from_connection_error(error: Exception, service: str) -> ModelError:
    # The SDK's own message is always the same; the reason is what it was raised from.
    cause = error.__cause__ or error
    reason = _clean(str(cause) or type(cause).__name__)
    if _is_certificate_error(error):
        return ModelUnavailable(
            f"{service} has a TLS certificate that cannot be verified: {reason}; install its authority's certificate"
        )
    return ModelUnavailable(
        f"{service} cannot be reached: {reason}; check that it runs, and `base_url`", is_transient=True
    )


def _is_certificate_error(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _from_status_error(error: openai.APIStatusError, service: str) -> ModelError:
    headers = error.response.headers
    detail = _clean(_message(error.body), _key(error.response.request.headers))
    return _from_status(error.status_code, error.body, detail, service, _retry_after_seconds(headers))


def _from_status(status: int, body: object, detail: str, service: str, retry_after_seconds: float | None) -> ModelError:
    codes = _codes(body)
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
        # What services say here repeats parts of the key.
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


def _fields(body: object) -> Mapping[str, Any]:
    """Return the fields of an error body; some services wrap them in `error`, the SDK unwraps them mostly."""
    if not isinstance(body, Mapping):
        return {}
    fields = cast("Mapping[str, Any]", body)
    inner = fields.get("error")
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else fields


def _codes(body: object) -> set[str]:
    fields = _fields(body)
    return {str(fields[name]).lower() for name in ("code", "type") if fields.get(name) is not None}


def _message(body: object) -> str:
    if isinstance(body, str):
        return body
    fields = _fields(body)
    for name in ("message", "error", "detail"):
        if fields.get(name):
            return str(fields[name])
    return ""


def _key(request_headers: Mapping[str, str]) -> str:
    return request_headers.get("authorization", "").removeprefix("Bearer ").strip()


def _clean(text: str, secret: str = "") -> str:
    """Return one line of what a service said, short and without keys."""
    if len(secret) >= _MIN_SECRET_CHARACTERS:
        text = text.replace(secret, "[key]")
    text = " ".join(_SECRETS.sub("[key]", text).split())
    return text if len(text) <= _MAX_DETAIL_CHARACTERS else text[: _MAX_DETAIL_CHARACTERS - 1] + "…"


def _retry_after_seconds(headers: Mapping[str, str]) -> float | None:
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
