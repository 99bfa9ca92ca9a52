"""The type that is written where nobody knows one: it gives way to any other, unless somebody edits it in."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph
from heliograph.errors import InvalidRequestError
from heliograph.ingest.given import parse_given_graph
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

from ..ingest.world import SpelledExtractor


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncGenerator[AsyncHeliograph]:
    made = AsyncHeliograph(
        tmp_path, settings=Settings(), embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor()
    )
    async with made as engine:
        await engine.insert(["Ann (person): leads.", "Thing (unknown): is there."], sources=["one.md", "two.md"])
        yield engine


async def type_of(kb: AsyncHeliograph, name: str) -> str:
    entity = await kb.entity(name)
    assert entity is not None
    return entity.type


@pytest.mark.parametrize("given", ["", "unknown", " UNKNOWN "])
async def test_entity_made_without_a_type_has_that_of_documents(kb: AsyncHeliograph, given: str) -> None:
    await kb.create_entity("Dee", type=given)
    assert await type_of(kb, "Dee") == "unknown"
    await kb.insert("Dee (ship): sails.", sources=["three.md"])
    assert await type_of(kb, "Dee") == "ship"


async def test_edit_to_unknown_is_done_until_a_later_edit_or_its_undoing(kb: AsyncHeliograph) -> None:
    edit = await kb.edit_entity("Ann", type="UNKNOWN")
    assert await type_of(kb, "Ann") == "unknown"
    await kb.edit_entity("Ann", type="captain")
    assert await type_of(kb, "Ann") == "captain"
    await kb.revise_entity("Ann", "Anna", type="unknown")
    assert await type_of(kb, "Anna") == "unknown"
    await kb.undo(edit.id)
    assert await type_of(kb, "Anna") == "unknown"


async def test_edit_that_writes_unknown_back_leaves_the_type_to_documents(kb: AsyncHeliograph) -> None:
    await kb.edit_entity("Thing", type="unknown", description="something")
    await kb.insert("Thing (tool): helps.", sources=["three.md"])
    assert await type_of(kb, "Thing") == "tool"


@pytest.mark.parametrize(("into", "merged"), [("Ann", "Thing"), ("Thing", "Ann"), ("Both", "Ann")])
async def test_unknown_never_wins_a_merge(kb: AsyncHeliograph, into: str, merged: str) -> None:
    await kb.create_entity("Maker", type="unknown")
    await kb.edit_entity("Thing", description="something")
    await kb.merge_entities([merged, "Thing", "Maker"], into=into)
    assert await type_of(kb, into) == "person"


async def test_edit_to_unknown_of_what_was_merged_says_nothing_of_the_rest(kb: AsyncHeliograph) -> None:
    await kb.insert("Bob (person): writes.", sources=["three.md"])
    await kb.edit_entity("Bob", type="unknown")
    await kb.merge_entities("Bob", into="Ann")
    assert await type_of(kb, "Ann") == "person"


@pytest.mark.parametrize("call", ["edit", "revise"])
async def test_empty_type_is_refused(kb: AsyncHeliograph, call: str) -> None:
    with pytest.raises(InvalidRequestError, match="the type of 'Ann' cannot be empty"):
        await (kb.edit_entity("Ann", type=" ") if call == "edit" else kb.revise_entity("Ann", "Anna", type=""))


@pytest.mark.parametrize("given", [{}, {"entity_type": None}, {"entity_type": ""}, {"entity_type": "UNKNOWN"}])
async def test_given_graph_without_a_type_casts_no_vote(kb: AsyncHeliograph, given: dict[str, str | None]) -> None:
    graph = parse_given_graph(
        {
            "chunks": [{"content": "Ann and Eve.", "source_id": "c"}],
            "entities": [{"entity_name": name, "description": None, **given} for name in ("Ann", "Eve")],
            "relationships": [{"src_id": "Ann", "tgt_id": "Eve", "keywords": None, "weight": None, "source_id": "c"}],
        }
    )
    await kb.insert_graph(graph.chunks, graph.entities, graph.relations)
    assert await type_of(kb, "Ann") == "person"
    assert await type_of(kb, "Eve") == "unknown"
    eve = await kb.entity("Eve")
    assert eve is not None
    assert "None" not in eve.description
