"""Indexes retrieval sets offline and asks `query_data` for the passages that answer their questions.

A set is a folder with `corpus.jsonl` (`id`, `title`, `text`) and `queries.jsonl` (`question`, `gold`: ids). Every
passage is a document, its title a first line; nothing else is given: offline embedding, local extractor, no chat model.
The passages found are the documents of `data.chunks`, in that order. R@k is the mean share of a question's gold
passages among the first k. Of large sets the first 200 questions are asked, with `--all` every one.

`python -m benchmarks retrieval FOLDER ...`; a name without a folder is looked for in `../shared/bench`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import AsyncHeliograph, NewDocument, QueryParam

__all__ = ["TITLE", "recall", "run"]

TITLE = "Retrieval"

_SETS = Path(__file__).parents[2] / "shared" / "bench"
_DEFAULT = ("hotpotqa_train100", "cmrc2018_trial")
_MODES = ("naive", "mix")
_CUTS = (2, 5, 10)
_MOST_QUESTIONS = 200


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    gold: frozenset[str]


def run(options: Options) -> Findings:
    """Measure each set in each mode."""
    most = 5 if options.quick else None if options.everything else _MOST_QUESTIONS
    figures: list[Figure] = []
    notes: list[str] = []
    for folder in _folders(options.arguments or _DEFAULT):
        found, note = asyncio.run(_measure(folder, most, 40 if options.quick else None))
        figures += found
        notes.append(note)
    return Findings(tuple(figures), tuple(notes))


def recall(found: Sequence[str], gold: frozenset[str], cut: int) -> float:
    """Return the share of the gold among the first `cut` found, repeats counted once."""
    return len(gold.intersection(list(dict.fromkeys(found))[:cut])) / len(gold)


def _folders(names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        folder = Path(name) if (Path(name) / "corpus.jsonl").exists() else _SETS / name
        if not (folder / "corpus.jsonl").exists():
            raise FileNotFoundError(f"there is no set {name!r}; give a folder that holds corpus.jsonl")
        yield folder


async def _measure(folder: Path, most_questions: int | None, most_passages: int | None) -> tuple[list[Figure], str]:
    passages = list(_read(folder / "corpus.jsonl"))[:most_passages]
    documents = [NewDocument(f"{item['title']}\n{item['text']}", source=item["id"]) for item in passages]
    questions = [
        _Question(item["question"], frozenset(item["gold"])) for item in _read(folder / "queries.jsonl") if item["gold"]
    ][:most_questions]
    with TemporaryDirectory() as data:
        async with AsyncHeliograph(data) as kb:
            start = time.monotonic()
            await kb.insert(documents)
            seconds = time.monotonic() - start
            stats = await kb.stats()
            figures = [
                figure for mode in _MODES for figure in await _ask(kb, f"{folder.name}, {mode}", mode, questions)
            ]
    note = (
        f"{folder.name}: {len(documents):,} passages, {len(questions):,} questions; {stats.chunks:,} chunks, "
        f"{stats.entities:,} entities and {stats.relations:,} relations, indexed in {seconds:.0f} s."
    )
    return figures, note


async def _ask(kb: AsyncHeliograph, label: str, mode: str, questions: Sequence[_Question]) -> list[Figure]:
    found = [await _passages(kb, question.text, mode) for question in questions]
    return [
        Figure(
            f"{label}, R@{cut}",
            100 * fmean(recall(ids, question.gold, cut) for ids, question in zip(found, questions, strict=True)),
            "%",
        )
        for cut in _CUTS
    ]


async def _passages(kb: AsyncHeliograph, question: str, mode: str) -> list[str]:
    """Return the sources of the chunks found, in order, each once."""
    answer = await kb.query_data(question, QueryParam(mode=mode))
    return list(dict.fromkeys(chunk["file_path"] for chunk in answer["data"].get("chunks", ())))


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
