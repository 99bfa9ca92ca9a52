from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("llama_index.core", reason="needs llama-index-core (extra llama-index)")

from llama_index.core.schema import MetadataMode

from heliograph.adapters.llama_index import HeliographRetriever
from heliograph.errors import InvalidRequestError
from heliograph.sync import Heliograph
from heliograph.testing.fakes import FakeEmbeddingModel

from .conftest import QUESTION, example


async def test_nodes_come_by_both_faces(folder: str) -> None:
    retriever = HeliographRetriever(data_dir=folder, mode="fusion", filter={"team": "red"})
    (found,) = await asyncio.to_thread(retriever.retrieve, QUESTION)
    assert "Ann leads Bob" in found.node.get_content()
    assert found.node.metadata["source"] == "team.md"
    assert found.score == pytest.approx(sum(found.node.metadata["scores"].values()))
    assert found.node.ref_doc_id == found.node.metadata["document_id"]
    shown = found.node.get_content(MetadataMode.LLM)
    assert "team.md" in shown
    assert "chunk_id" not in shown
    assert [item.node_id for item in await retriever.aretrieve(QUESTION)] == [found.node_id]
    retriever.close()


def test_retriever_is_written_down_and_read_back(folder: str) -> None:
    retriever = HeliographRetriever(data_dir=folder, mode="naive", chunk_top_k=1)
    again = HeliographRetriever.from_dict(retriever.to_dict())
    assert len(again.retrieve(QUESTION)) == 1
    again.close()
    with Heliograph(folder, embedding=FakeEmbeddingModel(16)) as kb, pytest.raises(InvalidRequestError):
        HeliographRetriever(kb=kb).to_dict()


def test_example_of_the_page_runs(folder: str) -> None:
    exec(compile(example("LlamaIndex"), "adapters.md", "exec"), {"__name__": "__main__"})
