"""Every exception of the SDK, and the ways in which services word their failures, become ours."""

from __future__ import annotations

import inspect
import json
import ssl
import time
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
from openai import _exceptions as sdk

from heliograph.calls.openai import error_from_body, translate_openai_error, translate_openai_errors
from heliograph.errors import BadModelReply, ContextTooLong, ModelError, ModelTimeout, ModelUnavailable, RateLimited

SERVICE = "chat model 'm' at 'http://h/v1'"
KEY = "sk-proj-0123456789abcdef"
REQUEST: Any = httpx.Request("POST", "http://h/v1/chat/completions", headers={"Authorization": f"Bearer {KEY}"})

# What each exception that a call can raise becomes. One that is missing here fails the test below.
EXPECTED: dict[str, type[ModelError]] = {
    "OpenAIError": ModelUnavailable,
    "APIError": ModelUnavailable,
    "APIConnectionError": ModelUnavailable,
    "APITimeoutError": ModelTimeout,
    "APIResponseValidationError": BadModelReply,
    "APIStatusError": ModelUnavailable,
    "BadRequestError": ModelUnavailable,
    "AuthenticationError": ModelUnavailable,
    "OAuthError": ModelUnavailable,
    "PermissionDeniedError": ModelUnavailable,
    "NotFoundError": ModelUnavailable,
    "ConflictError": ModelUnavailable,
    "UnprocessableEntityError": ModelUnavailable,
    "RateLimitError": RateLimited,
    "InternalServerError": ModelUnavailable,
    "LengthFinishReasonError": BadModelReply,
    "ContentFilterFinishReasonError": BadModelReply,
    "SubjectTokenProviderError": ModelUnavailable,
    "WebSocketConnectionClosedError": ModelUnavailable,
    "WebSocketQueueFullError": ModelUnavailable,
}
# Raised by checking a webhook, which is not done here.
NOT_FROM_CALLS = {"InvalidWebhookSignatureError"}


def status_error(status: int, body: object = None, headers: dict[str, str] | None = None) -> openai.APIStatusError:
    response: Any = httpx.Response(status, headers=headers, request=REQUEST)
    return openai.APIStatusError("said", response=response, body=body)


def translated(status: int, body: object = None, headers: dict[str, str] | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught, translate_openai_errors(SERVICE):
        raise status_error(status, body, headers)
    return caught.value


def sdk_exceptions() -> dict[str, type[Exception]]:
    # `type(...) is type` rather than `isinstance`: some names of the package are proxies that come alive when asked.
    classes = {name: value for name, value in {**vars(sdk), **vars(openai)}.items() if type(value) is type}
    return {name: value for name, value in classes.items() if issubclass(value, Exception) and name[0] != "_"}


def make(kind: type[Exception]) -> Exception:
    """Make an exception of the SDK as the SDK would."""
    status = {
        "AuthenticationError": 401,
        "OAuthError": 401,
        "InternalServerError": 500,
        "APIResponseValidationError": 200,
    }
    code = getattr(kind, "status_code", None) or status.get(kind.__name__, 418)
    fill: dict[str, Any] = {
        "message": "said",
        "request": REQUEST,
        "response": httpx.Response(code, request=REQUEST),
        "body": None,
        "completion": SimpleNamespace(usage=None),
        "unsent_messages": [],
    }
    if kind.__init__ is Exception.__init__:
        return kind("said")
    wanted = inspect.signature(kind).parameters
    return kind(**{name: fill[name] for name in wanted if name in fill})


def test_every_exception_of_the_sdk_is_mapped() -> None:
    missing = sdk_exceptions().keys() - EXPECTED.keys() - NOT_FROM_CALLS
    assert not missing, f"the SDK has grown {sorted(missing)}; decide what they become"


@pytest.mark.parametrize("name", sorted(EXPECTED.keys() & sdk_exceptions().keys()))
def test_sdk_exception_becomes(name: str) -> None:
    with pytest.raises(EXPECTED[name]) as caught, translate_openai_errors(SERVICE):
        raise make(sdk_exceptions()[name])
    assert SERVICE in str(caught.value)


def test_other_exceptions_pass() -> None:
    with pytest.raises(KeyError), translate_openai_errors(SERVICE):
        raise KeyError("ours")


@pytest.mark.parametrize(
    "error", [json.JSONDecodeError("no", "<html>", 0), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no")]
)
def test_reply_that_cannot_be_decoded_is_a_bad_reply(error: Exception) -> None:
    with pytest.raises(BadModelReply, match="base_url"), translate_openai_errors(SERVICE):
        raise error


@pytest.mark.parametrize(
    ("status", "kind", "is_transient", "advice"),
    [
        (400, ModelUnavailable, False, "settings"),
        (401, ModelUnavailable, False, "api_key"),
        (402, ModelUnavailable, False, "credit"),
        (403, ModelUnavailable, False, "api_key"),
        (404, ModelUnavailable, False, "base_url"),
        (405, ModelUnavailable, False, "base_url"),
        (408, ModelTimeout, True, "try again"),
        (409, ModelUnavailable, True, "try again"),
        (413, ContextTooLong, False, "smaller"),
        (422, ModelUnavailable, False, "settings"),
        (425, ModelUnavailable, True, "try again"),
        (429, RateLimited, True, "wait"),
        (500, ModelUnavailable, True, "try again"),
        (501, ModelUnavailable, False, "settings"),
        (503, ModelUnavailable, True, "try again"),
        (529, ModelUnavailable, True, "try again"),
    ],
)
def test_status_becomes(status: int, kind: type[ModelError], is_transient: bool, advice: str) -> None:
    error = translated(status, {"message": "the service's words"})
    assert type(error) is kind
    assert error.is_transient is is_transient
    assert advice in str(error)
    assert str(status) in str(error) or status == 408


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 99 Foo 9999"}, None),
        ({"retry-after": formatdate(0, usegmt=True)}, 0),
    ],
)
def test_rate_limit_carries_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    error = translated(429, headers=headers)
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds == seconds


def test_rate_limit_reads_a_date() -> None:
    error = translated(429, headers={"Retry-After": formatdate(time.time() + 60, usegmt=True)})
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds is not None
    assert 0 < error.retry_after_seconds <= 60


def test_overload_that_says_when_to_come_back_is_a_rate_limit() -> None:
    error = translated(503, headers={"retry-after": "2"})
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds == 2


def test_used_up_quota_is_not_worth_a_retry() -> None:
    error = translated(429, {"message": "You exceeded your current quota", "code": "insufficient_quota"})
    assert type(error) is ModelUnavailable
    assert not error.is_transient
    assert "credit" in str(error)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"message": "too many", "code": "context_length_exceeded"}),
        (
            400,
            {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000", "code": 400},
        ),
        (400, {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}),
        (400, {"message": "max_tokens must be at least 1, got -186."}),
        (400, {"code": 400, "type": "exceed_context_size_error", "message": "request (10) exceeds"}),
        (500, {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}),
        (400, {"message": "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it"}),
        (500, {"message": "input (900 tokens) is too large to process. increase the physical batch size"}),
        (400, "the input length exceeds the context length"),
        (400, {"error": "input length exceeds maximum context length"}),
        (400, {"message": "prompt too long; exceeded max context length by 12 tokens"}),
        (429, {"message": "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000"}),
        (422, {"error": "Input validation error: `inputs` must have less than 512 tokens. Given: 900"}),
    ],
)
def test_too_long_is_known_in_every_wording(status: int, body: object) -> None:
    assert type(translated(status, body)) is ContextTooLong


def test_unknown_model_is_not_too_long_whatever_its_name() -> None:
    assert type(translated(404, {"message": "model 'maximum context length' not found"})) is ModelUnavailable


def test_filtered_text_is_a_bad_reply_not_an_outage() -> None:
    assert type(translated(400, {"message": "filtered", "code": "content_filter"})) is BadModelReply


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"code": 500, "message": "slot failed", "type": "server_error"}, ModelUnavailable),
        ({"code": 429, "message": "slow down"}, RateLimited),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, RateLimited),
        ({"code": "exceed_context_size_error", "message": "long"}, ContextTooLong),
        ("upstream died", ModelUnavailable),
        (None, ModelUnavailable),
        (["odd"], ModelUnavailable),
    ],
)
def test_error_under_status_200_is_told_by_its_body(body: object, kind: type[ModelError]) -> None:
    error = error_from_body(body, SERVICE)
    assert type(error) is kind
    assert error.is_transient is (kind is not ContextTooLong)


def test_transport_errors_that_the_sdk_lets_through_are_mapped() -> None:
    assert type(translate_openai_error(httpx.ReadTimeout("slow"), SERVICE)) is ModelTimeout
    ours = translate_openai_error(httpx.RemoteProtocolError("peer closed connection"), SERVICE)
    assert type(ours) is ModelUnavailable
    assert "peer closed connection" in str(ours)


def test_refused_connection_says_why_and_may_pass() -> None:
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = httpx.ConnectError("All connection attempts failed")
    ours = translate_openai_error(error, SERVICE)
    assert isinstance(ours, ModelUnavailable)
    assert ours.is_transient
    assert "All connection attempts failed" in str(ours)


def test_bad_certificate_will_not_pass() -> None:
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = httpx.ConnectError("certificate verify failed")
    error.__cause__.__context__ = ssl.SSLCertVerificationError("self-signed")
    ours = translate_openai_error(error, SERVICE)
    assert not ours.is_transient
    assert "certificate" in str(ours)


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
@pytest.mark.parametrize(
    "said",
    [f"Incorrect API key provided: {KEY}", f"header 'Authorization: Bearer {KEY}'", "key sk-abc***wxyz12 is bad"],
)
def test_no_key_gets_into_a_message_or_a_traceback(status: int, said: str) -> None:
    error = translated(status, {"message": said})
    assert "sk-" not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_key_of_any_form_is_taken_out() -> None:
    request: Any = httpx.Request("POST", "http://h", headers={"Authorization": "Bearer opensesame99"})
    response: Any = httpx.Response(400, request=request)
    error = openai.APIStatusError("said", response=response, body={"message": "bad key opensesame99"})
    assert "opensesame99" not in str(translate_openai_error(error, SERVICE))


def test_what_a_service_said_is_cut_to_one_short_line() -> None:
    message = str(translated(500, {"message": "line\n" * 10_000}))
    assert "\n" not in message
    assert len(message) < 500
