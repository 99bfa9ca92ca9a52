"""What the supervisor of several workers makes of their reports, and of those that are gone."""

from __future__ import annotations

import signal
import socket
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import uvicorn
from uvicorn.config import STARTUP_FAILURE

from heliograph.errors import HeliographError, StoreUnavailable
from heliograph.server import run as workers_module
from heliograph.server.run import Reports, Workers


class FakeWorker:
    """A process that lives until told otherwise, and answers if it may be asked."""

    made: list[FakeWorker]

    def __init__(self, *_: object) -> None:
        self.pid = 1 + len(self.made)
        self.exitcode: int | None = None
        self.process = SimpleNamespace(is_alive=lambda: self.exitcode is None)
        self.asked = 0
        self.answers = True
        self.made.append(self)

    def start(self) -> None:
        """It lives from the beginning."""

    def is_alive(self, timeout: float) -> bool:
        assert timeout > 0
        self.asked += 1
        return self.exitcode is None and self.answers

    def kill(self) -> None:
        self.exitcode = -9

    def terminate(self) -> None:
        self.exitcode = 0

    def join(self) -> None:
        assert self.exitcode is not None


class FakeReports:
    """Reports of one process."""

    def __init__(self) -> None:
        self.told: list[tuple[int, HeliographError | None]] = []

    def empty(self) -> bool:
        return not self.told

    def get(self) -> tuple[int, HeliographError | None]:
        return self.told.pop(0)


@pytest.fixture
def started() -> list[bool]:
    return []


@pytest.fixture
def reports() -> FakeReports:
    return FakeReports()


@pytest.fixture
def workers(
    started: list[bool], reports: FakeReports, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Generator[Workers]:
    """A supervisor of two workers, which are 1 and 2."""
    FakeWorker.made = []
    monkeypatch.setattr(workers_module, "Process", FakeWorker)
    monkeypatch.setattr(workers_module, "_REST_SECONDS", 0.0)
    before = {number: signal.getsignal(number) for number in signal.valid_signals() if number < signal.SIGRTMIN}
    with socket.socket() as listener:
        config = uvicorn.Config("x", workers=2)
        made = Workers(config, listener, cast("Reports", reports), tmp_path, lambda: started.append(True))
        made.init_processes()
        yield made
    for number, handler in before.items():
        if handler is not signal.getsignal(number):
            signal.signal(number, handler)


def both_serve(workers: Workers, reports: FakeReports) -> None:
    reports.told += [(1, None), (2, None)]
    workers.keep_subprocess_alive()


def asked() -> list[int]:
    return [worker.asked for worker in FakeWorker.made]


def pids(workers: Workers) -> list[int | None]:
    return [worker.pid for worker in workers.processes]


def test_start_is_told_once_all_serve(workers: Workers, reports: FakeReports, started: list[bool]) -> None:
    reports.told.append((2, None))
    workers.keep_subprocess_alive()
    assert started == []
    reports.told.append((1, None))
    workers.keep_subprocess_alive()
    workers.keep_subprocess_alive()
    assert started == [True]


def test_worker_is_asked_once_it_serves(workers: Workers, reports: FakeReports) -> None:
    reports.told.append((2, None))
    workers.keep_subprocess_alive()
    workers.keep_subprocess_alive()
    assert asked() == [0, 2]


def test_worker_that_takes_too_long_to_report_is_asked(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "_UNASKED_SECONDS", 0.0)
    workers.keep_subprocess_alive()
    assert asked() == [1, 1]


def test_failed_start_ends_all(workers: Workers, reports: FakeReports, started: list[bool]) -> None:
    reports.told.append((1, StoreUnavailable("the store is gone")))
    workers.keep_subprocess_alive()
    assert workers.should_exit.is_set()
    assert str(workers.error) == "the store is gone"
    assert started == []
    assert pids(workers) == [1, 2]


def test_start_that_failed_without_a_report_ends_all(workers: Workers) -> None:
    FakeWorker.made[1].exitcode = STARTUP_FAILURE
    workers.keep_subprocess_alive()
    assert workers.should_exit.is_set()
    assert workers.has_failed
    assert workers.error is None


def test_report_that_came_late_is_told(workers: Workers, reports: FakeReports, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeWorker.made[1].exitcode = STARTUP_FAILURE
    late = StoreUnavailable("the store is gone")
    reports.told.append((2, late))
    looks = iter([True, False, True])
    monkeypatch.setattr(reports, "empty", lambda: next(looks))
    workers.keep_subprocess_alive()
    assert workers.error is late
    assert not workers.has_failed


def test_worker_that_is_gone_is_replaced_by_one_that_is_not_asked_yet(
    workers: Workers, reports: FakeReports, tmp_path: Path
) -> None:
    both_serve(workers, reports)
    gone, other = tmp_path / "gauge_livesum_1.db", tmp_path / "gauge_livesum_2.db"
    gone.touch()
    other.touch()
    FakeWorker.made[0].exitcode = -9
    workers.keep_subprocess_alive()
    assert pids(workers) == [3, 2]
    assert list(tmp_path.iterdir()) == [other]
    workers.keep_subprocess_alive()
    assert FakeWorker.made[2].asked == 0
    reports.told.append((3, None))
    workers.keep_subprocess_alive()
    assert FakeWorker.made[2].asked == 1


def test_worker_that_hangs_is_ended_and_replaced(workers: Workers, reports: FakeReports) -> None:
    both_serve(workers, reports)
    FakeWorker.made[1].answers = False
    workers.keep_subprocess_alive()
    assert FakeWorker.made[1].exitcode == -9
    assert pids(workers) == [1, 3]


def test_replacement_that_cannot_start_is_tried_again_after_a_rest(
    workers: Workers, reports: FakeReports, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_serve(workers, reports)
    FakeWorker.made[0].exitcode = -9
    workers.keep_subprocess_alive()
    monkeypatch.setattr(workers_module, "_REST_SECONDS", 60.0)
    reports.told.append((3, StoreUnavailable("the store is gone")))
    FakeWorker.made[2].exitcode = STARTUP_FAILURE
    workers.keep_subprocess_alive()
    assert "cannot start: the store is gone" in caplog.text
    assert pids(workers) == [3, 2]
    monkeypatch.setattr(workers_module, "_REST_SECONDS", 0.0)
    workers.keep_subprocess_alive()
    assert pids(workers) == [4, 2]
    assert workers.error is None
    assert not workers.should_exit.is_set()


def test_worker_more_is_not_asked_while_it_starts(workers: Workers, reports: FakeReports) -> None:
    both_serve(workers, reports)
    workers.handle_ttin()
    workers.keep_subprocess_alive()
    assert pids(workers) == [1, 2, 3]
    assert FakeWorker.made[2].asked == 0


def test_nothing_is_kept_of_workers_that_were_retired_or_replaced(workers: Workers, reports: FakeReports) -> None:
    both_serve(workers, reports)
    FakeWorker.made[0].exitcode = -9
    workers.keep_subprocess_alive()
    workers.handle_ttou()
    workers.keep_subprocess_alive()
    assert pids(workers) == [3]
    assert list(workers._starting) == [3]  # pyright: ignore[reportPrivateUsage]
