from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from heliograph.engine import AsyncHeliograph
from heliograph.errors import IngestError, InvalidRequestError
from heliograph.ids import document_id
from heliograph.ingest.files import FolderChange
from heliograph.ingest.models import Outcome
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel


@pytest.fixture(params=["polling", "system"])
async def kb(tmp_path: Path, request: pytest.FixtureRequest):
    watching = {"watch_by": request.param, "watch_poll_seconds": 0.05, "watch_settle_seconds": 0.05}
    settings = Settings.load(store={"data_dir": tmp_path / "kb"}, documents=watching)
    async with AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel()) as kb:
        yield kb


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"# {name}\n\nThe text of {name}.")
    return folder


async def sources(kb: AsyncHeliograph) -> set[str]:
    return {Path(document.source).name for document in (await kb.documents()).documents}


async def next_change(changes: Any) -> FolderChange:
    return await asyncio.wait_for(anext(changes), 20)


async def test_folder_is_kept_in_step(kb: AsyncHeliograph, folder: Path) -> None:
    changes = kb.watch(folder)
    first = await next_change(changes)
    assert first.ingest
    assert first.ingest.count(Outcome.PROCESSED) == 2
    (folder / "a.md").write_text("# a.md\n\nAnother text of a.")
    (folder / "new.md").write_text("# new\n\nA text that is new.")
    change = await next_change(changes)
    assert change.ingest
    assert {Path(result.source).name for result in change.ingest.results} == {"a.md", "new.md"}
    (folder / "b.md").rename(folder / "moved.md")
    change = await next_change(changes)
    assert change.removed_sources == (str(folder / "b.md"),)
    assert await sources(kb) == {"a.md", "new.md", "moved.md"}
    (folder / "new.md").unlink()
    assert (await next_change(changes)).deletion
    assert await sources(kb) == {"a.md", "moved.md"}
    await changes.aclose()


async def test_start_compares_with_what_is_stored_below_the_folder(kb: AsyncHeliograph, folder: Path) -> None:
    await kb.insert("Elsewhere.", sources=["elsewhere.md"])
    await kb.insert("Beside the folder.", sources=[f"{folder}-old/a.md"])
    await kb.insert("Gone since.", sources=[str(folder / "gone.md")])
    (folder / "kept.bin").write_text("not watched, but there")
    await kb.insert("Of a kind that is not watched.", sources=[str(folder / "kept.bin")])
    changes = [change async for change in kb.watch(folder, once=True)]
    assert len(changes) == 1
    assert changes[0].deletion
    assert changes[0].deletion.deleted == (document_id(str(folder / "gone.md")),)
    assert len((await kb.documents()).documents) == 5
    again = [change async for change in kb.watch(folder, once=True)]
    assert again[0].deletion is None
    assert again[0].ingest
    assert again[0].ingest.count(Outcome.UNCHANGED) == 2


async def test_file_whose_name_is_no_text_is_not_taken_for_gone(kb: AsyncHeliograph, folder: Path) -> None:
    try:
        (folder / os.fsdecode(b"\xff.md")).write_text("# Odd\n\nA name that is no text.")
    except OSError:
        pytest.skip("this file system takes text only")
    for _ in range(2):
        changes = [change async for change in kb.watch(folder, once=True)]
        assert changes[0].deletion is None
    assert len((await kb.documents()).documents) == 3


@pytest.fixture
def odd_name(folder: Path) -> Path:
    """A name that is no text, in the folder, where the file system takes it; there is no such file yet."""
    odd = folder / os.fsdecode(b"\xff.md")
    try:
        odd.touch()
    except OSError:
        pytest.skip("this file system takes text only")
    odd.unlink()
    return odd


def auto_engine(tmp_path: Path, watch_by: str) -> AsyncHeliograph:
    watching = {"watch_by": watch_by, "watch_poll_seconds": 0.05, "watch_settle_seconds": 0.05}
    settings = Settings.load(store={"data_dir": tmp_path / "auto"}, documents=watching)
    return AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel())


async def test_new_name_that_is_no_text_does_not_end_the_watch(
    tmp_path: Path, folder: Path, odd_name: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with auto_engine(tmp_path, "auto") as kb:
        changes = kb.watch(folder)
        await next_change(changes)
        odd_name.write_text("# Odd\n\nA name that is no text.")
        odd = await next_change(changes)
        (folder / "later.md").write_text("# Later\n\nWhat comes after it.")
        later = await next_change(changes)
        await changes.aclose()
    assert odd.ingest
    assert odd.ingest.count(Outcome.PROCESSED) == 1
    assert later.ingest
    assert [Path(result.source).name for result in later.ingest.results] == ["later.md"]
    assert [record.getMessage() for record in caplog.records if "is looked for every" in record.getMessage()]


async def test_folder_whose_name_is_no_text_is_watched_by_polling(tmp_path: Path, odd_name: Path) -> None:
    odd_name.mkdir()
    async with auto_engine(tmp_path, "auto") as kb:
        changes = kb.watch(odd_name)
        await next_change(changes)
        (odd_name / "a.md").write_text("# A\n\nThe text of a.")
        change = await next_change(changes)
        await changes.aclose()
    assert change.ingest
    assert change.ingest.count(Outcome.PROCESSED) == 1


async def test_system_that_cannot_report_a_name_is_an_error_of_its_own(
    tmp_path: Path, folder: Path, odd_name: Path
) -> None:
    async with auto_engine(tmp_path, "system") as kb:
        changes = kb.watch(folder)
        await next_change(changes)
        odd_name.write_text("# Odd\n\nA name that is no text.")
        with pytest.raises(IngestError, match="watch_by"):
            await next_change(changes)


async def test_folder_that_vanishes_keeps_its_documents(kb: AsyncHeliograph, folder: Path, tmp_path: Path) -> None:
    changes = kb.watch(folder)
    await next_change(changes)
    folder.rename(tmp_path / "away")
    pending = asyncio.ensure_future(anext(changes))
    await asyncio.wait([pending], timeout=0.5)
    assert await sources(kb) == {"a.md", "b.md"}
    pending.cancel()
    await asyncio.wait([pending])
    await changes.aclose()


@pytest.mark.parametrize("name", ["nowhere", "docs/a.md", "."])
async def test_what_is_no_folder_with_a_name_is_refused(kb: AsyncHeliograph, folder: Path, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        await anext(kb.watch(name if name == "." else folder.parent / name))
