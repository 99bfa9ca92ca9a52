"""The service in a process of its own: `python -m benchmarks.service_server FOLDER`.

Writes its port as one line, then for every line that it reads the CPU seconds that it has taken so far.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from benchmarks.corpus import CorpusExtractor, HashEmbedding
from benchmarks.large_store import DIMENSION
from heliograph.embedding.base import EmbeddingKind, EmbeddingModel, Embeddings, build_embedding_model
from heliograph.engine import Given
from heliograph.server.app import create_app
from heliograph.settings import EmbeddingSettings, Settings

__all__ = ["PaidEmbedding", "main"]


class PaidEmbedding(HashEmbedding):
    """Gives the corpus's own vectors, and has the offline model embed the same texts for what that costs."""

    def __init__(self, dimension: int, model: EmbeddingModel) -> None:
        super().__init__(dimension)
        self._model = model

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """See `EmbeddingModel`."""
        paid = await self._model.embed(texts, kind)
        return Embeddings(self.vectors(texts), paid.usage)


async def _serve(folder: Path) -> None:
    settings = Settings(store={"data_dir": folder}, chat={"model": ""})  # pyright: ignore[reportArgumentType]
    model = await build_embedding_model(EmbeddingSettings(threads=1))  # pyright: ignore[reportCallIssue]
    app = create_app(settings, Given(embedding=PaidEmbedding(DIMENSION, model), extractor=CorpusExtractor()))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none")
        server = uvicorn.Server(config)
        threading.Thread(target=_tell_times, args=(server,), daemon=True).start()
        print(listener.getsockname()[1], flush=True)
        await server.serve([listener])
    await model.close()


def _tell_times(server: uvicorn.Server) -> None:
    for _ in sys.stdin:
        print(time.process_time(), flush=True)
    server.should_exit = True


def main(arguments: list[str]) -> None:
    """Serve the workspace in a folder until the input ends."""
    asyncio.run(_serve(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
