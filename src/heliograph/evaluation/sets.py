"""Reads evaluation sets: passages, questions, and which passages answer which question.

Two layouts, told apart by the corpus: the plain one (`corpus.jsonl` with `id`, `title`, `text`; `queries.jsonl` with
`id`, `question`, `answers`, `gold`, `type`), and that of BEIR (`_id` in place of `id`, `text` for the question, and
judgements in `qrels/<split>.tsv`). What cannot be read is an `InvalidRequestError` that names file and line; halves of
surrogate pairs, with which no report could be written, become U+FFFD.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from heliograph.documents.cleaning import replace_surrogates
from heliograph.errors import InvalidRequestError, NotFoundError

__all__ = ["EvaluationSet", "GivenExtraction", "Passage", "Question", "find_sets", "read_set"]

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
# BEIR measures on test; sets that have no such split are for development.
_SPLITS = ("test", "dev", "train")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Passage:
    """One unit of a corpus: what a question's gold names."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        id: Unique within the set.
        text: The question.
        gold: Grade per id of a passage that answers it, all above 0; empty if none does.
        answers: Accepted answers; empty if the set gives none.
        type: Kind of question, as the set names it; may be empty.
    """

    id: str
    text: str
    gold: Mapping[str, float]
    answers: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class GivenExtraction:
    """What was read in one passage.

    Attributes:
        entities: Names.
        triples: Source, predicate and target of each relation.
    """

    entities: tuple[str, ...] = ()
    triples: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A corpus and questions about it.

    Attributes:
        name: Name of its folder.
        passages: At least one; ids are unique.
        questions: At least one; ids are unique, and every gold id is that of a passage.
        extractions: Per id of a passage what was read in it, to be used in place of an extractor; None if there is no
            such file, or it is not asked for.
    """

    name: str
    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]
    extractions: Mapping[str, GivenExtraction] | None = field(default=None, repr=False)


def find_sets(folder: Path) -> list[Path]:
    """Return the folder itself if it is a set, else the sets directly in it that have questions, by name.

    Raises:
        NotFoundError: There is no such folder, or no set in it.
    """
    if (folder / CORPUS).is_file():
        return [folder]
    questions = (path.parent / QUERIES for path in folder.glob(f"*/{CORPUS}"))
    # A corpus may stand beside others for what else was noted of it, such as the entities in it.
    found = sorted(path.parent for path in questions if path.is_file() and path.stat().st_size)
    if not found:
        raise NotFoundError(
            f"there is no evaluation set in {str(folder)!r}; give a folder that holds {CORPUS} and {QUERIES}, "
            "or a folder of such folders"
        )
    return found


def read_set(folder: Path, split: str = "", extractions: str = "") -> EvaluationSet:
    """Read a set.

    Args:
        folder: Holds `corpus.jsonl` and `queries.jsonl`.
        split: Which judgements of a BEIR set to use; empty means test, else dev, else train, else the only ones. Of
            a plain set, only questions whose `split` is this, if given.
        extractions: Name of a file in the folder with what was read in each passage; empty if an extractor shall read.

    Raises:
        InvalidRequestError: A file is missing or says something that cannot be used; names it and the line.
    """
    corpus = list(_rows(folder / CORPUS))
    is_beir = bool(corpus) and "_id" in corpus[0][1]
    passages = tuple(_passage(row, "_id" if is_beir else "id", where) for where, row in corpus)
    questions = _beir_questions(folder, split) if is_beir else _plain_questions(folder, split)
    _check_unique([passage.id for passage in passages], folder / CORPUS)
    if not questions and any(True for _ in _rows(folder / QUERIES)):
        wanted = f" of the split {split!r}" if split else ""
        raise InvalidRequestError(
            f"no question{wanted} in {str(folder / QUERIES)!r} is judged; check the ids of the judgements, and --split"
        )
    _check_unique([question.id for question in questions], folder / QUERIES)
    _check_gold(folder, passages, questions)
    given = _read_extractions(folder / extractions, {item.id for item in passages}) if extractions else None
    return EvaluationSet(replace_surrogates(folder.resolve().name), passages, tuple(questions), given)


def _read_extractions(path: Path, known: Set[str]) -> dict[str, GivenExtraction]:
    given: dict[str, GivenExtraction] = {}
    for where, row in _rows(path):
        id_ = _string(row, "id", where)
        if id_ not in known:
            raise InvalidRequestError(f"{where} is about the passage {id_!r}, which {CORPUS} does not have")
        given[id_] = GivenExtraction(_strings(row, "entities", where), _triples(row, where))
    return given


def _triples(row: _Row, where: str) -> tuple[tuple[str, str, str], ...]:
    value = row.get("triples", [])
    if isinstance(value, list):
        triples = [_triple(item) for item in cast("list[Any]", value)]
        if None not in triples:
            return tuple(triple for triple in triples if triple is not None)
    raise InvalidRequestError(f"{where}: 'triples' is {str(value)[:80]!r}; give a list of [source, predicate, target]")


def _triple(item: Any) -> tuple[str, str, str] | None:
    if not isinstance(item, list) or not all(isinstance(part, str) for part in cast("list[Any]", item)):
        return None
    parts = cast("list[str]", item)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def _plain_questions(folder: Path, split: str) -> list[Question]:
    rows = _rows(folder / QUERIES)
    return [_plain_question(row, where) for where, row in rows if not split or row.get("split") == split]


def _plain_question(row: _Row, where: str) -> Question:
    text = _string(row, "question", where)
    answers = _strings(row, "answers", where) or ((row["answer"],) if isinstance(row.get("answer"), str) else ())
    if row.get("gold") is None:
        raise InvalidRequestError(
            f"{where} has no 'gold'; give the ids of passages, or [] if none answers the question"
        )
    gold = dict.fromkeys(_strings(row, "gold", where), 1.0)
    known = tuple(dict.fromkeys(answer for answer in answers if answer.strip()))
    return Question(_string(row, "id", where, text), text, gold, known, str(row.get("type") or ""))


def _beir_questions(folder: Path, split: str) -> list[Question]:
    judgements = _read_judgements(_judgement_file(folder, split))
    questions: list[Question] = []
    for where, row in _rows(folder / QUERIES):
        id_ = _string(row, "_id", where)
        # The questions of other splits stand in the same file.
        if id_ in judgements:
            gold = {passage: grade for passage, grade in judgements[id_].items() if grade > 0}
            questions.append(Question(id_, _string(row, "text", where), gold))
    return questions


def _judgement_file(folder: Path, split: str) -> Path:
    known = {path.stem: path for path in sorted((folder / QRELS).glob("*.tsv"))}
    wanted = (split,) if split else (*_SPLITS, *known)
    for name in wanted:
        if name in known:
            return known[name]
    raise InvalidRequestError(
        f"{str(folder / QRELS)!r} has no judgements {split + '.tsv' if split else '*.tsv'!r}; "
        f"there are {', '.join(known) or 'none'}"
    )


def _read_judgements(path: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for number, line in enumerate(_lines(path), 1):
        fields = line.split("\t")
        if number == 1 and not _is_number(fields[-1]):
            continue
        # trec_eval's four columns have a second one that says nothing.
        if len(fields) not in (3, 4) or not _is_number(fields[-1]):
            raise InvalidRequestError(f"line {number} of {str(path)!r} is not 'query-id TAB corpus-id TAB score'")
        if not math.isfinite(float(fields[-1])):
            raise InvalidRequestError(f"line {number} of {str(path)!r} has the score {fields[-1]!r}; give a finite one")
        found.setdefault(fields[0], {})[fields[-2]] = float(fields[-1])
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _passage(row: _Row, id_name: str, where: str) -> Passage:
    title = row.get("title")
    return Passage(_string(row, id_name, where), title if isinstance(title, str) else "", _string(row, "text", where))


def _string(row: _Row, name: str, where: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if isinstance(value, int):
        value = str(value)
    if not isinstance(value, str) or (name != "text" and not value.strip()):
        raise InvalidRequestError(f"{where} has no usable {name!r}, got {value!r}; give a text")
    return value


def _strings(row: _Row, name: str, where: str) -> tuple[str, ...]:
    value = row.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str | int) for item in value):
        raise InvalidRequestError(f"{where}: {name!r} is {value!r}; give a list of texts")
    return tuple(map(str, value))


def _rows(path: Path) -> Iterator[tuple[str, _Row]]:
    for number, line in enumerate(_lines(path), 1):
        where = f"line {number} of {str(path)!r}"
        try:
            row = _parse(line)
        except ValueError as error:
            raise InvalidRequestError(f"{where} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise InvalidRequestError(f"{where} is {line[:40]!r}; give one JSON object a line")
        yield where, row


def _parse(line: str) -> Any:
    value = json.loads(line)
    # A file that is UTF-8 can hold half of a surrogate pair only as an escape.
    if _SURROGATE_ESCAPE.search(line):
        return json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))
    return value


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file without empty ones at its end; only a line feed ends a line."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            yield from (line for line in map(str.strip, lines) if line)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"the evaluation set cannot be read at {str(path)!r}: {error}") from error


def _check_unique(ids: Sequence[str], path: Path) -> None:
    if not ids:
        raise InvalidRequestError(f"{str(path)!r} gives nothing to evaluate; it needs at least one line")
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(id_ for id_ in ids if id_ in seen or seen.add(id_))
        raise InvalidRequestError(f"{str(path)!r} has the id {twice!r} twice; ids must be unique")


def _check_gold(folder: Path, passages: Sequence[Passage], questions: Sequence[Question]) -> None:
    known = {passage.id for passage in passages}
    for question in questions:
        missing = [id_ for id_ in question.gold if id_ not in known]
        if missing:
            raise InvalidRequestError(
                f"the question {question.id!r} in {str(folder)!r} names {missing[0]!r} as gold, "
                f"which {CORPUS} does not have"
            )
