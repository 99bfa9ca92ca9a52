from __future__ import annotations

from .conftest import STORY, World


def test_watch_once_brings_a_folder_into_step(world: World) -> None:
    world.write("docs/a.md", STORY)
    world.write("docs/b.txt", "Another text about the lamps of Carrow Quay.")
    shown = world.run("watch", "docs", "--once")
    assert shown.exit_code == 0
    assert "docs/a.md" in shown.stdout
    (world.folder / "docs" / "a.md").unlink()
    change = world.json("watch", "docs", "--once")
    assert change["removed_sources"] == ["docs/a.md"]
    assert [result["outcome"] for result in change["ingest"]["results"]] == ["unchanged"]


def test_deleted_file_is_named_on_one_line(world: World) -> None:
    odd = world.write("docs/two\nlines.md", STORY)
    world.run("watch", "docs", "--once")
    (world.folder / odd).unlink()
    assert "docs/two lines.md" in world.run("watch", "docs", "--once").stderr


def test_watch_takes_patterns_and_metadata(world: World) -> None:
    world.write("docs/a.md", STORY)
    world.write("docs/drafts/b.md", STORY)
    world.run("watch", "docs", "--once", "--include", "*.md", "--exclude", "drafts/", "--metadata", "team=iot")
    documents = world.json("documents")["documents"]
    assert [(item["source"], item["metadata"]["team"]) for item in documents] == [("docs/a.md", "iot")]


def test_watch_once_fails_with_a_document(world: World) -> None:
    world.write("docs/a.json", "{")
    assert world.run("watch", "docs", "--once").exit_code == 1


def test_watch_of_no_folder_is_refused(world: World) -> None:
    assert world.run("watch", "nowhere", "--once").exit_code == 2


def test_index_takes_patterns_and_refuses_private_addresses(world: World) -> None:
    world.write("docs/a.md", STORY)
    world.write("docs/b.txt", STORY)
    assert world.run("index", "docs", "--include", "*.txt", "--exclude", "c.*").exit_code == 0
    assert [item["source"] for item in world.json("documents")["documents"]] == ["docs/b.txt"]
    refused = world.run("index", "http://127.0.0.1:9/page")
    assert refused.exit_code == 1
    assert "allow_private_addresses" in " ".join(refused.stdout.split())
