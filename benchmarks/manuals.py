"""Manuals as Debian packages them, and questions on them: what a reader of real documents gets without a chat model.

`manuals/pages.txt` names the packages and which of their pages are indexed (English, Chinese and German: HTML as it is
shipped, with its navigation); `manuals/questions.jsonl` has the questions, written from the text of these pages. A
question says what kind it is (`one_fact`, `two_facts`, `cross_language`: one fact of a page in another language, or
`none`: not answered by these pages), its language, its facts, each a regular expression that the answer must match
(white space apart, in any case), and the files they stand in. Those that are `unseen` were written by somebody who did
not know the engine, on packages that nobody had tuned it on, and are counted by themselves. Those `in_own_words` were
written likewise, most of them in words that the page does not use, and are harder; weights were chosen on them, too.
Those that are `translated` are some of all these in another language than their page's.

Per kind and language is counted how often all facts stand in the quotes, and in the first quote (the first of each
part, where an answer is laid out by part), how often every file is among the first five chunks, and how often it is
said that there is no answer. Mode `auto`, offline embedding, no chat model.

`python -m benchmarks manuals` fetches the packages with `apt-get download` into a temporary folder; `folder=FOLDER`
keeps packages and index there and uses them again, `mode=MODE` asks in another mode, `show=1` prints what is missed.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import Answer, Heliograph, QueryParam
from heliograph.evaluation.results import leading_quotes, quoted_sentences

__all__ = ["TITLE", "Question", "fetch_pages", "read_pages", "read_questions", "run", "scores_of"]

TITLE = "Questions on real manuals"

_HERE = Path(__file__).parent / "manuals"
_CUT = 5
_FEW = 10


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        question: The question.
        kind: `one_fact`, `two_facts`, `cross_language` or `none`.
        language: Of the question: `en`, `zh` or `de`.
        facts: Patterns that an answer must match; empty for `none`.
        files: Where they stand, as `folder/page` below the folder of all pages.
        is_unseen: Whether nobody who wrote it knew the engine.
        in_own_words: Whether it was written in words that the page does not use, as most of these were.
        is_translated: Whether it is one of the others in another language than its page's.
    """

    question: str
    kind: str
    language: str
    facts: tuple[str, ...]
    files: tuple[str, ...]
    is_unseen: bool = False
    in_own_words: bool = False
    is_translated: bool = False


def read_pages() -> list[tuple[str, str, str]]:
    """Return per page its package, its folder below `/usr` and its name without ending."""
    lines = (_HERE / "pages.txt").read_text("utf-8").replace("\n ", " ").splitlines()
    found: list[tuple[str, str, str]] = []
    for package, folder, *pages in (line.split() for line in lines if not line.startswith("#")):
        found += [(package, folder, page) for page in pages]
    return found


def read_questions() -> list[Question]:
    """Return the questions."""
    lines = (_HERE / "questions.jsonl").read_text("utf-8").splitlines()
    return [
        Question(
            *(item["question"], item["kind"], item["language"], tuple(item["facts"]), tuple(item["files"])),
            item.get("unseen", False),
            item.get("in_own_words", False),
            item.get("translated", False),
        )
        for item in map(json.loads, filter(str.strip, lines))
    ]


def run(options: Options) -> Findings:
    """Fetch, index and ask."""
    given = dict(word.split("=", 1) for word in options.arguments)
    with TemporaryDirectory() as temporary:
        folder = Path(given.get("folder", temporary))
        pages = list(fetch_pages(folder, read_pages()[:: 40 if options.quick else 1]))
        with Heliograph(folder / "home", workspace="manuals") as engine:
            engine.insert_files([str(page) for page in pages])
            asked = read_questions()[: _FEW if options.quick else None]
            return Findings(tuple(_figures(engine, asked, given.get("mode", "auto"), shows="show" in given)))


def scores_of(question: Question, answer: Answer) -> dict[str, bool]:
    """Return what of a question is right in its answer, by name."""
    quotes = quoted_sentences(answer.text) if answer.citations else []
    chunks = answer.retrieval.context.chunks[:_CUT]
    first = leading_quotes(answer.text) if answer.citations else []
    return {
        "quoted": bool(question.facts) and all(_holds(quotes, fact) for fact in question.facts),
        "first": bool(question.facts) and all(_holds(first, fact) for fact in question.facts),
        "evidence": all(any(_stem(item.source).endswith(file) for item in chunks) for file in question.files),
        "declined": answer.is_unanswered,
    }


def fetch_pages(folder: Path, pages: Sequence[tuple[str, str, str]]) -> Iterator[Path]:
    """Yield the pages, their packages fetched and unpacked once; a page that its package no longer has is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in dict.fromkeys(package for package, _, _ in pages):
        if not any(folder.glob(f"{package}_*.deb")):
            subprocess.run(["apt-get", "download", package], cwd=folder, check=True, capture_output=True)
            archive = next(folder.glob(f"{package}_*.deb"))
            subprocess.run(["dpkg-deb", "-x", archive.name, "pages"], cwd=folder, check=True)
    for _, below, page in pages:
        path = folder / "pages" / "usr" / below / f"{page}.html"
        if path.exists():
            yield path


def _figures(engine: Heliograph, asked: Sequence[Question], mode: str, *, shows: bool) -> Iterator[Figure]:
    counts: dict[str, Counter[str]] = {}
    for question in asked:
        answer = engine.query(question.question, QueryParam(mode=mode))  # pyright: ignore[reportArgumentType]
        scores = scores_of(question, answer)
        of_sort = {
            ", unseen": question.is_unseen,
            ", in own words": question.in_own_words,
            ", translated": question.is_translated,
        }
        written = "".join(name for name, holds in of_sort.items() if holds)
        label = f"{question.kind}, {question.language}{written}"
        of_kind = counts.setdefault(label, Counter())
        of_kind.update(asked=1, **{name: int(value) for name, value in scores.items()})
        wanted = "declined" if question.kind == "none" else "first"
        if shows and not scores[wanted]:
            print(f"\n{question}\n{scores}\n{answer.text}", flush=True)
    for name, of_kind in counts.items():
        for score in ("declined",) if name.startswith("none") else ("quoted", "first", "evidence", "declined"):
            note = f"{of_kind['asked']} questions" if score in ("quoted", "declined") else ""
            yield Figure(f"{name}: {score}", 100 * of_kind[score] / of_kind["asked"], "%", note=note)


def _stem(source: str) -> str:
    return source.removesuffix(".html")


def _holds(texts: Sequence[str], fact: str) -> bool:
    lines = [" ".join(text.split()) for text in texts]
    # Patterns are written as the page shows them, without the marks of Markdown, or with these.
    plain = [re.sub(r"[`*]|\\(?=\W)", "", line) for line in lines]
    return any(re.search(fact, line, re.IGNORECASE) for line in (*lines, *plain))
