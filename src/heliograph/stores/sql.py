"""What is common to SQL: rows as records, filters and listings as conditions; and to all files of SQLite: transactions.

Columns stand in the same order on SQLite and on PostgreSQL. Names, keywords and ids never hold a line break, so lists
of them are lines: splitting is several times cheaper than parsing JSON. The meaning of a filter is that of
`heliograph.filters`; every condition is true or false and never NULL, so that NOT can be trusted.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, Final, get_type_hints

import apsw
from pydantic_core import from_json, to_json

from heliograph.errors import SchemaMismatch
from heliograph.filters import (
    And,
    DocumentIds,
    Equals,
    Exists,
    Filter,
    HasChunk,
    In,
    Not,
    Or,
    Range,
    SourcePrefix,
    Sources,
    chunk_condition,
    path_keys,
)
from heliograph.models import (
    CHUNK_DETAILS,
    DOCUMENT_DETAILS,
    Batch,
    Chunk,
    Curation,
    CurationKind,
    Document,
    DocumentStatus,
    Entity,
    NameRules,
    Relation,
    Usage,
)
from heliograph.stores.base import DocumentQuery
from heliograph.stores.graph import end_of_prefix

# Files of SQLite: a write-ahead log, transactions, and what damage looks like.

_WAL_TRIES = 100
_WAL_REST_SECONDS = 0.05

# What reading a damaged file of small records comes to: pages or tables that are none, or values that cannot be.
DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, ValueError, TypeError, LookupError, ArithmeticError)


def use_wal(connection: apsw.Connection) -> None:
    """Switch a file to a write-ahead log; processes that begin a new one at once refuse each other without waiting.

    Raises:
        apsw.BusyError: Another process has kept it for five seconds.
    """
    for tries_left in reversed(range(_WAL_TRIES)):
        try:
            if connection.pragma("journal_mode") != "wal":
                connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if not tries_left:
                raise
            time.sleep(_WAL_REST_SECONDS)
        else:
            return


@contextmanager
def transaction(connection: apsw.Connection, begin: str = "BEGIN IMMEDIATE") -> Generator[None]:
    """Commit what the block does, or none of it; what the block or the commit raises comes out as it is."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk or an I/O error has rolled back already; a second failure must not hide the first.
        if connection.in_transaction:
            with suppress(apsw.Error):
                connection.execute("ROLLBACK")
        raise


# Records as rows, and back.

Row = Sequence[Any]
# Made once: `json.dumps` with arguments of its own makes an encoder for every call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: Mapping[str, Any] | Iterable[Any]) -> str:
    """Return an object or a list as JSON."""
    return _ENCODER.encode(dict(value) if isinstance(value, Mapping) else value)


def encode_plain(value: Mapping[str, int] | Sequence[str]) -> str:
    """Return counts or texts as JSON, the same as `encode` in an eighth of the time."""
    return to_json(value).decode()


def decode_plain(text: str) -> Any:
    """Return what `encode_plain` wrote.

    Raises:
        ValueError: It is no JSON.
    """
    return from_json(text)


def join_lines(values: Sequence[str]) -> str:
    """Return values as one text."""
    return "\n".join(values)


def split_lines(text: str) -> tuple[str, ...]:
    """Return the values that `join_lines` joined."""
    return tuple(text.split("\n")) if text else ()


# Most values; asked for first, as it costs less than all other questions.
_PLAIN = frozenset({str, int, float})


def row_of(item: Any, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return fields of a record, all or those named, as columns hold them: lists as lines, objects as JSON."""
    row: dict[str, Any] = {}
    for name in names or item.__slots__:
        value = getattr(item, name)
        if type(value) in _PLAIN:
            row[name] = value
        elif isinstance(value, tuple):
            row[name] = join_lines(value)
        else:
            row[name] = encode(value) if isinstance(value, Mapping) else value
    return row


def from_seconds(seconds: float) -> datetime:
    """Return a moment from Unix seconds."""
    return datetime.fromtimestamp(seconds, UTC)


def check_embedding(stored: tuple[str, int] | None, expected: tuple[str, int]) -> None:
    """Compare the embedding that fills a store with the one that it was opened for.

    Raises:
        SchemaMismatch: Another process has embedded the store anew since.
    """
    if stored != expected:
        raise SchemaMismatch(
            f"the store was embedded anew with {stored!r} since it was opened with {expected!r}; "
            "configure that embedding and open the store again"
        )


def in_utc(moment: datetime) -> datetime:
    """Return a moment with the time zone that all moments in models have."""
    return moment.astimezone(UTC)


# The columns of documents and chunks are the fields of `Document` and `Chunk`, in their order, but that `usage` takes
# two; lists and objects are kept as JSON. All statements are made of them, so of the stores a new field only needs a
# migration in each `schema.py`: what `added_column` returns.
_SQL_TYPES = {
    str: "text",
    int: "integer",
    int | None: "integer",
    float: "double precision",
    datetime: "timestamptz",
    DocumentStatus: "text",
    tuple[str, ...]: "text",
    tuple[int, ...]: "text",
    Mapping[str, Any]: "text",
}
_DOCUMENT_KINDS = get_type_hints(Document)
_CHUNK_KINDS = get_type_hints(Chunk)
# Per column its type, which SQLite takes for what it likes.
DOCUMENT_COLUMNS: Final = {
    column: kind
    for name, of_field in _DOCUMENT_KINDS.items()
    for column, kind in (
        {"input_tokens": "bigint", "output_tokens": "bigint"} if of_field is Usage else {name: _SQL_TYPES[of_field]}
    ).items()
}
CHUNK_COLUMNS: Final = {name: _SQL_TYPES[kind] for name, kind in _CHUNK_KINDS.items()}
CHUNK_LISTS: Final = tuple(name for name, kind in _CHUNK_KINDS.items() if kind == tuple[str, ...])
_LIST_PLACES = [list(CHUNK_COLUMNS).index(name) for name in CHUNK_LISTS]
DOCUMENT_LISTS: Final = [name for name, kind in _DOCUMENT_KINDS.items() if kind in (tuple[str, ...], tuple[int, ...])]
_DOCUMENT_MOMENTS = [name for name, kind in _DOCUMENT_KINDS.items() if kind is datetime]


def added_column(record: type[Document | Chunk], table: str, name: str) -> str:
    """Return the statement that adds the column of a new field; records of before get the field's default."""
    default = next(item.default for item in fields(record) if item.name == name)
    given = encode(default) if isinstance(default, tuple) else default
    literal = f"'{given}'" if isinstance(given, str) else str(given)
    needed = "" if default is None else f" NOT NULL DEFAULT {literal}"
    columns = DOCUMENT_COLUMNS if record is Document else CHUNK_COLUMNS
    return f"ALTER TABLE {table} ADD COLUMN {name} {columns[name]}{needed};"


def to_document(row: Row, read_moment: Callable[[Any], datetime]) -> Document:
    """Return a document from `DOCUMENT_COLUMNS`; `read_moment` reads those that are moments."""
    values = dict(zip(DOCUMENT_COLUMNS, row, strict=True))
    values["usage"] = Usage(values.pop("input_tokens"), values.pop("output_tokens"))
    values["status"] = DocumentStatus(values["status"])
    values["metadata"] = json.loads(values["metadata"])
    values["twin_of"] = values["twin_of"] or ""
    for name in DOCUMENT_LISTS:
        values[name] = _from_json(values[name])
    for name in _DOCUMENT_MOMENTS:
        values[name] = read_moment(values[name])
    return Document(**values)


def document_values(document: Document, write_moment: Callable[[datetime], Any]) -> dict[str, Any]:
    """Return a document as the values of `DOCUMENT_COLUMNS`; `write_moment` writes those that are moments."""
    usage = document.usage
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    values: dict[str, Any] = {
        name: tokens[name] if name in tokens else getattr(document, name) for name in DOCUMENT_COLUMNS
    }
    values["status"] = document.status.value
    for name in ("metadata", *DOCUMENT_LISTS):
        values[name] = encode(values[name])
    for name in _DOCUMENT_MOMENTS:
        values[name] = write_moment(values[name])
    return values


def chunk_details_object(function: str, list_of: str) -> str:
    """Return SQL for the details of a chunk as a JSON object, given what makes an object, and a list of its text."""
    values = (list_of.format(f"chunk.{name}") if name in CHUNK_LISTS else f"chunk.{name}" for name in CHUNK_DETAILS)
    named = (f"'{name}', {value}" for name, value in zip(CHUNK_DETAILS, values, strict=True))
    return f"{function}({', '.join(named)})"


def to_chunk(row: Row) -> Chunk:
    """Return a chunk from `CHUNK_COLUMNS`."""
    values = list(row)
    for place in _LIST_PLACES:
        values[place] = _from_json(values[place])
    return Chunk(*values)


def chunk_values(chunk: Chunk) -> dict[str, Any]:
    """Return a chunk as the values of `CHUNK_COLUMNS`."""
    values = {name: getattr(chunk, name) for name in CHUNK_COLUMNS}
    for name in CHUNK_LISTS:
        values[name] = encode(values[name])
    return values


def to_entity(row: Row) -> Entity:
    """Return an entity from its columns and its degree."""
    id_, name, kind, description, aliases, chunk_ids, token_count, degree, created_at = row
    lists = split_lines(aliases), split_lines(chunk_ids)
    return Entity(id_, name, kind, description, *lists, token_count, degree, created_at)


def to_relation(row: Row) -> Relation:
    """Return a relation from its columns."""
    id_, source, target, source_id, target_id, keywords, description, weight, chunk_ids, token_count, created_at = row
    said = split_lines(keywords), description, weight, split_lines(chunk_ids)
    return Relation(id_, source, target, source_id, target_id, *said, token_count, created_at)


def to_curation(row: Row, read_moment: Callable[[Any], datetime]) -> Curation:
    """Return a curation from its columns; `read_moment` reads the two that are moments."""
    sequence, id_, kind, content, author, created_at, undone_by, undone_at = row
    return replace(
        _read_content(kind, content),
        id=id_,
        author=author,
        created_at=read_moment(created_at),
        undone_by=undone_by,
        undone_at=None if undone_at is None else read_moment(undone_at),
        sequence=sequence,
    )


def to_rules(rules: Iterable[Row], active: Iterable[Row], read_moment: Callable[[Any], datetime]) -> list[NameRules]:
    """Return rules of names, in order, from their columns and those of active curations after the id of their name."""
    curations: dict[str, list[Curation]] = {}
    for id_, *row in active:
        curations.setdefault(id_, []).append(to_curation(row, read_moment))
    return [
        NameRules(id_, json.loads(names), json.loads(aliases), tuple(curations.get(id_, ())), version)
        for id_, names, aliases, version in rules
    ]


# What a curation says of which names and ids: the plain data that is never changed.
_CONTENT = ("names", "entity_ids", "scope", "type", "description", "keywords", "weight")


def curation_content(item: Curation) -> str:
    """Return what a curation says of which names and ids as JSON."""
    return encode({name: getattr(item, name) for name in _CONTENT})


# The curations of a well-known entity are read with every document that mentions it.
@lru_cache(maxsize=4_096)
def _read_content(kind: str, content: str) -> Curation:
    said = json.loads(content)
    values: dict[str, Any] = {name: said[name] for name in _CONTENT}
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Curation(id="", kind=CurationKind(kind), **values)


def to_batch(
    sums: Row, statuses: Mapping[str, int], failed: Iterable[Row], read_moment: Callable[[Any], datetime]
) -> Batch:
    """Return a batch from sums over its documents, how many have which status, and the first that failed."""
    track_id, chunks, read, written, created_at, updated_at = sums
    documents = {DocumentStatus(status): count for status, count in statuses.items()}
    moments = read_moment(created_at), read_moment(updated_at)
    errors = tuple((source, error) for source, error in failed)
    return Batch(track_id, documents, chunks, Usage(read, written), *moments, errors)


def grouped(rows: Iterable[Row]) -> dict[str, tuple[Any, ...]]:
    """Return rows that begin with an id as what follows per id, in order."""
    found: dict[str, list[Any]] = {}
    for id_, *rest in rows:
        found.setdefault(id_, []).append(tuple(rest))
    return {id_: tuple(values) for id_, values in found.items()}


def _from_json(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text)) if text != "[]" else ()


# SQL, and its parameters in order.
Condition = tuple[str, list[Any]]
COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_METADATA = "document.metadata"


class Dialect(ABC):
    """How a database writes conditions on its tables `document` and `chunk`.

    Attributes:
        mark: What stands for a parameter.
        true: What always holds.
        false: What never does.
        detail: What says a detail of a row of `document`, given its name: its metadata if they have such a field,
            else a JSON object of the detail alone.
        details: The details of a row of `chunk` as a JSON object.
        chunks: What finds the chunks of a row of `document`, or of the one whose twin it is.
    """

    mark: ClassVar[str]
    true: ClassVar[str]
    false: ClassVar[str]
    detail: ClassVar[str]
    details: ClassVar[str]
    chunks: ClassVar[str]

    @abstractmethod
    def one_of(self, column: str, values: Sequence[str]) -> Condition:
        """Return the condition that a column, or `id`, is one of these texts, at least one."""

    @abstractmethod
    def twin_of(self, document_id: str) -> Condition:
        """Return the condition that a document is a twin of this one."""

    @abstractmethod
    def meets(self, column: str, condition: Exists | Equals | In | Range) -> Condition:
        """Return the condition that a JSON object, such as that of a document's metadata, meets one."""

    def compile_chunk_filter(self, filter_: Filter) -> Condition:
        """Return the condition that a chunk is one of those that a filter leaves of a matching document."""
        return self.compile_filter(chunk_condition(filter_), self.details)

    def compile_filter(self, filter_: Filter, column: str = _METADATA) -> Condition:
        """Return the condition that a document matches a filter; in SQLite, parameters may be used once."""
        match filter_:
            case And(parts):
                return self._join("AND", self.true, parts, column)
            case Or(parts):
                return self._join("OR", self.false, parts, column)
            case Not(part):
                condition, values = self.compile_filter(part, column)
                return f"NOT {condition}", values
            case HasChunk(part):
                condition, values = self.compile_filter(part, self.details)
                return f"EXISTS (SELECT 1 {self.chunks} AND {condition})", values
            case DocumentIds(values) | Sources(values):
                column = "id" if isinstance(filter_, DocumentIds) else "source"
                return self.one_of(column, list(values)) if values else (self.false, [])
            case SourcePrefix(prefix):
                return self._begins(prefix)
            case _:
                name = path_keys(filter_.path)[0]
                is_detail = column == _METADATA and name in DOCUMENT_DETAILS
                return self.meets(self.detail.format(name) if is_detail else column, filter_)

    def where(self, query: DocumentQuery) -> Condition:
        """Return what follows WHERE to list documents; in SQLite, parameters may be used once."""
        conditions: list[Condition] = []
        if query.statuses:
            conditions.append(self.one_of("status", [status.value for status in query.statuses]))
        if query.track_id is not None:
            conditions.append((f"document.track_id = {self.mark}", [query.track_id]))
        if query.source_prefix is not None:
            conditions.append(self._begins(query.source_prefix))
        if query.content_hashes:
            conditions.append(self.one_of("content_hash", query.content_hashes))
        if query.twin_of is not None:
            conditions.append(self.twin_of(query.twin_of))
        conditions.append(self.compile_filter(query.filter or And(())))
        return " AND ".join(sql for sql, _ in conditions), [value for _, values in conditions for value in values]

    def _join(self, operator: str, neutral: str, parts: tuple[Filter, ...], column: str) -> Condition:
        compiled = [self.compile_filter(part, column) for part in parts]
        conditions = f" {operator} ".join(condition for condition, _ in compiled)
        return f"({conditions or neutral})", [value for _, values in compiled for value in values]

    def _begins(self, prefix: str) -> Condition:
        # A half-open range can use the index, unlike LIKE with its wildcards.
        end = end_of_prefix(prefix)
        if not end:
            return f"(document.source >= {self.mark})", [prefix]
        return f"(document.source >= {self.mark} AND document.source < {self.mark})", [prefix, end]
