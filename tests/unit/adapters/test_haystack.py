from __future__ import annotations

import asyncio
import os

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # Read when it is imported.
pytest.importorskip("haystack", reason="needs haystack-ai (extra haystack)")

from haystack import Pipeline

from heliograph.adapters.haystack import HeliographRetriever
from heliograph.errors import InvalidRequestError
from heliograph.sync import Heliograph
from heliograph.testing.fakes import FakeEmbeddingModel

from .conftest import QUESTION, example


async def test_documents_come_by_both_faces(folder: str) -> None:
    retriever = HeliographRetriever(data_dir=folder, mode="fusion", filter={"team": "red"})
    (document,) = (await asyncio.to_thread(retriever.run, QUESTION))["documents"]
    assert "Ann leads Bob" in document.content
    assert document.meta["source"] == "team.md"
    assert document.score > 0
    assert (await retriever.run_async(QUESTION))["documents"] == [document]
    assert retriever.run(QUESTION, filters={"team": "blue"}, mode="naive")["documents"][0].meta["source"] == "town.md"
    retriever.close()


def test_component_works_in_a_pipeline_that_was_written_down(folder: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", HeliographRetriever(folder, mode="naive", chunk_top_k=1))
    written = pipeline.dumps()
    again = Pipeline.loads(written, allowed_modules=["heliograph.adapters.haystack"])
    found = again.run({"retriever": {"query": QUESTION}})["retriever"]["documents"]
    assert len(found) == 1
    again.get_component("retriever").close()
    with Heliograph(folder, embedding=FakeEmbeddingModel(16)) as kb, pytest.raises(InvalidRequestError):
        HeliographRetriever(kb=kb).to_dict()


def test_example_of_the_page_runs(folder: str) -> None:
    exec(compile(example("Haystack"), "adapters.md", "exec"), {"__name__": "__main__"})
