"""HTTP/1.1 as uvicorn speaks it, but stricter, since a proxy before the service may read the same bytes otherwise.

What is not HTTP (a line that cannot be read, an address or headers that are too long) never reaches the application,
and is refused with a problem body like everything else. So is a head of which two readers could make two requests
(RFC 9112, 2.2, 5.2 and 6.3): lengths told twice or beside `Transfer-Encoding`, lines that end in a lone CR or LF,
folded lines. For the same reason a request whose body comes in chunks is the last of its connection.

A client that owes the rest of a request and sends next to nothing for half a minute is cut off, and one address may
have only so many connections, so that nobody keeps all of them to himself.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_BYTES = 32_768
_MOST_HEADERS = 100
_DETAIL = (
    f"the request is not HTTP/1.1, or its address and headers are longer than {HEADER_BYTES // 1024} KiB or more than "
    f"{_MOST_HEADERS}, or they can be read in two ways; send a shorter or proper one"
)
_FILES, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
_TOO_MANY = "this address has as many connections open as one may; close some, or use them again"
_LONE_END = re.compile(rb"\r(?!\n)|(?<!\r)\n")
_FOLDED = re.compile(rb"\r\n[ \t]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([^\r]*)", re.IGNORECASE)


class _StrictConnection(h11.Connection):
    """Reads one connection, and refuses heads that h11 alone would make the best of."""

    def next_event(self) -> Any:
        if self.their_state is not h11.IDLE:
            return super().next_event()
        before, _ = self.trailing_data
        event = super().next_event()
        if isinstance(event, h11.Request):
            after, _ = self.trailing_data
            _check_head(before[: len(before) - len(after)], event)
        return event


def _check_head(head: bytes, request: h11.Request) -> None:
    """Check a head as it came, which is ambiguous or larger than it looks once it is parsed.

    Raises:
        h11.RemoteProtocolError: It is not to be served.
    """
    # What comes at once is parsed before h11 looks at its length.
    if len(head) > HEADER_BYTES or len(request.headers) > _MOST_HEADERS:
        raise h11.RemoteProtocolError("the head is too long", error_status_hint=431)
    if _LONE_END.search(head) or _FOLDED.search(head):
        raise h11.RemoteProtocolError("a line of the head does not end in CR LF, or is folded")
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or not all(length.strip().isdigit() for length in lengths):
        raise h11.RemoteProtocolError("Content-Length is told more than once")
    if _is_in_chunks(request.headers) and (lengths or request.http_version < b"1.1"):
        raise h11.RemoteProtocolError("Transfer-Encoding stands beside Content-Length, or in HTTP/1.0")


def _is_in_chunks(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" for name, _ in headers)


class ProblemProtocol(H11Protocol):
    """One connection."""

    patience_seconds = 30.0
    least_bytes = 1024
    # Half of what the process can open, if there is a limit to that.
    most_of_one_address = max(64, _FILES // 2) if _FILES > 0 else 65_536

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch how fast requests come, unless the address has connections enough."""
        super().connection_made(transport)
        self.conn = _StrictConnection(h11.SERVER, HEADER_BYTES)
        # Since when a request is owed, and what has come since; None while nothing is.
        self._owed_since: float | None = self.loop.time()
        self._received = 0
        self._watch()
        known = (getattr(other, "client", None) for other in self.connections)
        if self.client and sum(bool(c) and c[0] == self.client[0] for c in known) > self.most_of_one_address:
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS, "Too many connections", _TOO_MANY)

    def data_received(self, data: bytes) -> None:
        """Take what comes, and count it."""
        if self._owed_since is None:
            self._owe()
        before = self.cycle
        self._received += len(data)
        super().data_received(data)
        if not self._is_owed():
            self._owed_since = None
        elif self.cycle is not before:
            # The head has come; the body has time of its own.
            self._owe()

    def handle_events(self) -> None:
        """Hand on what came; what follows a body in chunks is not read as a request, wherever that ended."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and _is_in_chunks(self.headers):
            self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"close")]

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, and close the connection.

        Args:
            msg: What uvicorn would say.
        """
        self._refuse(HTTPStatus.BAD_REQUEST, msg, _DETAIL)

    def _refuse(self, status: HTTPStatus, title: str, detail: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # An answer has begun, so that it breaks off is all that can be told.
            self.transport.close()
            return
        body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "request_id": ""}
        data = json.dumps(body).encode()
        headers = [
            ("Content-Type", "application/problem+json"),
            ("Content-Length", str(len(data))),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        events = (
            h11.Response(status_code=status, headers=headers, reason=status.phrase.encode()),
            h11.Data(data=data),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """Close the connection if what is owed has hardly moved for the time that patience lasts."""
        if self.transport.is_closing():
            return
        if self._owed_since is None:
            if self.conn.their_state is h11.SEND_BODY and self._is_owed():
                self._owe()
        elif self.loop.time() - self._owed_since >= self.patience_seconds:
            if self._received < self.least_bytes:
                self.transport.close()
                return
            self._owe()
        self.loop.call_later(self.patience_seconds, self._watch)

    def _owe(self) -> None:
        self._owed_since, self._received = self.loop.time(), 0

    def _is_owed(self) -> bool:
        """Whether it is the client's turn; not if the application has no room for more, or has not asked for it."""
        if self.flow.read_paused or self.conn.they_are_waiting_for_100_continue:
            return False
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
