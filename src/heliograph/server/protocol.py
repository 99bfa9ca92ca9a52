"""HTTP/1.1 as uvicorn speaks it, but for two things.

What is not HTTP at all (a line that cannot be read, an address or headers that are too long) never reaches the
application, and is refused with a problem body like everything else. And a client that owes the rest of a request and
sends next to nothing for half a minute is cut off, so that slow ones cannot keep all connections to themselves.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["ProblemProtocol"]

_DETAIL = "the request is not HTTP/1.1, or its address and headers are longer than 32 KiB; send a shorter or proper one"


class ProblemProtocol(H11Protocol):
    """One connection."""

    patience_seconds = 30.0
    least_bytes = 1024

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch how fast requests come."""
        super().connection_made(transport)
        # Since when a request is owed, and what has come since; None while nothing is.
        self._owed_since: float | None = self.loop.time()
        self._received = 0
        self._watch()

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

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, and close the connection.

        Args:
            msg: What uvicorn would say.
        """
        status = HTTPStatus.BAD_REQUEST
        body = {"type": "about:blank", "title": msg, "status": status, "detail": _DETAIL, "request_id": ""}
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
