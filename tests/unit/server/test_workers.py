"""What the supervisor of several workers makes of their reports."""

from __future__ import annotations

import signal
import socket
from collections.abc import Generator
from types import SimpleNamespace

import pytest
import uvicorn

from heliograph.errors import StoreUnavailable
from heliograph.server import workers as workers_module
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


def test_replacement_that_cannot_start_ends_nothing(
    workers: Workers, started: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    for worker in workers.processes:
        worker.is_alive = lambda timeout: True
    for report in (None, None, StoreUnavailable("the store is gone")):
        workers._reports.put(report)
    workers.keep_subprocess_alive()
    assert started == [True]
    assert workers.error is None
    assert not workers.should_exit.is_set()
    assert "cannot start: the store is gone" in caplog.text


def test_workers_that_take_too_long_to_report_are_asked(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    for worker in workers.processes:
        worker.is_alive = lambda timeout: not asked.append(timeout)
    workers.keep_subprocess_alive()
    assert asked == []
    monkeypatch.setattr(workers_module, "_UNASKED_SECONDS", 0)
    workers.keep_subprocess_alive()
    assert len(asked) == 2
