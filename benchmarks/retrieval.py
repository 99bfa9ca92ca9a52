"""Indexes retrieval sets offline and asks `query_data` for the passages that answer their questions.

A set is a folder with `corpus.jsonl` (`id`, `title`, `text`) and `queries.jsonl` (`question`, `gold`: ids). Every
passage is a document, its title a first line; nothing else is given: offline embedding, local extractor, no chat model.
The passages found are the documents of `data.chunks`, in that order. R@k is the mean share of a question's gold
passages among the first k. Of large sets the first 200 questions are asked, with `--all` every one.

`python -m benchmarks retrieval FOLDER ...`; a name without a folder is looked for in `../shared/bench`. Further words:
`mode=NAME` (may be repeated; naive, mix and fusion without), `data=FOLDER` (keep the indexes there and use them again),
`join=N` (N passages make one document, so that chunks mix topics; the passages found are then those that the first k
chunks hold a part of).
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

__all__ = ["TITLE", "find_folders", "recall", "run"]

TITLE = "Retrieval"

_SETS = Path(__file__).parents[2] / "shared" / "bench"
_DEFAULT = ("hotpotqa_train100", "cmrc2018_trial")
_MODES = ("naive", "mix", "fusion")
_CUTS = (2, 5, 10)
_MOST_QUESTIONS = 200


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Run:
    """What the words after the name ask for."""

    modes: tuple[str, ...]
    data: Path | None
    join: int
    most_questions: int | None
    most_passages: int | None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a passage stands in the document that it was joined into."""

    passage: str
    start: int
    end: int


def run(options: Options) -> Findings:
    """Measure each set in each mode."""
    words = [word.partition("=") for word in options.arguments]
    given = {name: value for name, sign, value in words if sign}
    run_ = _Run(
        modes=tuple(value for name, sign, value in words if sign and name == "mode") or _MODES,
        data=Path(given["data"]) if "data" in given else None,
        join=int(given.get("join", 1)),
        most_questions=5 if options.quick else None if options.everything else _MOST_QUESTIONS,
        most_passages=40 if options.quick else None,
    )
    figures: list[Figure] = []
    notes: list[str] = []
    for folder in find_folders([name for name, sign, _ in words if not sign] or _DEFAULT):
        found, note = asyncio.run(_measure(folder, run_))
        figures += found
        notes.append(note)
    return Findings(tuple(figures), tuple(notes))


def recall(found: Sequence[str], gold: frozenset[str], cut: int) -> float:
    """Return the share of the gold among the first `cut` found, repeats counted once."""
    return len(gold.intersection(list(dict.fromkeys(found))[:cut])) / len(gold)


def find_folders(names: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of sets given by folder or by name.

    Raises:
        FileNotFoundError: There is no such set.
    """
    for name in names:
        folder = Path(name) if (Path(name) / "corpus.jsonl").exists() else _SETS / name
        if not (folder / "corpus.jsonl").exists():
            raise FileNotFoundError(f"there is no set {name!r}; give a folder that holds corpus.jsonl")
        yield folder


async def _measure(folder: Path, run_: _Run) -> tuple[list[Figure], str]:
    passages = list(_read(folder / "corpus.jsonl"))[: run_.most_passages]
    questions = [
        _Question(item["question"], frozenset(item["gold"])) for item in _read(folder / "queries.jsonl") if item["gold"]
    ][: run_.most_questions]
    documents, places = _documents(passages, run_.join)
    workspace = folder.name if run_.join == 1 else f"{folder.name}-by-{run_.join}"
    with TemporaryDirectory() as temporary:
        async with AsyncHeliograph(run_.data or temporary, workspace=workspace) as kb:
            start = time.monotonic()
            if not (await kb.stats()).chunks:
                await kb.insert(documents)
            seconds = time.monotonic() - start
            stats = await kb.stats()
            figures = [
                figure
                for mode in run_.modes
                for figure in await _ask(kb, f"{workspace}, {mode}", mode, questions, places)
            ]
    note = (
        f"{workspace}: {len(passages):,} passages, {len(questions):,} questions; {stats.chunks:,} chunks, "
        f"{stats.entities:,} entities and {stats.relations:,} relations, indexed in {seconds:.0f} s."
    )
    return figures, note


def _documents(
    passages: Sequence[dict[str, Any]], join: int
) -> tuple[list[NewDocument], dict[str, list[_Place]] | None]:
    """Return the documents to insert and, where passages were joined, what stands where in each."""
    texts = [f"{item['title']}\n{item['text']}" for item in passages]
    if join == 1:
        return [NewDocument(text, source=item["id"]) for text, item in zip(texts, passages, strict=True)], None
    documents: list[NewDocument] = []
    places: dict[str, list[_Place]] = {}
    for first in range(0, len(passages), join):
        source, text = f"joined-{first // join}", ""
        places[source] = []
        for part, item in zip(texts[first : first + join], passages[first : first + join], strict=True):
            text += "\n\n" if text else ""
            places[source].append(_Place(item["id"], len(text), len(text) + len(part)))
            text += part
        documents.append(NewDocument(text, source=source))
    return documents, places


async def _ask(
    kb: AsyncHeliograph,
    label: str,
    mode: str,
    questions: Sequence[_Question],
    places: dict[str, list[_Place]] | None,
) -> list[Figure]:
    found = [await _chunks(kb, question.text, mode, places) for question in questions]
    return [
        Figure(
            f"{label}, R@{cut}",
            100 * fmean(_recall(chunks, question.gold, cut) for chunks, question in zip(found, questions, strict=True)),
            "%",
        )
        for cut in _CUTS
    ]


async def _chunks(
    kb: AsyncHeliograph, question: str, mode: str, places: dict[str, list[_Place]] | None
) -> list[tuple[str, ...]]:
    """Return what the chunks found stand for, in order: the passages in each, or of whole documents each one once."""
    answer = await kb.query_data(question, QueryParam(mode=mode))
    chunks = answer["data"].get("chunks", ())
    if places is None:
        return [(source,) for source in dict.fromkeys(chunk["file_path"] for chunk in chunks)]
    return [
        tuple(
            place.passage
            for place in places[chunk["file_path"]]
            if place.start < chunk["end"] and chunk["start"] < place.end
        )
        for chunk in chunks
    ]


def _recall(chunks: Sequence[tuple[str, ...]], gold: frozenset[str], cut: int) -> float:
    found = [passage for passages in chunks[:cut] for passage in passages]
    return recall(found, gold, len(found))


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
