"""Functions that programs call beside `initialize_storages`; none of them is needed here."""

from __future__ import annotations

from typing import Any


async def initialize_pipeline_status(workspace: str | None = None) -> None:
    """Do nothing: `initialize_storages` opens everything."""


def initialize_share_data(workers: int = 1, **_options: Any) -> None:
    """Do nothing: a store may be opened by several processes."""


def finalize_share_data() -> None:
    """Do nothing: nothing is shared between instances."""
