"""Saving what is whole of a damaged database into a new one, and saying what is not.

Rows on pages that are what was written are copied. The others are read without comparing checksums, as far as SQLite
still finds them: what follows from something else is left out, and a check makes it anew; truth is kept where it can be
compared with other truth or shown to be doubtful, and its document is marked so that `retry` reads it again. Full text
is made from the words that stand beside it. Nobody else may have the file open meanwhile, and the old one is kept.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from heliograph.errors import StoreUnavailable
from heliograph.ids import content_hash
from heliograph.models import DocumentStatus
from heliograph.settings import StoreSettings
from heliograph.stores.base import Damage
from heliograph.stores.sqlite.database import Row, array, fetch, fetch_value, singles, translate_errors
from heliograph.stores.sqlite.graph import rebuild_names
from heliograph.stores.sqlite.page_checks import RESERVED_BYTES, VFS, register, write_checksums
from heliograph.stores.sqlite.schema import check_schema, migrate
from heliograph.stores.sqlite.side_tables import note_reset
from heliograph.stores.sqlite.upkeep import FILE_NAME

# Where the old file is kept.
_DAMAGED_NAME = "damaged-{}.db"

_BROKEN = (apsw.Error, UnicodeDecodeError)
_STEP = 512
# More than a workspace has; a damaged page may say anything.
_MOST_KEYS = 1 << 32
_MOST_CURATIONS = 1 << 24


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that is copied.

    Attributes:
        name: Its name.
        key: The integer that it is read by; empty for one that is read as a whole.
        keeps_doubtful: Whether rows are kept that are not known to be what was written.
        valid: What every row fulfils, in SQL.
    """

    name: str
    key: str = "key"
    keeps_doubtful: bool = False
    valid: str = "1"


_LIST = "iif(json_valid({0}), json_type({0}), '') = 'array'"
_MAP = "iif(json_valid({0}), json_type({0}), '') = 'object'"
_VECTOR = "length(vector) = 4 * (SELECT value FROM meta WHERE name = 'embedding_dimension')"
_STATUSES = ", ".join(f"'{status.value}'" for status in DocumentStatus)
_TABLES = (
    _Table("identity", keeps_doubtful=True),
    _Table(
        "document",
        keeps_doubtful=True,
        valid=f"""{_MAP.format("metadata")} AND {_LIST.format("page_starts")} AND status IN ({_STATUSES})
              AND typeof(created_at) IN ('real', 'integer') AND typeof(updated_at) IN ('real', 'integer')""",
    ),
    _Table("document_text", keeps_doubtful=True),
    _Table("chunk", keeps_doubtful=True, valid=_LIST.format("headings")),
    _Table("chunk_text", keeps_doubtful=True),
    _Table("extraction", "chunk_key", valid=_LIST.format("reply_keys")),
    _Table("entity_mention", "entity_key"),
    _Table("relation_mention", "relation_key", valid=_LIST.format("keywords")),
    _Table("alias_mention", "chunk_key"),
    _Table("curation", "sequence", keeps_doubtful=True, valid="json_valid(content)"),
    _Table("curation_subject", "", keeps_doubtful=True),
    _Table("name_rules", "", keeps_doubtful=True, valid="json_valid(names) AND json_valid(aliases)"),
    _Table("entity_evidence", valid=f"{_MAP.format('names')} AND {_MAP.format('types')}"),
    _Table("relation_evidence", valid=_MAP.format("keywords")),
    *(_Table(name) for name in ("entity", "entity_degree", "relation")),
    *(_Table(f"{name}_vector", valid=_VECTOR) for name in ("chunks", "entities", "relations")),
    *(_Table(f"next_{name}_vector") for name in ("chunks", "entities", "relations")),
    *(_Table(name) for name in ("chunks_words", "entities_words")),
    _Table("reply", ""),
    _Table("outbox_reader", "", keeps_doubtful=True),
)
_READINGS = ("entity_mention", "relation_mention", "alias_mention", "extraction")


def salvage_workspace(settings: StoreSettings) -> list[Damage] | None:
    """Do as `salvage` where the damage keeps the workspace from being opened; None if there is no file.

    Raises:
        StoreError: As `salvage`.
    """
    path = settings.data_dir / settings.workspace / FILE_NAME
    if not path.exists():
        return None
    register()
    with translate_errors(path):
        return salvage(path)


def salvage(path: Path) -> list[Damage]:
    """Put a new file in the place of a damaged one; blocks.

    Args:
        path: The file, which nothing in this process has open.

    Returns:
        What of the truth is lost or doubtful.

    Raises:
        StoreUnavailable: Another process has it open, or there is no room for another file.
        SchemaMismatch: It was made by another version.
        apsw.Error: Too little of it is left: no table is found.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    connections: list[apsw.Connection] = []
    try:
        doubting = _open(path, connections, compares=False)
        check_schema(doubting, str(path))
        try:
            doubting.set_busy_timeout(0)
            doubting.pragma("journal_mode", "delete")
        except apsw.BusyError as error:
            raise StoreUnavailable(
                f"the store {str(path)!r} is open in another process, and is repaired only when it is in none; stop "
                "the service and run 'heliograph check --repair' again"
            ) from error
        comparing = _open(path, connections, compares=True)
        for connection in (comparing, doubting):
            # A transaction that reads keeps everybody from writing.
            connection.execute("BEGIN")
            _first(connection, "SELECT count(*) FROM sqlite_schema")
        target = apsw.Connection(str(part), vfs=VFS)
        connections.append(target)
        found = _Copy(comparing, doubting, target).run()
        target.close()
        _keep_old(path, part)
    except OSError as error:
        raise StoreUnavailable(
            f"the store {str(path)!r} cannot be repaired ({error.strerror}); free some space"
        ) from error
    else:
        return found
    finally:
        for connection in connections:
            connection.close()
        part.unlink(missing_ok=True)


def _open(path: Path, connections: list[apsw.Connection], *, compares: bool) -> apsw.Connection:
    connection = apsw.Connection(str(path), vfs=VFS)
    connections.append(connection)
    # Only what has read the first page knows that there are checksums.
    _first(connection, "SELECT count(*) FROM sqlite_schema")
    if not compares:
        connection.pragma("checksum_verification", "off")
    return connection


def _first(connection: apsw.Connection, query: str) -> Any:
    try:
        return fetch_value(connection, query)
    except apsw.Error:
        return None


def _keep_old(path: Path, part: Path) -> None:
    write_checksums(part)
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    number = 1
    while (kept := path.with_name(_DAMAGED_NAME.format(number))).exists():
        number += 1
    os.link(path, kept)
    part.replace(path)


class _Copy:
    """Copies from a file, read by one connection that compares pages with their checksums and by one that does not."""

    def __init__(self, comparing: apsw.Connection, doubting: apsw.Connection, target: apsw.Connection) -> None:
        self._comparing = comparing
        self._doubting = doubting
        self._target = target
        # Keys of tables whose rows are doubtful or lost.
        self._doubtful: dict[str, set[Any]] = {table.name: set() for table in _TABLES}
        # Rows of readings that are, as far as they could be read.
        self._unread_chunks: set[int] = set()

    def run(self) -> list[Damage]:
        """Fill the target and return what of the truth is lost or doubtful."""
        target = self._target
        target.pragma("page_size", int(self._doubting.pragma("page_size")))
        target.reserve_bytes(reserve=RESERVED_BYTES)
        target.pragma("synchronous", "off")
        migrate(target, "")
        found: list[Damage] = []
        with target:
            self._copy_settings()
            for table in _TABLES:
                self._copy_table(table)
            self._name_again()
            found += [*self._doubt_texts(), *self._doubt_documents(), *self._doubt_others(), *self._unread()]
            for name in ("chunks", "entities"):
                target.execute(f"INSERT INTO {name}_terms (rowid, terms) SELECT key, terms FROM {name}_words")
            rebuild_names(target)
            version = int(fetch_value(target, "SELECT value FROM meta WHERE name = 'data_version'")) + 1
            target.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
            note_reset(target, version)
        return found

    def _copy_settings(self) -> None:
        rows = _rows_of(self._doubting, "SELECT name, value FROM meta")
        self._target.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
        highest = max(
            (row[0] for row in _rows_of(self._doubting, "SELECT max(version) FROM entity_evidence")), default=0
        )
        query = "UPDATE meta SET value = max(value, ?) WHERE name = 'data_version'"
        self._target.execute(query, (int(highest or 0),))

    def _copy_table(self, table: _Table) -> None:
        columns, order = self._columns(table.name)
        select = f"SELECT {', '.join(columns)} FROM {table.name}"
        put = f"INSERT OR IGNORE INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        if not table.key:
            self._copy_hole(table, f"{select} WHERE 1", (), order, put)
            return
        ends = [
            int(value)
            for connection in (self._doubting, self._comparing)
            for end in ("min", "max")
            if (value := _first(connection, f"SELECT {end}({table.key}) FROM {table.name}")) is not None
        ]
        if not ends:
            return
        # Whatever a damaged page says of them, keys are given one after the other.
        highest = min(max(ends), self._highest_key(table))
        for low in range(max(0, min(ends)), highest + 1, _STEP):
            self._copy_range(table, select, order, put, low, min(low + _STEP - 1, highest))

    def _highest_key(self, table: _Table) -> int:
        if table.key == "sequence":
            return _MOST_CURATIONS
        known = (_first(item, "SELECT max(key) FROM identity") for item in (self._comparing, self._doubting))
        return min(next((int(value) for value in known if value is not None), _MOST_KEYS), _MOST_KEYS)

    def _copy_range(self, table: _Table, select: str, order: Sequence[str], put: str, low: int, high: int) -> None:
        where = f"{select} WHERE {table.key} BETWEEN ? AND ?"
        try:
            rows = fetch(self._comparing, f"{where} AND {table.valid}", (low, high))
            if table.valid != "1" and len(rows) != fetch_value(
                self._comparing,
                f"SELECT count(*) FROM {table.name} WHERE {table.key} BETWEEN ? AND ?",
                (low, high),
            ):
                raise apsw.CorruptError("a row is not what it should be")
        except _BROKEN:
            if low == high:
                self._copy_hole(table, where, (low, high), order, put)
            else:
                middle = (low + high) // 2
                self._copy_range(table, select, order, put, low, middle)
                self._copy_range(table, select, order, put, middle + 1, high)
        else:
            self._target.executemany(put, rows)

    def _copy_hole(self, table: _Table, query: str, values: Sequence[int], order: Sequence[str], put: str) -> None:
        """Copy rows from both ends on, and from between what may be kept."""
        width = len(order)
        whole: dict[Any, Row] = {}
        for direction in ("ASC", "DESC"):
            statement = f"{query} AND {table.valid} ORDER BY {', '.join(f'{name} {direction}' for name in order)}"
            for row in _rows_of(self._comparing, statement, values):
                if row[:width] in whole:
                    break
                whole[row[:width]] = row
        self._target.executemany(put, whole.values())
        between = [row for row in _rows_of(self._doubting, query, values) if row[:width] not in whole]
        self._doubtful[table.name].update(values[:1] or (row[:width] for row in between))
        if table.keeps_doubtful:
            self._target.executemany(put, between)
        if table.name in _READINGS:
            place = self._columns(table.name)[0].index('"chunk_key"')
            self._unread_chunks.update(row[place] for row in between if isinstance(row[place], int))

    def _columns(self, name: str) -> tuple[list[str], list[str]]:
        """Return the columns of a table, those of its key first, and the latter."""
        rows = fetch(self._target, f"SELECT name, pk FROM pragma_table_info('{name}')")
        order = [column for column, _ in sorted(((c, place) for c, place in rows if place), key=lambda item: item[1])]
        return [f'"{column}"' for column in (*order, *(c for c, place in rows if not place))], order

    def _name_again(self) -> None:
        """Take ids from their index where their own rows are doubtful."""
        wanted = self._doubtful["identity"]
        if not wanted:
            return
        query = "SELECT key, id FROM identity INDEXED BY sqlite_autoindex_identity_1 ORDER BY id"
        found = {key: id_ for key, id_ in _rows_of(self._comparing, query) if key in wanted}
        rows = list(found.items())
        self._target.executemany("DELETE FROM identity WHERE key = ? OR id = ?", rows)
        self._target.executemany("INSERT INTO identity (key, id) VALUES (?, ?)", rows)

    def _doubt_texts(self) -> Iterable[Damage]:
        query = """SELECT identity.id, document.content_hash, text FROM document CROSS JOIN identity USING (key)
                   LEFT JOIN document_text USING (key) WHERE document.key = ?"""
        for key in sorted(self._doubtful["document_text"]):
            for id_, hash_, text in fetch(self._target, query, (key,)):
                if text is None or content_hash(str(text)) != hash_:
                    # Else the right text would be taken for what is there already.
                    found = "" if text is None else content_hash(str(text))
                    self._target.execute("UPDATE document SET content_hash = ? WHERE key = ?", (found, key))
                    self._mark(key, "its text was damaged; index it again")
                    yield Damage("its text was damaged; index it again", id_)

    def _doubt_documents(self) -> Iterable[Damage]:
        for key in sorted(self._doubtful["document"]):
            id_ = fetch_value(self._target, "SELECT id FROM identity WHERE key = ?", (key,)) or f"key {key}"
            if fetch_value(self._target, "SELECT 1 FROM document WHERE key = ?", (key,)):
                fixed = f"""UPDATE document SET metadata = iif({_MAP.format("metadata")}, metadata, '{{}}'),
                            page_starts = iif({_LIST.format("page_starts")}, page_starts, '[]'),
                            created_at = CAST(created_at AS REAL), updated_at = CAST(updated_at AS REAL)
                            WHERE key = ?"""
                self._target.execute(fixed, (key,))
                self._mark(key, "its source, title and metadata were damaged; compare them, and index it again")
                yield Damage("its source, title and metadata were damaged; compare them, and index it again", id_)
            elif str(id_).startswith("doc-"):
                yield Damage("its row was lost to damage; index it again", id_)

    def _doubt_others(self) -> Iterable[Damage]:
        owner = """SELECT DISTINCT chunk.document_key, identity.id FROM chunk
                   JOIN identity ON identity.key = chunk.document_key WHERE chunk.key = ?"""
        seen: set[int] = set()
        for key in sorted(self._doubtful["chunk"] | self._doubtful["chunk_text"]):
            self._target.execute(
                f"UPDATE chunk SET headings = iif({_LIST.format('headings')}, headings, '[]') WHERE key = ?", (key,)
            )
            for document, id_ in fetch(self._target, owner, (key,)):
                if document not in seen:
                    seen.add(document)
                    self._mark(document, "its chunks were damaged; index it again")
                    yield Damage("its chunks were damaged; index it again", id_)
        for name in ("curation", "curation_subject", "name_rules"):
            if self._doubtful[name]:
                yield Damage(f"{len(self._doubtful[name])} rows of {name}, what people corrected by hand, were damaged")

    def _unread(self) -> Iterable[Damage]:
        """Forget what was read in chunks if some of it is doubtful or lost, so that they are read again."""
        target = self._target
        self._unread_chunks |= self._doubtful["extraction"] | self._doubtful["alias_mention"]
        for name, key in (("entity_mention", "entity_key"), ("relation_mention", "relation_key")):
            if wanted := self._doubtful[name]:
                # The index knows them still, where the table has lost them.
                query = f"SELECT {key}, chunk_key FROM {name} INDEXED BY {name}_by_chunk ORDER BY chunk_key"
                left = f"SELECT {key}, chunk_key FROM carray(?) AS wanted CROSS JOIN {name} ON {key} = wanted.value"
                here = set(fetch(target, left, (array(wanted),)))
                listed = (row for row in _rows_of(self._comparing, query) if row[0] in wanted)
                self._unread_chunks.update(row[1] for row in listed if row not in here)
        keys = [
            key for key in sorted(self._unread_chunks) if fetch(target, "SELECT 1 FROM chunk WHERE key = ?", (key,))
        ]
        for name in _READINGS:
            target.executemany(f"DELETE FROM {name} WHERE chunk_key = ?", singles(keys))
        documents: dict[int, str] = {}
        for key in keys:
            query = """SELECT document.key, identity.id FROM chunk JOIN document ON document.key = chunk.document_key
                       JOIN identity ON identity.key = document.key WHERE chunk.key = ?"""
            documents.update(fetch(target, query, (key,)))
        for key, id_ in documents.items():
            query = "UPDATE document SET status = ? WHERE key = ? AND status = ?"
            target.execute(query, (DocumentStatus.PARTIAL.value, key, DocumentStatus.PROCESSED.value))
            yield Damage("what was read in some of its chunks was damaged; run 'heliograph retry'", id_)

    def _mark(self, key: int, message: str) -> None:
        query = "UPDATE document SET status = ?, error = ? WHERE key = ?"
        self._target.execute(query, (DocumentStatus.FAILED.value, message, key))


def _rows_of(connection: apsw.Connection, query: str, values: Sequence[int] = ()) -> list[Row]:
    """Return the rows up to the first that cannot be read."""
    rows: list[Row] = []
    try:
        for row in connection.execute(query, values):
            rows.append(row)  # noqa: PERF402 (what was read before an error counts)
    except _BROKEN:
        pass
    return rows
