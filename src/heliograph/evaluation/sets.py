"""Evaluation sets: passages, questions, which passages answer which question; and passages as documents.

Two layouts are read, distinguished by the corpus: the plain one, and that of BEIR. `map_corpus` makes documents of
passages (several passages per document on request) and maps retrieved chunks back to passages. `GivenExtractor` replays
extractions that a set includes, in place of an extractor.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from heliograph.documents.markdown import clean_text, replace_surrogates
from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.extraction.base import UNKNOWN_TYPE, Extractor, ignore_progress
from heliograph.extraction.replies import ParsedEntity, ParsedExtraction, ParsedRelation, ReadRecords, to_mentions
from heliograph.ids import clean_name, entity_key
from heliograph.ingest.models import NewDocument
from heliograph.models import Chunk, Document, Extraction
from heliograph.text.sentences import sentence_spans

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
# BEIR measures on test; sets without a test split are for development.
_SPLITS = ("test", "dev", "train")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Passage:
    """One unit of a corpus, to which a question's gold refers."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question, with the grade, above 0, per id of a passage that answers it; gold and answers may be empty."""

    id: str
    text: str
    gold: Mapping[str, float]
    answers: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class GivenExtraction:
    """The entities and relations extracted from one passage."""

    entities: tuple[str, ...] = ()
    triples: tuple[tuple[str, str, str], ...] = ()

    def named_in(self, text: str) -> GivenExtraction:
        """Return the part of it that a part of the passage, given in lower case, names."""
        return GivenExtraction(
            tuple(name for name in self.entities if name.casefold() in text),
            tuple(triple for triple in self.triples if triple[0].casefold() in text and triple[2].casefold() in text),
        )


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A corpus and questions about it; ids are unique, and every gold id is that of a passage.

    `extractions` has the extraction per id of a passage, to be used in place of an extractor; None for none.
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
    # Other corpora may lie beside a set's, for instance of its entities.
    found = sorted(path.parent for path in questions if path.is_file() and path.stat().st_size)
    if not found:
        raise NotFoundError(
            f"there is no evaluation set in {str(folder)!r}; give a folder that holds {CORPUS} and {QUERIES}, "
            "or a folder of such folders"
        )
    return found


def read_set(folder: Path, split: str = "", extractions: str = "") -> EvaluationSet:
    """Read a set from the folder of `corpus.jsonl` and `queries.jsonl`.

    `split` says which judgements of a BEIR set to use; empty means test, else dev, else train, else the only ones. In a
    plain set it selects the questions with this `split`. `extractions` names a file with the extractions of the
    passages; empty to use an extractor.

    Raises:
        InvalidRequestError: A file is missing or has an invalid value; names it and the line.
    """
    corpus = list(_rows(folder / CORPUS))
    is_beir = bool(corpus) and "_id" in corpus[0][1]
    passages = tuple(
        Passage(
            _string(row, "_id" if is_beir else "id", where),
            title if isinstance(title := row.get("title"), str) else "",
            _string(row, "text", where),
        )
        for where, row in corpus
    )
    questions = (
        _beir_questions(folder, split)
        if is_beir
        else [
            _plain_question(row, where)
            for where, row in _rows(folder / QUERIES)
            if not split or row.get("split") == split
        ]
    )
    _check_unique([passage.id for passage in passages], folder / CORPUS)
    if not questions and any(True for _ in _rows(folder / QUERIES)):
        wanted = f" of the split {split!r}" if split else ""
        raise InvalidRequestError(
            f"no question{wanted} in {str(folder / QUERIES)!r} is judged; check the ids of the judgements, and --split"
        )
    _check_unique([question.id for question in questions], folder / QUERIES)
    known = {passage.id for passage in passages}
    for question in questions:
        if missing := [id_ for id_ in question.gold if id_ not in known]:
            raise InvalidRequestError(
                f"the question {question.id!r} in {str(folder)!r} names {missing[0]!r} as gold, "
                f"which {CORPUS} does not have"
            )
    given: dict[str, GivenExtraction] = {}
    for where, row in _rows(folder / extractions) if extractions else ():
        id_ = _string(row, "id", where)
        if id_ not in known:
            raise InvalidRequestError(f"{where} is about the passage {id_!r}, which {CORPUS} does not have")
        given[id_] = GivenExtraction(_strings(row, "entities", where), _triples(row, where))
    read = given if extractions else None
    return EvaluationSet(replace_surrogates(folder.resolve().name), passages, tuple(questions), read)


def _triples(row: _Row, where: str) -> tuple[tuple[str, str, str], ...]:
    value = row.get("triples", [])
    triples: list[tuple[str, str, str]] = []
    for item in cast("list[Any]", value) if isinstance(value, list) else [None]:
        match item:
            case [str() as source, str() as predicate, str() as target]:
                triples.append((source, predicate, target))
            case _:
                told = f"{where}: 'triples' is {str(value)[:80]!r}; give a list of [source, predicate, target]"
                raise InvalidRequestError(told)
    return tuple(triples)


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
    known = {path.stem: path for path in sorted((folder / QRELS).glob("*.tsv"))}
    file = next((known[name] for name in ((split,) if split else (*_SPLITS, *known)) if name in known), None)
    if file is None:
        raise InvalidRequestError(
            f"{str(folder / QRELS)!r} has no judgements {split + '.tsv' if split else '*.tsv'!r}; "
            f"there are {', '.join(known) or 'none'}"
        )
    judgements: dict[str, dict[str, float]] = {}
    for number, line in enumerate(_lines(file), 1):
        fields = line.split("\t")
        if number == 1 and not _is_number(fields[-1]):
            continue
        # trec_eval's format has four columns, of which the second is unused.
        if len(fields) not in (3, 4) or not _is_number(fields[-1]):
            raise InvalidRequestError(f"line {number} of {str(file)!r} is not 'query-id TAB corpus-id TAB score'")
        if not math.isfinite(float(fields[-1])):
            raise InvalidRequestError(f"line {number} of {str(file)!r} has the score {fields[-1]!r}; give a finite one")
        judgements.setdefault(fields[0], {})[fields[-2]] = float(fields[-1])
    questions: list[Question] = []
    for where, row in _rows(folder / QUERIES):
        id_ = _string(row, "_id", where)
        # The same file has the questions of other splits.
        if id_ in judgements:
            gold = {passage: grade for passage, grade in judgements[id_].items() if grade > 0}
            questions.append(Question(id_, _string(row, "text", where), gold))
    return questions


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
            row = json.loads(line)
            # In a file that is valid UTF-8, a lone surrogate can only be an escape.
            if _SURROGATE_ESCAPE.search(line):
                row = json.loads(replace_surrogates(json.dumps(row, ensure_ascii=False)))
        except ValueError as error:
            raise InvalidRequestError(f"{where} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise InvalidRequestError(f"{where} is {line[:40]!r}; give one JSON object a line")
        yield where, row


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


# Passages as documents, and retrieved chunks as passages again.
#
# A passage is a document: its title as first line, its text below. On request several neighbouring passages make one
# document, so that chunks mix topics; a chunk then stands for the passages that it shares enough characters with.

_GAP = "\n\n"
# A chunk holds a passage if they share this fraction of the shorter of the two.
_LEAST_SHARED = 0.5


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """The position of a retrieved chunk: its document's source, and its characters from `start` to before `end`."""

    source: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Spans:
    """The passages of one document, in order: the id, first character and end of each."""

    ids: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def within(self, start: int, end: int) -> list[str]:
        found: list[str] = []
        for place in range(max(0, bisect_right(self.starts, start) - 1), len(self.ids)):
            first, last = self.starts[place], self.ends[place]
            if first >= end:
                break
            shared = min(end, last) - max(start, first)
            if shared >= _LEAST_SHARED * min(end - start, last - first):
                found.append(self.ids[place])
        return found

    def touching(self, start: int, end: int) -> list[tuple[str, bool]]:
        spans = zip(self.ids, self.starts, self.ends, strict=True)
        return [
            (id_, start <= first and last <= end) for id_, first, last in spans if min(end, last) > max(start, first)
        ]


@dataclass(frozen=True, slots=True)
class CorpusMap:
    """The documents to index, each with a source that identifies its chunks, and the mapping back."""

    documents: tuple[NewDocument, ...]
    spans: Mapping[str, _Spans]

    def places(self, chunks: Iterable[ChunkSpan]) -> list[tuple[str, ...]]:
        """Return the new passages of each chunk that adds any to those of the chunks before it; order is kept.

        A chunk of an unknown source, such as of a document that does not belong to the set, is a place without any
        passage: it took a rank that a passage could have had.
        """
        seen: set[str] = set()
        places: list[tuple[str, ...]] = []
        for chunk in chunks:
            spans = self.spans.get(chunk.source)
            if spans is None:
                places.append(())
                continue
            new = tuple(id_ for id_ in spans.within(chunk.start, chunk.end) if id_ not in seen)
            if new:
                seen.update(new)
                places.append(new)
        return places


def map_corpus(evaluation_set: EvaluationSet, join: int = 1) -> CorpusMap:
    """Return the documents for a set's passages, in order, `join` passages each.

    1 keeps each alone, with its own title; joined documents have only their name as title.
    """
    passages = evaluation_set.passages
    if join == 1:
        documents = [NewDocument(_text(item), source=item.id, title=item.title) for item in passages]
        spans = {item.id: _Spans((item.id,), (0,), (len(_text(item)),)) for item in passages}
        return CorpusMap(tuple(documents), spans)
    documents, spans = list[NewDocument](), dict[str, _Spans]()
    for first in range(0, len(passages), join):
        group = passages[first : first + join]
        texts = [_text(passage) for passage in group]
        starts = tuple(accumulate((len(text) + len(_GAP) for text in texts[:-1]), initial=0))
        ends = tuple(start + len(text) for start, text in zip(starts, texts, strict=True))
        source = f"{evaluation_set.name}-{len(documents):05}"
        spans[source] = _Spans(tuple(passage.id for passage in group), starts, ends)
        documents.append(NewDocument(_GAP.join(texts), source=source))
    return CorpusMap(tuple(documents), spans)


def _text(passage: Passage) -> str:
    """Return a passage as it will be stored, so that offsets in it are valid."""
    return clean_text(f"{passage.title}\n{passage.text}" if passage.title else passage.text)


# Extractions that a set includes, in place of an extractor: how much would a better one be worth?
#
# A set may have a file beside its corpus with what a model or a person extracted from each passage, one passage per
# line: `id`, `entities` (names) and `triples` (lists of source, predicate and target). `GivenExtractor` gives a chunk
# the extractions of its passages: all of a passage that it holds whole, else the part that the chunk's text names.
# Names become mentions in the same way as those in the replies of a chat model.


class GivenExtractor(Extractor):
    """Replays given extractions, per id of a passage; one without any gives an empty extraction.

    The documents must be those of the corpus, inserted once and not updated.
    """

    def __init__(self, corpus: CorpusMap, given: Mapping[str, GivenExtraction]) -> None:
        self._corpus = corpus
        self._given = given
        self._name = f"given-{hashlib.sha256(repr(sorted(given.items())).encode()).hexdigest()[:12]}"

    @property
    def name(self) -> str:
        """`given-` and a hash of all given extractions."""
        return self._name

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        extractions: list[Extraction] = []
        for chunk in chunks:
            records = ReadRecords()
            text = chunk.text.casefold()
            sentences = [" ".join(chunk.text[start:end].split()) for start, end in sentence_spans(chunk.text)]
            folded = [(sentence, sentence.casefold()) for sentence in sentences]
            # The passages that the chunk overlaps, in order, and whether it holds them whole.
            spans = self._corpus.spans.get(document.source)
            for passage, is_whole in spans.touching(chunk.start, chunk.end) if spans else ():
                item = self._given.get(passage, GivenExtraction())
                item = item if is_whole else item.named_in(text)
                names = {entity_key(name): name for name in map(clean_name, reversed(item.entities)) if name}
                # A name is described by the first sentence that contains it.
                entities = tuple(
                    ParsedEntity(name, UNKNOWN_TYPE, next((said for said, low in folded if name.casefold() in low), ""))
                    for name in names.values()
                )
                triples = [
                    (clean_name(source), predicate, clean_name(target)) for source, predicate, target in item.triples
                ]
                relations = tuple(
                    ParsedRelation(source, target, (predicate,), f"{source} {predicate} {target}", 1.0)
                    for source, predicate, target in triples
                    if source and target and entity_key(source) != entity_key(target)
                )
                records.add(ParsedExtraction(entities, relations))
            extractions.append(Extraction(chunk.id, self.name, *to_mentions(records, document, chunk, ())))
            on_chunk()
        return extractions
