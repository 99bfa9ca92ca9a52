from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("langchain_core", reason="needs langchain-core (extra langchain)")

from langchain_core.load import dumpd, load
from langchain_core.runnables import RunnableLambda

from heliograph.adapters.langchain import HeliographRetriever
from heliograph.errors import InvalidRequestError
from heliograph.sync import Heliograph
from heliograph.testing.fakes import FakeEmbeddingModel

from .conftest import QUESTION, example


async def test_documents_come_by_both_faces_and_in_a_chain(folder: str) -> None:
    retriever = HeliographRetriever(data_dir=folder, mode="fusion", filter={"team": "red"})
    (document,) = await asyncio.to_thread(retriever.invoke, QUESTION)
    assert "Ann leads Bob" in document.page_content
    assert document.metadata["source"] == "team.md"
    assert document.metadata["score"] > 0
    assert document.id == document.metadata["chunk_id"]
    assert await retriever.ainvoke(QUESTION) == [document]
    assert (await retriever.ainvoke(QUESTION, filter={"team": "blue"}))[0].metadata["source"] == "town.md"
    chain = retriever | RunnableLambda(lambda found: [item.metadata["source"] for item in found])
    assert await chain.ainvoke(QUESTION) == ["team.md"]
    with pytest.raises(InvalidRequestError):
        await retriever.ainvoke(QUESTION, mode="wrong")
    retriever.close()


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_retriever_is_written_down_and_read_back(folder: str) -> None:
    retriever = HeliographRetriever(data_dir=folder, mode="naive", chunk_top_k=1)
    written = dumpd(retriever)
    assert written["kwargs"] == {"data_dir": folder, "mode": "naive", "chunk_top_k": 1}
    again = load(written, valid_namespaces=["heliograph"], allowed_objects=[HeliographRetriever])
    assert isinstance(again, HeliographRetriever)
    assert (again.data_dir, again.mode, again.chunk_top_k) == (folder, "naive", 1)
    assert len(again.invoke(QUESTION)) == 1
    again.close()
    with Heliograph(folder, embedding=FakeEmbeddingModel(16)) as kb:
        assert dumpd(HeliographRetriever(kb=kb))["type"] == "not_implemented"


def test_example_of_the_page_runs(folder: str) -> None:
    exec(compile(example("LangChain"), "adapters.md", "exec"), {"__name__": "__main__"})
