"""A backup is one file of one moment; a restored workspace answers as the first did."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from heliograph import AsyncHeliograph
from heliograph.errors import ConflictError, InvalidRequestError, StoreUnavailable
from heliograph.maintenance.workspace import restore_workspace
from heliograph.settings import StoreSettings
from heliograph.testing.fakes import FakeEmbeddingModel

QUESTION = "Who makes the ESP32?"


async def test_restored_workspace_answers_as_before(kb: AsyncHeliograph, tmp_path: Path) -> None:
    before = (await kb.query_data(QUESTION))["data"]
    await kb.store.backup(tmp_path / "kb.backup")
    await restore_workspace(StoreSettings(data_dir=tmp_path / "new", workspace="copy"), tmp_path / "kb.backup")
    async with AsyncHeliograph(tmp_path / "new", workspace="copy", embedding=FakeEmbeddingModel()) as copy:
        assert (await copy.query_data(QUESTION))["data"] == before
        await copy.insert("Ghent is a city.", sources=["d.md"])
    assert (await kb.stats()).chunks == 3


async def test_backup_while_writing_is_of_one_moment(kb: AsyncHeliograph, tmp_path: Path) -> None:
    async def write() -> None:
        for number in range(30):
            await kb.insert(f"Town {number} lies on the river Lys.", sources=[f"town-{number}.md"])

    writing = asyncio.create_task(write())
    await asyncio.sleep(0)
    for number in range(3):
        await kb.store.backup(tmp_path / f"{number}.backup")
    await writing
    for number in range(3):
        settings = StoreSettings(data_dir=tmp_path / "copies", workspace=f"w{number}")
        await restore_workspace(settings, tmp_path / f"{number}.backup")
        async with AsyncHeliograph(tmp_path / "copies", workspace=f"w{number}", embedding=FakeEmbeddingModel()) as copy:
            await copy.resume()
            assert (await copy.check()).is_clean


async def test_backup_overwrites_nothing(kb: AsyncHeliograph, tmp_path: Path) -> None:
    (tmp_path / "kb.backup").write_text("precious")
    with pytest.raises(ConflictError, match=r"kb\.backup"):
        await kb.store.backup(tmp_path / "kb.backup")
    assert (tmp_path / "kb.backup").read_text() == "precious"


async def test_backup_into_a_missing_folder_says_so(kb: AsyncHeliograph, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await kb.store.backup(tmp_path / "missing" / "kb.backup")


async def test_restore_refuses_what_is_no_backup(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await kb.store.backup(tmp_path / "kb.backup")
    target = StoreSettings(data_dir=tmp_path / "new")
    damaged = bytearray((tmp_path / "kb.backup").read_bytes())
    damaged[3000:9000] = b"\xff" * 6000
    for name, content in (("empty", b""), ("text", b"hello" * 500), ("damaged", bytes(damaged))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidRequestError):
            await restore_workspace(target, tmp_path / name)
    with pytest.raises(InvalidRequestError, match="no file"):
        await restore_workspace(target, tmp_path / "absent")
    assert not (tmp_path / "new").exists() or not list((tmp_path / "new").rglob("*.db"))


async def test_restore_overwrites_no_workspace(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await kb.store.backup(tmp_path / "kb.backup")
    with pytest.raises(ConflictError, match=r"workspace.*move its heliograph\.db away first"):
        await restore_workspace(StoreSettings(data_dir=tmp_path), tmp_path / "kb.backup")
    assert (await kb.stats()).chunks == 3
    # What it says can be done.
    await kb.close()
    (tmp_path / "default" / "heliograph.db").rename(tmp_path / "aside.db")
    await restore_workspace(StoreSettings(data_dir=tmp_path), tmp_path / "kb.backup")
