"""The connection to an OpenAI-compatible service, and translation of its SDK's errors; for chat and embedding."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager

import httpx
import openai
from pydantic import SecretStr

from heliograph.calls.service_errors import (
    RATE_CODES,
    checked_address,
    checked_key,
    clean_detail,
    connection_error,
    error_codes,
    error_fields,
    error_from_status,
    error_message,
    find_retry_after,
    shown_address,
)
from heliograph.errors import BadModelReply, ModelError, ModelTimeout, ModelUnavailable

# Translating the openai SDK's exceptions.
#
# The only place where they become `ModelError`s; `calls.service_errors` knows how services word their failures. A
# message names the service, quotes its error in brief and says what to do; keys never get into it, and a service's
# error body is not chained to it, since bodies echo keys.


@contextmanager
def translate_openai_errors(service: str) -> Generator[None]:
    """Translate the SDK's exceptions from the block into ours; let all others pass.

    `service` names the service in messages and holds no secret, such as `chat model 'qwen3' at 'http://...'`.

    Raises:
        ModelError: The subclass for the failure.
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
    """Return our error for an exception of the SDK, or of the libraries under it that it lets through."""
    # Subclasses first: APITimeoutError is an APIConnectionError, and both are APIErrors.
    if isinstance(error, openai.APIStatusError):
        response = error.response
        key = response.request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        detail = clean_detail(error_message(error.body), key)
        return error_from_status(error.status_code, error.body, detail, service, find_retry_after(response.headers))
    if isinstance(error, (openai.APITimeoutError, httpx.TimeoutException)):
        return ModelTimeout(f"{service} did not reply in time; try again, or raise `timeout_seconds`")
    if isinstance(error, (openai.APIConnectionError, httpx.TransportError)):
        # The SDK's own message is always the same; its cause holds the reason.
        cause = error.__cause__ or error
        return connection_error(error, clean_detail(str(cause) or type(cause).__name__), service)
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
    return ModelUnavailable(f"{service} cannot be called: {clean_detail(str(error))}; check the settings of this model")


def error_from_body(body: object, service: str) -> ModelError:
    """Return the error for an error object that came instead of a reply, under status 200."""
    code = error_fields(body).get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    if error_codes(body) & RATE_CODES:
        status = 429
    return error_from_status(status, body, clean_detail(error_message(body)), service, retry_after_seconds=None)


# The connection to an OpenAI-compatible service, and its name in messages; shared by chat and embedding.
#
# The SDK would read keys, addresses and headers from the environment; here it gets everything from the settings. Its
# own retries are off: `call_with_retry` in `calls/limit.py` does that for every provider alike.

_OPENAI_URL = "https://api.openai.com/v1"
# Many local services need no key, but the SDK does.
_NO_KEY = "none"


def open_openai_client(base_url: str, api_key: SecretStr, timeout_seconds: float) -> openai.AsyncOpenAI:
    """Return a client; nothing is sent yet.

    Args:
        base_url: Address of the service; empty means OpenAI's own.
        api_key: May be empty.
        timeout_seconds: Longest wait to connect, and between two pieces of a response.

    Raises:
        SettingsError: The address or the key cannot be used; the message does not repeat the key.
    """
    key = checked_key(api_key)
    client = openai.AsyncOpenAI(
        base_url=_checked(base_url), api_key=key or _NO_KEY, timeout=timeout_seconds, max_retries=0
    )
    # The SDK reads these from the environment; they would be sent to whatever service is set here.
    client.organization = client.project = None
    return client


def describe_service(role: str, model: str, base_url: str) -> str:
    """Return how messages name a service, for example `chat model 'qwen3' at 'http://localhost:8080/v1'`.

    A user name, password or query in its address is left out.
    """
    return f"{role} {model!r} at {shown_address(_checked(base_url))!r}"


def _checked(base_url: str) -> str:
    return checked_address(base_url.strip() or _OPENAI_URL)
