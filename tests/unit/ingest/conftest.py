from __future__ import annotations

import pytest

from heliograph.testing.fakes import FakeEmbeddingModel
from tests.memory_store import MemoryStore

from .world import SpelledExtractor


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def extractor() -> SpelledExtractor:
    return SpelledExtractor()


@pytest.fixture
def embedding() -> FakeEmbeddingModel:
    return FakeEmbeddingModel(16)
