"""Asks corpora what they answer and what only other corpora answer, and counts what is declined.

Every passage is a document with its title; mode `auto`, offline embedding, local extractor, no chat model. Of each set
the first 40 questions with gold are asked, and those of `data/other_languages.jsonl`, which ask in German, Chinese or
English of documents in another language. What it cannot answer are questions of every other set, in its languages and
in others (sets of one kind, such as two of Wikipedia, are not asked of each other), and German ones that none answers.

Counted is the share declined as it is: of all questions, of either half, and by language; and, for the curve
`docs/images/declining.svg`, what would be declined and lost at other thresholds. `python -m benchmarks declining SET
...`; a name without a folder is looked for in `../shared/bench`, `manuals` are the pages of `python -m benchmarks
manuals`; `data=FOLDER` keeps the indexes and uses them again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.manuals import fetch_pages, read_pages, read_questions
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.retrieval import find_folders
from heliograph import AsyncHeliograph, NewDocument, QueryParam
from heliograph.query.answers import answer
from heliograph.query.answers.sentence_ranking import Shortlist, answer_margin, is_answered
from heliograph.text.analysis import is_chinese

__all__ = ["CURVE", "TITLE", "render_curve", "run"]

TITLE = "Declining what the documents do not say"

_HERE = Path(__file__).parent
_MANUALS = "manuals"
_DEFAULT = ("cmrc2018_trial", "gitlab_handbook", "hotpotqa_train100", "lihua_world")
_OWN, _OTHERS, _OF_LANGUAGE = 40, 8, 3
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
CURVE = "curve"
"""What figures of the curve are called: `curve: 0.04: declined`, the threshold's distance from the one in use."""
_STEPS = tuple(step / 50 for step in range(-15, 16))


@dataclass(frozen=True, slots=True)
class _Told:
    """A question as it went: its language, whether it is answerable, how near the answer came, and the verdict."""

    language: str
    is_answerable: bool
    margin: float
    is_declined: bool


def run(options: Options) -> Findings:
    """Measure each set."""
    words = [word.partition("=") for word in options.arguments]
    data = next((Path(value) for name, sign, value in words if sign and name == "data"), None)
    names = [name for name, sign, _ in words if not sign] or list(_DEFAULT)
    folders = [*find_folders([name for name in names if name != _MANUALS]), *([Path(_MANUALS)] * (_MANUALS in names))]
    own, others, of_language, passages = (3, 1, 1, 40) if options.quick else (_OWN, _OTHERS, _OF_LANGUAGE, None)
    asked = {folder: _questions(folder) for folder in folders}
    translated = {folder: _in_other_languages(folder.name) for folder in folders}
    everything: list[_Told] = []
    figures: list[Figure] = []
    for folder in folders:
        answerable = [*asked[folder][:own], *translated[folder][: own // 2]]
        foreign = [
            question
            for other in folders
            if _are_apart(folder, other)
            for question in (*asked[other][:others], *_of_each_language(translated[other], of_language))
        ]
        unanswerable = [*foreign, *((question, "de") for question in _GERMAN), *_unanswered(folder)]
        told = asyncio.run(_told(folder, data, answerable, unanswerable, passages))
        figures += _figures(folder.name, told)
        everything += told
    for half, name in enumerate(("first half", "second half")):
        figures += _figures(name, everything[half::2])
    for language in sorted({item.language for item in everything}):
        figures += _figures(f"all, {language}", [item for item in everything if item.language == language])
    return Findings((*figures, *_curve(everything)))


async def _told(
    folder: Path,
    data: Path | None,
    own: Sequence[tuple[str, str]],
    foreign: Sequence[tuple[str, str]],
    passages: int | None,
) -> list[_Told]:
    """Ask own and foreign questions, each with its language."""
    with TemporaryDirectory() as temporary:
        async with AsyncHeliograph(data or temporary, workspace=folder.name) as engine:
            if not (await engine.stats()).chunks:
                await _insert(engine, folder, Path(data or temporary), passages)
            found: list[_Told] = []
            for is_answerable, questions in ((True, own), (False, foreign)):
                for question, language in questions:
                    with _recorded() as margins:
                        answer = await engine.query(question, QueryParam(mode="auto"))
                    margin = max(margins, default=-1.0)
                    found.append(_Told(language, is_answerable, margin, answer.is_unanswered))
            return found


async def _insert(engine: AsyncHeliograph, folder: Path, data: Path, passages: int | None) -> None:
    if folder.name == _MANUALS:
        pages = await asyncio.to_thread(lambda: list(fetch_pages(data, read_pages()[: passages or None])))
        await engine.insert_files([str(page) for page in pages])
        return
    items = _read(folder / "corpus.jsonl")[:passages]
    await engine.insert([NewDocument(item["text"], source=item["id"], title=item.get("title") or "") for item in items])


@contextmanager
def _recorded() -> Generator[list[float]]:
    """Note how far each answer, or part of one, came above what it must come to."""
    values: list[float] = []

    def noted(listed: Shortlist, cosines: Sequence[float]) -> bool:
        values.append(answer_margin(listed, cosines))
        return is_answered(listed, cosines)

    answer.is_answered = noted
    try:
        yield values
    finally:
        answer.is_answered = is_answered


def _figures(name: str, told: Sequence[_Told]) -> Iterator[Figure]:
    for is_answerable, what in ((True, "answerable, declined"), (False, "others, declined")):
        flags = [item.is_declined for item in told if item.is_answerable is is_answerable]
        if flags:
            yield Figure(f"{name}: {what}", _share(flags), "%", note=f"{len(flags)} questions")


def _curve(told: Sequence[_Told]) -> Iterator[Figure]:
    for step in _STEPS:
        for is_answerable, what in ((True, "lost"), (False, "declined")):
            share = _share([item.margin < step for item in told if item.is_answerable is is_answerable])
            yield Figure(f"{CURVE}: {step:.2f}: {what}", share, "%")


def render_curve(figures: Sequence[Figure]) -> str:
    """Return the curve as SVG: what is declined of the unanswerable, over what is lost of the answerable."""
    values = {figure.name: figure.value for figure in figures}
    steps = [f"{CURVE}: {step:.2f}" for step in _STEPS if f"{CURVE}: {step:.2f}: lost" in values]
    shares = [(values[f"{step}: lost"], values[f"{step}: declined"]) for step in steps]
    used = values.get(f"{CURVE}: 0.00: lost", 0.0), values.get(f"{CURVE}: 0.00: declined", 0.0)

    def place(lost: float, declined: float) -> str:
        return f"{60 + 10 * min(lost, 40):.1f},{340 - 3 * declined:.1f}"

    line = " ".join(place(*share) for share in shares)
    x, y = place(*used).split(",")
    marks = [
        *(f'<text x="{60 + 10 * x}" y="358" text-anchor="middle">{x}</text>' for x in range(0, 41, 5)),
        *(f'<text x="52" y="{344 - 3 * y}" text-anchor="end">{y}</text>' for y in range(0, 101, 25)),
        *(f'<path d="M60 {340 - 3 * y}H460" stroke="#8884"/>' for y in range(0, 101, 25)),
    ]
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 390" font-family="sans-serif" font-size="12"'
            ' fill="#777">',
            *marks,
            '<path d="M110 40V340" stroke="#8888" stroke-dasharray="4"/>',
            f'<polyline points="{line}" fill="none" stroke="#2a7ab0" stroke-width="2"/>',
            f'<circle cx="{x}" cy="{y}" r="5" fill="#d2691e"/>',
            '<text x="260" y="380" text-anchor="middle">answerable questions declined, %</text>',
            '<text x="60" y="24">unanswerable questions declined, %; the dot is the threshold in use</text>',
            "</svg>",
            "",
        ]
    )


def _share(flags: Sequence[bool]) -> float:
    return 100 * sum(flags) / max(1, len(flags))


def _are_apart(folder: Path, other: Path) -> bool:
    return folder != other and not any(folder.name.startswith(kind) and other.name.startswith(kind) for kind in _KINDS)


def _questions(folder: Path) -> list[tuple[str, str]]:
    """Return what a set answers, each with its language; manuals in turns, so that a part has all kinds."""
    if folder.name == _MANUALS:
        found = [(item.question, item.language) for item in read_questions() if item.kind != "none"]
        return [item for start in range(7) for item in found[start::7]]
    items = _read(folder / "queries.jsonl")
    texts = [item.get("question") or item["text"] for item in items if item.get("gold") and item.get("type") != "null"]
    return [(text, "zh" if is_chinese(text) else "en") for text in texts]


def _unanswered(folder: Path) -> list[tuple[str, str]]:
    """Return the set's own questions without an answer, which are near to what it says; at most 24."""
    if folder.name == _MANUALS:
        return [(item.question, item.language) for item in read_questions() if item.kind == "none"]
    return [(item["question"], "en") for item in _read(folder / "queries.jsonl") if item.get("type") == "null"][:24]


def _in_other_languages(name: str) -> list[tuple[str, str]]:
    items = _read(_HERE / "data" / "other_languages.jsonl")
    return [(item["question"], item["language"]) for item in items if item["set"] == name]


def _of_each_language(questions: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    languages = dict.fromkeys(language for _, language in questions)
    return [item for name in languages for item in [pair for pair in questions if pair[1] == name][:count]]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
