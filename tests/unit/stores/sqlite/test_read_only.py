"""A workspace that cannot be written is read as it is, and nothing is made beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph
from heliograph.errors import StoreUnavailable
from heliograph.ids import document_id
from heliograph.testing.fakes import FakeEmbeddingModel


@pytest.fixture
async def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A filled workspace that says that it cannot be written, to the superuser too."""
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        await kb.insert(["The ESP32 is made by Espressif in Shanghai."], sources=["a.md"])
    may = os.access

    def access(path: str | Path, mode: int) -> bool:
        return not (mode & os.W_OK and str(path).startswith(str(tmp_path))) and may(path, mode)

    monkeypatch.setattr(os, "access", access)
    return tmp_path


async def test_read_only_workspace_answers_and_stays_as_it_is(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = {path.name: path.read_bytes() for path in (folder / "default").iterdir()}
    async with AsyncHeliograph(folder, embedding=FakeEmbeddingModel()) as kb:
        answer = await kb.query("By whom is the ESP32 made?")
        assert "Espressif" in answer.text
        assert (await kb.documents()).total == 1
        assert (await kb.check()).is_clean
        await kb.backup(tmp_path_factory.mktemp("backup") / "kb.db")
    assert {path.name: path.read_bytes() for path in (folder / "default").iterdir()} == before


async def test_writing_to_a_read_only_workspace_says_why_not(folder: Path) -> None:
    async with AsyncHeliograph(folder, embedding=FakeEmbeddingModel()) as kb:
        for work in (
            kb.insert("MQTT is a protocol."),
            kb.delete(document_id("a.md")),
            kb.create_entity("X"),
            kb.vacuum(),
        ):
            with pytest.raises(StoreUnavailable, match="reading only"):
                await work
        assert (await kb.stats()).chunks == 1


async def test_log_that_a_crash_left_is_read_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: True)
        writer = await AsyncHeliograph(folder, embedding=FakeEmbeddingModel()).open()
    try:
        await writer.insert(["MQTT is a protocol of OASIS."], sources=["b.md"])
        async with AsyncHeliograph(folder, embedding=FakeEmbeddingModel()) as kb:
            assert (await kb.documents()).total == 2
    finally:
        await writer.close()


async def test_workspace_that_is_not_there_is_still_made(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path / "new", embedding=FakeEmbeddingModel()) as kb:
        assert (await kb.insert("MQTT is a protocol.")).results
