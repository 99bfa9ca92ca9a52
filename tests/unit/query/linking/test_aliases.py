"""Entities named by an alias: found through the names that their mentions bear."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph, NewDocument, QueryParam
from heliograph.query.fusion import FusedSearch
from heliograph.query.linking import Named, alias_spans, question_spans
from heliograph.testing.fakes import FakeEmbeddingModel

DOCUMENTS = {
    "health": (
        "World Health Organization",
        "The World Health Organization (WHO) has its seat in Geneva. WHO was founded in 1948.",
    ),
    "singer": ("Hank Marlow", "Hank Marlow moved to Riverton in 1949 and died there after a long illness."),
    "stage": ("Blue Drifter", "Blue Drifter is the name under which a singer appeared in Riverton."),
    "bread": ("Bread", "Bread is baked from flour, water and salt."),
}


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncIterator[AsyncHeliograph]:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        await kb.insert([NewDocument(text, source=name, title=title) for name, (title, text) in DOCUMENTS.items()])
        yield kb


async def _linked(kb: AsyncHeliograph, question: str) -> dict[str, str]:
    """Return the ids of the entities that a question is found to name, by what it calls them."""
    model = FakeEmbeddingModel()
    (vector,) = (await model.embed([question], "query")).vectors
    found = await FusedSearch(kb.store, model).search(question, vector)
    return {entity.name: entity.id for entity in found.linked}


async def _id(kb: AsyncHeliograph, name: str) -> str:
    entity = await kb.entity(name)
    assert entity is not None
    return entity.id


def test_only_what_looks_like_a_name_may_be_an_alias() -> None:
    question = "Where does the WHO sit?"
    assert [span.text for span in alias_spans(question, question_spans(question), Named())] == [
        "WHO",
        "Where",
        "Where does the WHO",
    ]


def test_every_run_of_a_question_without_capitals_may_be_an_alias() -> None:
    question = "where does who sit"
    assert "who" in {span.text for span in alias_spans(question, question_spans(question), Named())}


async def test_acronym_links_the_entity_that_documents_spell_out(kb: AsyncHeliograph) -> None:
    linked = await _linked(kb, "Where is the seat of the WHO?")
    assert linked["WHO"] == await _id(kb, "World Health Organization")


async def test_name_of_a_merged_entity_links_the_one_it_went_into(kb: AsyncHeliograph) -> None:
    merged = await _id(kb, "Blue Drifter")
    await kb.merge_entities(["Blue Drifter"], "Hank Marlow")
    linked = await _linked(kb, "Where did Blue Drifter die?")
    assert linked == {"Blue Drifter": await _id(kb, "Hank Marlow")}
    assert linked["Blue Drifter"] != merged


async def test_alias_lifts_the_chunks_about_its_entity(kb: AsyncHeliograph) -> None:
    await kb.merge_entities(["Blue Drifter"], "Hank Marlow")
    found = await kb.query_data("Where did Blue Drifter die?", QueryParam(mode="fusion"))
    scores = {chunk["file_path"]: chunk["scores"] for chunk in found["data"]["chunks"]}
    assert scores["singer"]["entity"] > 0
