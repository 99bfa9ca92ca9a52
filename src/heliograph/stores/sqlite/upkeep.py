"""Upkeep of the embedded store's files: workspaces of a folder, backups, checks, and salvaging a damaged file.

Whole-workspace reads compare the store with itself. `salvage` saves the undamaged data of a file into a new one and
reports losses.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from heliograph.errors import ConflictError, InvalidRequestError, StoreDamaged, StoreUnavailable
from heliograph.ids import content_hash
from heliograph.models import WAITING_STATUSES, DocumentStatus, EntityMention, RelationMention
from heliograph.settings import StoreSettings
from heliograph.stores.base import Damage, Inspection, ScanKind
from heliograph.stores.changeset import Collection, digest_terms
from heliograph.stores.sql import CHUNKS, DOCUMENTS
from heliograph.stores.sqlite.database import (
    FILE_NAME,
    LOST_COMMITS,
    Database,
    Row,
    array,
    check_path,
    check_schema,
    data_version,
    fetch,
    fetch_value,
    find_companions,
    find_keys,
    find_known_ids,
    note_reset,
    open_to_read,
    singles,
    translate_errors,
)
from heliograph.stores.sqlite.database import (
    workspace_identity as workspace_identity,  # the registry looks for it here
)
from heliograph.stores.sqlite.graph import rebuild_names
from heliograph.stores.sqlite.page_checks import (
    RESERVED_BYTES,
    VFS,
    damaged_pages,
    has_checksums,
    register,
    write_checksums,
)
from heliograph.stores.sqlite.records import entity_mentions, relation_mentions
from heliograph.stores.sqlite.schema import APPLICATION_ID, FILL_WORDS, LATEST_VERSION, has_tables, migrate
from heliograph.stores.sqlite.search import SEARCHED, TextAccelerator, VectorAccelerator, log_changes

# The workspaces in a data folder: each is a folder with a database file in it.

# Reading an identity costs nothing.
IDENTITY_SECONDS = 0.0


def find_workspaces(settings: StoreSettings) -> list[str]:
    """Return the names of the workspaces in the data folder, sorted; empty if there is no such folder.

    Raises:
        StoreUnavailable: The folder cannot be read.
    """
    try:
        return sorted(entry.name for entry in settings.data_dir.iterdir() if (entry / FILE_NAME).is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreUnavailable(f"the data folder {str(settings.data_dir)!r} cannot be read: {error}") from error


def has_workspace(settings: StoreSettings) -> bool:
    """Whether the named workspace exists, under exactly this name even if the file system ignores case."""
    folder = settings.data_dir
    if not (folder / settings.workspace / FILE_NAME).is_file():
        return False
    return settings.workspace in os.listdir(folder)  # noqa: PTH208 (of thousands, names cost a tenth of paths)


def may_have_waiting(settings: StoreSettings) -> bool:
    """Whether documents of the workspace wait, by one look at its file; True if the file cannot be read."""
    try:
        # Without the checksum VFS, which may not be registered yet: this only looks.
        connection = open_to_read(settings.data_dir / settings.workspace / FILE_NAME, vfs=None)
        try:
            marks = ", ".join("?" * len(WAITING_STATUSES))
            found = connection.execute(f"SELECT 1 FROM document WHERE status IN ({marks}) LIMIT 1", WAITING_STATUSES)
            return bool(found.fetchall())
        finally:
            connection.close()
    except (apsw.Error, OSError):
        # Opening it will report the error, or migrate a file of an earlier schema.
        return True


def drop_workspace(settings: StoreSettings) -> None:
    """Remove the workspace that the settings name with all its data; it must not be open in this process.

    Its folder is renamed first, so that the rest of an interrupted removal is no workspace any more, and another
    process that has it open cannot commit to it (`Database.write`).

    Raises:
        StoreUnavailable: It cannot be removed.
    """
    folder = settings.data_dir / settings.workspace
    doomed = settings.data_dir / f".removed-{settings.workspace}-{secrets.token_hex(8)}"
    try:
        for left in settings.data_dir.glob(f".removed-{settings.workspace}-*"):
            # Another process may be removing it now.
            shutil.rmtree(left, ignore_errors=True)
        # If two processes remove it at once, one finds it missing.
        with suppress(FileNotFoundError):
            folder.rename(doomed)
            shutil.rmtree(doomed)
    except OSError as error:
        raise StoreUnavailable(f"the workspace {settings.workspace!r} cannot be removed: {error}") from error


_KEPT_TABLES = ("meta", "outbox_reader", "vector_change", "accelerator")
_FULL_TEXT = ("chunks_terms", "entities_terms", "names_terms")


def vacuum(connection: apsw.Connection) -> None:
    """Rewrite the file without deleted data, outside a transaction; takes space for a second copy while it runs."""
    for table in _FULL_TEXT:
        # Terms of deleted rows stay in the index until its segments are merged into one.
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    # The second copy may be large, so it goes to a file and not into memory.
    connection.pragma("temp_store", "file")
    try:
        connection.execute("VACUUM")
    finally:
        connection.pragma("temp_store", "memory")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def clear(connection: apsw.Connection) -> int:
    """Within a writing transaction, delete all data except the store's own settings; return the new data version."""
    version = data_version(connection) + 1
    vectors = {item.value: f"{item.value}_vector" for item in Collection}
    texts = {f"{item.value}_terms": f"{item.value}_words" for item in SEARCHED}
    for name, table in (vectors | texts).items():
        # Indexes in memory, of any process, drop these rows before new ones come in under the same keys.
        log_changes(connection, name, version, (key for (key,) in fetch(connection, f"SELECT key FROM {table}")))
    for table in _FULL_TEXT:
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    for (table,) in fetch(connection, query):
        # Skip tables of the full-text index, which have no rows of their own, and tables to keep.
        if table not in _KEPT_TABLES and "_terms_" not in table and not table.startswith("sqlite_"):
            connection.execute(f"DELETE FROM {table}")
    connection.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
    note_reset(connection)
    return version


def write_backup(connect: Callable[[], apsw.Connection], target: Path) -> None:
    """Copy the store that `connect` opens, as of one moment, into the new file `target`; blocks.

    Raises:
        ConflictError: The file exists already.
        StoreUnavailable: The copy cannot be written, and no partial file is left; or SQLite refuses its path.
    """
    check_path(target)
    if target.exists():
        raise ConflictError(f"the file {str(target)!r} is there already; choose another name for the backup")
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        # SQLite writes into an existing empty file, and keeps its owner and mode.
        part.touch(mode=0o600)
        with translate_errors(target):
            connection = connect()
            try:
                # The copy has room for checksums though the file may have none.
                connection.reserve_bytes(reserve=RESERVED_BYTES)
                connection.execute("VACUUM INTO ?", (str(part),))
            finally:
                connection.close()
        write_checksums(part)
        _make_durable(part)
        os.link(part, target)
    except FileExistsError:
        raise ConflictError(f"the file {str(target)!r} was made meanwhile; choose another name") from None
    except OSError as error:
        raise StoreUnavailable(f"the backup {str(target)!r} cannot be written ({error.strerror})") from error
    finally:
        part.unlink(missing_ok=True)


def restore_workspace(settings: StoreSettings, backup: Path) -> None:
    """Create the workspace from a backup; blocks.

    Raises:
        InvalidRequestError: The file is not a whole backup of this version or an earlier one.
        ConflictError: The workspace exists already.
        StoreUnavailable: The folder cannot be written, or SQLite refuses a path.
    """
    folder = settings.data_dir / settings.workspace
    check_path(backup)
    check_path(folder)
    _check_backup(backup)
    target = folder / FILE_NAME
    if target.exists():
        raise ConflictError(
            f"there is a workspace in {str(folder)!r} already; restore into another workspace, or stop what uses that "
            f"one and move its {FILE_NAME} away first"
        )
    part = folder / f".{FILE_NAME}.{secrets.token_hex(4)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with backup.open("rb") as source, part.open("xb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        _make_durable(part)
        # Companion files of a removed database do not belong to this one; SQLite would even replay the log into it.
        for left in find_companions(target):
            left.unlink(missing_ok=True)
        os.link(part, target)
    except FileExistsError:
        raise ConflictError(f"a workspace was made in {str(folder)!r} meanwhile; choose another") from None
    except OSError as error:
        raise StoreUnavailable(f"the workspace {str(folder)!r} cannot be written ({error.strerror})") from error
    finally:
        part.unlink(missing_ok=True)


def _check_backup(path: Path) -> None:
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            application, version = (int(connection.pragma(name)) for name in ("application_id", "user_version"))
            verdict = connection.pragma("quick_check")
        finally:
            connection.close()
    except apsw.Error as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read as a backup ({error}); check the path") from error
    if application != APPLICATION_ID or verdict != "ok":
        raise InvalidRequestError(f"{str(path)!r} is not a whole backup of a workspace; use another one")
    if version > LATEST_VERSION:
        raise InvalidRequestError(
            f"the backup {str(path)!r} was made by a newer version (schema {version}, this one knows "
            f"{LATEST_VERSION}); upgrade Heliograph"
        )


def _make_durable(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


# Whole-workspace reads, and faults of pages, degrees and indexes.

_SCANNED: Mapping[ScanKind, str] = {
    ScanKind.DOCUMENTS: "document",
    ScanKind.CHUNKS: "chunk",
    ScanKind.ENTITY_EVIDENCE: "entity_evidence",
    ScanKind.RELATION_EVIDENCE: "relation_evidence",
    ScanKind.ENTITIES: "entity",
    ScanKind.RELATIONS: "relation",
    ScanKind.CHUNK_VECTORS: "chunks_vector",
    ScanKind.ENTITY_VECTORS: "entities_vector",
    ScanKind.RELATION_VECTORS: "relations_vector",
}
_MENTIONS: Mapping[ScanKind, tuple[str, str]] = {
    ScanKind.EXTRACTIONS: ("extraction", "chunk_key"),
    ScanKind.MENTIONED_ENTITIES: ("entity_mention", "entity_key"),
    ScanKind.MENTIONED_RELATIONS: ("relation_mention", "relation_key"),
}
_NAME_RULES = "SELECT id FROM name_rules WHERE id > ? ORDER BY id LIMIT ?"
_DEGREES = """SELECT key, sum(count) AS degree FROM (
  SELECT source_key AS key, count(*) AS count FROM relation GROUP BY source_key
  UNION ALL SELECT target_key, count(*) FROM relation GROUP BY target_key) GROUP BY key"""
# Every table that refers to an interned id. Ends of relations are entities.
_USED_KEYS = " UNION ".join(
    f"SELECT {column} FROM {table}"
    for table, column in (
        *((table, "key") for table in _SCANNED.values()),
        *_MENTIONS.values(),
        *(("chunk", "document_key"), ("relation_evidence", "source_key"), ("relation_evidence", "target_key")),
    )
)
_DIFFERENT_TEXTS = """SELECT coalesce(words.key, terms.id) FROM {name}_words AS words
  FULL JOIN {name}_terms_docsize AS terms ON terms.id = words.key WHERE terms.id IS NULL OR words.key IS NULL"""
_ALONE = "SELECT count(*) FROM {} WHERE key NOT IN (SELECT key FROM {})"
# Queries that count faults, by message.
_FAULTS = {
    "the degrees of {} entities differ from their relations": f"""
      SELECT count(*) FROM entity_degree LEFT JOIN ({_DEGREES}) AS counted USING (key)
      WHERE entity_degree.degree <> coalesce(counted.degree, 0)""",
    **{
        f"{{}} rows of {left} have none in {right}": _ALONE.format(left, right)
        for left, right in (("entity", "entity_degree"), ("entity_degree", "entity"))
    },
    **{
        f"{{}} rows of {parts} belong to no {table}": _ALONE.format(parts, table)
        for table, parts in (("document", "document_text"), ("chunk", "chunk_text"))
    },
    **{
        f"{{}} rows of {left} have none in {right}, by which entities are found": _ALONE.format(left, right)
        for left, right in (("entity", "entity_name"), ("entity_name", "entity"))
    },
    **{
        f"{{}} rows of {item.value} are in only one of the two tables of full text": f"""
          SELECT count(*) FROM ({_DIFFERENT_TEXTS.format(name=item.value)})"""
        for item in SEARCHED
    },
    "{} ids are kept that nothing refers to": f"SELECT count(*) FROM identity WHERE key NOT IN ({_USED_KEYS})",
    "{} ids are lost that others refer to; restore a backup, or take the documents in anew": f"""
      SELECT count(*) FROM ({_USED_KEYS}) AS used WHERE key NOT IN (SELECT key FROM identity)""",
}
_MODULUS = 1 << 63
_MOST_SHOWN = 10


class SqliteInspection(Inspection):
    """Reads over whole tables, in pages."""

    def __init__(
        self,
        database: Database,
        accelerators: Mapping[Collection, VectorAccelerator],
        texts: Mapping[Collection, TextAccelerator],
    ) -> None:
        self._database = database
        self._indexes = [
            *((f"the index of {item.value}", "vectors", vectors) for item, vectors in accelerators.items()),
            *((f"the full-text index of {item.value}", "rows", rows) for item, rows in texts.items()),
        ]

    async def scan(self, kind: ScanKind, after: str, limit: int) -> list[str]:
        if kind is ScanKind.NAME_RULES:
            rows = await self._database.fetch(_NAME_RULES, (after, limit))
            return [id_ for (id_,) in rows]
        table, column = _MENTIONS.get(kind) or (_SCANNED[kind], "key")
        # A mention whose two ends count for one entity states no relation and is stored under the entity.
        narrow = "AND id LIKE 'rel-%'" if kind is ScanKind.MENTIONED_RELATIONS else ""
        query = f"""SELECT id FROM identity WHERE id > ? {narrow} AND EXISTS
                    (SELECT 1 FROM {table} WHERE {table}.{column} = identity.key) ORDER BY id LIMIT ?"""
        rows = await self._database.fetch(query, (after, limit))
        return [id_ for (id_,) in rows]

    async def get_mentions(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], offset: int, limit: int
    ) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:

        def read(
            connection: apsw.Connection,
        ) -> tuple[dict[str, list[EntityMention]], dict[str, list[RelationMention]]]:
            keys = find_keys(connection, [*entity_ids, *relation_ids])
            said = ((id_, entity_mentions(connection, keys[id_], limit, offset)) for id_ in entity_ids if id_ in keys)
            related = (
                (id_, relation_mentions(connection, keys[id_], limit, offset)) for id_ in relation_ids if id_ in keys
            )
            return {id_: found for id_, found in said if found}, {id_: found for id_, found in related if found}

        return await self._database.read(read)

    async def digest_texts(self, collection: Collection) -> dict[str, int]:
        return await self._database.read_afresh(lambda connection: _digest_texts(connection, collection.value))

    async def find_damage(self, *, repair: bool, is_certain: bool = False) -> list[Damage]:
        """A repair needs exclusive use of the file."""
        gone = await self._find_lost_commits(repair=repair)
        if not self._database.is_read_only:
            # Checkpoint the log into the file, as far as other connections allow.
            with suppress(StoreDamaged):
                await self._database.run_alone(lambda connection: connection.wal_checkpoint())
        path = self._database.path
        pages = await asyncio.to_thread(damaged_pages, path) if has_checksums(path) else []
        if not pages and not is_certain:
            return gone
        listed = ", ".join(map(str, pages[:_MOST_SHOWN]))
        if len(pages) > _MOST_SHOWN:
            listed += f" and {len(pages) - _MOST_SHOWN} more"
        message = f"the pages {listed} of {path.name} are not what was written"
        if not pages:
            message = f"{path.name} holds what cannot be what was written"
        if not repair:
            return [*gone, Damage(message)]
        lost = await self._database.replace(salvage)
        for _, _, index in self._indexes:
            await self._database.write(index.forget)
        return [*gone, Damage(message, is_repaired=True), *lost]

    async def _find_lost_commits(self, *, repair: bool) -> list[Damage]:
        """Report commits that were missing when the store was opened; a repair reports them for the last time."""
        query = "SELECT value FROM meta WHERE name = ?"
        try:
            rows = await self._database.fetch(query, (LOST_COMMITS,))
            if rows and repair:
                forget = "DELETE FROM meta WHERE name = ?"
                await self._database.write(lambda connection: connection.execute(forget, (LOST_COMMITS,)))
        except StoreDamaged:
            return []
        return [
            Damage(
                f"the last {count} commits are gone, since the log was removed or damaged, or an earlier copy put "
                "back; index again what they brought"
            )
            for (count,) in rows
        ]

    async def find_faults(self) -> list[str]:
        whole = [(index, await self._database.read(index.is_file_whole)) for _, _, index in self._indexes]
        # A connection that has searched before may take its own cached full-text pages for damage.
        faults = await self._database.read_afresh(_find_faults)
        faults += [f"the file {index.file_name} is not what was written" for index, is_whole in whole if not is_whole]
        for name, content, index in self._indexes:
            missing, foreign = await self._database.read(index.compare)
            if missing or foreign:
                faults.append(f"{name} lacks {missing} {content} and has {foreign} too many")
        return faults

    async def repair(self) -> None:
        await self._database.write(_repair)
        for _, _, index in self._indexes:
            await self._database.write(index.forget)


def _digest_texts(connection: apsw.Connection, name: str) -> dict[str, int]:
    sums: dict[int, int] = {}
    connection.execute(f"CREATE VIRTUAL TABLE temp.{name}_rows USING fts5vocab(main, {name}_terms, instance)")
    connection.execute("BEGIN")
    for term, key in connection.execute(f"SELECT term, doc FROM temp.{name}_rows"):
        sums[key] = (sums.get(key, 0) + digest_terms((term,))) % _MODULUS
    for key, terms in connection.execute(f"SELECT key, terms FROM {name}_words"):
        if digest_terms(terms.split()) != sums.get(key, 0):
            # The two hold different words, and here it is unknown which is right: report neither as correct.
            sums[key] = _MODULUS
    return {id_: sums[key] for key, id_ in find_known_ids(connection, sums).items()}


def _find_faults(connection: apsw.Connection) -> list[str]:
    verdicts = [verdict for (verdict,) in fetch(connection, "PRAGMA integrity_check(10)") if verdict != "ok"]
    counts = ((said, fetch_value(connection, query)) for said, query in _FAULTS.items())
    return [
        *(f"the file is damaged: {verdict}" for verdict in verdicts),
        *(said.format(count) for said, count in counts if count),
    ]


def _repair(connection: apsw.Connection) -> None:
    connection.execute("REINDEX")
    connection.execute("DELETE FROM entity_degree WHERE key NOT IN (SELECT key FROM entity)")
    connection.execute("INSERT OR IGNORE INTO entity_degree SELECT key, 0 FROM entity")
    connection.execute(
        f"""UPDATE entity_degree SET degree = coalesce(
              (SELECT degree FROM ({_DEGREES}) AS counted WHERE counted.key = entity_degree.key), 0)"""
    )
    rebuild_names(connection)
    # Copy rows that only the full text has into `*_words`; log added and removed rows for all processes.
    found = {item.value: fetch(connection, _DIFFERENT_TEXTS.format(name=item.value)) for item in SEARCHED}
    if wrong := {name: [key for (key,) in rows] for name, rows in found.items() if rows}:
        version = data_version(connection) + 1
        for name, keys in wrong.items():
            connection.execute(f"DELETE FROM {name}_words WHERE key NOT IN (SELECT id FROM {name}_terms_docsize)")
            log_changes(connection, f"{name}_terms", version, keys)
        connection.execute(FILL_WORDS)
        connection.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
    for table, parts in (("document", "document_text"), ("chunk", "chunk_text")):
        connection.execute(f"DELETE FROM {parts} WHERE key NOT IN (SELECT key FROM {table})")
    connection.execute(f"DELETE FROM identity WHERE key NOT IN ({_USED_KEYS})")


# Saving the undamaged data of a damaged database into a new one.
#
# Rows on undamaged pages are copied. The others are read without verifying checksums, as far as SQLite still finds
# them: derived data is left out, and a check rebuilds it; truth is kept where it can be compared with other truth or
# reported as doubtful, and its document is marked so that `retry` reads it again. Full text is rebuilt from the stored
# words. No other process may have the file open meanwhile, and the old one is kept.

# The name under which the old file is kept.
_DAMAGED_NAME = "damaged-{}.db"

_BROKEN = (apsw.Error, UnicodeDecodeError)
_STEP = 512
# More than a workspace has; a damaged page may hold any number.
_MOST_KEYS = 1 << 32
_MOST_CURATIONS = 1 << 24


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that is copied.

    Attributes:
        key: The integer column to read it by; empty for one that is read as a whole.
        keeps_doubtful: Whether to keep rows that cannot be verified.
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
        valid=f"""{" AND ".join(map(_LIST.format, DOCUMENTS.lists))} AND {_MAP.format("metadata")}
              AND status IN ({_STATUSES})
              AND typeof(created_at) IN ('real', 'integer') AND typeof(updated_at) IN ('real', 'integer')""",
    ),
    _Table("document_text", keeps_doubtful=True),
    _Table("chunk", keeps_doubtful=True, valid=" AND ".join(map(_LIST.format, CHUNKS.lists))),
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
    """Run `salvage` on a workspace that damage keeps from being opened; None if there is no file. Same errors."""
    path = settings.data_dir / settings.workspace / FILE_NAME
    if not path.exists():
        return None
    register()
    with translate_errors(path):
        try:
            return salvage(path)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise StoreDamaged(
                f"too little of the store {str(path)!r} is left to be repaired; move the file away and restore a "
                "backup, or take the documents in again"
            ) from error


# A truncated file whose header states more than this many times its size is not extended.
_MOST_CUT_OFF = 16


def _restore_length(path: Path) -> None:
    """Extend a truncated file with zeros to the length in its header: SQLite opens no shorter one."""
    with path.open("rb+") as file:
        header = file.read(100)
        if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
            return
        page_bytes, changes, pages, counted = (
            int.from_bytes(header[start:end]) for start, end in ((16, 18), (24, 28), (28, 32), (92, 96))
        )
        # The number of pages is valid only for the same change counter; page size 65,536 is stored as 1.
        length = pages * (65_536 if page_bytes == 1 else page_bytes) if changes == counted else 0
        stored = file.seek(0, os.SEEK_END)
        # A header that states far more is damaged itself.
        if stored < length <= _MOST_CUT_OFF * stored:
            file.truncate(length)


def salvage(path: Path) -> list[Damage]:
    """Replace a damaged file, which is not open in this process, by a new one; blocks.

    Returns:
        Truth that is lost or doubtful.

    Raises:
        StoreUnavailable: Another process has it open, or there is no room for another file.
        SchemaMismatch: It was made by another version.
        apsw.Error: Too little of it is left: no table is found.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    connections: list[apsw.Connection] = []
    try:
        _restore_length(path)
        doubting = _open(path, connections, compares=False)
        if not has_tables(doubting):
            raise apsw.CorruptError
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
            # A reading transaction keeps other connections from writing.
            connection.execute("BEGIN")
            _first(connection, "SELECT count(*) FROM sqlite_schema")
        target = apsw.Connection(str(part), vfs=VFS)
        connections.append(target)
        found = _Copy(comparing, doubting, target).run()
        target.close()
        write_checksums(part)
        _make_durable(part)
        number = 1
        while (kept := path.with_name(_DAMAGED_NAME.format(number))).exists():
            number += 1
        os.link(path, kept)
        part.replace(path)
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
    # Only a connection that has read the first page knows that there are checksums.
    _first(connection, "SELECT count(*) FROM sqlite_schema")
    if not compares:
        connection.pragma("checksum_verification", "off")
    return connection


def _first(connection: apsw.Connection, query: str) -> Any:
    try:
        return fetch_value(connection, query)
    except apsw.Error:
        return None


class _Copy:
    """Copies from a file through two connections: one verifies page checksums, the other does not."""

    def __init__(self, comparing: apsw.Connection, doubting: apsw.Connection, target: apsw.Connection) -> None:
        self._comparing = comparing
        self._doubting = doubting
        self._target = target
        # Keys of doubtful or lost rows, per table.
        self._doubtful: dict[str, set[Any]] = {table.name: set() for table in _TABLES}
        # Chunks of doubtful extraction rows, as far as these could be read.
        self._unread_chunks: set[int] = set()

    def run(self) -> list[Damage]:
        """Fill the target and return truth that is lost or doubtful."""
        target = self._target
        target.pragma("page_size", int(self._doubting.pragma("page_size")))
        target.reserve_bytes(reserve=RESERVED_BYTES)
        target.pragma("synchronous", "off")
        migrate(target, "")
        found: list[Damage] = []
        with target:
            settings = _rows_of(self._doubting, "SELECT name, value FROM meta")
            target.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", settings)
            for (highest,) in _rows_of(self._doubting, "SELECT max(version) FROM entity_evidence"):
                raised = "UPDATE meta SET value = max(value, ?) WHERE name = 'data_version'"
                target.execute(raised, (int(highest or 0),))
            for table in _TABLES:
                self._copy_table(table)
            # Where their own rows are doubtful, read ids from their index.
            if wanted := self._doubtful["identity"]:
                query = "SELECT key, id FROM identity INDEXED BY sqlite_autoindex_identity_1 ORDER BY id"
                rows = list({key: id_ for key, id_ in _rows_of(self._comparing, query) if key in wanted}.items())
                target.executemany("DELETE FROM identity WHERE key = ? OR id = ?", rows)
                target.executemany("INSERT INTO identity (key, id) VALUES (?, ?)", rows)
            found += [*self._doubt_texts(), *self._doubt_documents(), *self._doubt_others(), *self._unread()]
            for name in ("chunks", "entities"):
                target.execute(f"INSERT INTO {name}_terms (rowid, terms) SELECT key, terms FROM {name}_words")
            rebuild_names(target)
            version = int(fetch_value(target, "SELECT value FROM meta WHERE name = 'data_version'")) + 1
            target.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
            note_reset(target)
        return found

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
        # A damaged page may state any key, but real keys are consecutive.
        if table.key == "sequence":
            most = _MOST_CURATIONS
        else:
            known = (_first(item, "SELECT max(key) FROM identity") for item in (self._comparing, self._doubting))
            most = min(next((int(value) for value in known if value is not None), _MOST_KEYS), _MOST_KEYS)
        highest = min(max(ends), most)
        for low in range(max(0, min(ends)), highest + 1, _STEP):
            self._copy_range(table, select, order, put, low, min(low + _STEP - 1, highest))

    def _copy_range(self, table: _Table, select: str, order: Sequence[str], put: str, low: int, high: int) -> None:
        where = f"{select} WHERE {table.key} BETWEEN ? AND ?"
        try:
            rows = fetch(self._comparing, f"{where} AND {table.valid}", (low, high))
            if table.valid != "1" and len(rows) != fetch_value(
                self._comparing, f"SELECT count(*) FROM {table.name} WHERE {table.key} BETWEEN ? AND ?", (low, high)
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
        """Copy verified rows from both ends of a damaged range, and doubtful ones between if the table keeps them."""
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
        """Return the columns of a table, those of its key first, and the columns of its key."""
        rows = fetch(self._target, f"SELECT name, pk FROM pragma_table_info('{name}')")
        order = [column for column, _ in sorted(((c, place) for c, place in rows if place), key=lambda item: item[1])]
        return [f'"{column}"' for column in (*order, *(c for c, place in rows if not place))], order

    def _doubt_texts(self) -> Iterable[Damage]:
        query = """SELECT identity.id, document.content_hash, text FROM document CROSS JOIN identity USING (key)
                   LEFT JOIN document_text USING (key) WHERE document.key = ?"""
        for key in sorted(self._doubtful["document_text"]):
            for id_, hash_, text in fetch(self._target, query, (key,)):
                found = "" if text is None else content_hash(str(text))
                if text is None or found != hash_:
                    # Otherwise indexing the right text again would be skipped as unchanged.
                    self._target.execute("UPDATE document SET content_hash = ? WHERE key = ?", (found, key))
                    yield self._mark(key, id_, "its text was damaged; index it again")

    def _doubt_documents(self) -> Iterable[Damage]:
        for key in sorted(self._doubtful["document"]):
            id_ = fetch_value(self._target, "SELECT id FROM identity WHERE key = ?", (key,)) or f"key {key}"
            if fetch_value(self._target, "SELECT 1 FROM document WHERE key = ?", (key,)):
                lists = "".join(f"{name} = iif({_LIST.format(name)}, {name}, '[]'), " for name in DOCUMENTS.lists)
                fixed = f"""UPDATE document SET {lists}metadata = iif({_MAP.format("metadata")}, metadata, '{{}}'),
                            created_at = CAST(created_at AS REAL), updated_at = CAST(updated_at AS REAL)
                            WHERE key = ?"""
                self._target.execute(fixed, (key,))
                message = "its source, title and metadata were damaged; compare them, and index it again"
                yield self._mark(key, id_, message)
            elif str(id_).startswith("doc-"):
                yield Damage("its row was lost to damage; index it again", id_)

    def _doubt_others(self) -> Iterable[Damage]:
        owner = """SELECT DISTINCT chunk.document_key, identity.id FROM chunk
                   JOIN identity ON identity.key = chunk.document_key WHERE chunk.key = ?"""
        seen: set[int] = set()
        for key in sorted(self._doubtful["chunk"] | self._doubtful["chunk_text"]):
            mended = ", ".join(f"{name} = iif({_LIST.format(name)}, {name}, '[]')" for name in CHUNKS.lists)
            self._target.execute(f"UPDATE chunk SET {mended} WHERE key = ?", (key,))
            for document, id_ in fetch(self._target, owner, (key,)):
                if document not in seen:
                    seen.add(document)
                    yield self._mark(document, id_, "its chunks were damaged; index it again")
        for name in ("curation", "curation_subject", "name_rules"):
            if self._doubtful[name]:
                yield Damage(f"{len(self._doubtful[name])} rows of {name}, what people corrected by hand, were damaged")

    def _unread(self) -> Iterable[Damage]:
        """Delete the extractions of chunks where some rows are doubtful or lost, so that the chunks are read again."""
        target = self._target
        self._unread_chunks |= self._doubtful["extraction"] | self._doubtful["alias_mention"]
        for name, key in (("entity_mention", "entity_key"), ("relation_mention", "relation_key")):
            if wanted := self._doubtful[name]:
                # The index may still have rows that the table has lost.
                query = f"SELECT {key}, chunk_key FROM {name} INDEXED BY {name}_by_chunk ORDER BY chunk_key"
                left = f"SELECT {key}, chunk_key FROM carray(?) AS wanted CROSS JOIN {name} ON {key} = wanted.value"
                here = set(fetch(target, left, (array(wanted),)))
                listed = (row for row in _rows_of(self._comparing, query) if row[0] in wanted)
                self._unread_chunks.update(row[1] for row in listed if row not in here)
        query = """SELECT chunk.key, document.key, identity.id FROM carray(?) AS wanted
                   CROSS JOIN chunk ON chunk.key = wanted.value LEFT JOIN document ON document.key = chunk.document_key
                   LEFT JOIN identity ON identity.key = document.key"""
        rows = fetch(target, query, (array(sorted(self._unread_chunks)),)) if self._unread_chunks else []
        for name in _READINGS:
            target.executemany(f"DELETE FROM {name} WHERE chunk_key = ?", singles(key for key, _, _ in rows))
        documents: dict[int, str] = {key: id_ for _, key, id_ in rows if id_ is not None}
        for key, id_ in documents.items():
            query = "UPDATE document SET status = ? WHERE key = ? AND status = ?"
            target.execute(query, (DocumentStatus.PARTIAL.value, key, DocumentStatus.PROCESSED.value))
            yield Damage("what was read in some of its chunks was damaged; run 'heliograph retry'", id_)

    def _mark(self, key: int, id_: str, message: str) -> Damage:
        """Mark a document as failed; return the damage."""
        query = "UPDATE document SET status = ?, error = ? WHERE key = ?"
        self._target.execute(query, (DocumentStatus.FAILED.value, message, key))
        return Damage(message, id_)


def _rows_of(connection: apsw.Connection, query: str, values: Sequence[int] = ()) -> list[Row]:
    """Return the rows up to the first that cannot be read."""
    rows: list[Row] = []
    try:
        for row in connection.execute(query, values):
            rows.append(row)  # noqa: PERF402 (what was read before an error counts)
    except _BROKEN:
        pass
    return rows
