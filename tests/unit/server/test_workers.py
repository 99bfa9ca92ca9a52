"""What the supervisor of several workers makes of their reports."""

from __future__ import annotations

import signal
import socket
from collections.abc import Generator
from types import SimpleNamespace

import pytest
import uvicorn

from heliograph.errors import StoreUnavailable
from heliograph.server.workers import Workers, make_reports


@pytest.fixture
def started() -> list[bool]:
    return []


@pytest.fixture
def workers(started: list[bool]) -> Generator[Workers]:
    """A supervisor of two workers that live, and whom it would take forever to ask."""
    before = {number: signal.getsignal(number) for number in signal.valid_signals() if number < signal.SIGRTMIN}
    with socket.socket() as listener:
        made = Workers(uvicorn.Config("x", workers=2), listener, make_reports(), lambda: started.append(True))
        alive = SimpleNamespace(
            process=SimpleNamespace(is_alive=lambda: True), is_alive=lambda timeout: pytest.fail("was asked")
        )
        made.processes = [alive, alive]  # type: ignore[list-item]
        yield made
    for number, handler in before.items():
        if handler is not signal.getsignal(number):
            signal.signal(number, handler)


def test_start_is_told_once_all_serve(workers: Workers, started: list[bool]) -> None:
    workers.keep_subprocess_alive()
    workers._reports.put(None)
    workers.keep_subprocess_alive()
    assert started == []
    workers._reports.put(None)
    for worker in workers.processes:
        worker.is_alive = lambda timeout: True
    workers.keep_subprocess_alive()
    workers._reports.put(None)  # that of one that was replaced
    workers.keep_subprocess_alive()
    assert started == [True]


def test_failed_start_ends_all_without_asking_any(workers: Workers, started: list[bool]) -> None:
    workers._reports.put(StoreUnavailable("the store is gone"))
    workers.keep_subprocess_alive()
    assert workers.should_exit.is_set()
    assert str(workers.error) == "the store is gone"
    assert started == []
