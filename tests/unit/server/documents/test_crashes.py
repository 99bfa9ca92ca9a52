"""What is accepted outlives its server: killed, stopped, or one of two on a store."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import TEXT
from .served_app import serve

pytestmark = pytest.mark.slow

_COUNT = 10
# Servers are forked from a process that has imported everything once.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([serve.__module__])


class Process:
    def __init__(self, folder: Path, delay: float) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.process = _CONTEXT.Process(target=serve, args=(folder, port, delay))
        self.process.start()
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)

    def wait_until_ready(self) -> None:
        for _ in range(600):
            try:
                if self.http.get("/documents/status_counts").status_code == 200:
                    return
            except httpx.TransportError:
                assert self.process.is_alive(), "the server ended"
            time.sleep(0.1)
        raise AssertionError("the server never became ready")

    def end(self, how: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, how)
        self.process.join(30)
        assert not self.process.is_alive(), "the server goes on"


@contextmanager
def serving(folder: Path, delay: float = 0.0) -> Generator[Process]:
    server = Process(folder, delay)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.process.kill()
        server.process.join()
        server.http.close()


def counts(server: Process) -> dict[str, int]:
    return server.http.get("/documents/status_counts").json()["status_counts"]


def wait_until(server: Process, condition: Any, seconds: float = 60.0) -> dict[str, int]:
    deadline = time.monotonic() + seconds
    while not condition(found := counts(server)):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def upload(server: Process, numbers: range) -> list[str]:
    """Upload files and texts in turn; return the sources that were accepted."""
    accepted: list[str] = []
    for number in numbers:
        name, text = f"{number}.md", f"{TEXT} Device {number} is in plant {number}."
        if number % 2:
            response = server.http.post("/documents/upload", files={"file": (name, text.encode())})
        else:
            response = server.http.post("/documents/text", json={"text": text, "file_source": name})
        assert response.status_code == 200, response.text
        accepted.append(name)
    return accepted


def processed(server: Process) -> list[str]:
    listed = server.http.get("/documents", params={"limit": 1000, "status": "processed"}).json()
    return sorted(item["source"] for item in listed["documents"])


def test_everything_accepted_is_processed_after_kill_9(tmp_path: Path) -> None:
    with serving(tmp_path, delay=0.2) as server:
        accepted = upload(server, range(_COUNT))
        wait_until(server, lambda found: found["processed"] >= 1)
        server.end(signal.SIGKILL)
    with serving(tmp_path) as server:
        wait_until(server, lambda found: found["processed"] == _COUNT)
        assert processed(server) == sorted(accepted)
        jobs = server.http.get("/documents/jobs").json()["jobs"]
        assert {job["state"] for job in jobs} <= {"done", "running", "waiting"}


def test_everything_accepted_is_processed_after_a_kill_right_after_the_last_response(tmp_path: Path) -> None:
    with serving(tmp_path, delay=5.0) as server:
        accepted = upload(server, range(4))
        server.end(signal.SIGKILL)
    with serving(tmp_path) as server:
        wait_until(server, lambda found: found["processed"] == 4)
        assert processed(server) == sorted(accepted)


def test_sigterm_parks_what_is_under_way(tmp_path: Path) -> None:
    with serving(tmp_path, delay=0.2) as server:
        upload(server, range(_COUNT))
        wait_until(server, lambda found: found["processed"] >= 1)
        server.end(signal.SIGTERM)
    with serving(tmp_path) as server:
        found = wait_until(server, lambda found: found["processed"] == _COUNT)
        assert found["failed"] == 0


def test_two_processes_on_one_store_do_all_of_it_once(tmp_path: Path) -> None:
    with serving(tmp_path, delay=0.05) as first, serving(tmp_path, delay=0.05) as second:
        accepted = upload(first, range(10)) + upload(second, range(10, 20))
        for server in (first, second):
            found = wait_until(server, lambda found: found["processed"] == 20)
            assert found["failed"] == 0
            assert processed(server) == sorted(accepted)
        job_ids = [
            {job["id"] for job in server.http.get("/documents/jobs").json()["jobs"]} for server in (first, second)
        ]
        assert job_ids[0] == job_ids[1]


def test_second_process_takes_over_when_the_first_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path, delay=0.5) as first, serving(tmp_path) as second:
        upload(first, range(6))
        wait_until(first, lambda found: found["processed"] >= 1)
        accepted = upload(second, range(6, 8))
        first.end(signal.SIGKILL)
        wait_until(second, lambda found: found["processed"] == 8)
        assert set(accepted) <= set(processed(second))
