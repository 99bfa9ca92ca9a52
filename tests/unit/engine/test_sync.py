from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph, Heliograph, QueryParam
from heliograph.embedding.base import EmbeddingKind, Embeddings
from heliograph.errors import BadModelReply, InvalidRequestError, ModelUnavailable, SchemaMismatch, StoreUnavailable
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

TEXT = "The Lantern forwards readings over MQTT."


@pytest.fixture
def kb(tmp_path: Path):
    with Heliograph(tmp_path, embedding=FakeEmbeddingModel(dimension=32)) as kb:
        yield kb


def _methods(owner: type) -> dict[str, object]:
    return {name: item for name, item in inspect.getmembers(owner, callable) if not name.startswith("_")}


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


def make(folder: Path) -> Heliograph:
    return Heliograph(folder, embedding=FakeEmbeddingModel(dimension=32))


def test_first_call_opens_and_only_a_closed_engine_has_to_be_opened_again(tmp_path: Path) -> None:
    kb = make(tmp_path)
    assert kb.usage().total.calls == 0
    assert kb.insert(TEXT).results[0].error is None
    kb.close()
    kb.close()
    for call in (kb.stats, kb.usage, kb.pause, lambda: list(kb.watch(tmp_path)), lambda: kb.rename_entity("A", "B")):
        with pytest.raises(StoreUnavailable, match="was closed; open"):
            call()
    with kb.open():
        assert kb.stats().chunks == 1


def test_first_calls_of_many_threads_open_once(tmp_path: Path) -> None:
    kb = make(tmp_path)
    begun = threading.Barrier(8)

    def insert(number: int) -> None:
        begun.wait(30)
        kb.insert(f"{TEXT} Plant {number}.", sources=[f"{number}.md"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(insert, range(8)))
    assert kb.stats().chunks == 8
    assert sum(thread.name == "heliograph" for thread in threading.enumerate()) == 1
    kb.close()


def test_engine_that_cannot_be_opened_leaves_no_thread_and_opens_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "kb").write_text("a file")
    kb = make(tmp_path / "kb")
    with pytest.raises(StoreUnavailable):
        kb.stats()
    assert not any(thread.name == "heliograph" for thread in threading.enumerate())
    (tmp_path / "kb").unlink()
    assert kb.stats().chunks == 0
    kb.close()


def test_engine_that_nobody_holds_closes_itself(tmp_path: Path) -> None:
    kb = make(tmp_path)
    kb.insert(TEXT)
    (thread,) = [item for item in threading.enumerate() if item.name == "heliograph"]
    del kb
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()
    assert not (tmp_path / "default" / "heliograph.db-wal").exists()


END = """
import sys
from heliograph import Heliograph
from heliograph.testing.fakes import FakeEmbeddingModel
kb = Heliograph("kb", embedding=FakeEmbeddingModel(dimension=32))
kb.insert("The Lantern forwards readings over MQTT.")
assert kb.stats().chunks == 1
"""
ASYNC_END = """
import asyncio
from heliograph import AsyncHeliograph
from heliograph.testing.fakes import FakeEmbeddingModel
kb = AsyncHeliograph("kb", embedding=FakeEmbeddingModel(dimension=32))
async def use():
    await asyncio.gather(*(kb.insert(f"The Lantern forwards readings over MQTT {number}.") for number in range(4)))
    assert (await kb.stats()).chunks == 4
asyncio.run(use())
asyncio.run(use())
"""


@pytest.mark.parametrize(
    "program",
    [END, END + "sys.exit(0)", END + "global_list = [kb, kb.query_stream('What is it?'), kb.watch('.')]", ASYNC_END],
)
def test_interpreter_that_ends_closes_without_a_word(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", program]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    assert (tmp_path / "kb" / "default" / "heliograph.db").exists()
    assert not (tmp_path / "kb" / "default" / "heliograph.db-wal").exists()


def test_forked_process_is_told_to_make_its_own(tmp_path: Path) -> None:
    program = (
        END
        + """
import multiprocessing
from heliograph.errors import StoreUnavailable
def use():
    try:
        kb.stats()
    except StoreUnavailable as error:
        sys.exit(7 if "forked" in str(error) else 1)
child = multiprocessing.get_context("fork").Process(target=use)
child.start()
child.join(60)
assert child.exitcode == 7, child.exitcode
assert kb.stats().chunks == 1
"""
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


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


def _embed(texts: list[str]) -> list[list[float]]:
    return [[1.0 + text.count("a"), 1.0 + text.count("e"), 1.0 + len(text) % 7] for text in texts]


async def _reply(messages: list[dict[str, str]]) -> str:
    return "It forwards readings over MQTT [1]." if messages[-1]["role"] == "user" else ""


def _score(question: str, passages: list[str]) -> list[int]:
    return [len(set(question.split()) & set(passage.split())) for passage in passages]


def test_plain_functions_serve_as_models(tmp_path: Path) -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        return _embed(texts)

    for number, given in enumerate((_embed, embed)):
        folder = tmp_path / str(number)
        with Heliograph(folder, chat=_reply, embedding=given, reranker=_score) as kb:
            kb.insert([TEXT, "The harbour keeps a lamp."], sources=["a.md", "b.md"])
            answer = kb.query("What does the Lantern forward over MQTT?", QueryParam(mode="naive"))
            assert answer.is_generated
            assert "readings over MQTT" in answer.text
            assert answer.context.chunks[0].source == "a.md"
            assert answer.context.chunks[0].rerank_score == 2.0  # "Lantern" and "over"
            assert "### References" in answer._repr_markdown_()
            said = kb.query("What is it?", QueryParam(mode="naive", chat_model=lambda _: "Another reply [1]."))
            assert "Another reply" in said.text
        with pytest.raises(SchemaMismatch):
            Heliograph(folder, embedding=FakeEmbeddingModel(dimension=3)).stats()


@pytest.mark.parametrize(
    "wrong", [lambda texts: [], lambda texts: [[0.0] * 3] * len(texts), lambda texts: "no", lambda texts: [[1.0], []]]
)
def test_embedding_function_that_gives_no_vectors_is_named(wrong: Callable[..., object], tmp_path: Path) -> None:
    with pytest.raises(BadModelReply, match=r"the function '.*<lambda>' gave a .*return 1 vectors"):
        Heliograph(tmp_path, embedding=wrong).stats()


def test_function_that_fails_is_a_model_error_that_names_it(tmp_path: Path) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        raise KeyError("no key")

    settings = Settings.load(ingest={"extractor": "local"})
    with Heliograph(tmp_path, chat=reply, embedding=_embed, settings=settings) as kb:
        kb.insert(TEXT)
        with pytest.raises(ModelUnavailable, match="reply' failed: KeyError: 'no key'"):
            kb.query("What is it?", QueryParam(mode="naive"))
    for given in ({"chat": "gpt-4"}, {"embedding": 3}, {"reranker": str}):
        with pytest.raises(InvalidRequestError, match="or a function"):
            Heliograph(tmp_path / "other", **given).stats()  # pyright: ignore[reportArgumentType]
