"""Asks retrieval sets what they answer and what only other sets answer, and counts what is declined.

Every passage is a document with its title; mode `auto`, offline embedding, local extractor, no chat model. Of each set
the first 40 questions with gold are asked, and 10 of every other set, which this one does not answer (sets of one
kind, such as two of Wikipedia, are not asked of each other), with questions in German that none answers. Counted is
the share declined as it is, and what would be at other thresholds: the nearness of the best sentence and the best
chunk, added up.

`python -m benchmarks declining SET ...`; a name without a folder is looked for in `../shared/bench`; `data=FOLDER`
keeps the indexes and uses them again. The table goes into `docs/answers.md`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.retrieval import find_folders
from heliograph import AsyncHeliograph, NewDocument, QueryParam
from heliograph.query.answers import extractive
from heliograph.query.answers.sentence_ranking import Shortlist, is_answered, nearness_told

__all__ = ["TITLE", "run"]

TITLE = "Declining what the documents do not say"

_DEFAULT = ("cmrc2018_trial", "gitlab_handbook", "hotpotqa_train100", "lihua_world")
_OWN, _OTHERS = 40, 10
_THRESHOLDS = (0.80, 0.84, 0.88, 0.92, 0.96, 1.00)
# Sets drawn from one source may answer each other's questions.
_KINDS = (("hotpotqa", "musique", "2wiki", "wild"), ("cmrc", "nlpcc"))
_GERMAN = (
    "Wie hoch ist der Kölner Dom?",
    "Wer schrieb den Roman Der Zauberberg?",
    "Welcher Befehl legt in MongoDB eine Sammlung an?",
    "Wie viele Urlaubstage hat ein Mitarbeiter im ersten Jahr?",
    "Was kostet ein Fahrschein in Wien?",
    "Wie setze ich mein Passwort bei PayPal zurück?",
    "Wann wurde die Berliner Mauer gebaut?",
    "Welche Spannung hat eine Autobatterie?",
)


def run(options: Options) -> Findings:
    """Measure each set."""
    words = [word.partition("=") for word in options.arguments]
    data = next((Path(value) for name, sign, value in words if sign and name == "data"), None)
    folders = list(find_folders([name for name, sign, _ in words if not sign] or _DEFAULT))
    own, others, passages = (3, 2, 40) if options.quick else (_OWN, _OTHERS, None)
    asked = {folder: _questions(folder) for folder in folders}
    figures: list[Figure] = []
    for folder in folders:
        foreign = [question for other in folders if _are_apart(folder, other) for question in asked[other][:others]]
        told = asyncio.run(_told(folder, data, asked[folder][:own], [*foreign, *_GERMAN], passages))
        figures += _figures(folder.name, *told)
    return Findings(tuple(figures))


async def _told(
    folder: Path, data: Path | None, own: Sequence[str], foreign: Sequence[str], passages: int | None
) -> tuple[list[tuple[float, bool]], list[tuple[float, bool]]]:
    """Return, for own questions and for foreign ones, how near the documents come and whether it was declined."""
    with TemporaryDirectory() as temporary:
        async with AsyncHeliograph(data or temporary, workspace=folder.name) as engine:
            if not (await engine.stats()).chunks:
                items = _read(folder / "corpus.jsonl")[:passages]
                await engine.insert(
                    [NewDocument(item["text"], source=item["id"], title=item.get("title") or "") for item in items]
                )
            found: list[list[tuple[float, bool]]] = []
            for questions in (own, foreign):
                found.append([])
                for question in questions:
                    with _recorded() as values:
                        answer = await engine.query(question, QueryParam(mode="auto"))
                    found[-1].append((max(values, default=0.0), answer.is_unanswered))
            return found[0], found[1]


@contextmanager
def _recorded() -> Generator[list[float]]:
    """Note how near each answer, or part of one, came to its question."""
    values: list[float] = []

    def noted(listed: Shortlist, cosines: Sequence[float]) -> bool:
        values.append(nearness_told(listed, cosines))
        return is_answered(listed, cosines)

    extractive.is_answered = noted
    try:
        yield values
    finally:
        extractive.is_answered = is_answered


def _figures(name: str, own: Sequence[tuple[float, bool]], foreign: Sequence[tuple[float, bool]]) -> Iterator[Figure]:
    yield Figure(f"{name}: answerable, declined", _share([no for _, no in own]), "%", note=f"{len(own)} questions")
    yield Figure(f"{name}: others, declined", _share([no for _, no in foreign]), "%", note=f"{len(foreign)} questions")
    for threshold in _THRESHOLDS:
        lost = _share([near < threshold for near, _ in own])
        yield Figure(f"{name}: lost below {threshold:.2f}", lost, "%")
        yield Figure(f"{name}: declined below {threshold:.2f}", _share([near < threshold for near, _ in foreign]), "%")


def _share(flags: Sequence[bool]) -> float:
    return 100 * sum(flags) / max(1, len(flags))


def _are_apart(folder: Path, other: Path) -> bool:
    return folder != other and not any(folder.name.startswith(kind) and other.name.startswith(kind) for kind in _KINDS)


def _questions(folder: Path) -> list[str]:
    items = _read(folder / "queries.jsonl")
    return [item.get("question") or item["text"] for item in items if item.get("gold") and item.get("type") != "null"]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
