"""A rerank service on loopback that speaks every form and fails as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Fault:
    """One reply that is not what was asked for."""

    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    wait_seconds: float = 0.0


@dataclass
class Call:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        return self.body.get("texts") or self.body.get("documents") or self.body["input"]["documents"]


class RerankServer:
    """Scores a text by how often it says `x`, a tenth each."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.faults: deque[Fault] = deque()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("content-length", 0))
                call = Call(self.path, dict(self.headers), json.loads(self.rfile.read(size)))
                server.calls.append(call)
                fault = server.faults.popleft() if server.faults else None
                if fault and fault.wait_seconds:
                    time.sleep(fault.wait_seconds)
                self._send(fault or Fault(body=answer(call)))

            def _send(self, reply: Fault) -> None:
                data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                try:
                    self.send_response(reply.status)
                    for name, value in ({"content-type": "application/json"} | reply.headers).items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except ConnectionError:
                    pass  # The client gave up, as it was meant to.

            def log_message(self, *args: object) -> None:
                """Keep quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def answer(call: Call) -> object:
    """Reply in the form of the request, worst first, so that order is the client's own doing."""
    scores = [(index, text.count("x") / 10) for index, text in enumerate(call.texts)]
    ranked = sorted(scores, key=lambda item: item[1])
    if "texts" in call.body:
        return [{"index": index, "score": score} for index, score in ranked]
    results = [{"index": index, "relevance_score": score} for index, score in ranked]
    if "input" in call.body:
        return {"output": {"results": results}, "usage": {"total_tokens": 9}, "request_id": "r"}
    return {"id": "r", "results": results, "meta": {"billed_units": {}}}


@pytest.fixture
def server() -> Iterator[RerankServer]:
    running = RerankServer()
    yield running
    running.close()


@pytest.fixture
def fault() -> Callable[..., Fault]:
    return Fault
