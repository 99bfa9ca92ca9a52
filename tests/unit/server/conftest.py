"""What all tests of the server share."""

from __future__ import annotations

import pytest

from heliograph.server.routes import service


@pytest.fixture(autouse=True)
def _patient_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `/health` wait for stores however slow the machine is; the test of its bound shortens it."""
    monkeypatch.setattr(service, "_READ_SECONDS", 60.0)
