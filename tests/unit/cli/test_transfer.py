"""The commands that move knowledge."""

from __future__ import annotations

import json

import pytest

from heliograph.cli.session import EXIT_FAILED
from heliograph.maintenance.archive import ExportFormat

from .conftest import World


def test_archive_makes_a_second_workspace(story: World) -> None:
    assert story.json("export", "kb.jsonl") == {"path": "kb.jsonl", "format": "jsonl", "count": 2}
    report = story.json("import", "kb.jsonl", "--workspace", "copy")
    assert (report["kind"], report["added"], report["notes"]) == ("archive", 2, [])
    assert story.json("--workspace", "copy", "check")["is_clean"] is True
    here, there = story.json("stats"), story.json("--workspace", "copy", "stats")
    assert [here[name] for name in ("chunks", "entities", "relations")] == [
        there[name] for name in ("chunks", "entities", "relations")
    ]


def test_import_prints_what_was_taken(story: World) -> None:
    story.run("export", "kb.jsonl")
    result = story.run("import", "kb.jsonl")
    assert result.exit_code == 0
    assert "0 added, 0 updated, 2 here already" in result.stdout


@pytest.mark.parametrize("form", ExportFormat)
def test_every_format_is_written_and_said(story: World, form: ExportFormat) -> None:
    result = story.run("export", "out", "--format", form.value)
    assert result.exit_code == 0
    assert f"as {form.value}" in result.stderr
    assert (story.folder / "out").exists()
    assert story.run("export", "out", "--format", form.value).exit_code == 6


def test_lightrag_directory_is_recognised_and_its_gaps_are_shown(world: World) -> None:
    world.write("rag/kv_store_full_docs.json", json.dumps({"doc-1": {"content": "Scrooge keeps a counting-house."}}))
    row = {"content": "Scrooge keeps a counting-house.", "full_doc_id": "doc-1", "chunk_order_index": 0}
    world.write("rag/kv_store_text_chunks.json", json.dumps({"chunk-1": row}))
    result = world.run("import", "rag")
    assert result.exit_code == 0
    assert "1 added" in result.stdout
    assert "left out" in result.stdout
    assert "none is there" in result.stdout
    assert world.json("import", "rag")["unchanged"] == 1


def test_damaged_document_ends_with_failure_and_is_named(story: World) -> None:
    story.run("export", "kb.jsonl")
    lines = (story.folder / "kb.jsonl").read_text("utf-8").splitlines()
    document = json.loads(lines[1])
    document["document"]["text"] = "another text"
    story.write("bad.jsonl", "\n".join([lines[0], json.dumps(document), *lines[2:]]) + "\n")
    result = story.run("import", "bad.jsonl", "--workspace", "copy")
    assert result.exit_code == EXIT_FAILED
    assert "1 added" in result.stdout
    assert "damaged" in result.stdout


def test_wrong_path_is_refused_and_makes_no_workspace(world: World) -> None:
    world.write("notes.md", "hello")
    for path in ("notes.md", "missing", "."):
        assert world.run("import", path).exit_code == 2
    assert not (world.folder / "heliograph_data").exists()


def test_workspace_is_moved_and_both_sides_compared(story: World) -> None:
    report = story.json("migrate", "--to", "sqlite:", "--to-data-dir", "elsewhere", "--to-workspace", "moved")
    counts = {item["kind"]: item["count"] for item in report["kinds"]}
    assert counts["documents"] == 2
    assert report["copied"] > 0
    moved = "--data-dir", "elsewhere", "--workspace", "moved"
    assert story.json(*moved, "check")["is_clean"] is True
    assert story.json(*moved, "stats")["entities"] == counts["entities"]
    result = story.run("migrate", "--to", "sqlite:", "--to-data-dir", "elsewhere", "--to-workspace", "moved")
    assert "0 things were written by this run" in result.stdout


def test_migration_names_what_is_wrong_with_its_places(story: World) -> None:
    result = story.run("migrate", "--to", "sqlite:")
    assert result.exit_code != 0
    assert "name another place" in result.stderr
    result = story.run("migrate", "--to", "sqlite:", "--from-workspace", "none", "--to-workspace", "moved")
    assert "no workspace 'none'" in result.stderr
