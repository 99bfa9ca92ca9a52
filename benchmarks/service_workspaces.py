"""Opens many small workspaces in one service: 10,000 in its folder, 200 of them open at once.

Each holds 20 short documents and is a copy of the first, so that the folder is made in a minute. The service runs in
this process with a fake embedding. CPU time, and the peak of resident memory, first while none but the default
workspace is open, then while 200 are, then when each of these has answered a question.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Stopwatch, peak_memory_mib, pin
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.engine import AsyncHeliograph, Given
from heliograph.models import Mode
from heliograph.query.models import QueryParam
from heliograph.service.service import Service
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

__all__ = ["TITLE", "run"]

TITLE = "Thousands of small workspaces"

_DOCUMENTS = 20
_MOST_OPEN_MILLISECONDS = 50.0
_MOST_MIB = 1_536.0
_PARAM = QueryParam(mode=Mode.MIX)


def run(options: Options) -> Findings:
    """Make the folder, and measure."""
    how = pin()
    count, opened = (30, 5) if options.quick else (10_000, 200)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(_measure(Path(folder), count, opened, 0.2 if options.quick else 30.0))
    return Findings(figures, (f"{count:,} workspaces of {_DOCUMENTS} documents, {opened} opened; {how}.",))


async def _measure(folder: Path, count: int, opened: int, idle_seconds: float) -> tuple[Figure, ...]:
    names = [f"small-{number:05}" for number in range(count)]
    given = Given(embedding=FakeEmbeddingModel())
    settings = Settings.load(
        store={"data_dir": str(folder), "workspace": names[0]}, server={"max_open_workspaces": opened + 1}
    )
    texts = [f"The lantern {number} speaks MQTT over TLS to the broker {number}." for number in range(_DOCUMENTS)]
    async with AsyncHeliograph(settings=settings, embedding=given.embedding) as kb:
        await kb.insert(texts, sources=[f"{number}.md" for number in range(_DOCUMENTS)])
    for name in names[1:]:
        shutil.copytree(folder / names[0], folder / name)
    opening, asking = Stopwatch(), Stopwatch()
    async with Service(settings, given) as service:
        looking = await _until_idle()
        before, memory = time.process_time(), peak_memory_mib()
        await asyncio.sleep(idle_seconds)
        idle = (time.process_time() - before) / idle_seconds
        some = names[1 :: max(1, count // (opened + 1))][:opened]
        for name in some:
            with opening.lap():
                async with service.workspaces.use(name) as kb:
                    await kb.stats()
        opened_memory = peak_memory_mib()
        for name in some:
            with asking.lap():
                async with service.workspaces.use(name) as kb:
                    await kb.query_data("How does the lantern speak?", _PARAM)
        asked_memory = peak_memory_mib()
    return (
        Figure("looking through all for work that was left", looking / count * 1000, "ms CPU each, once"),
        Figure("all idle", idle * 1000, "ms CPU/s", at_most=5.0),
        Figure("memory, one open", memory, "MiB"),
        Figure("opening one", statistics.median(opening.laps), "ms CPU", at_most=_MOST_OPEN_MILLISECONDS),
        Figure("its first question, mix", statistics.median(asking.laps), "ms CPU"),
        Figure(f"memory, {opened} open", opened_memory, "MiB", at_most=_MOST_MIB),
        Figure("memory when each has answered", asked_memory, "MiB", at_most=_MOST_MIB),
    )


async def _until_idle() -> float:
    """Wait until the service does nothing any more, and return the CPU seconds that took."""
    start = before = time.process_time()
    while True:
        await asyncio.sleep(0.5)
        now = time.process_time()
        if now - before < 0.01:
            return now - start
        before = now
