"""Writes a context within its token budgets.

It fits whole rows into a share of the tokens and numbers documents as references; the system prompt determines how many
tokens are left for the rows.
"""

from __future__ import annotations

import csv
import io
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from json.encoder import encode_basestring
from string import Formatter, Template
from typing import ClassVar, NamedTuple

from heliograph.calls.tasks import in_thread
from heliograph.models import Chunk, Entity, GraphPath, Relation, heading_path
from heliograph.prompts import load_prompt
from heliograph.query.linking import path_row
from heliograph.query.models import Reference
from heliograph.query.plan import Channel, Plan
from heliograph.text.sentences import table_head
from heliograph.text.tokens import count_tokens, entity_row, relation_row

# Fitting rows into token budgets: the first rows, whole ones only.
#
# Rows are joined by newlines, which cost tokens too. Every row ends in a character that the encoding never joins with
# the start of the next row. So the tokens of the joined text are exactly the sum of each row's tokens with its newline,
# the last one without; entities and relations, whose costs are known, are fitted without counting tokens.


class Cost(NamedTuple):
    """Tokens of a row: on its own, and with the newline after it."""

    alone: int
    with_newline: int


class Budget:
    """Accepts rows until one does not fit; `spent` counts the tokens of accepted rows, each with its newline."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spent = 0
        self.count = 0

    def take(self, cost: Cost) -> bool:
        """Accept a row if it fits as the last one; return whether it did."""
        if self.spent + cost.alone > self.limit:
            return False
        self.spent += cost.with_newline
        self.count += 1
        return True

    def expected_rows(self) -> int:
        """Estimate how many more rows fit from the mean cost of accepted rows; at least 1."""
        mean = self.spent / self.count if self.count else 1.0
        return max(1, int((self.limit - self.spent) / max(mean, 1.0)) + 1)


async def fit_rows(rows: Sequence[str], bounds: Sequence[int], limit: int) -> int:
    """Return how many of the first rows, joined by newlines, have at most `limit` tokens.

    Args:
        rows: The rows as they will be written.
        bounds: An upper bound of the tokens of each row; if the bounds fit, no tokens are counted.
        limit: Token limit; 0 or less keeps no row.
    """
    if limit <= 0:
        return 0
    if sum(bounds) + len(rows) <= limit:
        return len(rows)
    return await in_thread(_count_fitting, rows, limit)


def _count_fitting(rows: Sequence[str], limit: int) -> int:
    budget = Budget(limit)
    for row in rows:
        with_newline = count_tokens(row + "\n")
        # A newline changes the count by at most one, so the row is counted without it only near the limit.
        alone = count_tokens(row) if budget.spent + with_newline + 1 > limit else with_newline
        if not budget.take(Cost(alone, with_newline)):
            break
    return budget.count


# Numbering the documents that a context quotes.
#
# Source: LightRAG. The document with most chunks in the context is reference 1; ties go by first appearance.


def number_sources(
    sources: Iterable[str], others: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[Reference, ...]:
    """Return one reference per source, given the source of every chunk in order; empty sources are skipped."""
    # A counter keeps first-met order and its `most_common` is stable.
    counts = Counter(source for source in sources if source).most_common()
    return tuple(
        Reference(str(number), source, count, (others or {}).get(source, ()))
        for number, (source, count) in enumerate(counts, start=1)
    )


def first_reference(sources: Sequence[str], numbers: Mapping[str, int]) -> str:
    """Return the lowest reference id among these sources, or an empty string if none is a reference."""
    if len(sources) == 1:
        number = numbers.get(sources[0])
        return str(number) if number else ""
    found = [numbers[source] for source in sources if source in numbers]
    return str(min(found)) if found else ""


_BACKTICKS = re.compile(r"`{3,}")
_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_LONGEST_RUN = 64
_PATHS_HEADING = "Shortest paths between entities of the question, over entities that share a relation:"
_encode = encode_basestring
# Each character that escaping adds, or that the tokenizer may join, adds fewer tokens than this.
_TOKENS_PER_ADDED_CHARACTER = 3
# Placeholder for a chunk's text when the frame around it is counted, and the most tokens that it adds at its edges.
_LETTER, _EDGE_TOKENS = "a", 4


@dataclass(frozen=True, slots=True)
class ContextRows:
    """The rows of a context's sections; without `has_graph` entities and relations have no section."""

    has_graph: bool
    entities: Sequence[str] = ()
    relations: Sequence[str] = ()
    chunks: Sequence[str] = ()
    references: Sequence[Reference] = ()
    paths: Sequence[str] = ()


class ContextFormat(ABC):
    """A format of context rows."""

    language: ClassVar[str]
    headings: ClassVar[Mapping[str, str]]
    headers: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def entity_row(self, place: int, entity: Entity) -> str:
        """Return an entity's row; `place` counts from 1."""

    @abstractmethod
    def relation_row(self, place: int, relation: Relation, degree: int) -> str:
        """Return a relation's row."""

    def chunk_body(self, chunk: Chunk) -> str:
        """Return a chunk's row without its beginning, whose reference number is known only later."""
        return self.passage(chunk.headings, table_head(chunk.columns) + chunk.text)

    @abstractmethod
    def passage(self, headings: Sequence[str], text: str) -> str:
        """Return the body of a row for a text under headings, as `chunk_body` does for a chunk."""

    @abstractmethod
    def chunk_row(self, place: int, reference_id: str, body: str) -> str:
        """Return a chunk's row, given its body."""

    @abstractmethod
    def entity_cost(self, place: int, entity: Entity) -> Cost:
        """Return the token cost of an entity's row."""

    @abstractmethod
    def relation_cost(self, place: int, relation: Relation, degree: int) -> Cost:
        """Return the token cost of a relation's row."""

    def chunk_bound(self, chunk: Chunk, row: str) -> int:
        """Return an upper bound of the tokens of a chunk's row; some fifteen too high for plain text."""
        text = chunk.text
        known = chunk.token_count or 4 * len(text)
        frame = self.chunk_row(1, "1", self.passage(chunk.headings, table_head(chunk.columns) + _LETTER))
        # CSV turns "\r\n" into one character, which must not lower the bound.
        added = len(row) - len(frame) - len(text) + len(_LETTER) + text.count("\r\n")
        # The encoding may join signs at the ends of the text with the frame, but not letters or digits.
        joined = _count_signs(text) + _count_signs(reversed(text))
        return known + _frame_tokens(frame) + _EDGE_TOKENS + _TOKENS_PER_ADDED_CHARACTER * (added + joined)

    def frame_tokens(self, *, has_graph: bool) -> int:
        """Return the number of tokens of a context without any row."""
        return self._frames[has_graph]

    def paths_tokens(self, paths: Sequence[str]) -> int:
        """Return the number of tokens of the section of paths; 0 without paths, which have no section then."""
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
        lines = (f"[{reference.reference_id}] {shown_sources(reference)}" for reference in rows.references)
        sections.append(f"List of the documents, by number:\n\n{_fenced(chr(10).join(lines), '')}")
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
    """One JSON object per row. Token counts of entities and relations were stored when these were folded."""

    language = "json"
    headings: ClassVar[Mapping[str, str]] = {
        "entities": "Entities of the knowledge graph, one JSON object a line:",
        "relations": "Relations between entities, one JSON object a line:",
        "chunks": "Passages of the documents, one JSON object a line; `reference_id` is the number of the document:",
    }

    def entity_row(self, place: int, entity: Entity) -> str:  # noqa: ARG002 (overrides, here and below)
        return entity_row(entity.name, entity.type, entity.description)

    def relation_row(self, place: int, relation: Relation, degree: int) -> str:  # noqa: ARG002
        return relation_row(relation.source, relation.target, relation.description)

    def passage(self, headings: Sequence[str], text: str) -> str:
        above = f', "content_headings": {_encode(heading_path(headings))}' if headings else ""
        return f', "content": {_encode(text)}{above}}}'

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

    language = "csv"
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

    def passage(self, headings: Sequence[str], text: str) -> str:
        return _csv_row(heading_path(headings), text)

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
    # The writer quotes cells that hold its own line terminator, so it must get the real one.
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


def _fenced(body: str, language: str) -> str:
    longest = max(map(len, _BACKTICKS.findall(body))) if "```" in body else 2
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{body}\n{fence}\n"


def _count_signs(characters: Iterable[str]) -> int:
    """Count the leading characters that are neither letters nor digits."""
    count = 0
    for character in characters:
        if character.isalnum():
            break
        count += 1
    return count


_frame_tokens = lru_cache(maxsize=4_096)(count_tokens)


def _counted(row: str) -> Cost:
    return Cost(count_tokens(row), count_tokens(row + "\n"))


def _newline_cost(description: str) -> int:
    """Return the tokens that a newline adds to the JSON row ending in this description: nearly always 0.

    The encoding joins a newline with the run of punctuation before it, so only that run matters.
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


_NO_INSTRUCTIONS = "None."
# LightRAG's prompt for mode naive says `content_data`.
_CONTEXT_NAMES = ("context_data", "content_data")
_NAMES = (*_CONTEXT_NAMES, "history", "response_type", "user_prompt")
_NAME = "|".join(_NAMES)
_DOLLAR_MARK = re.compile(rf"\$\{{?(?:{_NAME})\b")
_MARK = re.compile(rf"\$?\{{({_NAME})\}}|\$({_NAME})\b")


def builtin_prompt(plan: Plan) -> str:
    """Return the built-in prompt template of a plan's mode."""
    return load_prompt("answer_naive" if plan.channels == (Channel.VECTOR,) else "answer")


def system_prompt(plan: Plan, context: str) -> str:
    """Return the system prompt of a question; a caller's prompt without a context placeholder gets it appended."""
    values = dict.fromkeys(_CONTEXT_NAMES, context)
    values |= {
        "history": "\n".join(f"{message.role}: {message.content}" for message in plan.history),
        "response_type": plan.response_type,
        "user_prompt": plan.user_prompt or _NO_INSTRUCTIONS,
    }
    if not plan.system_prompt:
        return Template(builtin_prompt(plan)).substitute(values)
    template = plan.system_prompt
    if _is_format_string(template):
        filled = template.format(**values)
    else:
        filled = _MARK.sub(lambda match: values[match[match.lastindex or 0]], template)
    return filled if _marks(template).intersection(_CONTEXT_NAMES) else f"{filled}\n\n{context}"


def count_prompt_tokens(plan: Plan) -> int:
    """Count the tokens of a question's system prompt without its context."""
    return _count(system_prompt(plan, ""))


def drops_user_prompt(plan: Plan) -> bool:
    """Return whether the caller's system prompt has no placeholder for the given `user_prompt`."""
    return bool(plan.system_prompt and plan.user_prompt) and "user_prompt" not in _marks(plan.system_prompt)


def show_prompt(plan: Plan, prompt: str) -> str:
    """Return prompt and question as one text, for `only_need_prompt`."""
    return f"{prompt}\n\n---User Query---\n\n{plan.question}"


@lru_cache(maxsize=64)
def _count(text: str) -> int:
    return count_tokens(text)


def _marks(template: str) -> set[str]:
    return {match[match.lastindex or 0] for match in _MARK.finditer(template)}


def _is_format_string(template: str) -> bool:
    """Return whether `str.format` can fill the template: only our names, none after a `$`, other braces doubled."""
    if _DOLLAR_MARK.search(template):
        return False
    try:
        fields = [field for field in Formatter().parse(template) if field[1] is not None]
    except ValueError:
        return False
    return bool(fields) and all(name in _NAMES and not spec and not convert for _, name, spec, convert in fields)


# Allocation of a question's tokens to fixed text, paths, entities and relations, and chunks.
#
# The budgets of entities and relations are maxima. If the total is too small for both, they shrink in proportion, so
# that the passages, which answers quote, keep a share. Each is first capped at the tokens available, so that a very
# large budget leaves the other its part.

# Largest share of the tokens for rows that entities and relations may take together.
_GRAPH_SHARE = 0.75


def room_for_rows(plan: Plan, form: ContextFormat) -> int:
    """Return the tokens that prompt, question and buffer leave for rows; negative if they do not fit."""
    fixed = count_prompt_tokens(plan) + form.frame_tokens(has_graph=plan.uses_graph) + count_tokens(plan.question)
    return plan.settings.max_total_tokens - plan.settings.buffer_tokens - fixed


def fit_paths(
    form: ContextFormat, paths: tuple[GraphPath, ...] | None, room: int
) -> tuple[tuple[GraphPath, ...] | None, int]:
    """Return the first paths that fit, None if none are searched, and the tokens that they leave."""
    while paths and paths_tokens(form, paths) > room:
        paths = paths[:-1]
    return paths, room - paths_tokens(form, paths or ())


def paths_tokens(form: ContextFormat, paths: Sequence[GraphPath]) -> int:
    """Count the tokens of paths, including their heading."""
    return form.paths_tokens([path_row(path) for path in paths])


def fit_budgets(plan: Plan, room: int) -> Plan:
    """Return the plan with entity and relation budgets that leave chunks a share of the tokens for rows."""
    allowed = int(_GRAPH_SHARE * max(0, room))
    settings = plan.settings
    if settings.max_entity_tokens + settings.max_relation_tokens <= allowed:
        return plan
    entities, relations = min(settings.max_entity_tokens, allowed), min(settings.max_relation_tokens, allowed)
    wanted = max(1, entities + relations)
    return plan.with_settings(
        max_entity_tokens=entities * allowed // wanted, max_relation_tokens=relations * allowed // wanted
    )
