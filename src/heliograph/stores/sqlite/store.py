"""The embedded store: all roles of one workspace in one folder, every changeset one SQLite transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import SchemaMismatch, StaleChangesetError, StoreError, StoreUnavailable
from heliograph.filters import Filter
from heliograph.models import DocumentStatus, Stats
from heliograph.settings import StoreSettings
from heliograph.stores.base import Fold, Store, StoreView
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.sqlite.database import (
    Database,
    IdMemory,
    ThreadLock,
    check_path,
    data_version,
    fetch,
    fetch_value,
    file_lock,
    find_keys,
    forget_keys,
    intern_ids,
    try_file_lock,
)
from heliograph.stores.sqlite.graph import SqliteGraphStore, SqliteNameIndex, write_graph, write_names
from heliograph.stores.sqlite.inspection import SqliteInspection
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
from heliograph.stores.sqlite.side_tables import (
    SqliteOutbox,
    SqliteReembedding,
    SqliteReplyCache,
    check_embedding,
    drop_answers,
    stored_embedding,
    write_outbox,
)
from heliograph.stores.sqlite.upkeep import FILE_NAME, clear, vacuum, write_backup
from heliograph.stores.sqlite.view import SqliteReader, SqliteScope
from heliograph.stores.view import FilteredView, ScopeMemory

_LOGGER = logging.getLogger(__name__)
_LOCK = "ingest.lock"


class SqliteStore(Store):
    """One workspace in `<data_dir>/<workspace>/`."""

    def __init__(self, folder: Path, database: Database, embedding: tuple[str, int], timeout_seconds: float) -> None:
        self._folder = folder
        self._database = database
        self._timeout_seconds = timeout_seconds
        self._embedding = embedding
        self.embedding = embedding
        self._accelerators = {item: VectorAccelerator(folder, item, embedding) for item in Collection}
        self._texts = {item: TextAccelerator(folder, item) for item in SEARCHED}
        self._evidence = EvidenceMemory()
        self._ids = ids = IdMemory()
        self.records = SqliteRecordsStore(database, self._evidence, ids)
        self.graph = SqliteGraphStore(database, ids)
        self.vectors = SqliteVectorStore(database, self._accelerators, ids)
        self.text = SqliteTextStore(database, self._texts, ids)
        self.names = SqliteNameIndex(database)
        self.curations = SqliteCurationStore(database)
        self.replies = SqliteReplyCache(database)
        self.inspection = SqliteInspection(database, self._accelerators, self._texts)
        self._scopes: ScopeMemory[SqliteScope] = ScopeMemory(ThreadLock)
        self.reembedding = SqliteReembedding(database)
        self.outbox = SqliteOutbox(database, folder)

    @classmethod
    async def open(cls, settings: StoreSettings, embedding: EmbeddingInfo | None) -> SqliteStore:
        """Open the workspace that the settings name, creating it as needed.

        Args:
            settings: Where it is.
            embedding: What fills it; None opens one that is there as it is, to be read as a whole.

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
        self._scopes.note(version, changeset, keys)
        return version

    def view(self, filter_: Filter, fold: Fold) -> StoreView:
        """See `Store`; what a filter leaves is computed once per data version and kept for the filters used last."""
        indexes = self._accelerators, self._texts
        return FilteredView(SqliteReader(self._database, self._ids, *indexes, self._scopes, filter_, fold))

    async def get_data_version(self) -> int:
        return await self._database.read(data_version)

    async def get_stats(self) -> Stats:
        size = sum(path.stat().st_size for path in self._folder.iterdir() if path.is_file())
        return await self._database.read(lambda connection: _stats(connection, size))

    def ingest_lock(self) -> AbstractAsyncContextManager[None]:
        return file_lock(self._folder / _LOCK, self._timeout_seconds, "writing to")

    async def clear(self) -> int:
        return await self._database.write(clear)

    async def vacuum(self) -> None:
        """See `Store`; readers of other processes that never end keep deleted bytes in the log."""
        await self._database.run_alone(vacuum)

    async def backup(self, path: Path) -> None:
        await asyncio.to_thread(write_backup, self._database.open_connection, path)

    def describe(self) -> Mapping[str, str]:
        return {"back end": "sqlite", "sqlite": apsw.sqlite_lib_version(), "folder": str(self._folder)}

    async def close(self) -> None:
        """See `Store`; the accelerators' files are brought up to date first, and the parts of the full text merged."""
        if self._database.is_closed:
            return
        try:
            if not self._database.is_read_only:
                for accelerator in (*self._accelerators.values(), *self._texts.values()):
                    await self._save(accelerator)
                if await self._database.read(is_merge_due):
                    await self._database.write(merge_all)
        except (OSError, StoreError) as error:
            # A full disk, say. Nothing is lost: what the files lack is read from the database when they are next used.
            _LOGGER.warning("the indexes in %r could not be saved: %s", str(self._folder), error)
        finally:
            await self._database.close()

    async def _save(self, accelerator: Accelerator[Any]) -> None:
        if not await self._database.read(accelerator.is_due):
            return
        with try_file_lock(accelerator.lock_path()) as locked:
            # Whoever holds the lock is saving the same rows; what this process would add is replayed on open.
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
    """Return which embedding fills a store: note it in a new one, refuse another in one that is filled already."""
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
    check_embedding(connection, embedding)
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
    version = data_version(connection) + 1
    if changeset.expected_version not in (None, version - 1):
        raise StaleChangesetError("something was committed since the changeset was computed; compute it again")
    connection.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))
    write_records(connection, changeset, keys, version)
    write_curations(connection, changeset, version)
    write_names(connection, changeset, keys)
    write_graph(connection, changeset, keys)
    write_vectors(connection, changeset, keys, version)
    write_texts(connection, changeset, keys, version)
    merge_step(connection, version)
    write_outbox(connection, changeset, version)
    drop_answers(connection)
    forget_keys(connection, _unused(changeset, removed, keys))
    return version, keys


def _unused(changeset: Changeset, removed: list[str], keys: Mapping[str, int]) -> set[int]:
    kept = {item.id for item in chain(changeset.documents, changeset.chunks, changeset.entities, changeset.relations)}
    # What a person deleted is in no fold, but is still mentioned.
    counted = chain(changeset.entity_evidence, changeset.relation_evidence)
    kept.update(item.id for item in counted if item.mention_count)
    return {keys[id_] for id_ in removed if id_ in keys and id_ not in kept}


def _stats(connection: apsw.Connection, bytes_on_disk: int) -> Stats:
    documents = dict(fetch(connection, "SELECT status, count(*) FROM document GROUP BY status"))
    tables = ("chunk", "entity_degree", "relation", "reply")
    counts = [int(fetch_value(connection, f"SELECT count(*) FROM {table}")) for table in tables]
    statuses = {DocumentStatus(status): count for status, count in documents.items()}
    chunks, entities, relations, replies = counts
    return Stats(statuses, chunks, entities, relations, replies, data_version(connection), bytes_on_disk)
