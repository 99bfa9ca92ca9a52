"""A real service on loopback for the client's tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from ...serving import Serve, serving


@pytest.fixture
def serve(tmp_path: Path) -> Generator[Serve]:
    """Give a function that starts a service with two documents in it and returns its address."""
    with serving(tmp_path / "kb") as start:
        yield start
