from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from heliograph.engine import AsyncHeliograph
from heliograph.errors import IngestError, ModelUnavailable
from heliograph.ingest.models import Outcome, Progress
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel


@pytest.fixture
async def kb(tmp_path: Path):
    settings = Settings.load(store={"data_dir": tmp_path / "kb"})
    async with AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel()) as kb:
        yield kb


async def test_same_name_in_different_folders_makes_two_documents(kb: AsyncHeliograph, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.md").write_text("# Same\n\nOne text in two places.")
    report = await kb.insert_files([tmp_path / "a", tmp_path / "b"])
    assert len({result.id for result in report.results}) == 2


async def test_broken_files_fail_and_the_others_go_on(kb: AsyncHeliograph, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.docx").write_bytes(b"PK\x03\x04 cut off")
    (folder / "b.pdf").write_bytes(b"%PDF-1.4 nothing")
    (folder / "c.json").write_text("{")
    (folder / "d.md").write_text("# Fine\n\nThis one is fine.")
    (folder / "e.html").write_text("\n")
    report = await kb.insert_files([folder])
    outcomes = {Path(result.source).name: result.outcome for result in report.results}
    assert outcomes == dict.fromkeys(("a.docx", "b.pdf", "c.json", "e.html"), Outcome.FAILED) | {
        "d.md": Outcome.PROCESSED
    }
    assert all(isinstance(result.error, IngestError) for result in report.failures)


async def test_report_says_how_much_of_pages_was_left_out(kb: AsyncHeliograph, tmp_path: Path) -> None:
    page, plain = tmp_path / "a.html", tmp_path / "b.md"
    page.write_text("<nav><a href=/>All parts</a></nav><p>The ESP32 speaks MQTT over TLS to its broker.</p>")
    plain.write_text("The broker answers.")
    for _ in range(2):  # the second time it is unchanged
        report = await kb.insert_files([page, plain])
        assert [result.omitted_characters for result in report.results] == [8, 0]
    document = await kb.document(report.results[0].id)
    assert document is not None
    assert document.metadata["omitted_characters"] == 8


async def test_patterns_choose_files(kb: AsyncHeliograph, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    (folder / "drafts").mkdir(parents=True)
    for name in ("a.md", "b.txt", "drafts/c.md"):
        (folder / name).write_text(f"# {name}\n\nText.")
    report = await kb.insert_files([folder], include=["**/*.md"], exclude=["drafts/"])
    assert [Path(result.source).name for result in report.results] == ["a.md"]


async def test_what_nothing_reads_is_counted_by_its_ending(kb: AsyncHeliograph, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    for name in ("a.md", "b.PNG", "c.png", "drafts/d.zzz", "LICENSE", "empty.zzz", ".hidden.zzz"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("" if name.startswith("empty") else f"# {name}\n\nText.")
    report = await kb.insert_files([folder], exclude=["drafts/"])
    assert [Path(result.source).name for result in report.results] == ["a.md"]
    assert report.passed_over == {".png": 2, "": 1}
    assert (await kb.insert_files([folder], include=["*.md"])).passed_over == {}


async def test_metadata_given_once_is_kept_when_the_file_is_read_again(kb: AsyncHeliograph, tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# A\n\nText.")
    await kb.insert_files([path], metadata={"team": "iot"})
    path.write_text("# A\n\nAnother text.")
    report = await kb.insert_files([path])
    document = await kb.document(report.results[0].id)
    assert document
    assert document.metadata["team"] == "iot"
    assert document.metadata["mime_type"] == "text/markdown"


async def test_url_that_may_not_be_reached_is_a_failed_document(kb: AsyncHeliograph, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nText.")
    report = await kb.insert_files([tmp_path / "a.md", "http://127.0.0.1:9/"])
    assert [result.outcome for result in report.results] == [Outcome.PROCESSED, Outcome.FAILED]
    report = await kb.insert_url("ftp://example.org/a")
    assert "not an http" in str(report.results[0].error)


async def test_paths_none_of_which_exists_are_an_error_of_the_whole(kb: AsyncHeliograph, tmp_path: Path) -> None:
    for paths in (["nowhere"], ["nowhere", "elsewhere"]):
        with pytest.raises(IngestError, match="nowhere"):
            await kb.insert_files([tmp_path / path for path in paths])


async def test_missing_path_among_others_is_a_failed_result(kb: AsyncHeliograph, tmp_path: Path) -> None:
    for name in ("a", "c"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\nText of {name}.")
    report = await kb.insert_files([tmp_path / "a.md", tmp_path / "nowhere", "no\0where", tmp_path / "c.md"])
    outcomes = [result.outcome for result in report.results]
    assert outcomes == [Outcome.PROCESSED, Outcome.FAILED, Outcome.FAILED, Outcome.PROCESSED]
    assert "nowhere" in str(report.results[1].error)
    assert "check the path" in str(report.results[1].error)


async def test_page_of_an_allowed_address_is_taken_in_by_its_type(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<html><title>Lamps</title><nav>menu</nav><main><p>Hester Tarrant kept the light.</p></main></html>"
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/lamps"
    settings = Settings.load(store={"data_dir": tmp_path / "kb"}, documents={"allow_private_addresses": True})
    async with AsyncHeliograph(settings=settings, embedding=FakeEmbeddingModel()) as kb:
        report = await kb.insert_url(url)
        document = await kb.document(report.results[0].id)
        assert document
        assert (document.source, document.title, document.metadata["mime_type"]) == (url, "Lamps", "text/html")
        assert [chunk.text.strip() for chunk in await kb.chunks(document.id)] == ["Hester Tarrant kept the light."]
    server.close()


async def test_progress_counts_all_groups_and_expects_what_is_not_opened_yet(
    kb: AsyncHeliograph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small files first, as a folder may have them: their number says nothing of what is to come.
    monkeypatch.setattr("heliograph.ingest.files._GROUP_FILES", 4)
    lengths = [1] * 8 + [40] * 3
    paths = [tmp_path / f"{number:02}.md" for number in range(len(lengths))]
    for number, (path, length) in enumerate(zip(paths, lengths, strict=True)):
        path.write_text(f"Station{number} sends readings to Harbour{number} in Bergen. " * length)
    seen: list[Progress] = []
    report = await kb.insert_files(paths, progress=seen.append)
    last, stats = seen[-1], await kb.stats()
    assert [item.is_finished for item in seen].count(True) == 1
    assert last.is_finished
    assert (last.documents_done, last.documents_total) == (len(paths), len(paths))
    assert (last.chunks_done, last.entities, last.relations) == (stats.chunks, stats.entities, stats.relations)
    assert last.chunks_done == sum(result.chunk_count for result in report.results)
    assert last.characters_done == last.characters_total
    for before, after in pairwise(seen):
        assert before.elapsed_seconds <= after.elapsed_seconds
        assert (before.documents_done, before.chunks_done, before.characters_done) <= (
            *(after.documents_done, after.chunks_done, after.characters_done),
        )
    whole = sum(len(path.read_text()) for path in paths)
    for item in seen[:-1]:
        if item.eta_seconds is not None and 0 < item.characters_done < whole // 2:
            # At the pace so far: the time of what is done, for all that is left, opened or not.
            pace = item.elapsed_seconds / item.characters_done
            assert item.eta_seconds == pytest.approx(pace * (whole - item.characters_done), rel=0.1)
    # What is known already costs nothing, and is done all the same.
    seen.clear()
    paths[0].write_text("Another text about Bergen.")
    await kb.insert_files(paths, progress=seen.append)
    assert (seen[-1].documents_done, seen[-1].is_finished) == (len(paths), True)


async def test_progress_of_a_run_that_an_outage_ends_counts_what_was_done(tmp_path: Path) -> None:
    embedding = FakeEmbeddingModel()
    embedding.fail_next(*[ModelUnavailable("nobody answers")] * 9)
    paths = [tmp_path / f"{number}.md" for number in range(3)]
    for path in paths:
        path.write_text(f"Station {path.stem} sends readings to Bergen.")
    seen: list[Progress] = []
    settings = Settings.load(store={"data_dir": tmp_path / "kb"})
    async with AsyncHeliograph(settings=settings, embedding=embedding) as kb:
        with pytest.raises(ModelUnavailable):
            await kb.insert_files(paths, progress=seen.append)
    assert (seen[-1].documents_done, seen[-1].documents_total) == (0, 3)
