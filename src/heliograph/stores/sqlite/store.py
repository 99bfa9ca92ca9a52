"""The embedded store: all roles of one workspace in one folder, every changeset one SQLite transaction.

Beside the roles of other modules it has the reply cache, the outbox and the second set of vectors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import ConflictError, SchemaMismatch, StaleChangesetError, StoreError, StoreUnavailable
from heliograph.filters import Filter
from heliograph.models import DocumentStatus, Stats
from heliograph.settings import StoreSettings
from heliograph.stores.base import (
    ANSWERS,
    CachedReply,
    Fold,
    Reembedding,
    ReplyCache,
    Store,
    StoreView,
    check_begun,
)
from heliograph.stores.changeset import Changeset, Collection, Outbox, OutboxEntry, OutboxKind, VectorBatch, changed_ids
from heliograph.stores.sql import REPLIES, check_embedding, from_seconds
from heliograph.stores.sqlite.database import (
    FILE_NAME,
    PRESENT,
    Database,
    IdMemory,
    Row,
    ThreadLock,
    array,
    check_path,
    data_version,
    fetch,
    fetch_one,
    fetch_value,
    file_lock,
    find_keys,
    forget_keys,
    give_keys,
    insert,
    note_reset,
    read_embedding,
    stored_embedding,
    try_file_lock,
)
from heliograph.stores.sqlite.graph import SqliteGraphStore, SqliteNameIndex, write_graph, write_names
from heliograph.stores.sqlite.records import (
    EvidenceMemory,
    SqliteCurationStore,
    SqliteRecordsStore,
    check_expectations,
    mentioned_ids,
    write_curations,
    write_records,
)
from heliograph.stores.sqlite.search import (
    SEARCHED,
    Accelerator,
    SqliteTextStore,
    SqliteVectorStore,
    TextAccelerator,
    VectorAccelerator,
    is_merge_due,
    merge_all,
    merge_step,
    write_texts,
    write_vectors,
)
from heliograph.stores.sqlite.upkeep import SqliteInspection, clear, vacuum, write_backup
from heliograph.stores.sqlite.view import SqliteReader, SqliteScope
from heliograph.stores.view import FilteredView, ScopeMemory

_LOGGER = logging.getLogger(__name__)
_LOCK = "ingest.lock"
# The figures of `Stats` that are counts of rows.
_COUNTED = {"chunks": "chunk", "entities": "entity_degree", "relations": "relation", "cached_replies": "reply"}
T = TypeVar("T")


class SqliteStore(Store):
    """One workspace in `<data_dir>/<workspace>/`."""

    def __init__(self, folder: Path, database: Database, embedding: tuple[str, int], timeout_seconds: float) -> None:
        self._folder = folder
        self._database = database
        self._timeout_seconds = timeout_seconds
        self._embedding = self.embedding = embedding
        self._accelerators = {item: VectorAccelerator(folder, item, embedding) for item in Collection}
        self._texts = {item: TextAccelerator(folder, item) for item in SEARCHED}
        self._evidence = EvidenceMemory()
        ids = IdMemory()
        self.records = records = SqliteRecordsStore(database, self._evidence, ids)
        self.graph = SqliteGraphStore(database, ids)
        self.vectors = vectors = SqliteVectorStore(database, self._accelerators, ids)
        self.text = text = SqliteTextStore(database, self._texts, ids)
        self._read_in_views = database, ids, records, vectors, text
        self.names = SqliteNameIndex(database)
        self.curations = SqliteCurationStore(database)
        self.replies = SqliteReplyCache(database)
        self.inspection = SqliteInspection(database, self._accelerators, self._texts)
        # Created with the first view: without one there is nothing to bring up to date at a commit.
        self._scopes: ScopeMemory[SqliteScope] | None = None
        self.reembedding = SqliteReembedding(database)
        self.outbox = SqliteOutbox(database, folder)

    @classmethod
    async def open(cls, settings: StoreSettings, embedding: EmbeddingInfo | None) -> SqliteStore:
        """Open the workspace that the settings name, creating it as needed.

        Without an embedding an existing workspace is opened as it is, to be read as a whole.

        Raises:
            StoreUnavailable: Its folder or file cannot be used.
            SchemaMismatch: It was made by a newer version, or with another embedding.
        """
        folder = settings.data_dir / settings.workspace
        database = await asyncio.to_thread(_open_database, folder, settings)
        settle = database.read if database.is_read_only else database.write
        try:
            name, dimension = await settle(lambda connection: _settle_embedding(connection, folder, embedding))
        except BaseException:
            await database.close()
            raise
        return cls(folder, database, (name, dimension), settings.write_timeout_seconds)

    async def apply(self, changeset: Changeset) -> int:
        write = self._database.write
        version, keys = await write(lambda connection: _apply(connection, changeset, self._embedding))
        self._evidence.note(changeset, version)
        if self._scopes is not None:
            self._scopes.note(version, changeset, keys)
        return version

    async def read_written(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Reads on the writer's connection, whose cache holds the last commits' pages; readers drop theirs at each."""
        return await self._database.read_at_once(lambda _: work(), by_writer=True)

    async def at_one_moment(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await self._database.read_at_once(lambda _: work())

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """The scope of a filter is computed once per data version and cached for the filters used last."""
        self._scopes = self._scopes or ScopeMemory(ThreadLock)
        return FilteredView(SqliteReader(*self._read_in_views, self._scopes, filter_, fold))

    async def get_data_version(self) -> int:
        return await self._database.read(data_version)

    async def get_stats(self) -> Stats:
        size = sum(path.stat().st_size for path in self._folder.iterdir() if path.is_file())

        def read(connection: apsw.Connection) -> Stats:
            documents = dict(fetch(connection, "SELECT status, count(*) FROM document GROUP BY status"))
            counted = {
                name: fetch_value(connection, f"SELECT count(*) FROM {table}") for name, table in _COUNTED.items()
            }
            statuses = {DocumentStatus(status): count for status, count in documents.items()}
            return Stats(documents=statuses, **counted, data_version=data_version(connection), bytes_on_disk=size)

        return await self._database.read(read)

    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        return file_lock(self._folder / _LOCK, self._timeout_seconds)

    async def clear(self) -> int:
        return await self._database.write(clear)

    async def vacuum(self) -> None:
        """If readers of other processes never end, deleted bytes stay in the log."""
        await self._database.run_alone(vacuum)

    async def backup(self, path: Path) -> None:
        await asyncio.to_thread(write_backup, self._database.open_connection, path)

    def describe(self) -> Mapping[str, str]:
        return {"back end": "sqlite", "sqlite": apsw.sqlite_lib_version(), "folder": str(self._folder)}

    async def close(self) -> None:
        """The accelerators' files are brought up to date first, and the full-text segments merged."""
        if self._database.is_closed:
            return
        try:
            if not self._database.is_read_only:
                for accelerator in (*self._accelerators.values(), *self._texts.values()):
                    if await self._database.read(accelerator.is_due):
                        await self._save(accelerator)
                if await self._database.read(is_merge_due):
                    await self._database.write(merge_all)
        except (OSError, StoreError) as error:
            # A full disk, for example. No data is lost: rows that the files lack are read from the database on next
            # use.
            _LOGGER.warning("the indexes in %r could not be saved: %s", str(self._folder), error)
        finally:
            await self._database.close()

    async def _save(self, accelerator: Accelerator[Any]) -> None:
        with try_file_lock(accelerator.lock_path()) as locked:
            # The lock's holder is saving the same rows; rows that only this process would add are replayed on open.
            if locked:
                continues = await self._database.write(accelerator.claim)
                saved = await self._database.read(lambda reader: accelerator.sync(reader, continues=continues))
                await self._database.write(lambda writer: accelerator.record(writer, *saved))


def _open_database(folder: Path, settings: StoreSettings) -> Database:
    check_path(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"the folder {str(folder)!r} cannot be made ({error.strerror}); check permissions, "
            "or choose another data_dir"
        ) from error
    return Database(folder / FILE_NAME, settings.write_timeout_seconds, settings.durability)


def _settle_embedding(connection: apsw.Connection, folder: Path, embedding: EmbeddingInfo | None) -> tuple[str, int]:
    """Return the embedding that fills a store: record it in a new store, raise if the store has another."""
    stored = stored_embedding(connection)
    if embedding is None:
        if stored is None:
            raise StoreUnavailable(f"there is no workspace in {str(folder)!r} yet; index something into it first")
        return stored
    wanted = (embedding.name, embedding.dimension)
    if stored is None:
        rows = zip(("embedding_name", "embedding_dimension"), wanted, strict=True)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
    elif stored != wanted:
        raise SchemaMismatch(
            f"the store {str(folder)!r} was built with the embedding {stored[0]!r} of dimension {stored[1]}, but "
            f"{wanted[0]!r} of dimension {wanted[1]} is configured; set the embedding back, or run 'heliograph reembed'"
        )
    return wanted


def _apply(connection: apsw.Connection, changeset: Changeset, embedding: tuple[str, int]) -> tuple[int, dict[str, int]]:
    """Write a changeset; return the new data version, and the keys that its ids have or had."""
    check_embedding(stored_embedding(connection), embedding)
    removed = list(
        chain(
            *(changeset.removed_documents, changeset.removed_chunks),
            *(changeset.removed_entities, changeset.removed_relations),
        )
    )
    mentioned = dict.fromkeys(mentioned_ids(changeset))
    wanted = {*removed, *changeset.expected, *changeset.expected_documents, *mentioned}
    keys = find_keys(connection, wanted)
    check_expectations(connection, changeset, keys)
    keys |= give_keys(connection, [id_ for id_ in mentioned if id_ not in keys])
    version = data_version(connection) + 1
    if changeset.expected_version not in (None, version - 1):
        raise StaleChangesetError("something was committed since the changeset was computed; compute it again")
    connection.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
    if subjects := changeset.removed_subjects:
        query = """DELETE FROM reply WHERE subject_id IN (SELECT value FROM carray(?))
                   AND key NOT IN (SELECT value FROM carray(?))"""
        connection.execute(query, (array(subjects), array(changeset.kept_replies or ("",))))
    write_records(connection, changeset, keys, version)
    write_curations(connection, changeset, version)
    write_names(connection, changeset, keys)
    write_graph(connection, changeset, keys)
    write_vectors(connection, changeset, keys, version)
    write_texts(connection, changeset, keys, version)
    merge_step(connection, version)
    if fetch_value(connection, "SELECT EXISTS (SELECT 1 FROM outbox_reader)"):
        rows = ((kind.value, id_, version) for kind, ids in changed_ids(changeset).items() for id_ in ids)
        connection.executemany("INSERT OR REPLACE INTO outbox (kind, id, version) VALUES (?, ?, ?)", rows)
    drop_answers(connection)
    kept = {item.id for item in chain(changeset.documents, changeset.chunks, changeset.entities, changeset.relations)}
    # Entities that a person deleted are not folded, but are still mentioned.
    counted = chain(changeset.entity_evidence, changeset.relation_evidence)
    kept.update(item.id for item in counted if item.mention_count)
    forget_keys(connection, {keys[id_] for id_ in removed if id_ in keys and id_ not in kept})
    return version, keys


_NEXT = ("next_embedding_name", "next_embedding_dimension")


class SqliteReembedding(Reembedding):
    """Fills the tables of next vectors and renames them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begun: tuple[str, int] | None = None

    async def begin(self, embedding: EmbeddingInfo) -> None:
        wanted = (embedding.name, embedding.dimension)

        def begin(connection: apsw.Connection) -> None:
            if read_embedding(connection, _NEXT) != wanted:
                _abandon(connection)
                connection.executemany("INSERT INTO meta VALUES (?, ?)", zip(_NEXT, wanted, strict=True))

        await self._database.write(begin)
        self._begun = wanted

    async def find_pending(self, collection: Collection, after: str, limit: int) -> list[str]:
        table = f"{collection.value}_vector"
        query = f"""SELECT id FROM identity WHERE id > ? AND EXISTS (SELECT 1 FROM {table} WHERE key = identity.key)
                    AND NOT EXISTS (SELECT 1 FROM next_{table} WHERE key = identity.key) ORDER BY id LIMIT ?"""
        return [id_ for (id_,) in await self._database.fetch(query, (after, limit))]

    async def get_next(self, collection: Collection, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        query = f"""SELECT id, vector FROM carray(?) AS wanted CROSS JOIN identity ON id = wanted.value
                    CROSS JOIN next_{collection.value}_vector AS next ON next.key = identity.key"""
        rows = await self._database.fetch(query, (array(ids),)) if ids else []
        return {id_: np.frombuffer(vector, np.float32) for id_, vector in rows}

    async def put(self, collection: Collection, batch: VectorBatch) -> None:
        table = f"{collection.value}_vector"
        query = f"INSERT OR REPLACE INTO next_{table} SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM {table} WHERE key = ?1)"

        def put(connection: apsw.Connection) -> None:
            check_begun(read_embedding(connection, _NEXT), self._begun)
            keys = find_keys(connection, batch.ids)
            matrix = np.ascontiguousarray(batch.vectors, np.float32)
            rows = ((keys[id_], row.tobytes()) for id_, row in zip(batch.ids, matrix, strict=True) if id_ in keys)
            connection.executemany(query, rows)

        await self._database.write(put)

    async def finish(self) -> int:
        return await self._database.write(self._finish)

    def _finish(self, connection: apsw.Connection) -> int:
        check_begun(read_embedding(connection, _NEXT), self._begun)
        for collection in Collection:
            table = f"{collection.value}_vector"
            query = f"SELECT count(*) FROM {table} WHERE key NOT IN (SELECT key FROM next_{table})"
            if missing := fetch_value(connection, query):
                raise ConflictError(f"{missing} vectors of {collection.value} are not embedded yet; run reembed again")
            connection.execute(f"DROP TABLE {table}; ALTER TABLE next_{table} RENAME TO {table}")
            connection.execute(f"CREATE TABLE next_{table} (key INTEGER PRIMARY KEY, vector BLOB NOT NULL)")
        for name, next_name in zip(PRESENT, _NEXT, strict=True):
            connection.execute(
                f"UPDATE meta SET value = (SELECT value FROM meta WHERE name = '{next_name}') WHERE name = '{name}'"
            )
        connection.execute("DELETE FROM meta WHERE name LIKE 'next_embedding_%'")
        for table in ("vector_change", "accelerator"):
            connection.executemany(f"DELETE FROM {table} WHERE collection = ?", ((item.value,) for item in Collection))
        connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'data_version'")
        drop_answers(connection)
        self._begun = None
        note_reset(connection)
        return data_version(connection)

    async def abandon(self) -> None:
        await self._database.write(_abandon)


def _abandon(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE name LIKE 'next_embedding_%'")
    for collection in Collection:
        connection.execute(f"DELETE FROM next_{collection.value}_vector")


# The reply cache.

_REPLY = f"SELECT {REPLIES.select('reply')} FROM reply WHERE"
_PUT_REPLY = insert("reply", [*REPLIES.types, "cache_type"], verb="INSERT OR REPLACE")


class SqliteReplyCache(ReplyCache):
    """Replies in one table, by key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_reply(self, key: str) -> CachedReply | None:
        row = await self._database.read(lambda connection: fetch_one(connection, f"{_REPLY} key = ?", (key,)))
        return None if row is None else _read(row)

    async def put_reply(self, reply: CachedReply) -> None:
        row = (*REPLIES.values(reply, datetime.timestamp), reply.cache_type)
        await self._database.write(lambda connection: connection.execute(_PUT_REPLY, row))

    async def delete_replies(self, cache_type: str | None = None) -> int:

        def delete(connection: apsw.Connection) -> int:
            if cache_type is None:
                connection.execute("DELETE FROM reply")
            else:
                connection.execute("DELETE FROM reply WHERE cache_type = ?", (cache_type,))
            return connection.changes()

        return await self._database.write(delete)

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        return await self._database.fetch_as(_read, f"{_REPLY} key > ? ORDER BY key LIMIT ?", (after, limit))


def _read(row: Row) -> CachedReply:
    return REPLIES.record(row, from_seconds)


def drop_answers(connection: apsw.Connection) -> None:
    """Drop every cached answer: each was computed from an earlier data version."""
    connection.execute("DELETE FROM reply WHERE cache_type = ?", (ANSWERS,))


# The outbox: one row per changed item, under the version of its last change.

_FORGET = "DELETE FROM outbox WHERE version <= coalesce((SELECT min(version) FROM outbox_reader), 9e18)"


class SqliteOutbox(Outbox):
    """Entries in the workspace's own file; locks are files beside it."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder

    async def register(self, reader: str) -> None:
        if reader not in await self.get_readers():
            await self._begin_anew("INSERT OR IGNORE INTO outbox_reader VALUES (?, -1)", reader)

    async def unregister(self, reader: str) -> None:
        change = f"DELETE FROM outbox_reader WHERE name = ?; {_FORGET}"
        await self._database.write(lambda connection: connection.execute(change, (reader,)))

    async def get_readers(self) -> Mapping[str, int]:
        return dict(await self._database.fetch("SELECT name, version FROM outbox_reader ORDER BY name"))

    async def read(self, after: int, limit: int) -> list[OutboxEntry]:
        query = """SELECT version, kind, id FROM outbox WHERE version > ?1 AND version <= (
                     SELECT max(version) FROM (SELECT version FROM outbox WHERE version > ?1 ORDER BY version LIMIT ?2))
                   ORDER BY version, kind, id"""
        rows = await self._database.fetch(query, (after, limit))
        return [OutboxEntry(version, OutboxKind(kind), id_) for version, kind, id_ in rows]

    async def acknowledge(self, reader: str, version: int) -> None:
        if (await self.get_readers()).get(reader) != version:
            change = f"UPDATE outbox_reader SET version = ? WHERE name = ?; {_FORGET}"
            await self._database.write(lambda connection: connection.execute(change, (version, reader)))

    async def reset(self, reader: str) -> None:
        await self._begin_anew("UPDATE outbox_reader SET version = -1 WHERE name = ?", reader)

    @asynccontextmanager
    async def lock(self, reader: str) -> AsyncGenerator[bool]:
        with try_file_lock(self._folder / f"outbox-{sha256(reader.encode()).hexdigest()[:16]}.lock") as is_held:
            yield is_held

    async def _begin_anew(self, change: str, reader: str) -> None:

        def work(connection: apsw.Connection) -> None:
            connection.execute(change, (reader,))
            note_reset(connection)

        await self._database.write(work)
