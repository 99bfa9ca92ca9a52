"""Qdrant for the tests: a stand-in of a server, or the real one that the environment names.

No package brings Qdrant's server, so `tests/servers/qdrant_rest.py` stands in for it: Qdrant's engine behind HTTP of
ours. With `HELIOGRAPH_TEST_QDRANT_URL`, such as `qdrant://:key@127.0.0.1:6333`, whatever does not kill it or fill its
disk runs on that one; collections that begin with `heliograph-test-` stay there.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.process import ServerProcess, folder_in_memory, free_port

__all__ = ["QdrantPlace", "QdrantServer", "qdrant_place", "running_qdrant"]

_START_SECONDS = 30.0
_HOW = (
    "needs Qdrant's engine: pip install qdrant-edge-py, "
    "or set HELIOGRAPH_TEST_QDRANT_URL=qdrant://[:key@]host:6333 to a server"
)


class QdrantServer(ServerProcess):
    """The stand-in, which keeps what it acknowledged, as far as a killed process is concerned."""

    api_key = "let-me-in"

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self._folder = folder / "storage"
        self._folder.mkdir()
        script = Path(__file__).with_name("qdrant_rest.py")
        command = [sys.executable, str(script), str(port), str(self._folder), self.api_key]
        super().__init__(command, port, folder / "output.txt", _START_SECONDS)

    def set_key(self, api_key: str) -> None:
        """Let in whoever has another key, from the next start on."""
        self._command[-1] = api_key

    @property
    def url(self) -> str:
        """The address with the key."""
        return f"qdrant://:{self.api_key}@127.0.0.1:{self.port}"

    def forget(self, collection: str = "*") -> None:
        """Throw away what it keeps in a collection, or in all, while it does not run."""
        for path in self._folder.glob(f"{collection}.json"):
            path.unlink()
            shutil.rmtree(path.with_suffix(""))


@dataclass(frozen=True)
class QdrantPlace:
    """Where a Qdrant is that tests share, each with workspaces of its own."""

    address: str

    def url(self, dimension: int) -> str:
        """Return an address whose collections hold vectors of this length."""
        return f"{self.address}?prefix=heliograph-test-{dimension}-"


@contextmanager
def running_qdrant(parent: Path | None = None) -> Generator[QdrantServer]:
    """Start a stand-in; skips where its engine is not there, and says how to get it.

    Args:
        parent: Where its folder is made.
    """
    pytest.importorskip("qdrant_client", reason="needs: pip install 'heliograph[qdrant]'")
    pytest.importorskip("qdrant_edge", reason=_HOW)
    with tempfile.TemporaryDirectory(prefix="heliograph-qdrant-", dir=parent or folder_in_memory()) as folder:
        server = QdrantServer(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


@contextmanager
def qdrant_place() -> Generator[QdrantPlace]:
    """Use the server that the environment names, or start a stand-in."""
    if url := os.environ.get("HELIOGRAPH_TEST_QDRANT_URL"):
        yield QdrantPlace(url)
        return
    with running_qdrant() as server:
        yield QdrantPlace(server.url)
