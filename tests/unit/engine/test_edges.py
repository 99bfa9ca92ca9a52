"""What reaches the engine from outside: ids and paths that no store holds, and other event loops."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph, Heliograph, QueryParam
from heliograph.errors import InvalidRequestError, StoreUnavailable
from heliograph.filters import parse_filter
from heliograph.stores.base import DocumentQuery
from heliograph.testing.fakes import FakeEmbeddingModel

TEXT = "The Lantern forwards readings over MQTT."


def make(folder: Path) -> AsyncHeliograph:
    return AsyncHeliograph(folder, embedding=FakeEmbeddingModel(16))


@pytest.mark.parametrize("character", ["\0", "\ud800"])
async def test_id_that_no_store_holds_is_missing_and_no_other(tmp_path: Path, character: str) -> None:
    async with make(tmp_path) as kb:
        await kb.insert([TEXT, f"{TEXT} Twice."], ids=["x\ufffdz", "xz"], sources=["x\ufffdz", "xz"], track_id="\ufffd")
        id_ = f"x{character}z"
        assert await kb.document(id_) is None
        assert await kb.chunks(id_) == await kb.documents_by_id([id_]) == await kb.documents_of([id_]) == []
        assert await kb.document_text(id_) is None
        for query in (DocumentQuery(track_id=character), DocumentQuery(source_prefix=id_), DocumentQuery(twin_of=id_)):
            assert (await kb.documents(query)).total == 0
        report = await kb.delete([id_, "nowhere", "xz"])
        assert (report.deleted, report.missing) == (("xz",), (id_, "nowhere"))
        assert (await kb.delete_matching(source_prefix=id_)).deleted == ()
        assert await kb.document("x\ufffdz")


async def test_metadata_is_stored_without_nul_and_found_by_what_is_left(tmp_path: Path) -> None:
    async with make(tmp_path) as kb:
        await kb.insert(TEXT, metadata=[{"te\0am": "r\0ed", "deep": [{"k": "a\0"}], "path": "C:\\\\u0000"}], ids=["a"])
        for condition in ({"team": "red"}, {"deep.k": "a"}, {"path": "C:\\\\u0000"}):
            page = await kb.documents(DocumentQuery(filter=parse_filter(condition)))
            assert [item.id for item in page.documents] == ["a"]


async def test_path_that_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"odd\xff")
    with pytest.raises(StoreUnavailable, match="not UTF-8; choose another name"):
        await make(odd).open()
    assert not odd.exists()
    async with make(tmp_path / "kb") as kb:
        with pytest.raises(StoreUnavailable, match="not UTF-8; choose another name"):
            await kb.backup(odd)


async def test_engine_is_refused_in_a_second_loop_while_the_first_runs(tmp_path: Path) -> None:
    async with make(tmp_path) as kb:
        for call in (kb.stats, kb.open, kb.close, lambda: kb.insert(TEXT)):
            with pytest.raises(InvalidRequestError, match="another event loop"):
                await asyncio.to_thread(lambda call=call: asyncio.run(call()))
        await kb.insert(TEXT)
        assert (await kb.stats()).chunks == 1


def test_engine_goes_on_in_the_next_loop_once_the_first_has_ended(tmp_path: Path) -> None:
    kb = make(tmp_path)

    async def use() -> int:
        await kb.open()
        await kb.insert(TEXT)
        return (await kb.stats()).chunks

    assert asyncio.run(use()) == 1
    assert asyncio.run(use()) == 1
    asyncio.run(kb.close())
    assert asyncio.run(use()) == 1
    asyncio.run(kb.close())


def test_opening_in_the_next_loop_leaves_nothing_that_belongs_to_the_first(tmp_path: Path) -> None:
    kb = make(tmp_path)

    async def use() -> int:
        await kb.open()
        # More than one at once has to wait for a lock, which belongs to a loop from then on.
        await asyncio.gather(*(kb.insert(f"{TEXT} {number}") for number in range(4)))
        await asyncio.gather(*(kb.retrieve("Who is it?", QueryParam(mode="naive")) for _ in range(4)))
        return (await kb.stats()).chunks

    async def use_and_close() -> int:
        async with kb:
            return await use()

    assert [asyncio.run(use()), asyncio.run(use()), asyncio.run(use_and_close()), asyncio.run(use())] == [4, 4, 4, 4]
    asyncio.run(kb.close())


async def test_what_was_spent_is_told_in_any_loop(tmp_path: Path) -> None:
    with Heliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as kb:
        assert kb.usage().total.calls == 0
