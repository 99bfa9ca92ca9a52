"""Asks retrieval sets without a chat model and looks for the answer in the sentences that are quoted.

Every passage is a document with its title; mode `fusion`, offline embedding, local extractor. Counted are questions
whose gold answer, normalised as SQuAD's script does, stands in the first one and three quotes; those that have an
answer and get none; and, in sets that have questions without an answer (`type` is `null`), those that are told so.
Questions that are answered by yes or no are left out. Of each set the first 100 questions are asked, with
`--all` every one.

`python -m benchmarks answers SET ...`; a name without a folder is looked for in `../shared/bench`; `data=FOLDER` keeps
the indexes and uses them again. The table goes into `docs/answers.md`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.retrieval import find_folders
from heliograph import AsyncHeliograph, NewDocument, QueryParam
from heliograph.evaluation.results import holds_answer, is_findable, quoted_sentences

__all__ = ["TITLE", "run"]

TITLE = "Answers without a chat model"

_DEFAULT = ("hotpotqa_train100", "musique_train100")
_MOST_QUESTIONS = 100
_NO_ANSWER = "null"


def run(options: Options) -> Findings:
    """Measure each set."""
    most = 5 if options.quick else None if options.everything else _MOST_QUESTIONS
    words = [word.partition("=") for word in options.arguments]
    data = next((Path(value) for name, sign, value in words if sign and name == "data"), None)
    figures: list[Figure] = []
    for folder in find_folders([name for name, sign, _ in words if not sign] or _DEFAULT):
        figures += asyncio.run(_measure(folder, data, most, 40 if options.quick else None))
    return Findings(tuple(figures))


async def _measure(
    folder: Path, data: Path | None, most_questions: int | None, most_passages: int | None
) -> list[Figure]:
    documents = [
        NewDocument(item["text"], source=item["id"], title=item.get("title") or "")
        for item in _read(folder / "corpus.jsonl")[:most_passages]
    ]
    asked = _read(folder / "queries.jsonl")
    with_answer = [item for item in asked if is_findable(item.get("answers") or []) and item.get("type") != _NO_ANSWER]
    without = [item for item in asked if item.get("type") == _NO_ANSWER]
    with TemporaryDirectory() as temporary:
        async with AsyncHeliograph(data or temporary, workspace=folder.name) as engine:
            if not (await engine.stats()).chunks:
                await engine.insert(documents)
            found = await _ask(engine, with_answer[:most_questions])
            unanswered = await _ask(engine, without[:most_questions])
    return _figures(folder.name, found, unanswered)


async def _ask(engine: AsyncHeliograph, questions: Sequence[dict[str, Any]]) -> Counter[str]:
    counts = Counter[str](questions=len(questions))
    for item in questions:
        answer = await engine.query(item["question"], QueryParam(mode="fusion"))
        quotes = quoted_sentences(answer.text) if answer.citations else []
        counts.update(
            one=holds_answer("\n".join(quotes[:1]), item["answers"]),
            three=holds_answer("\n".join(quotes[:3]), item["answers"]),
            none=answer.is_unanswered,
        )
    return counts


def _figures(name: str, found: Counter[str], unanswered: Counter[str]) -> list[Figure]:
    count = max(1, found["questions"])
    note = f"{found['questions']} questions"
    figures = [
        Figure(f"{name}: in the first quote", 100 * found["one"] / count, "%", note=note),
        Figure(f"{name}: in the first three", 100 * found["three"] / count, "%"),
        Figure(f"{name}: answerable, told there is none", 100 * found["none"] / count, "%"),
    ]
    if unanswered["questions"]:
        share = 100 * unanswered["none"] / unanswered["questions"]
        note = f"{unanswered['questions']} questions"
        figures.append(Figure(f"{name}: without an answer, told so", share, "%", note=note))
    return figures


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
