"""With the local extractor an updated document is what a fresh insert of its new text would be."""

from __future__ import annotations

import pytest

from heliograph.extraction.local import LocalExtractor
from heliograph.ingest.models import NewDocument
from heliograph.settings import IngestSettings
from tests.memory_store import MemoryStore

from .world import make_pipeline, snapshot

FILLER = "The valley lies in the north. The river Lys runs through it, and the town of Ghent stands on its banks. "
INTRODUCTION = "Anna Weber founded the Lys Pottery in 1921. "
PARTS = [
    INTRODUCTION + FILLER * 3,
    "Weber sold the pottery to Karl Lindgren. " + FILLER * 3,
    "In 1950 Lindgren moved it to Bruges. " + FILLER * 3,
    "The Lys Pottery (LP) closed. Weber died in Ostend. " + FILLER * 3,
]


def pipeline_of(store: MemoryStore):
    return make_pipeline(store, LocalExtractor(), settings=IngestSettings(chunk_tokens=60, overlap_tokens=0))


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param([PARTS[0].replace("Anna Weber", "Berta Weber"), *PARTS[1:]], id="a full name changes"),
        pytest.param([PARTS[0].replace(INTRODUCTION, ""), *PARTS[1:]], id="a full name goes"),
        pytest.param([*PARTS, "Otto Weber came later. " + FILLER], id="a second person of that name comes"),
        pytest.param([PARTS[1], PARTS[0], *PARTS[2:]], id="parts change places"),
        pytest.param(PARTS[2:], id="the beginning goes"),
        pytest.param(["# Pottery", *PARTS], id="a title comes"),
    ],
)
async def test_update_equals_a_fresh_insert(edited: list[str]) -> None:
    updated, fresh = MemoryStore(), MemoryStore()
    pipeline = pipeline_of(updated)
    await pipeline.insert([NewDocument("\n\n".join(PARTS), "pottery.md")])
    await pipeline.insert([NewDocument("\n\n".join(edited), "pottery.md")])
    await pipeline_of(fresh).insert([NewDocument("\n\n".join(edited), "pottery.md")])
    assert await snapshot(updated) == await snapshot(fresh)
