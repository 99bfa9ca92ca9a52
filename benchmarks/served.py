"""`heliograph serve` in a process of its own: started with some settings, watched, signalled.

    with served(folder, chat={"model": "m"}) as server: ...

Settings go in as environment, so nothing of the machine's own configuration but what is given counts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

__all__ = ["Served", "served"]

_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_ADDRESS = re.compile(r"listening on (http://\S+)")
_KIB = re.compile(r"VmRSS:\s+(\d+) kB")


class Served:
    """A running service.

    Args:
        process: It.
        log: Where its standard error goes.
        begin: Where in it this process began to write.

    Attributes:
        address: Where it listens.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path, begin: int) -> None:
        self._process = process
        self._log = log
        self._begin = begin
        self.address = self._wait_for_address()

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_bytes()[self._begin :].decode("utf-8", "replace")

    @property
    def pid(self) -> int:
        """Of the process; with several workers, of what watches over them."""
        return self._process.pid

    def workers(self) -> list[int]:
        """Return the processes of several workers, as far as the system tells (Linux)."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text("ascii").split()
        return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]

    def resident_mib(self) -> float:
        """Return the resident memory of the process (Linux; 0 elsewhere)."""
        status = Path(f"/proc/{self.pid}/status")
        found = _KIB.search(status.read_text("ascii")) if status.exists() else None
        return int(found[1]) / 1024 if found else 0.0

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(_STOP_SECONDS)

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            # It is bound before it listens.
            if (found := _ADDRESS.search(self.log)) is not None and _is_listening(found[1]):
                return found[1]
            time.sleep(0.05)
        raise RuntimeError(f"the service did not start: {self.log}")


@contextmanager
def served(folder: Path, **sections: dict[str, Any]) -> Generator[Served]:
    """Start it on a folder, and stop it in the end, if it has not been.

    Args:
        folder: Its data.
        **sections: Settings by section.
    """
    log = folder.with_suffix(".log")
    command = [sys.executable, "-m", "heliograph", "serve", "--port", "0"]
    with log.open("ab") as output:
        begin = output.tell()
        process = subprocess.Popen(
            command, cwd=folder.parent, env=_environment(folder, sections), stdout=output, stderr=output
        )
    try:
        yield Served(process, log, begin)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_listening(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health").is_success
    except httpx.TransportError:
        return False


def _environment(folder: Path, sections: dict[str, dict[str, Any]]) -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if not name.startswith("HELIOGRAPH_")}
    found["HELIOGRAPH_STORE__DATA_DIR"] = str(folder)
    for section, values in sections.items():
        for name, value in values.items():
            written = value if isinstance(value, str) else json.dumps(value)
            found[f"HELIOGRAPH_{section}__{name}".upper()] = written
    return found
