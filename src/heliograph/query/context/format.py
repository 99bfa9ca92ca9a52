"""How a context is written, what each row of it costs, and how the documents that it quotes are numbered."""

from __future__ import annotations

import csv
import io
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import takewhile
from json.encoder import encode_basestring
from typing import ClassVar

from heliograph.models import Chunk, Entity, Relation
from heliograph.query.context.budget import Cost
from heliograph.query.retrieved import Reference
from heliograph.text.tokens import count_tokens, entity_row, relation_row

# Numbering the documents that a context quotes.
#
# Source: LightRAG. The document with most chunks in the context is reference 1; among equals, the one met first.

MAX_SOURCES = 75


def number_sources(
    sources: Iterable[str], others: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[Reference, ...]:
    """Return one reference per source, given the source of every chunk in order; an empty source gets none.

    Args:
        sources: One per chunk.
        others: Per source those of documents with the same text.
    """
    # A counter keeps first-met order and its `most_common` is stable.
    counts = Counter(source for source in sources if source).most_common()
    return tuple(
        Reference(str(number), source, count, (others or {}).get(source, ()))
        for number, (source, count) in enumerate(counts, start=1)
    )


def sources_of(chunk_ids: Sequence[str], sources: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sources of an entity's or relation's first 75 chunks, each once, in order."""
    if len(chunk_ids) == 1:
        source = sources.get(chunk_ids[0])
        return (source,) if source else ()
    found = dict.fromkeys(map(sources.get, chunk_ids[:MAX_SOURCES]))
    return tuple([source for source in found if source])


def first_reference(sources: Sequence[str], numbers: Mapping[str, int]) -> str:
    """Return the id of the first reference among these sources, or an empty string if none is one."""
    if len(sources) == 1:
        number = numbers.get(sources[0])
        return str(number) if number else ""
    found = [numbers[source] for source in sources if source in numbers]
    return str(min(found)) if found else ""


_BACKTICKS = re.compile(r"`{3,}")
_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_LONGEST_RUN = 64
_HEADING_SEPARATOR = " > "
_PATHS_HEADING = "Shortest paths between entities of the question, over entities that share a relation:"
_encode = encode_basestring
# Signs escaped or joined within a row add less than this each, whatever the tokenizer joins or splits.
_TOKENS_PER_ADDED_CHARACTER = 3
# Stands for a chunk's text where what is around it is counted; beginning and ending with a letter adds this at most.
_LETTER, _EDGE_TOKENS = "a", 4


@dataclass(frozen=True, slots=True)
class ContextRows:
    """The rows of a context's sections; `has_graph` says whether entities and relations have sections at all."""

    has_graph: bool
    entities: Sequence[str] = ()
    relations: Sequence[str] = ()
    chunks: Sequence[str] = ()
    references: Sequence[Reference] = ()
    paths: Sequence[str] = ()


class ContextFormat(ABC):
    """One way of writing rows."""

    language: ClassVar[str]
    headings: ClassVar[Mapping[str, str]]
    headers: ClassVar[Mapping[str, str]]

    @abstractmethod
    def entity_row(self, place: int, entity: Entity) -> str:
        """Return an entity's row; `place` counts from 1."""

    @abstractmethod
    def relation_row(self, place: int, relation: Relation, degree: int) -> str:
        """Return a relation's row."""

    @abstractmethod
    def chunk_body(self, chunk: Chunk) -> str:
        """Return a chunk's row without its beginning, which holds what is known last: its reference."""

    @abstractmethod
    def chunk_row(self, place: int, reference_id: str, body: str) -> str:
        """Return a chunk's row, given its body."""

    @abstractmethod
    def entity_cost(self, place: int, entity: Entity) -> Cost:
        """Return what an entity's row costs."""

    @abstractmethod
    def relation_cost(self, place: int, relation: Relation, degree: int) -> Cost:
        """Return what a relation's row costs."""

    def chunk_bound(self, chunk: Chunk, row: str) -> int:
        """Return a number of tokens that a chunk's row does not exceed; of plain text some fifteen too many."""
        text = chunk.text
        known = chunk.token_count or 4 * len(text)
        frame = self.chunk_row(1, "1", self.chunk_body(replace(chunk, text=_LETTER)))
        # A table makes one character of a pair of line ends; that takes nothing away from the tokens.
        added = len(row) - len(frame) - len(text) + len(_LETTER) + text.count("\r\n")
        # At its ends the encoding joins signs of the text with those around it; letters and digits stay apart.
        joined = _count_signs(text) + _count_signs(reversed(text))
        return known + _frame_tokens(frame) + _EDGE_TOKENS + _TOKENS_PER_ADDED_CHARACTER * (added + joined)

    def frame_tokens(self, *, has_graph: bool) -> int:
        """Return the tokens of a context without any row."""
        return self._frames[has_graph]

    def paths_tokens(self, paths: Sequence[str]) -> int:
        """Return the tokens of the section of paths; without any there is none."""
        if not paths:
            return 0
        return count_tokens(f"{_PATHS_HEADING}\n\n{_fenced(chr(10).join(paths), '')}\n")

    def render(self, rows: ContextRows) -> str:
        """Return the whole context."""
        sections: list[str] = []
        if rows.has_graph:
            sections.append(self._section("entities", rows.entities))
            sections.append(self._section("relations", rows.relations))
        if rows.paths:
            sections.append(f"{_PATHS_HEADING}\n\n{_fenced(chr(10).join(rows.paths), '')}")
        sections.append(self._section("chunks", rows.chunks))
        sections.append(_references(rows.references))
        return "\n".join(sections)

    @cached_property
    def _frames(self) -> tuple[int, int]:
        return (
            count_tokens(self.render(ContextRows(has_graph=False))),
            count_tokens(self.render(ContextRows(has_graph=True))),
        )

    def _section(self, name: str, rows: Iterable[str]) -> str:
        body = "\n".join(row for row in (self.headers.get(name, ""), *rows) if row)
        return f"{self.headings[name]}\n\n{_fenced(body, self.language)}"


class JsonContext(ContextFormat):
    """One JSON object a row. Rows of entities and relations cost what was counted when they were folded."""

    language: ClassVar[str] = "json"
    headings: ClassVar[Mapping[str, str]] = {
        "entities": "Entities of the knowledge graph, one JSON object a line:",
        "relations": "Relations between entities, one JSON object a line:",
        "chunks": "Passages of the documents, one JSON object a line; `reference_id` is the number of the document:",
    }
    headers: ClassVar[Mapping[str, str]] = {}

    def entity_row(self, place: int, entity: Entity) -> str:  # noqa: ARG002 (overrides, here and below)
        return entity_row(entity.name, entity.type, entity.description)

    def relation_row(self, place: int, relation: Relation, degree: int) -> str:  # noqa: ARG002
        return relation_row(relation.source, relation.target, relation.description)

    def chunk_body(self, chunk: Chunk) -> str:
        headings = f', "content_headings": {_encode(_HEADING_SEPARATOR.join(chunk.headings))}' if chunk.headings else ""
        return f', "content": {_encode(chunk.text)}{headings}}}'

    def chunk_row(self, place: int, reference_id: str, body: str) -> str:  # noqa: ARG002
        return f'{{"reference_id": "{reference_id}"{body}'

    def entity_cost(self, place: int, entity: Entity) -> Cost:
        alone = entity.token_count or count_tokens(self.entity_row(place, entity))
        return Cost(alone, alone + _newline_cost(entity.description))

    def relation_cost(self, place: int, relation: Relation, degree: int) -> Cost:
        alone = relation.token_count or count_tokens(self.relation_row(place, relation, degree))
        return Cost(alone, alone + _newline_cost(relation.description))


class CsvContext(ContextFormat):
    """Comma-separated tables with a header, quoted by RFC 4180 except that a row ends in one newline."""

    language: ClassVar[str] = "csv"
    headings: ClassVar[Mapping[str, str]] = {
        "entities": "Table of the entities of the knowledge graph:",
        "relations": "Table of the relations between entities:",
        "chunks": "Table of passages of the documents; `reference_id` is the number of the document:",
    }
    headers: ClassVar[Mapping[str, str]] = {
        "entities": "id,entity,type,description,rank",
        "relations": "id,source,target,description,keywords,weight,rank",
        "chunks": "id,reference_id,headings,content",
    }

    def entity_row(self, place: int, entity: Entity) -> str:
        return _csv_row(place, entity.name, entity.type, entity.description, entity.degree)

    def relation_row(self, place: int, relation: Relation, degree: int) -> str:
        keywords = ",".join(relation.keywords)
        weight = f"{relation.weight:g}"
        return _csv_row(place, relation.source, relation.target, relation.description, keywords, weight, degree)

    def chunk_body(self, chunk: Chunk) -> str:
        return _csv_row(_HEADING_SEPARATOR.join(chunk.headings), chunk.text)

    def chunk_row(self, place: int, reference_id: str, body: str) -> str:
        return f"{place},{reference_id},{body}"

    def entity_cost(self, place: int, entity: Entity) -> Cost:
        return _counted(self.entity_row(place, entity))

    def relation_cost(self, place: int, relation: Relation, degree: int) -> Cost:
        return _counted(self.relation_row(place, relation, degree))


_FORMATS: Mapping[str, ContextFormat] = {"json": JsonContext(), "csv": CsvContext()}


def context_format(name: str) -> ContextFormat:
    """Return the format of this name, `json` or `csv`."""
    return _FORMATS[name]


def _csv_row(*cells: object) -> str:
    """Return one row of CSV without its line end; line ends inside cells are newlines."""
    line = io.StringIO()
    # The writer quotes cells that hold its own line end, so it must be told the real one.
    csv.writer(line, lineterminator="\n").writerow(
        [cell.replace("\r\n", "\n").replace("\r", "\n") if isinstance(cell, str) else cell for cell in cells]
    )
    return line.getvalue()[:-1]


def shown_source(source: str) -> str:
    """Return a document's source on one line."""
    return _BREAKS.sub(" ", source)


def shown_sources(reference: Reference) -> str:
    """Return the sources of a reference on one line."""
    return "; ".join(map(shown_source, (reference.source, *reference.other_sources)))


def _references(references: Iterable[Reference]) -> str:
    lines = (f"[{reference.reference_id}] {shown_sources(reference)}" for reference in references)
    return f"List of the documents, by number:\n\n{_fenced(chr(10).join(lines), '')}"


def _fenced(body: str, language: str) -> str:
    longest = max(map(len, _BACKTICKS.findall(body))) if "```" in body else 2
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{body}\n{fence}\n"


def _count_signs(characters: Iterable[str]) -> int:
    """Return how many of the first characters are neither letters nor digits."""
    return sum(1 for _ in takewhile(lambda character: not character.isalnum(), characters))


@lru_cache(maxsize=4096)
def _frame_tokens(row: str) -> int:
    return count_tokens(row)


def _counted(row: str) -> Cost:
    return Cost(count_tokens(row), count_tokens(row + "\n"))


def _newline_cost(description: str) -> int:
    """Return what a newline adds to the JSON row that ends in this description: nearly always nothing.

    The encoding joins a newline to the run of punctuation before it, so only that run matters.
    """
    length = len(description)
    start, least = length, max(0, length - _LONGEST_RUN)
    while start > least and not (description[start - 1].isalnum() or description[start - 1].isspace()):
        start -= 1
    if start > least and description[start - 1] == " ":
        start -= 1
    return _newline_after(description[start:] if start == 0 else f"a{description[start:]}")


@lru_cache(maxsize=4096)
def _newline_after(end: str) -> int:
    row = f'{{"a": {_encode(end)}}}'
    return count_tokens(row + "\n") - count_tokens(row)
