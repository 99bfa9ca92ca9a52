"""A small workspace in the embedded store, and what looks after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph
from heliograph.maintenance.check import Maintenance
from heliograph.testing.fakes import FakeEmbeddingModel

TEXTS = {
    "a.md": "# Brokers\n\nMosquitto is a broker by the Eclipse Foundation. Mosquitto speaks MQTT over TLS.",
    "b.md": "# Devices\n\nThe ESP32 speaks MQTT. Espressif makes the ESP32 in Shanghai.",
    "c.md": "# Cities\n\nShanghai is a city in China. The Eclipse Foundation sits in Brussels.",
}


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncIterator[AsyncHeliograph]:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as opened:
        await opened.insert(list(TEXTS.values()), sources=list(TEXTS))
        yield opened


@pytest.fixture
def maintenance(kb: AsyncHeliograph) -> Maintenance:
    return Maintenance(kb.store, FakeEmbeddingModel(), None, kb.settings.ingest)
