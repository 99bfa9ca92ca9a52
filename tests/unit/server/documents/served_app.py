"""A server process for tests that kill it: `python served_app.py <data folder> <port> <seconds a model call takes>`."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn

from heliograph.opening import Given
from heliograph.server.app import create_app
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel


def main() -> None:
    folder, port, delay = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    settings = Settings.load(
        store={"data_dir": folder, "write_timeout_seconds": 2.0},
        ingest={"max_parallel_documents": 1},
        server={"shutdown_seconds": 10.0},
    )
    app = create_app(settings, Given(embedding=FakeEmbeddingModel(delay_seconds=delay)))
    uvicorn.run(app, port=port, log_level="warning", timeout_graceful_shutdown=5)


if __name__ == "__main__":
    main()
