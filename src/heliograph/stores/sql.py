"""Common to the SQL stores: rows as records, filters and listings as conditions; for SQLite: transactions, small files.

Columns have the same order on SQLite and on PostgreSQL. Names, keywords and ids never hold a line break, so lists
of them are stored as lines: splitting is several times cheaper than parsing JSON. The meaning of a filter is that of
`heliograph.filters`; every condition is true or false and never NULL, so that NOT can be trusted.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

import apsw
from pydantic_core import from_json, to_json

from heliograph.errors import HeliographError, SchemaMismatch, StoreUnavailable
from heliograph.filters import (
    And,
    DocumentIds,
    Filter,
    HasChunk,
    Not,
    OnPath,
    Or,
    SourcePrefix,
    Sources,
    chunk_condition,
    path_keys,
)
from heliograph.ids import is_storable
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
    EntityEvidence,
    EntityMention,
    NameRules,
    Relation,
    RelationEvidence,
    RelationMention,
    Usage,
)
from heliograph.stores.base import CachedReply, CurationQuery, DocumentQuery
from heliograph.stores.graph import end_of_prefix

# Files of SQLite: a write-ahead log, transactions, signs of damage, and small files of their own.

_WAL_TRIES = 100
_WAL_REST_SECONDS = 0.05
_BUSY_MILLISECONDS = 10_000

# Errors from reading a damaged file of small records: invalid pages or tables, or impossible values.
DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, ValueError, TypeError, LookupError, ArithmeticError)


def use_wal(connection: apsw.Connection) -> None:
    """Switch a file to a write-ahead log; processes that create one at once fail each other without waiting.

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
    """Commit the block's changes, or none of them; exceptions of the block or the commit pass unchanged."""
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


class SmallFile:
    """A small SQLite file, created by scripts in order; its version is the number of scripts run. Every method blocks.

    Its one connection is used by one thread at a time, opened on first use, and dropped when the file was removed.
    """

    def __init__(self, path: Path, scripts: Sequence[str], what: str, cure: str) -> None:
        """Store the path, the file's name for errors, and the advice against damage."""
        self.path = path
        self._scripts = scripts
        self._what = what
        self._cure = cure
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._identity = (0, 0)

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Generator[apsw.Connection]:
        """Read and write in one transaction; with `durable`, it is on disk when the block ends.

        Raises:
            StoreUnavailable: The file cannot be read or written.
        """
        with self._lock, self._translated(), self._connected() as connection:
            connection.pragma("synchronous", "FULL" if durable else "NORMAL")
            with transaction(connection):
                yield connection

    @contextmanager
    def reading(self) -> Generator[apsw.Connection]:
        """Read, all at one moment.

        Raises:
            StoreUnavailable: The file cannot be read.
        """
        with self._lock, self._translated(), self._connected() as connection, transaction(connection, "BEGIN"):
            yield connection

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            self._disconnect()

    def remove(self) -> None:
        """Remove the file; processes that have it open drop it."""
        with self._lock:
            self._disconnect()
            for path in self.path.parent.glob(f"{self.path.name}*"):
                path.unlink(missing_ok=True)

    def failure(self, error: Exception) -> HeliographError:
        """Return the error to raise for a failure."""
        if isinstance(error, DAMAGE):
            return StoreUnavailable(
                f"{self._what} {str(self.path)!r} is damaged ({type(error).__name__}: {error}); stop the service, "
                f"{self._cure}"
            )
        return StoreUnavailable(
            f"{self._what} {str(self.path)!r} failed ({error}); check the disk and permissions of its folder"
        )

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except HeliographError:
            raise
        except (apsw.Error, OSError, *DAMAGE) as error:
            self._disconnect()
            raise self.failure(error) from error

    @contextmanager
    def _connected(self) -> Generator[apsw.Connection]:
        if self._connection is not None and self._find_identity() != self._identity:
            self._disconnect()
        if self._connection is None:
            # What users do is private: only the owner can read the file.
            self.path.touch(mode=0o600)
            connection = apsw.Connection(str(self.path))
            try:
                connection.set_busy_timeout(_BUSY_MILLISECONDS)
                # Deleted data must not stay readable in the file.
                connection.pragma("secure_delete", 1)
                use_wal(connection)
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._identity = self._find_identity()
        yield self._connection

    def _prepare(self, connection: apsw.Connection) -> None:
        newest = len(self._scripts)
        if connection.pragma("user_version") == newest:
            return
        with transaction(connection):
            version = connection.pragma("user_version")
            for script in self._scripts[version:]:
                connection.execute(script)
            connection.pragma("user_version", max(version, newest))
        if version > newest:
            raise SchemaMismatch(f"{self._what} {str(self.path)!r} was made by a newer version; update Heliograph")

    def _find_identity(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return (0, 0)
        return found.st_dev, found.st_ino

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


# Records as rows, and back.

Row = Sequence[Any]
R = TypeVar("R")
# Created once: `json.dumps` with non-default arguments creates an encoder for every call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: Mapping[str, Any] | Iterable[Any]) -> str:
    """Return an object or a list as JSON."""
    return _ENCODER.encode(dict(value) if isinstance(value, Mapping) else value)


def encode_plain(value: Mapping[str, int] | Sequence[str]) -> str:
    """Return counts or texts as JSON, the same as `encode` in an eighth of the time."""
    return to_json(value).decode()


def join_lines(values: Sequence[str]) -> str:
    """Return values as one text, one a line."""
    return "\n".join(values)


def split_lines(text: str) -> tuple[str, ...]:
    """Return the values that `join_lines` joined."""
    return tuple(text.split("\n")) if text else ()


def from_seconds(seconds: float) -> datetime:
    """Return a moment from Unix seconds."""
    return datetime.fromtimestamp(seconds, UTC)


def check_embedding(stored: tuple[str, int] | None, expected: tuple[str, int]) -> None:
    """Compare the embedding that fills a store with the one that it was opened for.

    Raises:
        SchemaMismatch: Another process has re-embedded the store since.
    """
    if stored != expected:
        raise SchemaMismatch(
            f"the store was embedded anew with {stored!r} since it was opened with {expected!r}; "
            "configure that embedding and open the store again"
        )


def in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC, the time zone of all moments in models."""
    return moment.astimezone(UTC)


# By the source text of a field's annotation: evaluating all of them would take longer than opening a small store.
_SQL_TYPES = {
    "str": "text",
    "int": "bigint",
    "int | None": "bigint",
    "bool": "boolean",
    "float": "double precision",
    "datetime": "timestamptz",
    "DocumentStatus": "text",
    "tuple[str, ...]": "text",
    "tuple[int, ...]": "text",
    "Mapping[str, Any]": "text",
    "Mapping[str, int]": "text",
}


class Columns(Generic[R]):
    """The fields of a record as columns, in order; rows, records and statements are derived from them.

    Lists and objects are texts, `Usage` takes two columns. So a new field, which comes last, only needs a migration in
    each SQL store's `schema.py`: what `added` returns.
    """

    def __init__(self, record: type[R], *, without: Collection[str] = (), are_lines: bool = False) -> None:
        kinds = {item.name: str(item.type) for item in fields(cast("Any", record)) if item.name not in without}
        self._record, self._fields, self._get = record, list(kinds), attrgetter(*kinds)
        self.types: dict[str, str] = {}
        self.lists = [name for name, kind in kinds.items() if kind.startswith("tuple")]
        self._moments = [place for place, kind in enumerate(kinds.values()) if kind == "datetime"]
        self._usage: int | None = None
        # Per column index, the function that encodes a value, and the one that decodes it.
        self._codecs: list[tuple[int, Callable[[Any], Any], Callable[[Any], Any]]] = []
        for place, (name, kind) in enumerate(kinds.items()):
            if kind == "Usage":
                self._usage = place
                self.types |= {"input_tokens": "bigint", "output_tokens": "bigint"}
                continue
            self.types[name] = _SQL_TYPES[kind]
            match kind.partition("[")[0]:
                case "tuple":
                    write, read = (join_lines, split_lines) if are_lines else (encode_plain, _from_json)
                    self._codecs.append((place, write, read))
                case "Mapping" if kind.endswith("int]"):
                    self._codecs.append((place, encode_plain, from_json))
                case "Mapping":
                    self._codecs.append((place, encode, json.loads))
                case "bool":
                    self._codecs.append((place, bool, bool))
                case "DocumentStatus":
                    self._codecs.append((place, str, DocumentStatus))
                case _:
                    pass
        self._is_plain = not self._codecs and not self._moments and self._usage is None

    def without(self, *names: str) -> dict[str, str]:
        """Return the types of all columns except these."""
        return {name: kind for name, kind in self.types.items() if name not in names}

    def select(self, table: str, **elsewhere: str) -> str:
        """Return the select list of a table; `elsewhere` gives the expressions of columns that are not in it."""
        return ", ".join(elsewhere.get(name, f'{table}."{name}"') for name in self.types)

    def added(self, table: str, name: str) -> str:
        """Return the statement that adds the column of a new field; existing records get the field's default."""
        item = next(item for item in fields(cast("Any", self._record)) if item.name == name)
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        write = next((write for place, write, _ in self._codecs if self._fields[place] == name), None)
        given = default if write is None else write(default)
        literal = f"'{given}'" if isinstance(given, str) else str(given)
        needed = "" if default is None else f" NOT NULL DEFAULT {literal}"
        return f"ALTER TABLE {table} ADD COLUMN {name} {self.types[name]}{needed};"

    def values(self, item: R, write_moment: Callable[[datetime], Any] = datetime.isoformat) -> Sequence[Any]:
        """Return the column values of a record; `write_moment` encodes moments."""
        if self._is_plain:
            return self._get(item)
        values = list(self._get(item))
        for place, write, _ in self._codecs:
            values[place] = write(values[place])
        for place in self._moments:
            values[place] = write_moment(values[place])
        if (place := self._usage) is not None:
            values[place : place + 1] = values[place].input_tokens, values[place].output_tokens
        return values

    def row(self, item: R) -> dict[str, Any]:
        """Return the column values of a record by name, in JSON's types."""
        return dict(zip(self.types, self.values(item), strict=True))

    def record(self, row: Row, read_moment: Callable[[Any], datetime] = in_utc, **others: Any) -> R:
        """Return the record of a row; `others` are fields that are stored in other tables."""
        values = list(row)
        if (place := self._usage) is not None:
            values[place : place + 2] = [Usage(*values[place : place + 2])]
        for place, _, read in self._codecs:
            values[place] = read(values[place])
        for place in self._moments:
            values[place] = read_moment(values[place])
        return (
            self._record(**dict(zip(self._fields, values, strict=True)), **others) if others else self._record(*values)
        )


def _from_json(text: str) -> tuple[Any, ...]:
    return tuple(from_json(text)) if text != "[]" else ()


DOCUMENTS: Final = Columns(Document)
CHUNKS: Final = Columns(Chunk)
ENTITIES: Final = Columns(Entity, are_lines=True)
RELATIONS: Final = Columns(Relation, are_lines=True)
ENTITY_MENTIONS: Final = Columns(EntityMention)
RELATION_MENTIONS: Final = Columns(RelationMention)
ENTITY_EVIDENCE: Final = Columns(EntityEvidence, without=["leading"])
RELATION_EVIDENCE: Final = Columns(RelationEvidence, without=["leading"])
REPLIES: Final = Columns(CachedReply)
NAME_RULES: Final = Columns(NameRules, without=["curations"])


def chunk_details_object(function: str, list_of: str) -> str:
    """Return the SQL expression for a chunk's details as a JSON object, given how to build an object and a list."""
    values = (list_of.format(f"chunk.{name}") if name in CHUNKS.lists else f"chunk.{name}" for name in CHUNK_DETAILS)
    named = (f"'{name}', {value}" for name, value in zip(CHUNK_DETAILS, values, strict=True))
    return f"{function}({', '.join(named)})"


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
    """Return rules of names, in order, from their rows and rows of active curations, each after the id of its name."""
    curations: dict[str, list[Curation]] = {}
    for id_, *row in active:
        curations.setdefault(id_, []).append(to_curation(row, read_moment))
    return [NAME_RULES.record(row, curations=tuple(curations.get(row[0], ()))) for row in rules]


# The fields of a curation's content, plain data that is never changed.
_CONTENT = ("names", "entity_ids", "scope", "type", "description", "keywords", "weight")


def curation_content(item: Curation) -> str:
    """Return a curation's content as JSON."""
    return encode({name: getattr(item, name) for name in _CONTENT})


# Cached: the curations of a well-known entity are read with every document that mentions it.
@lru_cache(maxsize=4_096)
def _read_content(kind: str, content: str) -> Curation:
    said = json.loads(content)
    values: dict[str, Any] = {name: said[name] for name in _CONTENT}
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Curation(id="", kind=CurationKind(kind), **values)


def to_batch(
    sums: Row, statuses: Mapping[str, int], failed: Iterable[Row], read_moment: Callable[[Any], datetime]
) -> Batch:
    """Return a batch, given sums over its documents, counts per status, and the first documents that failed."""
    track_id, chunks, read, written, created_at, updated_at = sums
    documents = {DocumentStatus(status): count for status, count in statuses.items()}
    moments = read_moment(created_at), read_moment(updated_at)
    errors = tuple((source, error) for source, error in failed)
    return Batch(track_id, documents, chunks, Usage(read, written), *moments, errors)


def grouped(rows: Iterable[Row]) -> dict[str, tuple[Any, ...]]:
    """Group rows by the id that they begin with; return the rest of the rows per id, in order."""
    found: dict[str, list[Any]] = {}
    for id_, *rest in rows:
        found.setdefault(id_, []).append(tuple(rest))
    return {id_: tuple(values) for id_, values in found.items()}


# SQL, and its parameters in order.
Condition = tuple[str, list[Any]]
COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_METADATA = "document.metadata"


class Dialect(ABC):
    """How a database writes conditions on its tables `document` and `chunk`.

    Attributes:
        detail: Expression for a detail of a row of `document`, given its name: its metadata if they have such a field,
            otherwise a JSON object of the detail alone.
        details: The details of a row of `chunk` as a JSON object.
        chunks: Finds the chunks of a row of `document`, or of its original if it is a twin.
    """

    mark: ClassVar[str]
    true: ClassVar[str]
    false: ClassVar[str]
    detail: ClassVar[str]
    details: ClassVar[str]
    chunks: ClassVar[str]

    @abstractmethod
    def one_of(self, column: str, values: Sequence[str]) -> Condition:
        """Return the condition that a column, or `document.id`, is one of these texts, at least one."""

    @abstractmethod
    def twin_of(self, document_id: str) -> Condition:
        """Return the condition that a document is a twin of this one."""

    @abstractmethod
    def meets(self, column: str, condition: OnPath) -> Condition:
        """Return the condition that a JSON object, such as a document's metadata, meets `condition`."""

    def compile_chunk_filter(self, filter_: Filter) -> Condition:
        """Return the condition that a chunk of a matching document meets the filter's conditions on chunks."""
        return self.compile_filter(chunk_condition(filter_), self.details)

    def compile_filter(self, filter_: Filter, column: str = _METADATA) -> Condition:
        """Return the condition that a document matches a filter; on SQLite, its parameters can be used only once."""
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
                column = "document.id" if isinstance(filter_, DocumentIds) else "document.source"
                return self.one_of(column, list(values)) if values else (self.false, [])
            case SourcePrefix(prefix):
                return self._begins(prefix)
            case _:
                name = path_keys(filter_.path)[0]
                is_detail = column == _METADATA and name in DOCUMENT_DETAILS
                return self.meets(self.detail.format(name) if is_detail else column, filter_)

    def where(self, query: DocumentQuery) -> Condition:
        """Return the WHERE clause to list documents; on SQLite, its parameters can be used only once."""
        conditions: list[Condition] = []
        if query.statuses:
            conditions.append(self.one_of("document.status", [status.value for status in query.statuses]))
        if query.track_id is not None:
            conditions.append((f"document.track_id = {self.mark}", [query.track_id]))
        if query.source_prefix is not None:
            conditions.append(self._begins(query.source_prefix))
        if query.content_hashes:
            conditions.append(self.one_of("document.content_hash", query.content_hashes))
        if query.twin_of is not None:
            conditions.append(self.twin_of(query.twin_of))
        conditions.append(self.compile_filter(query.filter or And(())))
        return " AND ".join(sql for sql, _ in conditions), [value for _, values in conditions for value in values]

    def where_curations(self, query: CurationQuery) -> Condition:
        """Return the WHERE clause to list curations, using `subject` if they are those of an entity."""
        conditions: list[Condition] = [] if query.includes_undone else [("curation.undone_at IS NULL", [])]
        if query.entity_id is not None:
            conditions.append((f"subject.entity_id = {self.mark}", [query.entity_id]))
        if query.ids is not None:
            wanted = [*filter(is_storable, query.ids)]
            conditions.append(self.one_of("curation.id", wanted) if wanted else (self.false, []))
        sql = " AND ".join(condition for condition, _ in conditions) or self.true
        return sql, [value for _, values in conditions for value in values]

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
