from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

PASSAGES = [
    {"id": "p1", "title": "Gannet Head", "text": "Ada Pell keeps the lamp at Gannet Head."},
    {"id": "p2", "title": "Kestrel Mill", "text": "The mill makes paper from flax and sells it in Leith."},
    {"id": "p3", "title": "Skerravane", "text": "Tobias Fenn wound the clock of Skerravane every Sunday."},
    {"id": "p4", "title": "Carrow Quay", "text": "Nell Tarrant wrote about the ferry between Carrow and Leith."},
]
QUESTIONS = [
    {"id": "q1", "question": "Who keeps the lamp?", "answers": ["Ada Pell"], "gold": ["p1"], "type": "single"},
    {"id": "q2", "question": "Who wound the clock?", "answer": "Tobias Fenn", "gold": ["p3"], "type": "single"},
    {"id": "q3", "question": "What have mill and ferry in common?", "gold": ["p2", "p4"], "type": "multi"},
    {"id": "q4", "question": "Who painted the moon?", "answers": [], "gold": []},
]


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


@pytest.fixture
def harbour(tmp_path: Path) -> Path:
    """A set of four passages and four questions, one without gold."""
    folder = tmp_path / "harbour"
    write_lines(folder / "corpus.jsonl", PASSAGES)
    write_lines(folder / "queries.jsonl", QUESTIONS)
    return folder


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """The same in BEIR's layout, with grades, and a question of another split."""
    folder = tmp_path / "beir"
    write_lines(
        folder / "corpus.jsonl", [{"_id": row["id"], "title": row["title"], "text": row["text"]} for row in PASSAGES]
    )
    write_lines(folder / "queries.jsonl", [{"_id": row["id"], "text": row["question"]} for row in QUESTIONS])
    (folder / "qrels").mkdir()
    head = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "test.tsv").write_text(f"{head}q3\tp2\t2\nq3\tp4\t1\nq3\tp1\t0\n", "utf-8")
    (folder / "qrels" / "train.tsv").write_text(f"{head}q1\tp1\t1\n", "utf-8")
    return folder
