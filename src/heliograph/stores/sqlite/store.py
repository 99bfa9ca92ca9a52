"""The embedded store: all roles of one workspace in one folder, every changeset one SQLite transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from itertools import chain
from pathlib import Path

import apsw

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SchemaMismatch, StoreUnavailable
from heliograph.models import DocumentStatus, Stats
from heliograph.settings import StoreSettings
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.sqlite.accelerator import Accelerator
from heliograph.stores.sqlite.database import Database
from heliograph.stores.sqlite.evidence import EvidenceMemory
from heliograph.stores.sqlite.graph import SqliteGraphStore, write_graph
from heliograph.stores.sqlite.identity import find_keys, forget_keys, intern_ids
from heliograph.stores.sqlite.lock import file_lock, try_file_lock
from heliograph.stores.sqlite.records import SqliteRecordsStore
from heliograph.stores.sqlite.records_write import check_expectations, mentioned_ids, write_records
from heliograph.stores.sqlite.replies import SqliteReplyCache, drop_answers
from heliograph.stores.sqlite.sql import fetch, fetch_value
from heliograph.stores.sqlite.text import SqliteTextStore, write_texts
from heliograph.stores.sqlite.vectors import SqliteVectorStore, write_vectors

__all__ = ["SqliteStore"]

_FILE = "heliograph.db"
_LOCK = "ingest.lock"


class SqliteStore(Store):
    """One workspace in `<data_dir>/<workspace>/`."""

    def __init__(self, folder: Path, database: Database, embedding: EmbeddingInfo, timeout_seconds: float) -> None:
        self._folder = folder
        self._database = database
        self._timeout_seconds = timeout_seconds
        self._accelerators = {item: Accelerator(folder, item, embedding.dimension) for item in Collection}
        self._evidence = EvidenceMemory()
        self.records = SqliteRecordsStore(database, self._evidence)
        self.graph = SqliteGraphStore(database)
        self.vectors = SqliteVectorStore(database, self._accelerators)
        self.text = SqliteTextStore(database)
        self.replies = SqliteReplyCache(database)

    @classmethod
    async def open(cls, settings: StoreSettings, embedding: EmbeddingInfo) -> SqliteStore:
        """Open the workspace that the settings name, creating it as needed.

        Raises:
            StoreUnavailable: Its folder or file cannot be used.
            SchemaMismatch: It was made by a newer version, or with another embedding.
        """
        folder = settings.data_dir / settings.workspace
        database = await asyncio.to_thread(_open_database, folder, settings)
        try:
            await database.write(lambda connection: _check_embedding(connection, folder, embedding))
        except BaseException:
            await database.close()
            raise
        return cls(folder, database, embedding, settings.write_timeout_seconds)

    async def apply(self, changeset: Changeset) -> int:
        """See `Store`."""
        version = await self._database.write(lambda connection: _apply(connection, changeset))
        self._evidence.note(changeset, version)
        return version

    async def get_data_version(self) -> int:
        """See `Store`."""
        return await self._database.read(_data_version)

    async def get_stats(self) -> Stats:
        """See `Store`."""
        size = sum(path.stat().st_size for path in self._folder.iterdir() if path.is_file())
        return await self._database.read(lambda connection: _stats(connection, size))

    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        """See `Store`."""
        return file_lock(self._folder / _LOCK, self._timeout_seconds, "writing to")

    def describe(self) -> Mapping[str, str]:
        """See `Store`."""
        return {"back end": "sqlite", "sqlite": apsw.sqlite_lib_version(), "folder": str(self._folder)}

    async def close(self) -> None:
        """See `Store`; the accelerators' files are brought up to date first."""
        if self._database.is_closed:
            return
        try:
            for accelerator in self._accelerators.values():
                await self._save(accelerator)
        finally:
            await self._database.close()

    async def _save(self, accelerator: Accelerator) -> None:
        if not await self._database.read(accelerator.is_due):
            return
        with try_file_lock(accelerator.lock_path()) as locked:
            # Whoever holds the lock is saving the same vectors; what this process would add is replayed on open.
            if locked:
                continues = await self._database.write(accelerator.claim)
                version = await self._database.read(lambda reader: accelerator.sync(reader, continues=continues))
                await self._database.write(lambda writer: accelerator.record(writer, version))


def _open_database(folder: Path, settings: StoreSettings) -> Database:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"the folder {str(folder)!r} cannot be made ({error.strerror}); check permissions, "
            "or choose another data_dir"
        ) from error
    return Database(folder / _FILE, settings.write_timeout_seconds, settings.durability)


def _check_embedding(connection: apsw.Connection, folder: Path, embedding: EmbeddingInfo) -> None:
    """Note which embedding fills a new store; refuse another one in a store that is filled already."""
    wanted = {"embedding_name": embedding.name, "embedding_dimension": embedding.dimension}
    query = "SELECT name, value FROM meta WHERE name IN ('embedding_name', 'embedding_dimension')"
    stored = dict(fetch(connection, query))
    if not stored:
        connection.executemany("INSERT INTO meta VALUES (?, ?)", iter(wanted.items()))
    elif stored != wanted:
        raise SchemaMismatch(
            f"the store {str(folder)!r} was built with the embedding {stored['embedding_name']!r} of dimension "
            f"{stored['embedding_dimension']}, but {embedding.name!r} of dimension {embedding.dimension} is "
            "configured; set the embedding back, or index the documents again into another data_dir or workspace"
        )


def _data_version(connection: apsw.Connection) -> int:
    return int(fetch_value(connection, "SELECT value FROM meta WHERE name = 'data_version'"))


def _apply(connection: apsw.Connection, changeset: Changeset) -> int:
    removed = list(
        chain(
            *(changeset.removed_documents, changeset.removed_chunks),
            *(changeset.removed_entities, changeset.removed_relations),
        )
    )
    expected = chain(changeset.expected, changeset.expected_documents)
    known = find_keys(connection, list({*removed, *expected}))
    check_expectations(connection, changeset, known)
    keys = known | intern_ids(connection, mentioned_ids(changeset))
    version = _data_version(connection) + 1
    connection.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
    write_records(connection, changeset, keys, version)
    write_graph(connection, changeset, keys)
    write_vectors(connection, changeset, keys, version)
    write_texts(connection, changeset, keys)
    drop_answers(connection)
    forget_keys(connection, _unused(changeset, removed, keys))
    return version


def _unused(changeset: Changeset, removed: list[str], keys: Mapping[str, int]) -> set[int]:
    kept = {item.id for item in chain(changeset.documents, changeset.chunks, changeset.entities, changeset.relations)}
    return {keys[id_] for id_ in removed if id_ in keys and id_ not in kept}


def _stats(connection: apsw.Connection, bytes_on_disk: int) -> Stats:
    documents = dict(fetch(connection, "SELECT status, count(*) FROM document GROUP BY status"))
    tables = ("chunk", "entity_degree", "relation", "reply")
    counts = [int(fetch_value(connection, f"SELECT count(*) FROM {table}")) for table in tables]
    statuses = {DocumentStatus(status): count for status, count in documents.items()}
    chunks, entities, relations, replies = counts
    return Stats(statuses, chunks, entities, relations, replies, _data_version(connection), bytes_on_disk)
