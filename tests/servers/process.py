"""A server that tests start as a process of their own, on a free port of loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["ServerProcess", "folder_in_memory", "free_port"]

_ROOM_BYTES = 1 << 30


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def folder_in_memory() -> str | None:
    """Return a folder in memory for what waits for its disk more often than tests can; None if there is no room."""
    folder = "/dev/shm"
    return folder if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= _ROOM_BYTES else None


class ServerProcess:
    """A server that can be killed and started again on the same port with the same data.

    Args:
        command: Starts it.
        port: Where it then listens.
        output: File for what it prints.
        start_seconds: How long it may take.
    """

    def __init__(self, command: Sequence[str], port: int, output: Path, start_seconds: float) -> None:
        self.port = port
        self._command = list(command)
        self._output = output
        self._start_seconds = start_seconds
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens; raises if it does not in time, or ends."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
        deadline = time.monotonic() + self._start_seconds
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError(f"the server did not start: {self._output.read_text()[-2000:]}") from None
                time.sleep(0.05)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill it at once; one that is dead already stays so."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
