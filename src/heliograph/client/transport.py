"""How a client reaches a service: requests, credentials, when to try again, and what carries them.

A call is tried again when the service says "later" (429, 503) or could not be connected to, and only if it is safe:
reading and asking. A token that the service renews is used from then on; one that has run out leads to one new login.

A `Transport` is all that differs between the client for async code and the one that blocks: both have the same
methods, but of `BlockingTransport` none ever waits for an event loop.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote

import httpx

from heliograph.client.reading import read_as, response_error, retry_after_seconds
from heliograph.errors import InvalidRequestError, ServiceUnavailable

__all__ = [
    "AsyncTransport",
    "Attempts",
    "BlockingTransport",
    "Call",
    "ClientOptions",
    "Connection",
    "Secret",
    "Transport",
    "get",
    "path_of",
    "read_reply",
    "request_arguments",
    "send",
    "transport_error",
]

T = TypeVar("T")

_WORKSPACE = "X-Heliograph-Workspace"
_NEW_TOKEN = "X-New-Token"  # noqa: S105 (the name of a header)
_LATER = frozenset({429, 503})
_FIRST_WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and how to read its reply.

    Attributes:
        method: HTTP method.
        path: Path below the service's address.
        read: Makes a result of the reply's JSON.
        query: Parameters in the URL.
        json: Body, None for none.
        form: Fields of a form.
        file: A file to upload: name and content.
        is_safe: Whether sending it twice does what sending it once does.
        is_login: Whether it needs no credentials, as it brings them.
    """

    method: str
    path: str
    read: Callable[[Any], T]
    query: Mapping[str, str | int | bool] = field(default_factory=dict[str, "str | int | bool"])
    json: Any = None
    form: Mapping[str, str] = field(default_factory=dict[str, str])
    file: tuple[str, bytes] | None = None
    is_safe: bool = False
    is_login: bool = False


def get(path: str, kind: type[T], **query: str | int | bool | None) -> Call[T]:
    """Return a call that reads; parameters that are None are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return Call("GET", path, lambda body: read_as(kind, body), query=given, is_safe=True)


def send(method: str, path: str, kind: type[T], body: Any = None) -> Call[T]:
    """Return a call that changes something."""
    return Call(method, path, lambda reply: read_as(kind, reply), json=body)


def path_of(*parts: str) -> str:
    """Return a path of parts, each as one segment whatever is in it."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a client waits.

    Attributes:
        timeout_seconds: For a reply, and between two pieces of a stream.
        connect_timeout_seconds: For a connection.
        retries: Times that a safe call is tried again; 0 never.
        max_wait_seconds: Longest wait before trying again; a service that asks for a longer one is not tried again.
    """

    timeout_seconds: float = 120.0
    connect_timeout_seconds: float = 10.0
    retries: int = 3
    max_wait_seconds: float = 30.0

    def to_httpx(self) -> httpx.Timeout:
        """Return the time-outs as httpx has them."""
        return httpx.Timeout(self.timeout_seconds, connect=self.connect_timeout_seconds)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """Credentials: a key, or a name and a password to log in with, or a token; never shown."""

    api_key: str | None = None
    username: str | None = None
    password: str | None = None
    token: str | None = None


@dataclass(slots=True, repr=False)
class Connection:
    """The state that views of one client share; its token changes when the service renews it."""

    base_url: str
    secret: Secret
    options: ClientOptions
    token: str | None = field(default=None)

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise InvalidRequestError(
                f"{self.base_url!r:.200} is no address of a service; it begins with http:// or https://"
            )
        if (self.secret.username is None) != (self.secret.password is None):
            raise InvalidRequestError("username and password belong together; give both or neither")
        self.token = self.secret.token

    @property
    def needs_login(self) -> bool:
        """Whether there is a password and no token yet."""
        return self.token is None and self.secret.password is not None

    def headers(self, workspace: str | None) -> dict[str, str]:
        """Return what goes with every request; a workspace's name is percent-encoded, as headers are ASCII."""
        found = {"Accept": "application/json"}
        if self.secret.api_key is not None:
            found["X-API-Key"] = self.secret.api_key
        if self.token is not None:
            found["Authorization"] = f"Bearer {self.token}"
        if workspace is not None:
            found[_WORKSPACE] = quote(workspace)
        return found

    def note(self, response: httpx.Response) -> None:
        """Keep the token that a response brings, if it renews one."""
        if (token := response.headers.get(_NEW_TOKEN)) and self.token is not None:
            self.token = token


class Attempts:
    """The tries of one call.

    Args:
        connection: Where it goes.
        call: The call.
    """

    def __init__(self, connection: Connection, call: Call[Any]) -> None:
        self._connection = connection
        self._call = call
        self._tries = 0
        self._has_logged_in = call.is_login

    @property
    def needs_login(self) -> bool:
        """Whether to log in before the next try; not for the call that does so."""
        needs = self._connection.needs_login and not self._call.is_login
        self._has_logged_in = self._has_logged_in or needs
        return needs

    def wait_seconds(self, response: httpx.Response | None, error: httpx.HTTPError | None) -> float:
        """Return how long to wait before the next try.

        Args:
            response: What the last try brought, read; None if nothing came.
            error: Why nothing came.

        Raises:
            HeliographError: There is to be none.
        """
        self._tries += 1
        may_log_in_again = self._connection.secret.password is not None and not self._has_logged_in
        if response is not None and response.status_code == 401 and may_log_in_again:
            self._connection.token = None
            return 0.0
        if self._may_repeat(response, error):
            told = retry_after_seconds(response.headers) if response is not None else None
            wait = _FIRST_WAIT_SECONDS * 2 ** (self._tries - 1) if told is None else told
            if wait <= self._connection.options.max_wait_seconds:
                return wait
        if response is None:
            raise transport_error(self._connection, error or httpx.TransportError("nothing came")) from error
        raise response_error(response.status_code, response.content, response.headers)

    def _may_repeat(self, response: httpx.Response | None, error: httpx.HTTPError | None) -> bool:
        if not self._call.is_safe or self._tries > self._connection.options.retries:
            return False
        if response is not None:
            return response.status_code in _LATER
        # A time-out of the reply is not among them: it would come again, and the service is at work on the first.
        return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.RemoteProtocolError)


def request_arguments(call: Call[Any]) -> dict[str, Any]:
    """Return a call as httpx takes it."""
    arguments: dict[str, Any] = {"method": call.method, "url": call.path}
    if call.query:
        arguments["params"] = dict(call.query)
    if call.json is not None:
        arguments["json"] = call.json
    if call.form:
        arguments["data"] = dict(call.form)
    if call.file is not None:
        arguments["files"] = {"file": call.file}
    return arguments


def read_reply(call: Call[Any], response: httpx.Response) -> Any:
    """Return the result of a call from its whole response.

    Raises:
        HeliographError: The response tells of a failure.
        ServiceUnavailable: It is no JSON, or of another shape.
    """
    if not response.is_success:
        raise response_error(response.status_code, response.content, response.headers)
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        raise ServiceUnavailable(
            f"{call.method} {call.path} was answered with {response.content[:100]!r}, which is not JSON; "
            "is the address that of a Heliograph service?"
        ) from error
    return call.read(body)


def transport_error(connection: Connection, error: httpx.HTTPError) -> ServiceUnavailable:
    """Return what to raise where there was no response."""
    if isinstance(error, httpx.TimeoutException):
        said = f"did not answer in time ({type(error).__name__}); raise timeout_seconds, or ask for less"
    else:
        said = f"cannot be reached ({error or type(error).__name__}); check the address and that it runs"
    return ServiceUnavailable(f"the service at {connection.base_url!r} {said}")


class Transport(Protocol):
    """Carries requests. Its coroutines either wait for the running event loop or, all of them, block."""

    def build_request(self, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> httpx.Request:
        """Return a request to the service, as `request_arguments` describes it."""
        ...

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Return the response as soon as its headers are there."""
        ...

    async def read(self, response: httpx.Response) -> None:
        """Read the body of a response and let go of its connection."""
        ...

    async def release(self, response: httpx.Response) -> None:
        """Let go of the connection of a response that is not read to its end."""
        ...

    def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Return what a function returns that reads files."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class AsyncTransport(Transport):
    """Waits for the running event loop."""

    def __init__(self, base_url: str, options: ClientOptions, transport: httpx.AsyncBaseTransport | None) -> None:
        self._http = httpx.AsyncClient(base_url=base_url, timeout=options.to_httpx(), transport=transport)

    def build_request(self, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> httpx.Request:
        return self._http.build_request(**arguments, headers=headers)

    async def send(self, request: httpx.Request) -> httpx.Response:
        return await self._http.send(request, stream=True)

    async def read(self, response: httpx.Response) -> None:
        try:
            await response.aread()
        finally:
            await response.aclose()

    async def release(self, response: httpx.Response) -> None:
        await response.aclose()

    def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        return response.aiter_bytes()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def close(self) -> None:
        await self._http.aclose()


class BlockingTransport(Transport):
    """Blocks the thread that calls."""

    def __init__(self, base_url: str, options: ClientOptions, transport: httpx.BaseTransport | None) -> None:
        self._http = httpx.Client(base_url=base_url, timeout=options.to_httpx(), transport=transport)

    def build_request(self, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> httpx.Request:
        return self._http.build_request(**arguments, headers=headers)

    async def send(self, request: httpx.Request) -> httpx.Response:
        return self._http.send(request, stream=True)

    async def read(self, response: httpx.Response) -> None:
        try:
            response.read()
        finally:
            response.close()

    async def release(self, response: httpx.Response) -> None:
        response.close()

    async def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        for piece in response.iter_bytes():
            yield piece

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 (what calls it blocks)

    async def in_thread(self, function: Callable[[], T]) -> T:
        return function()

    async def close(self) -> None:
        self._http.close()
