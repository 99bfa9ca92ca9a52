"""Whole-workspace reads of the embedded store, and its own faults: pages, degrees, indexes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import starmap

import apsw

from heliograph.errors import StoreDamaged
from heliograph.models import EntityMention, RelationMention
from heliograph.stores.base import Damage, Inspection, ScanKind, digest_terms
from heliograph.stores.changeset import Collection
from heliograph.stores.sqlite.database import (
    LOST_COMMITS,
    Database,
    data_version,
    fetch,
    fetch_value,
    find_keys,
    find_known_ids,
)
from heliograph.stores.sqlite.graph import rebuild_names
from heliograph.stores.sqlite.page_checks import damaged_pages, has_checksums
from heliograph.stores.sqlite.records import read_relation_mention
from heliograph.stores.sqlite.salvage import salvage
from heliograph.stores.sqlite.schema import FILL_WORDS
from heliograph.stores.sqlite.search import SEARCHED, TextAccelerator, VectorAccelerator, log_changes

_TABLES: Mapping[ScanKind, str] = {
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
        *((table, "key") for table in _TABLES.values()),
        *_MENTIONS.values(),
        *(("chunk", "document_key"), ("relation_evidence", "source_key"), ("relation_evidence", "target_key")),
    )
)
_DIFFERENT_TEXTS = """SELECT coalesce(words.key, terms.id) FROM {name}_words AS words
  FULL JOIN {name}_terms_docsize AS terms ON terms.id = words.key WHERE terms.id IS NULL OR words.key IS NULL"""
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
        table, column = _MENTIONS.get(kind) or (_TABLES[kind], "key")
        # A mention whose two ends count for one entity says nothing of a relation and is kept under the entity.
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
            entities = {
                id_: _entity_mentions(connection, id_, keys[id_], offset, limit) for id_ in entity_ids if id_ in keys
            }
            relations = {
                id_: _relation_mentions(connection, keys[id_], offset, limit) for id_ in relation_ids if id_ in keys
            }
            return {id_: found for id_, found in entities.items() if found}, {
                id_: found for id_, found in relations.items() if found
            }

        return await self._database.read(read)

    async def digest_texts(self, collection: Collection) -> dict[str, int]:
        return await self._database.read_afresh(lambda connection: _digest_texts(connection, collection.value))

    async def find_damage(self, *, repair: bool, is_certain: bool = False) -> list[Damage]:
        """See `Inspection`; a repair needs the file for itself."""
        gone = await self._find_lost_commits(repair=repair)
        await self._checkpoint()
        path = self._database.path
        pages = await asyncio.to_thread(damaged_pages, path) if has_checksums(path) else []
        if not pages and not is_certain:
            return gone
        message = f"the pages {_listed(pages)} of {self._database.path.name} are not what was written"
        if not pages:
            message = f"{self._database.path.name} holds what cannot be what was written"
        if not repair:
            return [*gone, Damage(message)]
        lost = await self._database.replace(salvage)
        for _, _, index in self._indexes:
            await self._database.write(index.forget)
        return [*gone, Damage(message, is_repaired=True), *lost]

    async def _find_lost_commits(self, *, repair: bool) -> list[Damage]:
        """Say how many commits were found to be gone when the store was opened; a repair says so for the last time."""
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

    async def _checkpoint(self) -> None:
        """Have the file hold what the log does, as far as others let that happen."""
        if not self._database.is_read_only:
            with suppress(StoreDamaged):
                await self._database.run_alone(lambda connection: connection.wal_checkpoint())

    async def find_faults(self) -> list[str]:
        whole = [(index, await self._database.read(index.is_file_whole)) for _, _, index in self._indexes]
        # A connection that has searched before may take its own remembered pages of the full text for damage.
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


def _entity_mentions(connection: apsw.Connection, id_: str, key: int, offset: int, limit: int) -> list[EntityMention]:
    query = """SELECT identity.id, name, type, description, rank, iif(name_hash IS NULL, '', ?)
               FROM entity_mention CROSS JOIN identity ON identity.key = chunk_key
               WHERE entity_key = ? ORDER BY rank, chunk_key, ordinal LIMIT ? OFFSET ?"""
    return list(starmap(EntityMention, connection.execute(query, (id_, key, limit, offset))))


def _relation_mentions(connection: apsw.Connection, key: int, offset: int, limit: int) -> list[RelationMention]:
    query = """SELECT identity.id, source, target, keywords, description, weight, rank,
                      (SELECT id FROM identity WHERE key = source_key), (SELECT id FROM identity WHERE key = target_key)
               FROM relation_mention CROSS JOIN identity ON identity.key = chunk_key
               WHERE relation_key = ? ORDER BY rank, chunk_key, ordinal LIMIT ? OFFSET ?"""
    return list(starmap(read_relation_mention, connection.execute(query, (key, limit, offset))))


def _digest_texts(connection: apsw.Connection, name: str) -> dict[str, int]:
    sums: dict[int, int] = {}
    connection.execute(f"CREATE VIRTUAL TABLE temp.{name}_rows USING fts5vocab(main, {name}_terms, instance)")
    connection.execute("BEGIN")
    for term, key in connection.execute(f"SELECT term, doc FROM temp.{name}_rows"):
        sums[key] = (sums.get(key, 0) + digest_terms((term,))) % _MODULUS
    for key, terms in connection.execute(f"SELECT key, terms FROM {name}_words"):
        if digest_terms(terms.split()) != sums.get(key, 0):
            # The two hold different words: neither is what it should be, for all that is known here.
            sums[key] = _MODULUS
    return {id_: sums[key] for key, id_ in find_known_ids(connection, sums).items()}


def _listed(pages: Sequence[int]) -> str:
    shown = ", ".join(map(str, pages[:_MOST_SHOWN]))
    return shown if len(pages) <= _MOST_SHOWN else f"{shown} and {len(pages) - _MOST_SHOWN} more"


def _find_faults(connection: apsw.Connection) -> list[str]:
    faults = [
        f"the file is damaged: {row[0]}" for row in fetch(connection, "PRAGMA integrity_check(10)") if row[0] != "ok"
    ]
    wrong = fetch_value(
        connection,
        f"""SELECT count(*) FROM entity_degree LEFT JOIN ({_DEGREES}) AS counted USING (key)
            WHERE entity_degree.degree <> coalesce(counted.degree, 0)""",
    )
    if wrong:
        faults.append(f"the degrees of {wrong} entities differ from their relations")
    for left, right in (("entity", "entity_degree"), ("entity_degree", "entity")):
        alone = fetch_value(connection, f"SELECT count(*) FROM {left} WHERE key NOT IN (SELECT key FROM {right})")
        if alone:
            faults.append(f"{alone} rows of {left} have none in {right}")
    for table, parts in (("document", "document_text"), ("chunk", "chunk_text")):
        alone = fetch_value(connection, f"SELECT count(*) FROM {parts} WHERE key NOT IN (SELECT key FROM {table})")
        if alone:
            faults.append(f"{alone} rows of {parts} belong to no {table}")
    for left, right in (("entity", "entity_name"), ("entity_name", "entity")):
        alone = fetch_value(connection, f"SELECT count(*) FROM {left} WHERE key NOT IN (SELECT key FROM {right})")
        if alone:
            faults.append(f"{alone} rows of {left} have none in {right}, by which entities are found")
    faults += [
        f"{len(keys)} rows of {name} are in only one of the two tables of full text"
        for name, keys in _different_texts(connection).items()
    ]
    unused = fetch_value(connection, f"SELECT count(*) FROM identity WHERE key NOT IN ({_USED_KEYS})")
    if unused:
        faults.append(f"{unused} ids are kept that nothing refers to")
    lost = fetch_value(
        connection, f"SELECT count(*) FROM ({_USED_KEYS}) AS used WHERE key NOT IN (SELECT key FROM identity)"
    )
    if lost:
        faults.append(f"{lost} ids are lost that others refer to; restore a backup, or take the documents in anew")
    return faults


def _different_texts(connection: apsw.Connection) -> dict[str, list[int]]:
    """Return, per collection that has any, the keys of rows that only one of its two tables has."""
    found = {item.value: fetch(connection, _DIFFERENT_TEXTS.format(name=item.value)) for item in SEARCHED}
    return {name: [key for (key,) in rows] for name, rows in found.items() if rows}


def _repair_words(connection: apsw.Connection) -> None:
    """Have the rows of `*_words` that full text has, and tell all processes which ones were put or removed."""
    version = data_version(connection) + 1
    wrong = _different_texts(connection)
    if not wrong:
        return
    for name, keys in wrong.items():
        connection.execute(f"DELETE FROM {name}_words WHERE key NOT IN (SELECT id FROM {name}_terms_docsize)")
        log_changes(connection, f"{name}_terms", version, keys)
    connection.execute(FILL_WORDS)
    connection.execute("UPDATE meta SET value = ? WHERE name = 'data_version'", (version,))


def _repair(connection: apsw.Connection) -> None:
    connection.execute("REINDEX")
    connection.execute("DELETE FROM entity_degree WHERE key NOT IN (SELECT key FROM entity)")
    connection.execute("INSERT OR IGNORE INTO entity_degree SELECT key, 0 FROM entity")
    connection.execute(
        f"""UPDATE entity_degree SET degree = coalesce(
              (SELECT degree FROM ({_DEGREES}) AS counted WHERE counted.key = entity_degree.key), 0)"""
    )
    rebuild_names(connection)
    _repair_words(connection)
    for table, parts in (("document", "document_text"), ("chunk", "chunk_text")):
        connection.execute(f"DELETE FROM {parts} WHERE key NOT IN (SELECT key FROM {table})")
    connection.execute(f"DELETE FROM identity WHERE key NOT IN ({_USED_KEYS})")
