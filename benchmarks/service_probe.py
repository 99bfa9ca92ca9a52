"""The process that `benchmarks.service_start` measures: `python -m benchmarks.service_probe FOLDER` prints JSON."""

from __future__ import annotations

import time

_STARTED = time.perf_counter()

import gc  # noqa: E402

import heliograph.cli  # noqa: E402, F401

# As the command does.
gc.disable()

from heliograph.server import run as _run  # noqa: E402, F401 (all that the command imports)
from heliograph.server.app import create_app  # noqa: E402

gc.freeze()
gc.enable()

_IMPORTED = time.process_time()

# Only now, so that what the benchmark itself needs is not counted as the service's import.
import asyncio  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

import uvicorn  # noqa: E402

from benchmarks.corpus import CorpusExtractor, HashEmbedding  # noqa: E402
from benchmarks.large_store import DIMENSION  # noqa: E402
from benchmarks.measure import peak_memory_mib  # noqa: E402
from heliograph.embedding.base import build_embedding_model  # noqa: E402
from heliograph.engine import Given  # noqa: E402
from heliograph.settings import Settings  # noqa: E402

__all__ = ["probe"]


async def probe(folder: Path) -> dict[str, float]:
    """Serve a workspace until it says that it is ready; return seconds of each step and the peak memory in MiB."""
    before = time.process_time()
    settings = Settings.load(store={"data_dir": folder})
    # The workspace is filled with vectors that cost nothing; what the offline model costs to load is added.
    model = await build_embedding_model(settings.embedding)
    given = Given(embedding=HashEmbedding(DIMENSION, rows=256), extractor=CorpusExtractor())
    app = create_app(settings, given)
    server = uvicorn.Server(uvicorn.Config(app, port=0, http="h11", log_level="error", lifespan="on"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 (uvicorn sets no event)
        await asyncio.sleep(0.001)
    entities = await _ask(server)
    ready = time.process_time()
    wall = time.perf_counter() - _STARTED
    server.should_exit = True
    await serving
    await model.close()
    return {
        "import": _IMPORTED,
        "open": ready - before,
        "wall": wall,
        "peak": peak_memory_mib(),
        "entities": entities,
    }


async def _ask(server: uvicorn.Server) -> int:
    port = server.servers[0].sockets[0].getsockname()[1]
    for path in ("/ready", "/workspaces/default"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(f"{path} was answered with {head!r}")
    return int(json.loads(body)["entities"])


if __name__ == "__main__":
    print(json.dumps(asyncio.run(probe(Path(sys.argv[1])))))
