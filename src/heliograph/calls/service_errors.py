"""How model services word their failures, in our words: status, headers and error body to a `ModelError`.

Shared by every provider that speaks HTTP, whatever client it uses; OpenAI, vLLM, llama.cpp, Ollama, text-embeddings-
inference, Cohere, Jina, DashScope and others were looked at. A message names the service, quotes what it said in brief
and tells what to do; keys never get into it.
"""

from __future__ import annotations

import math
import re
import ssl
import time
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Any, cast

from heliograph.errors import (
    BadModelReply,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)

_MAX_DETAIL_CHARACTERS = 300
_MIN_SECRET_CHARACTERS = 8
_SECRETS = re.compile(r"\b(?:sk|pk|rk|hf|gsk|xai)[-_][\w*.\-]{6,}|(?<=bearer )\S+", re.IGNORECASE)

_CONTEXT_CODES = {"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"}
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance"}
RATE_CODES = {"429", "rate_limit_exceeded", "rate_limit_error", "too_many_requests"}
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


def error_from_status(
    status: int, body: object, detail: str, service: str, retry_after_seconds: float | None = None
) -> ModelError:
    """Return the error that a refused request stands for.

    Args:
        status: The HTTP status, 400 or more.
        body: What came with it, decoded where it was JSON.
        detail: The same in one line without keys, from `clean_detail`.
        service: Who was called.
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
    """Return what an error body says, as it stands; empty when it says nothing that is known."""
    if isinstance(body, str):
        return body
    fields = error_fields(body)
    for name in ("message", "error", "detail"):
        if fields.get(name):
            return str(fields[name])
    return ""


def clean_detail(text: str, secret: str = "") -> str:
    """Return one line of what a service said, short and without keys; `secret` is the key that was sent."""
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


def is_certificate_error(error: BaseException) -> bool:
    """Return whether a TLS certificate that cannot be verified is behind an exception."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
