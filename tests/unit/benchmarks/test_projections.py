"""The checker of projections finds what is wrong: each test spoils one projection behind the engine's back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.corpus import CorpusExtractor, HashEmbedding, corpus_document
from benchmarks.projections import find_disagreements, read_contents

from heliograph import AsyncHeliograph
from heliograph.ids import document_id
from heliograph.stores.changeset import Changeset, Collection, TextEntry, VectorBatch

EMBEDDING = HashEmbedding(16)


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncIterator[AsyncHeliograph]:
    async with AsyncHeliograph(tmp_path, embedding=EMBEDDING, extractor=CorpusExtractor()) as opened:
        await opened.insert([corpus_document(number) for number in range(4)])
        yield opened


async def _wrong(kb: AsyncHeliograph) -> list[str]:
    return await find_disagreements(kb.store, EMBEDDING, await read_contents(kb.store))


async def test_sound_workspace_has_no_disagreement(kb: AsyncHeliograph) -> None:
    await kb.insert([corpus_document(1, 1), corpus_document(7)])
    await kb.delete(document_id(corpus_document(2).source))
    assert await _wrong(kb) == []


async def test_stale_fold_is_found(kb: AsyncHeliograph) -> None:
    (entity,) = await kb.entities(limit=1)
    await kb.store.apply(Changeset(entities=(replace(entity, description="what it was before"),)))
    assert any(f"entity {entity.id}" in line for line in await _wrong(kb))


async def test_missing_relation_and_wrong_degrees_are_found(kb: AsyncHeliograph) -> None:
    relation = (await kb.neighbours((await kb.entities(limit=1))[0].name)).relations[0]
    await kb.store.apply(Changeset(removed_relations=(relation.id,)))
    wrong = await _wrong(kb)
    assert f"relation: {relation.id} is missing" in wrong
    assert any(f"entity {relation.source_id}" in line for line in wrong)


async def test_stale_vector_is_found(kb: AsyncHeliograph) -> None:
    (entity,) = await kb.entities(limit=1)
    vectors = {Collection.ENTITIES: VectorBatch((entity.id,), EMBEDDING.vectors(["another text"]))}
    await kb.store.apply(Changeset(vectors=vectors))
    assert await _wrong(kb) == [f"the vector of {entity.id} in entities is not that of its text"]


async def test_wrong_full_text_is_found(kb: AsyncHeliograph) -> None:
    (chunk,) = await kb.chunks(document_id(corpus_document(0).source))
    await kb.store.apply(Changeset(texts={Collection.CHUNKS: (TextEntry(chunk.id, ("unrelated",)),)}))
    assert any(chunk.id in line and "full text" in line for line in await _wrong(kb))


async def test_left_over_chunk_is_found(kb: AsyncHeliograph) -> None:
    await kb.store.apply(Changeset(removed_documents=(document_id(corpus_document(0).source),)))
    assert any("chunks" in line for line in await _wrong(kb))
