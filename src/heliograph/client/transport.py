"""How a client reaches a service: requests, credentials, retries, and transports.

A call is retried when the service says "later" (429, 503) or could not be connected to, and only if it is safe: reading
and querying. A token that the service renews is used from then on; an expired one causes one new login.

A `Transport` is the only difference between the async and the blocking client: both kinds have the same methods, but
those of `BlockingTransport` never suspend.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from heliograph.client.reading import read_as, response_error, retry_after_seconds
from heliograph.errors import InvalidRequestError, ServiceUnavailable

T = TypeVar("T")

_WORKSPACE = "X-Heliograph-Workspace"
_NEW_TOKEN = "X-New-Token"  # noqa: S105 (the name of a header)
_LATER = frozenset({429, 503})
_FIRST_WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and how to read its reply.

    Attributes:
        path: Path below the service's address.
        read: Converts the reply's JSON to a result.
        file: A file to upload: name and content.
        is_safe: Whether sending it twice has the same effect as sending it once.
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


def send(method: str, path: str, kind: type[T], body: Any = None, *, is_safe: bool = False) -> Call[T]:
    """Return a call that changes data, or, if `is_safe`, only queries."""
    return Call(method, path, lambda reply: read_as(kind, reply), json=body, is_safe=is_safe)


def path_of(*parts: str) -> str:
    """Return a path, each part as one percent-encoded segment."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Time-outs and retries of a client.

    Attributes:
        timeout_seconds: For a reply, and between two pieces of a stream.
        connect_timeout_seconds: For a connection.
        retries: How often a safe call is retried; 0 never.
        max_wait_seconds: Longest wait before a retry; if a service asks for a longer one, there is no retry.
    """

    timeout_seconds: float = 120.0
    connect_timeout_seconds: float = 10.0
    retries: int = 3
    max_wait_seconds: float = 30.0

    def to_httpx(self) -> httpx.Timeout:
        """Return the time-outs as an httpx object."""
        return httpx.Timeout(self.timeout_seconds, connect=self.connect_timeout_seconds)


@dataclass(slots=True, repr=False)
class Connection:
    """The state that views of one client share: the service's address, and credentials, which are never shown.

    These are a key, or a name and a password to log in with, or a token, which changes when the service renews it.
    """

    base_url: str
    options: ClientOptions
    api_key: str | None = None
    username: str | None = None
    password: str | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise InvalidRequestError(
                f"{self.base_url!r:.200} is no address of a service; it begins with http:// or https://"
            )
        if (self.username is None) != (self.password is None):
            raise InvalidRequestError("username and password belong together; give both or neither")

    @property
    def needs_login(self) -> bool:
        """Whether there is a password and no token yet."""
        return self.token is None and self.password is not None

    def headers(self, workspace: str | None) -> dict[str, str]:
        """Return the headers of every request; a workspace's name is percent-encoded, as headers are ASCII."""
        found = {"Accept": "application/json"}
        if self.api_key is not None:
            found["X-API-Key"] = self.api_key
        if self.token is not None:
            found["Authorization"] = f"Bearer {self.token}"
        if workspace is not None:
            found[_WORKSPACE] = quote(workspace)
        return found

    def note(self, response: httpx.Response) -> None:
        """Store the token of a response, if it renews one."""
        if (token := response.headers.get(_NEW_TOKEN)) and self.token is not None:
            self.token = token


class Attempts:
    """The attempts of one call."""

    def __init__(self, connection: Connection, call: Call[Any]) -> None:
        self._connection = connection
        self._call = call
        self._tries = 0
        self._has_logged_in = call.is_login

    @property
    def needs_login(self) -> bool:
        """Whether to log in before the next attempt; False for the login call itself."""
        needs = self._connection.needs_login and not self._call.is_login
        self._has_logged_in = self._has_logged_in or needs
        return needs

    def wait_seconds(self, response: httpx.Response | None, error: httpx.HTTPError | None) -> float:
        """Return how long to wait before the next attempt.

        Raises:
            HeliographError: There are no more attempts.
        """
        self._tries += 1
        may_log_in_again = self._connection.password is not None and not self._has_logged_in
        if response is not None and response.status_code == 401 and may_log_in_again:
            self._connection.token = None
            return 0.0
        if response is None:
            # A time-out of the reply is not retried: it would recur, and the service is still working on the first
            # request.
            passes = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.RemoteProtocolError)
        else:
            passes = response.status_code in _LATER
        if passes and self._call.is_safe and self._tries <= self._connection.options.retries:
            told = retry_after_seconds(response.headers) if response is not None else None
            wait = _FIRST_WAIT_SECONDS * 2 ** (self._tries - 1) if told is None else told
            if wait <= self._connection.options.max_wait_seconds:
                return wait
        if response is None:
            raise transport_error(self._connection, error or httpx.TransportError("nothing came")) from error
        raise response_error(response.status_code, response.content, response.headers)


def read_reply(call: Call[Any], response: httpx.Response) -> Any:
    """Return the result of a call from its complete response.

    Raises:
        HeliographError: The response reports a failure.
        ServiceUnavailable: It is not JSON, or has another shape.
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
    """Return the error to raise if there was no response."""
    if isinstance(error, httpx.TimeoutException):
        said = f"did not answer in time ({type(error).__name__}); raise timeout_seconds, or ask for less"
    else:
        said = f"cannot be reached ({error or type(error).__name__}); check the address and that it runs"
    return ServiceUnavailable(f"the service at {connection.base_url!r} {said}")


class AsyncTransport:
    """Sends requests, awaiting the running event loop."""

    def __init__(self, base_url: str, options: ClientOptions, transport: httpx.AsyncBaseTransport | None) -> None:
        self.http = httpx.AsyncClient(base_url=base_url, timeout=options.to_httpx(), transport=transport)

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Return the response as soon as its headers have arrived."""
        return await self.http.send(request, stream=True)

    async def read(self, response: httpx.Response) -> None:
        """Read the body of a response and release its connection."""
        try:
            await response.aread()
        finally:
            await response.aclose()

    async def release(self, response: httpx.Response) -> None:
        """Release the connection of a response that is not read to its end."""
        await response.aclose()

    def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        return response.aiter_bytes()

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking."""
        await asyncio.sleep(seconds)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a function that reads files in a thread, and return its result."""
        return await asyncio.to_thread(function)

    async def close(self) -> None:
        """Close all connections."""
        await self.http.aclose()


class BlockingTransport:
    """Sends requests like `AsyncTransport`, but blocks the calling thread: its coroutines never suspend."""

    def __init__(self, base_url: str, options: ClientOptions, transport: httpx.BaseTransport | None) -> None:
        self.http = httpx.Client(base_url=base_url, timeout=options.to_httpx(), transport=transport)

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Return the response as soon as its headers have arrived."""
        return self.http.send(request, stream=True)

    async def read(self, response: httpx.Response) -> None:
        """Read the body of a response and release its connection."""
        try:
            response.read()
        finally:
            response.close()

    async def release(self, response: httpx.Response) -> None:
        """Release the connection of a response that is not read to its end."""
        response.close()

    async def pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        for piece in response.iter_bytes():
            yield piece

    async def sleep(self, seconds: float) -> None:
        """Block."""
        time.sleep(seconds)  # noqa: ASYNC251 (what calls it blocks)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Return the result of a function, run in this thread."""
        return function()

    async def close(self) -> None:
        """Close all connections."""
        self.http.close()


Transport = AsyncTransport | BlockingTransport
