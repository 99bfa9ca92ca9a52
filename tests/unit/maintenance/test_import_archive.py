"""An archive makes a second workspace that answers as the first; damage is reported, interruption costs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heliograph import AsyncHeliograph
from heliograph.errors import InvalidRequestError, ModelUnavailable
from heliograph.ids import document_id
from heliograph.ingest.given import GivenChunk, GivenEntity, GivenRelation
from heliograph.maintenance.archive import ImportKind, NoteKind, read_archive
from heliograph.models import DocumentStatus
from heliograph.query.models import QueryParam
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

QUESTIONS = ("Who makes the ESP32?", "Where is the Eclipse Foundation?")
MODES = ("local", "global", "mix", "naive")


async def found(kb: AsyncHeliograph) -> list[Any]:
    """What questions find, but for the moments at which things appeared."""
    parts = [
        (await kb.query_data(question, QueryParam(mode=mode, top_k=5)))["data"]
        for question in QUESTIONS
        for mode in MODES
    ]
    return [
        {kind: [{k: v for k, v in item.items() if "created_at" not in k} for item in part[kind]] for kind in part}
        for part in parts
    ]


async def curate(kb: AsyncHeliograph) -> None:
    await kb.edit_entity("ESP32", description="A chip with Wi-Fi.", author="ann")
    await kb.merge_entities(["Espressif"], "Espressif Systems", author="ann")
    taken_back = await kb.rename_entity("Shanghai", "Shanghai City")
    await kb.undo(taken_back.id, author="bob")


async def archive_of(kb: AsyncHeliograph, path: Path) -> list[dict[str, Any]]:
    await kb.export(path)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


async def test_imported_workspace_answers_as_the_exported_did(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await curate(kb)
    await kb.insert_graph(
        [GivenChunk("MQTT 🛰 runs on 望江.", "k")], [GivenEntity("望江", "place")], [GivenRelation("MQTT", "望江", "🛰")]
    )
    assert await kb.export(tmp_path / "kb.jsonl") == 4
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel()) as copy:
        report = await copy.import_from(tmp_path / "kb.jsonl")
        assert (report.kind, report.added, report.failed, report.curations) == (ImportKind.ARCHIVE, 4, 0, 4 - 1)
        assert report.notes == ()
        assert await found(copy) == await found(kb)
        assert (await copy.check()).is_clean
        assert (await copy.documents()).documents == (await kb.documents()).documents
        before, after = (await kb.curations()).curations, (await copy.curations()).curations
        assert [item.id for item in after] == [item.id for item in before]
        assert [item.is_active for item in after] == [item.is_active for item in before]
        lines = await archive_of(copy, tmp_path / "again.jsonl")
        assert lines == [json.loads(line) for line in (tmp_path / "kb.jsonl").read_text("utf-8").splitlines()]


async def test_importing_again_changes_nothing(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await curate(kb)
    await kb.export(tmp_path / "kb.jsonl")
    version = await kb.store.get_data_version()
    report = await kb.import_from(tmp_path / "kb.jsonl")
    assert (report.added, report.updated, report.unchanged, report.curations) == (0, 0, 3, 0)
    assert [(note.kind, note.count) for note in report.notes] == [(NoteKind.KNOWN, 3)]
    assert await kb.store.get_data_version() == version


async def test_import_into_a_filled_workspace_updates_and_adds(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await kb.export(tmp_path / "kb.jsonl")
    async with AsyncHeliograph(tmp_path / "other", embedding=FakeEmbeddingModel()) as other:
        await other.insert(["Ghent is a city.", "The ESP32 is old news."], sources=["own.md", "b.md"])
        report = await other.import_from(tmp_path / "kb.jsonl")
        assert (report.added, report.updated) == (2, 1)
        assert {document.source for document in (await other.documents()).documents} == {
            "own.md",
            "a.md",
            "b.md",
            "c.md",
        }
        assert (await other.check()).is_clean
        await other.delete(document_id("own.md"))
        assert await found(other) == await found(kb)


async def test_updated_original_leaves_its_text_to_its_twin(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await kb.export(tmp_path / "kb.jsonl")
    async with AsyncHeliograph(tmp_path / "other", embedding=FakeEmbeddingModel()) as other:
        await other.insert(["Ghent is a city in Flanders."] * 2, sources=["a.md", "twin.md"])
        await other.import_from(tmp_path / "kb.jsonl")
        assert (await other.check()).is_clean
        text = await other.store.records.get_document_text(document_id("twin.md"))
        assert text == "Ghent is a city in Flanders."


async def test_twins_waiting_and_failed_documents_come_as_they_were(kb: AsyncHeliograph, tmp_path: Path) -> None:
    (text,) = [await kb.store.records.get_document_text(document_id("c.md"))]
    await kb.insert([text or "", " "], sources=["c2.md", "empty.md"])
    await kb.export(tmp_path / "kb.jsonl")
    lines = (tmp_path / "kb.jsonl").read_text("utf-8").splitlines()
    pending = dict(json.loads(lines[1])["document"], id="doc-new", source="new.md", text="Nope")
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel()) as copy:
        report = await copy.import_from(tmp_path / "kb.jsonl")
        assert report.failed == 0
        stored = {item.source: item for item in (await copy.documents()).documents}
        assert {source for source, item in stored.items() if item.twin_of} in ({"c.md"}, {"c2.md"})
        assert stored["empty.md"].status is DocumentStatus.FAILED
        assert await found(copy) == await found(kb)
        assert (await copy.check()).is_clean
        write(tmp_path / "bad.jsonl", [json.loads(lines[0]), {"document": pending}])
        assert (await copy.import_from(tmp_path / "bad.jsonl")).failed == 1


async def test_waiting_document_is_resumed_after_the_import(kb: AsyncHeliograph, tmp_path: Path) -> None:
    lines = await archive_of(kb, tmp_path / "kb.jsonl")
    document = next(line["document"] for line in lines if "document" in line)
    document |= {"status": "pending", "chunk_count": 0}
    path = write(tmp_path / "waiting.jsonl", [lines[0], {"document": document}])
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel()) as copy:
        report = await copy.import_from(path)
        assert [note.kind for note in report.notes] == [NoteKind.REMARK]
        assert len((await copy.resume()).results) == 1
        assert (await copy.check()).is_clean
        assert (await copy.import_from(path)).unchanged == 1


async def test_interrupted_import_goes_on_where_it_stopped(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await kb.insert([f"Town {n} lies on the river Lys." for n in range(30)], sources=[f"{n}.md" for n in range(30)])
    await kb.export(tmp_path / "kb.jsonl")
    broken = FakeEmbeddingModel()
    async with AsyncHeliograph(tmp_path / "copy", embedding=broken) as copy:
        taken = 0

        def fail_later(kind: str, count: int) -> None:
            nonlocal taken
            taken = count
            if count >= 10:
                raise ModelUnavailable("the embedding 'fake' went away; start it")

        with pytest.raises(ModelUnavailable):
            await copy.import_from(tmp_path / "kb.jsonl", progress=fail_later)
        assert 10 <= (await copy.documents()).total < 33
        report = await copy.import_from(tmp_path / "kb.jsonl")
        assert report.unchanged >= 10
        assert report.added + report.unchanged == 33
        assert (await copy.check()).is_clean
        assert await found(copy) == await found(kb)


async def test_no_chat_model_is_asked(kb: AsyncHeliograph, tmp_path: Path) -> None:
    for number in range(12):
        entity = GivenEntity("Hub", "thing", f"Fragment {number} of what is said.")
        await kb.insert_graph([GivenChunk(f"Hub {number}.")], [entity], source=f"hub{number}")
    await kb.export(tmp_path / "kb.jsonl")
    chat = FakeChatModel()
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel(), chat=chat) as copy:
        await copy.import_from(tmp_path / "kb.jsonl")
        assert chat.requests == []
        hub = await copy.entity("Hub")
        assert hub is not None
        assert hub.description.count("Fragment") == 12


def _set(kind: str, **fields: Any) -> Callable[[list[dict[str, Any]]], None]:
    def change(lines: list[dict[str, Any]]) -> None:
        next(line[kind] for line in lines if kind in line).update(fields)

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("chunk", id="chunk-of-another"),
        _set("chunk", text="not what stands there"),
        _set("chunk", document_id="doc-other"),
        _set("chunk", position=7),
        _set("chunk", start=3),
        _set("extraction", chunk_id="chunk-of-another"),
        _set("document", text="another text"),
        _set("document", text=None),
        _set("document", id=""),
        _set("document", twin_of="doc-nowhere"),
        lambda lines: lines.remove(next(line for line in lines if "chunk" in line)),
    ],
)
async def test_damaged_document_is_left_out_and_reported(
    kb: AsyncHeliograph, tmp_path: Path, change: Callable[[list[dict[str, Any]]], None]
) -> None:
    lines = await archive_of(kb, tmp_path / "kb.jsonl")
    change(lines)
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel()) as copy:
        report = await copy.import_from(write(tmp_path / "bad.jsonl", lines))
        assert (report.added, report.failed) == (2, 1)
        assert [note.kind for note in report.notes] == [NoteKind.LEFT_OUT]
        assert (await copy.check()).is_clean


async def test_hostile_readings_are_made_safe(kb: AsyncHeliograph, tmp_path: Path) -> None:
    lines = await archive_of(kb, tmp_path / "kb.jsonl")
    reading = next(line["extraction"] for line in lines if line.get("extraction", {}).get("entities"))
    mention = reading["entities"][0]
    reading["entities"] = [mention | {"name": "\x00", "rank": -5}, mention | {"entity_id": "ent-stolen", "rank": 1}] * 2
    reading["relations"] = [item | {"weight": float("inf"), "source_id": "ent-stolen"} for item in reading["relations"]]
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel()) as copy:
        await copy.import_from(write(tmp_path / "hostile.jsonl", lines))
        assert (await copy.check()).is_clean


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "neither an archive"),
        ("hello\n", "neither an archive"),
        ('{"archive": {"version": 99}}\n', "version 99"),
        ('{"archive": {"version": 1}}\n{"document": {"id"', "line 2 .* not JSON"),
        ('{"archive": {"version": 1}}\n[]\n', "line 2 .* no line"),
        ('{"archive": {"version": 1}}\n{"chunk": {}}\n', "line 2 .* 'chunk'"),
        ('{"archive": {"version": 1}}\n{"document": {"id": 7}}\n', "line 2 .* damaged"),
        ('{"archive": {"version": 1}}\n{"curation": {"id": "x", "kind": "paint"}}\n', "line 2 .* damaged"),
        ('{"archive": {"version": 1}}\n{"document": {"id": "\\ud800", "source": "a"}}\n', "half a character"),
    ],
)
async def test_what_is_no_archive_is_a_typed_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text(text, "utf-8")
    async with AsyncHeliograph(tmp_path / "kb", embedding=FakeEmbeddingModel()) as kb:
        with pytest.raises(InvalidRequestError, match=message):
            await kb.import_from(tmp_path / "x.jsonl")


async def test_missing_path_and_bytes_are_typed_errors(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path / "kb", embedding=FakeEmbeddingModel()) as kb:
        with pytest.raises(InvalidRequestError, match="there is no file"):
            await kb.import_from(tmp_path / "nothing")
        (tmp_path / "bytes").write_bytes(b'{"archive": {"version": 1}}\n\xff\xfe\n')
        with pytest.raises(InvalidRequestError, match="no text"):
            await kb.import_from(tmp_path / "bytes")
        (tmp_path / "folder").mkdir()
        with pytest.raises(InvalidRequestError, match="neither an archive"):
            await kb.import_from(tmp_path / "folder")


async def test_documents_before_a_broken_line_are_taken_in(kb: AsyncHeliograph, tmp_path: Path) -> None:
    lines = await archive_of(kb, tmp_path / "kb.jsonl")
    write(tmp_path / "cut.jsonl", lines)
    with (tmp_path / "cut.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"document": {"id": "doc-')
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel()) as copy:
        with pytest.raises(InvalidRequestError, match="cut short"):
            await copy.import_from(tmp_path / "cut.jsonl")
        assert (await copy.documents()).total == 2


async def test_archive_gives_back_curations_with_their_kind(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await curate(kb)
    await kb.export(tmp_path / "kb.jsonl")
    read = [entry for entry in read_archive(tmp_path / "kb.jsonl") if not hasattr(entry, "document")]
    assert tuple(read) == (await kb.curations()).curations
