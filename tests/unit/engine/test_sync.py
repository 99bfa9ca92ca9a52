from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph, Heliograph, QueryParam
from heliograph.embedding.base import EmbeddingKind, Embeddings
from heliograph.errors import InvalidRequestError, StoreUnavailable
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

TEXT = "The Lantern forwards readings over MQTT."


@pytest.fixture
def kb(tmp_path: Path):
    with Heliograph(tmp_path, embedding=FakeEmbeddingModel(dimension=32)) as kb:
        yield kb


def _methods(owner: type) -> dict[str, object]:
    return {name: item for name, item in vars(owner).items() if not name.startswith("_") and callable(item)}


# What a view gives is read with `await`.
ASYNC_ONLY = {"view"}


def test_both_faces_have_the_same_methods_and_arguments() -> None:
    for name, method in _methods(AsyncHeliograph).items():
        if name in ASYNC_ONLY:
            continue
        other = _methods(Heliograph)[name]
        assert list(inspect.signature(method).parameters) == list(inspect.signature(other).parameters), name
    assert set(_methods(Heliograph)) == set(_methods(AsyncHeliograph)) - ASYNC_ONLY


def test_document_goes_in_and_answers_come_out(kb: Heliograph) -> None:
    kb.insert(TEXT, sources=["a.md"])
    assert "MQTT" in kb.query("What does the Lantern forward?").text
    assert kb.query_data("What does the Lantern forward?")["status"] == "success"
    assert kb.stats().chunks == 1


def test_many_threads_may_use_one_engine(kb: Heliograph) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: kb.insert(f"{TEXT} Plant {number}.", sources=[f"{number}.md"]), range(16)))
        answers = list(pool.map(lambda _: kb.query("What does the Lantern forward?").text, range(16)))
    assert kb.stats().chunks == 16
    assert all("MQTT" in answer for answer in answers)


async def test_sync_face_works_inside_a_running_loop(tmp_path: Path) -> None:
    def use() -> int:
        with Heliograph(tmp_path, embedding=FakeEmbeddingModel(dimension=32)) as kb:
            kb.insert(TEXT)
            return kb.stats().chunks

    assert use() == 1
    assert await asyncio.to_thread(use) == 1


def test_stream_gives_references_first_then_pieces(tmp_path: Path) -> None:
    chat = FakeChatModel("one two three", piece_characters=4)
    with Heliograph(tmp_path, embedding=FakeEmbeddingModel(dimension=32), chat=chat) as kb:
        kb.insert(TEXT, sources=["a.md"])
        stream = kb.query_stream("What does the Lantern forward?", QueryParam(mode="naive"))
        assert [reference.source for reference in stream.retrieval.context.references] == ["a.md"]
        assert "".join(stream) == "one two three"


def test_stream_left_early_cancels_the_call(tmp_path: Path) -> None:
    chat = FakeChatModel("word " * 100, piece_characters=5)
    with Heliograph(tmp_path, embedding=FakeEmbeddingModel(dimension=32), chat=chat) as kb:
        kb.insert(TEXT, sources=["a.md"])
        for piece in kb.query_stream("What does the Lantern forward?", QueryParam(mode="naive")):
            assert piece.strip() == "word"
            break


def test_errors_come_through_unchanged(kb: Heliograph) -> None:
    with pytest.raises(InvalidRequestError):
        kb.query("")


def test_closed_engine_says_so(tmp_path: Path) -> None:
    kb = Heliograph(tmp_path, embedding=FakeEmbeddingModel(dimension=32))
    with pytest.raises(StoreUnavailable, match="closed"):
        kb.stats()
    kb.close()
    kb.open()
    kb.close()
    kb.close()


def test_work_that_is_broken_off_comes_to_its_end_before_the_loop_does(tmp_path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    class Slow(FakeEmbeddingModel):
        async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
            begun.set()
            try:
                return await asyncio.Event().wait() or await super().embed(texts, kind)
            finally:
                await asyncio.sleep(0)
                ended.set()

    kb = Heliograph(tmp_path, embedding=Slow(dimension=32)).open()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(kb.query, "What?")
        assert begun.wait(30)
        kb.close()
        assert ended.is_set()
        with pytest.raises(CancelledError):
            asked.result()


def test_call_from_a_progress_callback_is_refused_and_the_engine_goes_on(kb: Heliograph) -> None:
    refused: list[str] = []

    def call_back(_: object) -> None:
        for call in (kb.stats, kb.close, lambda: list(kb.query_stream("What does the Lantern forward?"))):
            with pytest.raises(InvalidRequestError, match="the engine's own thread") as failure:
                call()
            refused.append(str(failure.value))

    kb.insert(TEXT, progress=call_back)
    kb.query("What does the Lantern forward?", progress=call_back)
    assert len(refused) > 3
    assert kb.stats().chunks == 1


def test_stream_read_in_a_callback_is_refused_and_closed(kb: Heliograph) -> None:
    kb.insert(TEXT)
    pieces = iter(kb.query_stream("What does the Lantern forward?"))
    next(pieces)
    refused: list[str] = []

    def call_back(_: object) -> None:
        try:
            refused.extend(pieces)
        except InvalidRequestError as error:
            refused.append(str(error))

    kb.query("What does the Lantern forward?", progress=call_back)
    assert [message for message in refused if "the engine's own thread" in message] == refused
    assert len(refused) == 1
