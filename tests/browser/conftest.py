"""A headless Chromium that opens pages of a service on loopback.

Skipped where `selenium`, Chromium or its driver is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from ..serving import Serve, serving
from .browser import Browser, missing_parts, start_browser


@pytest.fixture
def serve(tmp_path: Path) -> Generator[Serve]:
    """Give a function that starts a service with two documents in it and returns its address."""
    with serving(tmp_path / "kb") as start:
        yield start


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    """Give a browser that all tests share."""
    if missing := missing_parts():
        pytest.skip(f"needs {', '.join(missing)} for tests in a browser")
    profile = tmp_path_factory.mktemp("profile")
    browser = start_browser(profile)
    try:
        yield browser
    finally:
        browser.quit()
        shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """Give the browser as if nothing had been opened in it."""
    chromium.forget()
    return chromium
