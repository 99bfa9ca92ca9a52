"""Kept replies go with an archive: what was paid for is not asked for again, and no deletion misses them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from heliograph import AsyncHeliograph
from heliograph.ids import document_id
from heliograph.maintenance.archive import NoteKind
from heliograph.models import Usage
from heliograph.stores.base import CachedReply
from heliograph.testing.fakes import FakeEmbeddingModel

MOMENT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def reply(key: str, subject_id: str = "") -> CachedReply:
    return CachedReply(key, f"what {key} says", "model", Usage(3, 4), MOMENT, subject_id)


async def keep_replies(kb: AsyncHeliograph) -> list[CachedReply]:
    """Replies of all types; the last one is an answer."""
    chunk = (await kb.chunks(document_id("a.md")))[0]
    entity = (await kb.entities(limit=1))[0]
    replies = [
        reply("default:extract:1", chunk.id),
        reply("default:keywords:1"),
        reply("default:summary:1", entity.id),
        reply("mix:query:1"),
    ]
    for item in replies:
        await kb.store.replies.put_reply(item)
    return replies


async def test_replies_but_answers_come_back(kb: AsyncHeliograph, tmp_path: Path) -> None:
    replies = await keep_replies(kb)
    await kb.export(tmp_path / "kb.jsonl")
    assert "what mix:query:1 says" not in (tmp_path / "kb.jsonl").read_text("utf-8")
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel()) as copy:
        assert (await copy.import_from(tmp_path / "kb.jsonl")).replies == 3
        assert await copy.store.replies.list_replies("", 10) == replies[:3]
        again = await copy.import_from(tmp_path / "kb.jsonl")
        assert again.replies == 0
        assert (NoteKind.KNOWN, 3) in [(note.kind, note.count) for note in again.notes if "replies" in note.text]
        await copy.delete(document_id("a.md"))
        assert replies[0].key not in [item.key for item in await copy.store.replies.list_replies("", 10)]


async def test_replies_about_what_is_not_here_and_answers_are_left_out(kb: AsyncHeliograph, tmp_path: Path) -> None:
    foreign = [reply("default:extract:9", "chunk-elsewhere"), reply("mix:query:9")]
    await kb.store.replies.put_reply(foreign[0])
    await kb.export(tmp_path / "kb.jsonl")
    line = json.dumps({"reply": {"key": "mix:query:9", "text": "x", "model": "m", "usage": {}, "created_at": 0}})
    with (tmp_path / "kb.jsonl").open("a") as file:
        file.write(line + "\n")
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel()) as copy:
        report = await copy.import_from(tmp_path / "kb.jsonl")
        assert report.replies == 0
        assert [(note.kind, note.count) for note in report.notes] == [(NoteKind.LEFT_OUT, 2)]
        assert await copy.store.replies.list_replies("", 10) == []


async def test_archive_of_version_1_without_replies_is_imported(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await kb.export(tmp_path / "kb.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "kb.jsonl").read_text("utf-8").splitlines()]
    lines[0]["archive"]["version"] = 1
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    async with AsyncHeliograph(tmp_path / "copy", embedding=FakeEmbeddingModel()) as copy:
        report = await copy.import_from(tmp_path / "old.jsonl")
        assert (report.added, report.failed, report.replies) == (3, 0, 0)


def test_type_of_a_reply_is_the_middle_of_its_key() -> None:
    assert reply("default:extract:1:2").cache_type == "extract"
    assert replace(reply("x"), key="odd").cache_type == ""
