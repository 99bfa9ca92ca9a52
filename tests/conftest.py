"""What holds for all tests. Network is banned but for loopback, warnings are errors: see pyproject.toml."""

from __future__ import annotations

from hypothesis import settings

# Machines are shared: how long an example takes says nothing.
settings.register_profile("heliograph", deadline=None)
settings.load_profile("heliograph")
