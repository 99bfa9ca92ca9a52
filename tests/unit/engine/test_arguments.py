"""Arguments of other types than a method states are refused with what was given and what to give."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heliograph import AsyncHeliograph, Heliograph, QueryParam
from heliograph.arguments import LARGEST_COUNT, checks_arguments
from heliograph.errors import InvalidRequestError
from heliograph.ingest.given import GivenChunk, GivenEntity
from heliograph.stores.base import CurationQuery, DocumentQuery
from heliograph.testing.fakes import FakeEmbeddingModel

WRONG: list[tuple[str, Callable[[Heliograph], Any]]] = [
    ("document_ids must be a text or a list of texts, got NoneType: None", lambda kb: kb.delete(None)),
    ("document_ids[0] must be a text, got NoneType", lambda kb: kb.delete([None])),
    ("document_ids[1] must be a text, got int: 3", lambda kb: kb.delete(iter(["a", 3]))),
    ("document_id must be a text, got NoneType", lambda kb: kb.document(None)),
    ("name must be a text, got NoneType", lambda kb: kb.entity(None)),
    ("documents must be a text, a NewDocument or a list", lambda kb: kb.insert(None)),
    ("documents[0] must be a text or a NewDocument", lambda kb: kb.insert([None])),
    ("progress must be a function or None, got int: 3", lambda kb: kb.insert("text", progress=3)),
    ("paths[0] must be a text or a path, got NoneType", lambda kb: kb.insert_files([None])),
    ("paths must be a list of texts or paths, got str: 'docs'", lambda kb: kb.insert_files("docs")),
    ("param must be a QueryParam or None, got dict", lambda kb: kb.query("What?", {"mode": "local"})),
    ("limit must be a whole number, got str: '3'", lambda kb: kb.entities(limit="3")),
    ("weight must be a number, got str", lambda kb: kb.create_relation("Ann", "Bob", weight="x")),
    ("names[0] must be a text, got int", lambda kb: kb.merge_entities([1], "Ann")),
    ("folder must be a text or a path, got int", lambda kb: list(kb.watch(3))),
    ("chunks[0] must be a GivenChunk, got int", lambda kb: kb.insert_graph([1])),
    ("GivenChunk.text must be a text, got NoneType", lambda kb: kb.insert_graph([GivenChunk(None)])),  # pyright: ignore[reportArgumentType]
    (
        "GivenEntity.type must be a text, got int",
        lambda kb: kb.insert_graph([GivenChunk("Ann")], [GivenEntity("Ann", 3)]),  # pyright: ignore[reportArgumentType]
    ),
]


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Heliograph]:
    with Heliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as engine:
        yield engine


@pytest.mark.parametrize(("message", "call"), WRONG, ids=[message for message, _ in WRONG])
def test_wrong_type_is_refused(kb: Heliograph, message: str, call: Callable[[Heliograph], Any]) -> None:
    with pytest.raises(InvalidRequestError) as failure:
        call(kb)

    assert str(failure.value).startswith(message)


async def test_async_face_refuses_the_same(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as kb:
        with pytest.raises(InvalidRequestError, match="document_ids must be"):
            await kb.delete(None)  # pyright: ignore[reportArgumentType]


def test_iterators_are_taken_where_any_iterable_is(kb: Heliograph) -> None:
    report = kb.insert(text for text in ("Ann knows Bob.", "Cy knows Dot."))

    assert len(report.results) == 2
    assert len(kb.delete(item.id for item in report.results).deleted) == 2


def test_missing_argument_is_still_a_type_error(kb: Heliograph) -> None:
    with pytest.raises(TypeError, match="name"):
        kb.entity()  # pyright: ignore[reportCallIssue]


def test_checked_methods_keep_their_kind_and_signature() -> None:
    @checks_arguments
    class Things:
        async def find(self, name: str, *, limit: int = 3) -> list[str]:
            """Find."""
            return [name] * limit

    assert inspect.iscoroutinefunction(Things.find)
    assert list(inspect.signature(Things.find).parameters) == ["self", "name", "limit"]
    assert Things.find.__doc__ == "Find."


@pytest.mark.parametrize("count", [-1, True, -(10**5000)], ids=["negative", "bool", "unprintable"])
async def test_counts_that_cannot_be_are_refused_by_name(tmp_path: Path, count: int) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as kb:
        for name, call in (
            ("limit", lambda: kb.entities(limit=count)),
            ("offset", lambda: kb.entities(offset=count)),
            ("limit", lambda: kb.batches(limit=count)),
            ("depth", lambda: kb.neighbours("Ann", depth=count)),
            ("max_hops", lambda: kb.paths("Ann", "Bob", max_hops=count)),
            ("max_length", lambda: kb.paths("Ann", "Bob", max_length=count)),
            ("limit", lambda: kb.documents(DocumentQuery(limit=count))),
            ("offset", lambda: kb.curations(CurationQuery(offset=count))),
        ):
            with pytest.raises(InvalidRequestError, match=f"^{name} (is .*; give|must be) a whole number"):
                await call()


@pytest.mark.parametrize("count", [2**31, sys.maxsize, 10**5000], ids=["32 bits", "63 bits", "unprintable"])
async def test_limits_that_no_store_takes_mean_all_and_such_offsets_are_refused(tmp_path: Path, count: int) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as kb:
        await kb.insert(["Ann Lee knows Bob Cole.", "Cy Dot met Ann Lee."])
        await kb.create_entity("Zoe")
        assert len(await kb.entities(limit=count)) == (await kb.stats()).entities
        assert (await kb.neighbours("Ann Lee", depth=count, max_entities=count)).entities
        assert await kb.paths("Ann Lee", "Bob Cole", max_hops=count, limit=count)
        assert await kb.paths("Ann Lee", "Bob Cole", max_length=1)
        assert len((await kb.documents(DocumentQuery(limit=count))).documents) == 2
        assert len((await kb.curations(CurationQuery(limit=count))).curations) == 1
        for call in (
            lambda: kb.entities(offset=count),
            lambda: kb.documents(DocumentQuery(offset=count)),
            lambda: kb.curations(CurationQuery(offset=count)),
        ):
            with pytest.raises(InvalidRequestError, match=r"^offset is .*; give a whole number from 0 to"):
                await call()


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32])
async def test_whole_numbers_of_numpy_are_numbers(tmp_path: Path, kind: Callable[[int], Any]) -> None:
    one, two = kind(1), kind(2)
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as kb:
        await kb.insert(["Ann Lee knows Bob Cole.", "Cy Dot met Ann Lee."])
        assert len(await kb.entities(limit=two, offset=one)) == 2
        assert len(await kb.batches(limit=one)) == 1
        assert len((await kb.neighbours("Ann Lee", depth=one, max_entities=two)).entities) == 2
        assert len((await kb.documents(DocumentQuery(limit=one, offset=one))).documents) == 1
        assert (await kb.curations(CurationQuery(limit=one))).total == 0
        counts = dict.fromkeys(("top_k", "chunk_top_k", "history_turns"), two)
        tokens = {f"max_{name}_tokens": kind(100) for name in ("entity", "relation", "total")}
        found = await kb.retrieve("Who is Ann Lee?", QueryParam(mode="mix", **counts))
        assert len(found.context.chunks) == 2
        found = await kb.retrieve("Who is Ann Lee?", QueryParam(mode="mix", **tokens))
        assert not found.context.chunks
        with pytest.raises(InvalidRequestError, match=r"top_k must be a whole number.*, got float64: np"):
            await kb.retrieve("Who is Ann Lee?", QueryParam(top_k=np.float64(2)))  # pyright: ignore[reportArgumentType]


async def test_largest_count_is_served(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as kb:
        assert await kb.entities(limit=LARGEST_COUNT, offset=LARGEST_COUNT) == []
        assert (await kb.documents(DocumentQuery(limit=LARGEST_COUNT, offset=LARGEST_COUNT))).total == 0


@pytest.mark.parametrize("path", ["a\0b", Path("a\0b")])
async def test_path_with_nul_is_refused(tmp_path: Path, path: str | Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as kb:
        for call in (kb.backup, kb.export, kb.import_from):
            with pytest.raises(InvalidRequestError, match="no path holds NUL"):
                await call(path)


def test_value_that_cannot_be_written_out_is_refused_without_it(kb: Heliograph) -> None:
    with pytest.raises(InvalidRequestError, match="got int: a int that is too large"):
        kb.document(10**5000)  # pyright: ignore[reportArgumentType]
