"""A Redis server of its own for a test session: started on a free port of loopback, stopped by its process."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.process import folder_in_memory

__all__ = ["RedisServer", "running_redis"]

_START_SECONDS = 20.0


class RedisServer:
    """A server that can be killed and started again on the same port with the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = ["--appendonly", "yes", "--save", "", "--dir", str(self._folder), "--bind", "127.0.0.1"]
        command = ["redis-server", "--port", str(self.port), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextmanager
def running_redis(parent: Path | None = None) -> Generator[RedisServer]:
    """Start a server; skips where there is none, and says how to get one.

    Args:
        parent: Where its folder is made. On a busy disk, what it acknowledged may wait for a second to be written.
    """
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server: apt-get install redis-server, or brew install redis")
    with tempfile.TemporaryDirectory(dir=parent or folder_in_memory()) as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()
