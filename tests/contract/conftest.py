"""Engines beside the store are given the time they need: what is compared here is what they hold in the end."""

from __future__ import annotations

import pytest

from heliograph.stores import composed


@pytest.fixture(autouse=True)
def _patient_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    # A commit waits five seconds for a slow engine, which on a busy machine is then read as it was before.
    monkeypatch.setattr(composed, "_COMMIT_SECONDS", 60.0)
