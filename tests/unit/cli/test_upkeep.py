"""The commands that look after a workspace."""

from __future__ import annotations

import apsw
import pytest

from heliograph.cli.session import EXIT_FAILED

from .conftest import CHINESE, STORY, World


@pytest.fixture
def filled(world: World) -> World:
    world.write("docs/story.md", STORY)
    world.write("docs/clock.md", CHINESE)
    assert world.run("index", "docs", "--metadata", "team=red").exit_code == 0
    return world


def damage(world: World, statement: str) -> None:
    connection = apsw.Connection(str(world.folder / "heliograph_data" / "default" / "heliograph.db"))
    connection.execute(statement)
    connection.close()


def test_check_says_that_everything_agrees(filled: World) -> None:
    result = filled.run("check")
    assert result.exit_code == 0
    assert "everything agrees" in result.stdout
    assert filled.json("check")["is_clean"] is True


def test_check_fails_on_damage_and_repair_mends_it(filled: World) -> None:
    damage(filled, "DELETE FROM relation")
    result = filled.run("check")
    assert result.exit_code == EXIT_FAILED
    assert "problems" in result.stdout
    assert filled.json("check", "--repair")["repaired"] > 0
    assert filled.run("check").exit_code == 0


def test_rebuild_leaves_a_clean_workspace(filled: World) -> None:
    before = filled.json("entities")
    assert filled.json("rebuild")["problem_count"] == 0
    assert filled.json("entities") == before


def test_backup_and_restore_make_a_second_workspace(filled: World) -> None:
    assert filled.json("backup", "kb.backup")["bytes"] > 0
    assert filled.run("backup", "kb.backup").exit_code != 0
    assert filled.json("--workspace", "copy", "restore", "kb.backup")["workspace"] == "copy"
    assert filled.json("--workspace", "copy", "stats")["chunks"] == filled.json("stats")["chunks"]
    result = filled.run("--workspace", "copy", "restore", "kb.backup")
    assert result.exit_code != 0
    assert "already" in result.stderr


def test_clear_asks_first(filled: World) -> None:
    assert filled.run("clear", input="n\n").exit_code != 0
    assert filled.json("stats")["chunks"] > 0
    assert filled.json("clear", "--yes") == {"deleted_documents": 2}
    assert filled.json("stats")["chunks"] == 0


def test_vacuum_gives_room_back(filled: World) -> None:
    filled.run("delete", "--source-prefix", "docs/", "--yes")
    sizes = filled.json("vacuum")
    assert sizes["bytes_after"] < sizes["bytes_before"]


def test_batches_are_listed(filled: World) -> None:
    (batch,) = filled.json("batches")
    assert batch["documents"] == {"processed": 2}
    assert batch["track_id"] in filled.run("batches", width=200).stdout


def test_documents_are_deleted_by_filter(filled: World) -> None:
    filled.write("other.md", "# Other\n\nThe Skerravane Courier is a paper.")
    filled.run("index", "other.md", "--metadata", "team=blue")
    assert len(filled.json("delete", "--filter", "team=red", "--yes")["deleted"]) == 2
    assert filled.json("documents")["total"] == 1
    assert filled.run("delete", "--yes").exit_code != 0
