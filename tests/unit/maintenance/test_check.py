"""Checks find every kind of damage, repairs undo it, and a rebuild changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from heliograph import AsyncHeliograph
from heliograph.errors import StoreDamaged
from heliograph.ids import document_id
from heliograph.maintenance.check import Maintenance
from heliograph.query.models import QueryParam
from heliograph.stores.base import ScanKind

QUESTION = "Who makes the ESP32?"


async def found(kb: AsyncHeliograph) -> dict[str, list[dict[str, Any]]]:
    """What a question finds, but for moments and degrees that are not part of an answer."""
    data = (await kb.query_data(QUESTION, QueryParam(top_k=5)))["data"]
    kinds = ("entities", "relationships", "chunks", "references")
    return {kind: [{k: v for k, v in item.items() if "created_at" not in k} for item in data[kind]] for kind in kinds}


def damage(folder: Path, statement: str) -> int:
    connection = apsw.Connection(str(folder / "default" / "heliograph.db"))
    connection.execute(statement)
    changes = connection.changes()
    connection.close()
    return changes


async def test_untouched_workspace_is_clean(maintenance: Maintenance) -> None:
    report = await maintenance.check()
    assert report.is_clean
    assert report.problems == ()
    assert (report.documents, report.chunks) == (3, 3)
    assert report.entities > 5
    assert report.relations > 5


@pytest.mark.parametrize(
    ("statement", "subject"),
    [
        ("UPDATE entity SET description = 'wrong' WHERE key = (SELECT min(key) FROM entity)", "entity"),
        ("UPDATE entity SET type = 'wrong' WHERE key = (SELECT min(key) FROM entity)", "entity"),
        ("DELETE FROM entity WHERE key = (SELECT min(key) FROM entity)", "entity"),
        ("UPDATE entity_evidence SET mention_count = 77", "entity"),
        ("DELETE FROM entity_evidence", "entity"),
        ("DELETE FROM entities_vector", "entity"),
        ("DELETE FROM entities_terms", "entity"),
        ("UPDATE relation SET weight = 77.0 WHERE key = (SELECT max(key) FROM relation)", "relation"),
        ("DELETE FROM relation", "relation"),
        ("UPDATE relation_evidence SET weight_millionths = 1", "relation"),
        ("DELETE FROM relations_vector WHERE key = (SELECT max(key) FROM relation)", "relation"),
        ("DELETE FROM chunks_vector", "chunk"),
        ("DELETE FROM chunks_terms", "chunk"),
        ("UPDATE entity_degree SET degree = 77", "store"),
        ("INSERT INTO identity (id) VALUES ('ent-unused')", "store"),
        ("DELETE FROM entity_degree", "store"),
        ("INSERT INTO chunk_text VALUES (123456, 'left over')", "store"),
    ],
)
async def test_damage_is_found_and_repaired(
    kb: AsyncHeliograph, maintenance: Maintenance, tmp_path: Path, statement: str, subject: str
) -> None:
    before = await found(kb)
    assert damage(tmp_path, statement)
    report = await maintenance.check()
    assert not report.is_clean
    assert subject in {problem.subject for problem in report.problems}
    assert (await maintenance.check(repair=True)).is_clean
    assert (await maintenance.check()).problems == ()
    assert await found(kb) == before


async def test_document_that_waits_under_another_title_is_clean(maintenance: Maintenance, tmp_path: Path) -> None:
    assert damage(tmp_path, "UPDATE document SET status = 'pending', title = 'Another title'") > 0
    assert (await maintenance.check()).problems == ()


async def test_left_over_entity_is_removed(kb: AsyncHeliograph, maintenance: Maintenance, tmp_path: Path) -> None:
    damage(tmp_path, "INSERT INTO identity VALUES (9999, 'ent-left-over')")
    damage(tmp_path, "INSERT INTO entity VALUES (9999, 'Nobody', 'person', 3, 0, 'said by none', '', '')")
    report = await maintenance.check(repair=True)
    assert [problem.message for problem in report.problems if problem.id == "ent-left-over"] == ["nothing mentions it"]
    assert "ent-left-over" not in await kb.store.inspection.scan(ScanKind.ENTITIES, "", 99)
    assert (await maintenance.check()).is_clean


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE document SET chunk_count = 5",
        "UPDATE chunk SET start = start + 1",
        "DELETE FROM document_text",
        "DELETE FROM extraction",
    ],
)
async def test_damaged_truth_is_reported_and_left(maintenance: Maintenance, tmp_path: Path, statement: str) -> None:
    damage(tmp_path, statement)
    report = await maintenance.check(repair=True)
    assert not report.is_clean
    assert all("again" in problem.message for problem in report.problems if not problem.is_repairable)
    assert not (await maintenance.check()).is_clean


@pytest.mark.parametrize("lost", ["", "WHERE id LIKE 'rel-%'", "WHERE id LIKE 'chunk-%'", "WHERE id LIKE 'doc-%'"])
async def test_lost_ids_are_reported(maintenance: Maintenance, tmp_path: Path, lost: str) -> None:
    damage(tmp_path, f"DELETE FROM identity {lost}")
    report = await maintenance.check()
    assert any("ids are lost" in problem.message for problem in report.problems)


async def test_lost_ends_of_relations_are_reported_with_what_to_do(
    kb: AsyncHeliograph, maintenance: Maintenance, tmp_path: Path
) -> None:
    damage(tmp_path, "DELETE FROM identity WHERE id LIKE 'ent-%'")
    for repair in (False, True):
        report = await maintenance.check(repair=repair)
        assert not report.is_clean
        assert any("table of ids is damaged" in problem.message for problem in report.problems)
    with pytest.raises(StoreDamaged, match=r"table of ids is damaged.*restore a backup"):
        await kb.query_data(QUESTION)


async def test_orphaned_chunk_is_removed(maintenance: Maintenance, tmp_path: Path) -> None:
    damage(tmp_path, "DELETE FROM document WHERE key = (SELECT min(key) FROM document)")
    report = await maintenance.check(repair=True)
    assert any(problem.message == "it belongs to no document" for problem in report.problems)


async def test_rebuild_changes_no_result(kb: AsyncHeliograph, maintenance: Maintenance) -> None:
    before = [await found(kb), await kb.entities(), (await kb.stats()).chunks]
    assert (await maintenance.rebuild()).problems == ()
    assert [await found(kb), await kb.entities(), (await kb.stats()).chunks] == before
    assert (await maintenance.check()).problems == ()


async def test_rebuild_makes_everything_from_the_truth_alone(
    kb: AsyncHeliograph, maintenance: Maintenance, tmp_path: Path
) -> None:
    before = await found(kb)
    for table in ("entity", "relation", "entity_evidence", "relation_evidence", "entity_degree", "chunks_vector"):
        damage(tmp_path, f"DELETE FROM {table}")
    for table in ("entities_vector", "relations_vector", "chunks_terms", "entities_terms", "vector_change"):
        damage(tmp_path, f"DELETE FROM {table}")
    await maintenance.rebuild()
    assert await found(kb) == before


async def test_clear_leaves_nothing(kb: AsyncHeliograph, maintenance: Maintenance, tmp_path: Path) -> None:
    await maintenance.clear()
    stats = await kb.stats()
    assert (stats.chunks, stats.entities, stats.relations, dict(stats.documents)) == (0, 0, 0, {})
    stored = b"".join(path.read_bytes() for path in (tmp_path / "default").iterdir())
    assert b"Mosquitto" not in stored
    assert b"mosquitto" not in stored
    await kb.insert("The ESP32 has Wi-Fi.", sources=["a.md"])
    assert (await kb.query_data("What has Wi-Fi?"))["data"]["chunks"]
    assert (await maintenance.check()).is_clean


async def test_deleted_document_leaves_no_word_after_vacuum(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await kb.insert("Zanzibarium Quorlith speaks KLAXQ.", sources=["secret-place.md"], metadata=[{"owner": "Xylophan"}])
    await kb.query_data("Where is Quorlith?")
    await kb.delete(document_id("secret-place.md"))
    await kb.store.vacuum()
    stored = b"".join(path.read_bytes() for path in (tmp_path / "default").iterdir())
    for word in (b"anzibarium", b"uorlith", b"KLAXQ", b"klaxq", b"secret-place", b"ylophan"):
        assert word not in stored
