"""A server process for tests that kill it."""

from __future__ import annotations

from pathlib import Path

import uvicorn

from heliograph.engine import Given
from heliograph.server.app import create_app
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

__all__ = ["serve"]


def serve(folder: Path, port: int, delay: float) -> None:
    """Serve a data folder until told to stop; each call of the embedding model takes `delay` seconds."""
    settings = Settings.load(
        store={"data_dir": folder, "write_timeout_seconds": 2.0},
        ingest={"max_parallel_documents": 1},
        server={"shutdown_seconds": 10.0},
    )
    app = create_app(settings, Given(embedding=FakeEmbeddingModel(delay_seconds=delay)))
    uvicorn.run(app, port=port, log_level="warning", timeout_graceful_shutdown=5)
