"""Every exception of httpx, and refusals that come over it, become ours."""

from __future__ import annotations

import inspect
import ssl

import httpx
import pytest

from heliograph.calls.service_errors import error_from_response, translate_httpx_error, translate_httpx_errors
from heliograph.errors import BadModelReply, ContextTooLong, ModelError, ModelTimeout, ModelUnavailable, RateLimited

SERVICE = "reranker 'm' at 'http://h'"
KEY = "jina_0123456789abcdef"

# What each exception that httpx can raise becomes, and whether the call may succeed when tried again.
EXPECTED: dict[str, tuple[type[ModelError], bool]] = {
    "CloseError": (ModelUnavailable, True),
    "ConnectError": (ModelUnavailable, True),
    "ConnectTimeout": (ModelTimeout, True),
    "CookieConflict": (ModelUnavailable, False),
    "DecodingError": (BadModelReply, False),
    "HTTPError": (ModelUnavailable, False),
    "HTTPStatusError": (ModelUnavailable, True),
    "InvalidURL": (ModelUnavailable, False),
    "LocalProtocolError": (ModelUnavailable, False),
    "NetworkError": (ModelUnavailable, True),
    "PoolTimeout": (ModelTimeout, True),
    "ProtocolError": (ModelUnavailable, True),
    "ProxyError": (ModelUnavailable, True),
    "ReadError": (ModelUnavailable, True),
    "ReadTimeout": (ModelTimeout, True),
    "RemoteProtocolError": (ModelUnavailable, True),
    "RequestError": (ModelUnavailable, False),
    "RequestNotRead": (ModelUnavailable, False),
    "ResponseNotRead": (ModelUnavailable, False),
    "StreamClosed": (ModelUnavailable, False),
    "StreamConsumed": (ModelUnavailable, False),
    "StreamError": (ModelUnavailable, False),
    "TimeoutException": (ModelTimeout, True),
    "TooManyRedirects": (BadModelReply, False),
    "TransportError": (ModelUnavailable, True),
    "UnsupportedProtocol": (ModelUnavailable, False),
    "WriteError": (ModelUnavailable, True),
    "WriteTimeout": (ModelTimeout, True),
}


def httpx_exceptions() -> dict[str, type[Exception]]:
    kinds = {name: value for name, value in vars(httpx).items() if inspect.isclass(value)}
    return {name: value for name, value in kinds.items() if issubclass(value, Exception)}


def make(kind: type[Exception]) -> Exception:
    request = httpx.Request("POST", "http://h/rerank")
    if issubclass(kind, httpx.HTTPStatusError):
        return kind("said", request=request, response=httpx.Response(500, request=request))
    parameters = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return kind(*["said" for _ in positional])


def response(status: int, body: object = None, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=body, headers={name.replace("_", "-"): text for name, text in headers.items()})


def test_every_exception_is_known() -> None:
    assert set(httpx_exceptions()) == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_exception_becomes_ours(name: str) -> None:
    kind, is_transient = EXPECTED[name]
    with pytest.raises(ModelError) as caught, translate_httpx_errors(SERVICE):
        raise make(httpx_exceptions()[name])
    assert type(caught.value) is kind
    assert caught.value.is_transient == is_transient
    assert SERVICE in str(caught.value)


def test_certificate_that_cannot_be_verified_is_not_tried_again() -> None:
    error = httpx.ConnectError("certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    translated = translate_httpx_error(error, SERVICE)
    assert "TLS certificate" in str(translated)
    assert not translated.is_transient


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (302, None, ModelUnavailable),
        (401, {"message": f"invalid key {KEY}"}, ModelUnavailable),
        (413, {"error": "batch size 64 > maximum allowed batch size 32"}, ContextTooLong),
        (422, {"detail": [{"msg": "Field required"}]}, ModelUnavailable),
        (429, {"error": "Model is overloaded", "error_type": "overloaded"}, RateLimited),
        (500, {"code": "InternalError", "message": "oops"}, ModelUnavailable),
    ],
)
def test_refusal_becomes_ours_without_the_key(status: int, body: object, kind: type[ModelError]) -> None:
    error = error_from_response(response(status, body), SERVICE, KEY)
    assert type(error) is kind
    assert KEY not in str(error)


def test_wait_asked_for_is_kept() -> None:
    error = error_from_response(response(429, {}, retry_after="7"), SERVICE)
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds == 7


def test_page_of_a_proxy_is_not_quoted() -> None:
    page = httpx.Response(502, html="<html><body>Bad gateway of the proxy</body></html>")
    error = error_from_response(page, SERVICE)
    assert "<html>" not in str(error)
    assert error.is_transient
