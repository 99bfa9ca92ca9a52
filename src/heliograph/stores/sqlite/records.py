"""Truth in the embedded store: documents and filters of them, chunks, mentions, evidence, rules of names, curations."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, starmap
from typing import Any, TypeVar

import apsw

from heliograph.errors import StaleChangesetError
from heliograph.filters import Equals, Exists, In, OnPath, Range, Scalar, path_keys
from heliograph.ids import SUBJECT_RANKS, mention_entity_id, mention_relation_id, name_to_entity_id
from heliograph.models import (
    AliasMention,
    Batch,
    Chunk,
    Document,
    EntityEvidence,
    EntityMention,
    Extraction,
    NameRules,
    RelationEvidence,
    RelationMention,
)
from heliograph.stores.base import (
    SHOWN_ERRORS,
    CurationPage,
    CurationQuery,
    CurationStore,
    DocumentPage,
    DocumentQuery,
    EntityPlaces,
    RecordsStore,
)
from heliograph.stores.changeset import Changeset
from heliograph.stores.sql import (
    CHUNKS,
    COMPARISONS,
    DOCUMENTS,
    ENTITY_EVIDENCE,
    ENTITY_MENTIONS,
    RELATION_EVIDENCE,
    RELATION_MENTIONS,
    Columns,
    Condition,
    Dialect,
    chunk_details_object,
    curation_content,
    encode,
    from_seconds,
    grouped,
    to_batch,
    to_curation,
    to_rules,
)
from heliograph.stores.sqlite.database import (
    Database,
    IdMemory,
    Row,
    array,
    fetch,
    fetch_one,
    fetch_value,
    find_ids,
    find_keys,
    insert,
    singles,
    upsert,
)

# Reading evidence from the embedded store, and a cache of what was read or written last.
#
# Every other document touches a hub, and reading the hub's first few hundred mentions would be most of that document's
# reads. They are cached together with the version of the evidence, and every use compares that version with the one
# stored, so other processes' writes are seen at once.

E = TypeVar("E", EntityEvidence, RelationEvidence)
M = TypeVar("M", EntityMention, RelationMention, AliasMention)

_ID = "(SELECT id FROM identity WHERE key = {})"
# Mentions as their fields; their chunk comes from `identity`, or is known by its key.
_ENTITY_MENTION, _SAID_OF_ENTITY = (
    ENTITY_MENTIONS.select(
        "entity_mention", chunk_id=chunk, entity_id=f"iif(name_hash IS NULL, '', {_ID.format('entity_key')})"
    )
    for chunk in ("identity.id", "chunk_key")
)
_RELATION_MENTION, _SAID_OF_RELATION = (
    RELATION_MENTIONS.select(
        "relation_mention",
        chunk_id=chunk,
        source_id=f"ifnull({_ID.format('source_key')}, '')",
        target_id=f"ifnull({_ID.format('target_key')}, '')",
    )
    for chunk in ("identity.id", "chunk_key")
)
_OF_ENTITY = f"""SELECT {_ENTITY_MENTION} FROM entity_mention CROSS JOIN identity ON identity.key = chunk_key
                 WHERE entity_key = ? AND rank >= ? ORDER BY rank, chunk_key, ordinal LIMIT ? OFFSET ?"""
_OF_RELATION = f"""SELECT {_RELATION_MENTION} FROM relation_mention CROSS JOIN identity ON identity.key = chunk_key
                   WHERE relation_key = ? AND rank >= ? ORDER BY rank, chunk_key, ordinal LIMIT ? OFFSET ?"""
_ANY_RANK = -(1 << 63)
_PLACE = "entity_key, chunk_key, rank"
# Reads only the start of each mention's row; rows come in the order of the table, the canonical one.
_ALL_PLACES = f"""SELECT {_PLACE} FROM carray(?) AS wanted
                  CROSS JOIN entity_mention ON entity_key = wanted.value"""
_SUBJECT_PLACES = f"""SELECT {_PLACE} FROM entity_mention
                      WHERE entity_key = ? AND rank < ? ORDER BY rank, chunk_key, ordinal LIMIT ?"""
# Evidence with fewer mentions is read about as fast as it is looked up in the cache.
_LEAST_MENTIONS = 4
# Limit over all cached evidence; some 10 MB.
_MOST_MENTIONS = 32_768


class EvidenceMemory:
    """An LRU cache of evidence by id; thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, EntityEvidence | RelationEvidence] = OrderedDict()
        self._mentions = 0
        self._lock = threading.Lock()

    def read_entities(self, connection: apsw.Connection, ids: Sequence[str], leading: int) -> list[EntityEvidence]:
        """Return the stored evidence of these entities, with the first `leading` mentions."""
        stored = _counted(connection, "entity", ids, ENTITY_EVIDENCE.without("id"))
        read, read_on = partial(_read_entities, connection), partial(entity_mentions, connection)
        return self._complete(EntityEvidence, stored, leading, read, read_on)

    def read_relations(self, connection: apsw.Connection, ids: Sequence[str], leading: int) -> list[RelationEvidence]:
        """Return the stored evidence of these relations, with the first `leading` mentions."""
        columns = "source_key", "target_key", *RELATION_EVIDENCE.without("id", "source_id", "target_id")
        stored = _counted(connection, "relation", ids, columns)
        read, read_on = partial(_read_relations, connection), partial(relation_mentions, connection)
        return self._complete(RelationEvidence, stored, leading, read, read_on)

    def note(self, changeset: Changeset, version: int) -> None:
        """Cache the evidence of a changeset that was committed as `version`."""
        for evidence in chain(changeset.entity_evidence, changeset.relation_evidence):
            if len(evidence.leading) >= _LEAST_MENTIONS:
                self._remember(replace(evidence, version=version))

    def _complete(
        self,
        kind: type[E],
        stored: Sequence[Row],
        leading: int,
        read: Callable[[Sequence[Row], int], dict[str, E]],
        read_on: Callable[..., Sequence[Any]],
    ) -> list[E]:
        """Return evidence, given its rows of `_counted`, and cache what had to be read.

        After mentions were removed, fewer are cached than wanted: only the missing ones are read.
        """
        recalled = (self._recall(row[0], row[3]) for row in stored)
        found = {item.id: item for item in recalled if isinstance(item, kind)}
        read_now = read([row for row in stored if row[0] not in found], leading)
        for id_, key, *_ in stored:
            if (item := found.get(id_)) and (missing := min(leading, item.mention_count) - len(item.leading)) > 0:
                last = item.leading[-1].rank
                known = {mention for mention in item.leading if mention.rank == last}
                further = read_on(key, missing + len(known), least_rank=last)
                more = [mention for mention in further if mention not in known][:missing]
                read_now[id_] = replace(item, leading=(*item.leading, *more))
        for id_, evidence in read_now.items():
            self._remember(evidence)
            found[id_] = evidence
        return [
            item if len(item.leading) <= leading else replace(item, leading=item.leading[:leading])
            for item in (found[row[0]] for row in stored)
        ]

    def _recall(self, id_: str, version: int) -> EntityEvidence | RelationEvidence | None:
        with self._lock:
            evidence = self._known.get(id_)
            if evidence is None or evidence.version != version:
                return None
            self._known.move_to_end(id_)
            return evidence

    def _remember(self, evidence: EntityEvidence | RelationEvidence) -> None:
        if len(evidence.leading) < _LEAST_MENTIONS:
            return
        with self._lock:
            before = self._known.pop(evidence.id, None)
            # A reader may return with evidence that a writer has replaced meanwhile.
            kept = before if before is not None and before.version > evidence.version else evidence
            self._known[evidence.id] = kept
            self._mentions += len(kept.leading) - (len(before.leading) if before else 0)
            while self._mentions > _MOST_MENTIONS:
                _, oldest = self._known.popitem(last=False)
                self._mentions -= len(oldest.leading)


def to_places(id_: str, mention_count: int, rows: Sequence[Row], chunk_ids: Mapping[int, str]) -> EntityPlaces:
    """Return where an entity is mentioned, given rows of its key, a chunk's key and a rank, in order."""
    subjects = sum([rank < SUBJECT_RANKS for _, _, rank in rows])
    return EntityPlaces(id_, mention_count, tuple([chunk_ids[chunk] for _, chunk, _ in rows]), subjects)


def entity_mentions(
    connection: apsw.Connection, key: int, limit: int, offset: int = 0, *, least_rank: int = _ANY_RANK
) -> list[EntityMention]:
    """Return the mentions of an entity in canonical order, from a rank on."""
    return list(starmap(EntityMention, fetch(connection, _OF_ENTITY, (key, least_rank, limit, offset))))


def relation_mentions(
    connection: apsw.Connection, key: int, limit: int, offset: int = 0, *, least_rank: int = _ANY_RANK
) -> list[RelationMention]:
    """Return the mentions of a relation in canonical order, from a rank on."""
    rows = fetch(connection, _OF_RELATION, (key, least_rank, limit, offset))
    return [RELATION_MENTIONS.record(row) for row in rows]


def _counted(connection: apsw.Connection, kind: str, ids: Sequence[str], columns: Iterable[str] = ()) -> list[Row]:
    """Return id, key, mentions, version, and columns of the stored evidence of these entities or relations."""
    selected = ", ".join(("identity.id", "key", "mention_count", "version", *columns))
    query = f"""SELECT {selected} FROM carray(?) AS wanted
                CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN {kind}_evidence USING (key)"""
    return fetch(connection, query, (array(ids),)) if ids else []


def _read_entities(connection: apsw.Connection, stored: Sequence[Row], leading: int) -> dict[str, EntityEvidence]:
    """Return the evidence of entities, by id, given their rows of `_counted`.

    One statement reads all entities that have no more mentions than wanted; each other one has a statement of its own,
    which stops when enough are read.
    """
    mentions: dict[int, list[EntityMention]] = {key: [] for _, key, count, *_ in stored if count <= leading}
    if mentions and leading:
        # A key's mentions come in the order of the table's primary key, which is the canonical one.
        query = f"""SELECT entity_key, {_ENTITY_MENTION} FROM carray(?) AS wanted
                    CROSS JOIN entity_mention ON entity_key = wanted.value
                    CROSS JOIN identity ON identity.key = chunk_key"""
        for key, *said in fetch(connection, query, (array(list(mentions)),)):
            mentions[key].append(EntityMention(*said))
    for _, key, count, *_ in stored:
        if count > leading > 0:
            mentions[key] = entity_mentions(connection, key, leading)
    return {
        id_: ENTITY_EVIDENCE.record((id_, *counts), leading=tuple(mentions.get(key, ())))
        for id_, key, _, _, *counts in stored
    }


def _read_relations(connection: apsw.Connection, stored: Sequence[Row], leading: int) -> dict[str, RelationEvidence]:
    """Return the evidence of relations, by id, given their rows of `_counted`; read like that of entities."""
    mentions: dict[int, list[RelationMention]] = {row[1]: [] for row in stored}
    short = [row[1] for row in stored if row[2] <= leading]
    if short:
        query = f"""SELECT relation_key, {_RELATION_MENTION} FROM carray(?) AS wanted
                    CROSS JOIN relation_mention ON relation_key = wanted.value
                    CROSS JOIN identity ON identity.key = chunk_key"""
        for key, *said in fetch(connection, query, (array(short),)):
            mentions[key].append(RELATION_MENTIONS.record(said))
    for _, key, count, *_ in stored:
        if count > leading > 0:
            mentions[key] = relation_mentions(connection, key, leading)
    ids = find_ids(connection, {end for row in stored for end in row[4:6]})
    return {
        id_: RELATION_EVIDENCE.record((id_, ids[source], ids[target], *counts), leading=tuple(mentions[key]))
        for id_, key, _, _, source, target, *counts in stored
    }


# Rules of names and the log of curations in the embedded store.
#
# A curation's content is one JSON text that is never changed; `curation_subject` finds it by the entities it names.
# The rules of a name are a row of counts over alias mentions together with the active curations that name it; the row
# stays when its counts are removed, so that a later reader sees by its version that it has changed. In a database
# without curations and aliases these tables are empty, and cost nothing.

_CURATION = "sequence, curation.id, kind, content, author, created_at, undone_by, undone_at"
_ACTIVE = f"""SELECT curation_subject.entity_id, {_CURATION} FROM carray(?) AS wanted
              CROSS JOIN curation_subject ON curation_subject.entity_id = wanted.value
              CROSS JOIN curation USING (sequence) WHERE undone_at IS NULL ORDER BY sequence"""
_HEX_DIGITS = 15


class SqliteCurationStore(CurationStore):
    """Rules and curations in tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_rules(self, ids: Sequence[str]) -> list[NameRules]:
        if not ids:
            return []
        query = """SELECT id, names, aliases, version FROM carray(?) AS wanted
                   CROSS JOIN name_rules ON name_rules.id = wanted.value"""

        def read(connection: apsw.Connection) -> list[NameRules]:
            rows = fetch(connection, query, (array(ids),))
            active = fetch(connection, _ACTIVE, (array([row[0] for row in rows]),)) if rows else []
            return to_rules(rows, active, from_seconds)

        return await self._database.read(read)

    async def find_curations(self, query: CurationQuery) -> CurationPage:
        tables = "curation_subject AS subject CROSS JOIN curation USING (sequence)"
        condition, values = DIALECT.where_curations(query)
        where = f"FROM {'curation' if query.entity_id is None else tables} WHERE {condition}"
        direction = "DESC" if query.descending else "ASC"
        select = f"SELECT {_CURATION} {where} ORDER BY sequence {direction} LIMIT ? OFFSET ?"

        def find(connection: apsw.Connection) -> CurationPage:
            rows = fetch(connection, select, (*values, query.limit, query.offset))
            # Arrays can be read only once: the second statement gets its own.
            total = fetch_value(connection, f"SELECT count(*) {where}", DIALECT.where_curations(query)[1])
            return CurationPage(tuple(to_curation(row, from_seconds) for row in rows), int(total))

        return await self._database.read(find)

    async def find_mentioning_chunks(self, ids: Sequence[str]) -> dict[str, str]:
        if not ids:
            return {}
        query = """
          WITH found (chunk_key) AS (
            SELECT chunk_key FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value
            CROSS JOIN entity_mention ON entity_key = identity.key
            UNION
            SELECT chunk_key FROM carray(?) AS wanted
            CROSS JOIN entity_mention INDEXED BY entity_mention_by_name ON name_hash = wanted.value
          )
          SELECT identity.id, owner.id FROM found CROSS JOIN chunk ON chunk.key = chunk_key
          CROSS JOIN identity ON identity.key = chunk.key CROSS JOIN identity AS owner ON owner.key = document_key"""
        hashes = [_id_hash(id_) for id_ in ids]
        return dict(await self._database.fetch(query, (array(ids), array(hashes))))


def name_hash(name: str) -> int:
    """Return the hash by which a name is found: that of the id that the name alone stands for."""
    return _id_hash(name_to_entity_id(name))


def write_curations(connection: apsw.Connection, changeset: Changeset, version: int) -> None:
    """Apply the curations and rules of a changeset that is committed as `version`."""
    query = """INSERT INTO curation VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
               undone_by = excluded.undone_by, undone_at = excluded.undone_at RETURNING sequence"""
    for item in changeset.curations:
        row = (
            *(item.sequence or None, item.id, item.kind.value, curation_content(item), item.author),
            *(item.created_at.timestamp(), item.undone_by, item.undone_at.timestamp() if item.undone_at else None),
        )
        sequence = fetch_value(connection, query, row)
        subjects = ((id_, sequence) for id_ in dict.fromkeys(item.entity_ids))
        connection.executemany("INSERT OR IGNORE INTO curation_subject VALUES (?, ?)", subjects)
    rows = ((item.id, encode(item.names), encode(item.aliases), version) for item in changeset.name_rules)
    connection.executemany("INSERT OR REPLACE INTO name_rules VALUES (?, ?, ?, ?)", rows)


def _id_hash(id_: str) -> int:
    return int(id_[-_HEX_DIGITS:], 16)


_ORIGINAL = "ifnull((SELECT original.id FROM identity AS original WHERE original.key = document.twin_key), '')"
_DOCUMENT = DOCUMENTS.select("document", id="identity.id", twin_of=_ORIGINAL)
_CHUNK = CHUNKS.select("chunk", id="identity.id", document_id="owner.id", text="chunk_text.text")
_CHUNK_PARTS = "CROSS JOIN chunk_text USING (key) CROSS JOIN identity AS owner ON owner.key = chunk.document_key"
_DOCUMENTS_BY_ID = f"""SELECT {_DOCUMENT} FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value
                      CROSS JOIN document USING (key)"""
# A twin's text is that of its original.
_TEXT_BY_DOCUMENT = """SELECT text FROM identity CROSS JOIN document USING (key)
                      JOIN document_text ON document_text.key IN (document.key, document.twin_key)
                      WHERE identity.id = ? ORDER BY document_text.key = document.key DESC LIMIT 1"""
_CHUNKS_BY_ID = f"""SELECT {_CHUNK} FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value
                   CROSS JOIN chunk USING (key) {_CHUNK_PARTS}"""
_CHUNKS_BY_DOCUMENT = f"""SELECT {_CHUNK} FROM chunk CROSS JOIN identity USING (key) {_CHUNK_PARTS}
                         WHERE chunk.document_key = (SELECT key FROM identity WHERE id = ?) ORDER BY position"""
_DOCUMENT_BY_CHUNK = """SELECT identity.id, owner.id FROM carray(?) AS wanted
                          CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN chunk USING (key)
                          CROSS JOIN identity AS owner ON owner.key = chunk.document_key"""
_LANGUAGE_BY_CHUNK = """SELECT identity.id, CAST(document.metadata ->> 'language' AS TEXT) FROM carray(?) AS wanted
                          CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN chunk USING (key)
                          CROSS JOIN document ON document.key = chunk.document_key
                          WHERE document.metadata ->> 'language' IS NOT NULL"""
_TWINS_BY_CHUNK = """SELECT identity.id, twin_identity.id, twin.source FROM carray(?) AS wanted
                           CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN chunk USING (key)
                           CROSS JOIN document AS twin ON twin.twin_key = chunk.document_key
                           CROSS JOIN identity AS twin_identity ON twin_identity.key = twin.key
                           WHERE twin.status IN ('processed', 'partial') ORDER BY twin_identity.id"""
_TEXT_KEYS_BY_DOCUMENT = """SELECT identity.id, document_text.key FROM carray(?) AS wanted
                            CROSS JOIN identity ON identity.id = wanted.value CROSS JOIN document USING (key)
                            JOIN document_text ON document_text.key IN (document.key, document.twin_key)
                            ORDER BY document_text.key = document.key"""
_MOST_BYTES_A_CHARACTER = 4
_SORTS = {"created_at": "created_at", "updated_at": "updated_at", "source": "source", "id": "identity.id"}


class SqliteRecordsStore(RecordsStore):
    """Truth in normalised tables."""

    def __init__(self, database: Database, evidence: EvidenceMemory, ids: IdMemory) -> None:
        self._database = database
        self._evidence = evidence
        self._ids = ids

    async def get_documents(self, ids: Sequence[str]) -> list[Document]:
        # SQLite accepts no NUL in an array, and no stored id has one.
        ids = [id_ for id_ in ids if "\0" not in id_]
        if not ids:
            return []
        return await self._database.fetch_as(_document, _DOCUMENTS_BY_ID, (array(ids),))

    async def find_documents(self, query: DocumentQuery) -> DocumentPage:
        direction = "DESC" if query.descending else "ASC"
        where, sort = DIALECT.where(query)[0], _SORTS[query.sort]

        def values() -> list[Any]:
            # Arrays can be read only once: each use gets its own.
            return DIALECT.where(query)[1]

        def select(connection: apsw.Connection, more: str = "", bounds: Sequence[Any] = ()) -> list[Row]:
            return fetch(
                connection,
                f"""SELECT {_DOCUMENT} FROM document JOIN identity USING (key) WHERE {where} {more}
                    ORDER BY {sort} {direction}, identity.id LIMIT ? OFFSET ?""",
                (*values(), *bounds, query.limit, query.offset),
            )

        def count(connection: apsw.Connection) -> int:
            return int(fetch_value(connection, f"SELECT count(*) FROM document WHERE {where}", tuple(values())))

        def find(connection: apsw.Connection) -> DocumentPage:
            rows = select(connection)
            found, total = tuple(map(_document, rows)), query.offset + len(rows)
            if len(rows) == query.limit or (query.offset and not rows):
                total = count(connection)
            return DocumentPage(found, total)

        def find_latest(connection: apsw.Connection) -> DocumentPage:
            # Take the `most` last inserted documents: none of the latest is older than the oldest of these. The last
            # inserted are mostly the latest, so few are left to be sorted.
            total, most = count(connection), query.offset + query.limit
            if total <= most:
                return find(connection)
            bound = f"""AND {sort} >= (SELECT min(place) FROM (SELECT {sort} AS place FROM document NOT INDEXED
                        WHERE {where} ORDER BY key DESC LIMIT ?))"""
            return DocumentPage(tuple(map(_document, select(connection, bound, (*values(), most)))), total)

        # Only where the status is the only condition, so that counting is cheap.
        others = (query.track_id, query.source_prefix, query.filter, query.twin_of, query.content_hashes or None)
        has_time = query.sort in ("created_at", "updated_at")
        is_latest = query.descending and has_time and all(other is None for other in others)
        return await self._database.read(find_latest if is_latest else find)

    async def get_document_text(self, document_id: str) -> str | None:
        row = await self._database.read(lambda connection: fetch_one(connection, _TEXT_BY_DOCUMENT, (document_id,)))
        return row[0] if row else None

    async def list_batches(self, offset: int, limit: int) -> list[Batch]:
        query = """SELECT track_id, sum(chunk_count), sum(input_tokens), sum(output_tokens),
                          min(created_at), max(updated_at) AS changed_at
                   FROM document WHERE track_id <> '' GROUP BY track_id ORDER BY changed_at DESC, track_id
                   LIMIT ? OFFSET ?"""
        statuses = "SELECT status, count(*) FROM document WHERE track_id = ? GROUP BY status"
        errors = "SELECT source, error FROM document WHERE track_id = ? AND error <> '' ORDER BY source LIMIT ?"

        def read(connection: apsw.Connection) -> list[Batch]:
            return [
                to_batch(
                    *(row, dict(fetch(connection, statuses, row[:1]))),
                    *(fetch(connection, errors, (row[0], SHOWN_ERRORS)), from_seconds),
                )
                for row in fetch(connection, query, (limit, offset))
            ]

        return await self._database.read(read)

    async def get_openings(self, document_ids: Sequence[str], length: int) -> dict[str, str]:
        """Of a long text, only the pages that hold its start are read."""
        if not document_ids:
            return {}

        def read(connection: apsw.Connection) -> dict[str, str]:
            found: dict[str, str] = {}
            for id_, key in dict(fetch(connection, _TEXT_KEYS_BY_DOCUMENT, (array(document_ids),))).items():
                with connection.blob_open("main", "document_text", "text", key, False) as text:
                    start = text.read(min(text.length(), length * _MOST_BYTES_A_CHARACTER))
                    # The cut may fall within a character.
                    found[id_] = start.decode("utf-8", "ignore")[:length]
            return found

        return await self._database.read(read)

    async def get_chunks(self, ids: Sequence[str]) -> list[Chunk]:
        if not ids:
            return []
        return await self._database.fetch_as(CHUNKS.record, _CHUNKS_BY_ID, (array(ids),))

    async def get_document_chunks(self, document_id: str) -> list[Chunk]:
        return await self._database.fetch_as(CHUNKS.record, _CHUNKS_BY_DOCUMENT, (document_id,))

    async def get_document_ids(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        return dict(await self._database.fetch(_DOCUMENT_BY_CHUNK, (array(chunk_ids),))) if chunk_ids else {}

    async def get_languages(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        return dict(await self._database.fetch(_LANGUAGE_BY_CHUNK, (array(chunk_ids),))) if chunk_ids else {}

    async def get_sources(self, chunk_ids: Sequence[str]) -> dict[str, str]:

        def read(connection: apsw.Connection) -> dict[str, str]:
            known = self._ids.at(connection)
            keys = known.find_keys(connection, chunk_ids)
            sources = known.find_sources(connection, keys.values())
            return {id_: sources[key] for id_, key in keys.items() if key in sources}

        return await self._database.read(read) if chunk_ids else {}

    async def get_twins(self, chunk_ids: Sequence[str]) -> dict[str, tuple[tuple[str, str], ...]]:
        return grouped(await self._database.fetch(_TWINS_BY_CHUNK, (array(chunk_ids),))) if chunk_ids else {}

    async def get_extractions(self, chunk_ids: Sequence[str]) -> list[Extraction]:

        def read(connection: apsw.Connection) -> list[Extraction]:
            keys = find_keys(connection, chunk_ids)
            found = _extractions(connection, {keys[id_]: id_ for id_ in chunk_ids if id_ in keys})
            return [found[id_] for id_ in chunk_ids if id_ in found]

        return await self._database.read(read)

    async def get_entity_mentions(self, chunk_ids: Sequence[str]) -> dict[str, tuple[EntityMention, ...]]:

        def read(connection: apsw.Connection) -> dict[str, tuple[EntityMention, ...]]:
            ids = {key: id_ for id_, key in find_keys(connection, chunk_ids).items()}
            return _entity_mentions(connection, ids) if ids else {}

        return await self._database.read(read)

    async def get_evidence(
        self, entity_ids: Sequence[str], relation_ids: Sequence[str], leading: int
    ) -> tuple[list[EntityEvidence], list[RelationEvidence]]:

        def read(connection: apsw.Connection) -> tuple[list[EntityEvidence], list[RelationEvidence]]:
            return (
                self._evidence.read_entities(connection, entity_ids, leading),
                self._evidence.read_relations(connection, relation_ids, leading),
            )

        return await self._database.read(read)

    async def get_document_aliases(self, document_ids: Sequence[str]) -> dict[str, list[AliasMention]]:
        query = """SELECT identity.id, name, alias FROM chunk CROSS JOIN alias_mention ON chunk_key = chunk.key
                   CROSS JOIN identity ON identity.key = chunk.key
                   WHERE document_key = ? ORDER BY position, chunk_key, ordinal"""

        def read(connection: apsw.Connection) -> dict[str, list[AliasMention]]:
            found = {
                id_: [AliasMention(*row) for row in fetch(connection, query, (key,))]
                for id_, key in find_keys(connection, document_ids).items()
            }
            return {id_: aliases for id_, aliases in found.items() if aliases}

        return await self._database.read(read)

    async def get_mention_places(self, entity_ids: Sequence[str], most: int) -> list[EntityPlaces]:

        def read(connection: apsw.Connection) -> list[EntityPlaces]:
            stored = _counted(connection, "entity", entity_ids)
            mentions: dict[int, list[Row]] = {key: [] for _, key, *_ in stored}
            rare = [key for _, key, count, _ in stored if count <= most]
            for row in fetch(connection, _ALL_PLACES, (array(rare),)) if rare else ():
                mentions[row[0]].append(row)
            for _, key, count, _ in stored:
                if count > most:
                    mentions[key] = fetch(connection, _SUBJECT_PLACES, (key, SUBJECT_RANKS, most))
            chunks = {chunk for rows in mentions.values() for _, chunk, _ in rows}
            chunk_ids = self._ids.at(connection).find_ids(connection, chunks)
            return [to_places(id_, count, mentions[key][:most], chunk_ids) for id_, key, count, _ in stored]

        return await self._database.read(read)


_EXTRACTION = Columns(Extraction, without=["entities", "relations", "aliases"])


def _document(row: Row) -> Document:
    return DOCUMENTS.record(row, from_seconds)


# Read by chunks, in any order; those of a chunk in the order in which they were written.
_ENTITIES_READ = f"""SELECT {_SAID_OF_ENTITY} FROM carray(?) AS wanted
                     CROSS JOIN entity_mention INDEXED BY entity_mention_by_chunk
                     ON chunk_key = wanted.value ORDER BY ordinal"""
_RELATIONS_READ = f"""SELECT {_SAID_OF_RELATION} FROM carray(?) AS wanted
                      CROSS JOIN relation_mention INDEXED BY relation_mention_by_chunk
                      ON chunk_key = wanted.value ORDER BY ordinal"""
_ALIASES_READ = """SELECT chunk_key, name, alias FROM carray(?) AS wanted
                   CROSS JOIN alias_mention ON chunk_key = wanted.value ORDER BY ordinal"""
_READ = f"""SELECT {_EXTRACTION.select("extraction", chunk_id="chunk_key")} FROM carray(?) AS wanted
            CROSS JOIN extraction ON chunk_key = wanted.value"""


def _entity_mentions(connection: apsw.Connection, chunks: Mapping[int, str]) -> dict[str, tuple[EntityMention, ...]]:
    """Return the entity mentions of these chunks, at least one; by chunk id, given the id per key."""
    return _by_chunk(lambda row: EntityMention(*row), connection, _ENTITIES_READ, chunks)


def _by_chunk(
    make: Callable[[Row], M], connection: apsw.Connection, query: str, chunks: Mapping[int, str]
) -> dict[str, tuple[M, ...]]:
    found: dict[str, list[M]] = {id_: [] for id_ in chunks.values()}
    for key, *said in fetch(connection, query, (array(chunks),)):
        id_ = chunks[key]
        found[id_].append(make((id_, *said)))
    return {id_: tuple(mentions) for id_, mentions in found.items()}


def _extractions(connection: apsw.Connection, chunks: Mapping[int, str]) -> dict[str, Extraction]:
    """Return the extractions of these chunks, where there are any; by chunk id, given the id per key."""
    if not chunks:
        return {}
    entities = _entity_mentions(connection, chunks)
    relations = _by_chunk(RELATION_MENTIONS.record, connection, _RELATIONS_READ, chunks)
    aliases = _by_chunk(lambda row: AliasMention(*row), connection, _ALIASES_READ, chunks)
    read: dict[str, Extraction] = {}
    for key, *row in fetch(connection, _READ, (array(chunks),)):
        id_ = chunks[key]
        read[id_] = _EXTRACTION.record(
            (id_, *row), entities=entities[id_], relations=relations[id_], aliases=aliases[id_]
        )
    return read


# Writing truth, within the transaction of a commit.

# Columns of these tables themselves, beside the keys of ids.
_OF_DOCUMENT = Columns(Document, without=["id", "twin_of"])
# `Document.version`, as it is stored.
_VERSION = ("content_hash", "status", "chunk_count", "updated_at")
_OF_CHUNK = Columns(Chunk, without=["id", "document_id", "text"])
_OF_ENTITY_MENTION = Columns(EntityMention, without=["chunk_id", "entity_id"])
_OF_RELATION_MENTION = Columns(RelationMention, without=["chunk_id", "source_id", "target_id"])
_OF_ENTITY_EVIDENCE = Columns(EntityEvidence, without=["id", "leading", "version"])
_OF_RELATION_EVIDENCE = Columns(RelationEvidence, without=["id", "source_id", "target_id", "leading", "version"])
_PUT_DOCUMENT = upsert("document", ["key", "twin_key", *_OF_DOCUMENT.types], kept=["created_at"])
_PUT_CHUNK = upsert("chunk", ["key", "document_key", *_OF_CHUNK.types])
_PUT_ENTITY_MENTION = insert(
    "entity_mention", ["entity_key", "chunk_key", "ordinal", "name_hash", *_OF_ENTITY_MENTION.types]
)
_PUT_RELATION_MENTION = insert(
    "relation_mention",
    ["relation_key", "chunk_key", "ordinal", "source_key", "target_key", *_OF_RELATION_MENTION.types],
)
_PUT_EXTRACTION = insert("extraction", ["chunk_key", *_EXTRACTION.without("chunk_id")], verb="INSERT OR REPLACE")
_PUT_ENTITY_EVIDENCE = upsert("entity_evidence", ["key", "version", *_OF_ENTITY_EVIDENCE.types])
_PUT_RELATION_EVIDENCE = upsert(
    "relation_evidence", ["key", "source_key", "target_key", "version", *_OF_RELATION_EVIDENCE.types]
)


def mentioned_ids(changeset: Changeset) -> Iterator[str]:
    """Yield every id that writing a changeset refers to; an id may come more than once."""
    for document in changeset.documents:
        yield document.id
        if document.twin_of:
            yield document.twin_of
    for chunk in changeset.chunks:
        yield chunk.id
        yield chunk.document_id
    for extraction in changeset.extractions:
        yield extraction.chunk_id
        yield from map(mention_entity_id, extraction.entities)
        yield from map(mention_relation_id, extraction.relations)
        yield from (id_ for mention in extraction.relations for id_ in (mention.source_id, mention.target_id) if id_)
    yield from (evidence.id for evidence in changeset.entity_evidence)
    for evidence in changeset.relation_evidence:
        yield from (evidence.id, evidence.source_id, evidence.target_id)
    yield from (entity.id for entity in changeset.entities)
    for relation in changeset.relations:
        yield from (relation.id, relation.source_id, relation.target_id)
    for batch in changeset.vectors.values():
        yield from batch.ids
    for entries in changeset.texts.values():
        yield from (entry.id for entry in entries)


def check_expectations(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    """Compare the versions a changeset was computed from with the stored ones, given the keys of known ids.

    Raises:
        StaleChangesetError: A version differs.
    """
    known = [keys[id_] for id_ in changeset.expected if id_ in keys]
    versions: dict[int, int] = {}
    if known:
        for table in ("entity_evidence", "relation_evidence"):
            query = f"SELECT key, version FROM carray(?) AS wanted CROSS JOIN {table} ON key = wanted.value"
            versions.update(connection.execute(query, (array(known),)))
    for id_, version in changeset.expected.items():
        if versions.get(keys.get(id_, 0), 0) != version:
            raise StaleChangesetError(f"the evidence of {id_!r} has changed since it was read; read it and try again")
    if rules := changeset.expected_rules:
        query = "SELECT id, version FROM carray(?) AS wanted CROSS JOIN name_rules ON name_rules.id = wanted.value"
        stored_rules = dict(fetch(connection, query, (array(rules),)))
        for id_, version in rules.items():
            if stored_rules.get(id_, 0) != version:
                raise StaleChangesetError(
                    f"the rules of the name {id_!r} have changed since they were read; read them again"
                )
    known = [keys[id_] for id_ in changeset.expected_documents if id_ in keys]
    stored: dict[int, tuple[Any, ...]] = {}
    if known:
        query = f"SELECT key, {', '.join(_VERSION)} FROM carray(?) AS wanted CROSS JOIN document ON key = wanted.value"
        stored = {key: tuple(version) for key, *version in connection.execute(query, (array(known),))}
    for id_, document in changeset.expected_documents.items():
        if stored.get(keys.get(id_, 0)) != (None if document is None else _version(document)):
            raise StaleChangesetError(f"the document {id_!r} has changed since it was read; read it and try again")


def _version(document: Document) -> tuple[str, str, int, float]:
    content_hash, status, chunk_count, updated_at = document.version
    return content_hash, status.value, chunk_count, updated_at.timestamp()


def write_records(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int], version: int) -> None:
    """Apply the truth of a changeset; removals first, so that a changeset may replace what it removes."""
    removed = [keys[id_] for id_ in changeset.removed_documents if id_ in keys]
    for table in ("document", "document_text"):
        connection.executemany(f"DELETE FROM {table} WHERE key = ?", singles(removed))
    removed = [keys[id_] for id_ in changeset.removed_chunks if id_ in keys]
    for table in ("chunk", "chunk_text"):
        connection.executemany(f"DELETE FROM {table} WHERE key = ?", singles(removed))
    for table in ("extraction", "entity_mention", "relation_mention", "alias_mention"):
        connection.executemany(f"DELETE FROM {table} WHERE chunk_key = ?", singles(removed))
    documents = (
        (
            *(keys[item.id], keys[item.twin_of] if item.twin_of else None),
            *_OF_DOCUMENT.values(item, datetime.timestamp),
        )
        for item in changeset.documents
    )
    connection.executemany(_PUT_DOCUMENT, documents)
    texts = ((keys[id_], text) for id_, text in changeset.document_texts.items())
    connection.executemany("INSERT OR REPLACE INTO document_text VALUES (?, ?)", texts)
    dropped = (keys[id_] for id_ in changeset.removed_texts)
    connection.executemany("DELETE FROM document_text WHERE key = ?", singles(dropped))
    chunks = ((keys[item.id], keys[item.document_id], *_OF_CHUNK.values(item)) for item in changeset.chunks)
    connection.executemany(_PUT_CHUNK, chunks)
    texts = ((keys[item.id], item.text) for item in changeset.chunks)
    connection.executemany("INSERT OR REPLACE INTO chunk_text VALUES (?, ?)", texts)
    _write_extractions(connection, changeset.extractions, keys)
    _write_evidence(connection, changeset, keys, version)


def _write_extractions(connection: apsw.Connection, extractions: Sequence[Extraction], keys: Mapping[str, int]) -> None:
    chunks = [keys[item.chunk_id] for item in extractions]
    of_chunks = list(zip(chunks, extractions, strict=True))
    read = ((chunk, *_EXTRACTION.values(extraction)[1:]) for chunk, extraction in of_chunks)
    connection.executemany(_PUT_EXTRACTION, read)
    for table in ("entity_mention", "relation_mention", "alias_mention"):
        connection.executemany(f"DELETE FROM {table} WHERE chunk_key = ?", singles(chunks))
    entities = (
        (
            *(keys[mention_entity_id(item)], chunk, ordinal, name_hash(item.name) if item.entity_id else None),
            *_OF_ENTITY_MENTION.values(item),
        )
        for chunk, extraction in of_chunks
        for ordinal, item in enumerate(extraction.entities)
    )
    connection.executemany(_PUT_ENTITY_MENTION, entities)
    relations = (
        (
            *(keys[mention_relation_id(item)], chunk, ordinal),
            *(keys[id_] if id_ else None for id_ in (item.source_id, item.target_id)),
            *_OF_RELATION_MENTION.values(item),
        )
        for chunk, extraction in of_chunks
        for ordinal, item in enumerate(extraction.relations)
    )
    connection.executemany(_PUT_RELATION_MENTION, relations)
    aliases = (
        (chunk, ordinal, item.name, item.alias)
        for chunk, extraction in of_chunks
        for ordinal, item in enumerate(extraction.aliases)
    )
    connection.executemany("INSERT INTO alias_mention VALUES (?, ?, ?, ?)", aliases)


def _write_evidence(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int], version: int) -> None:
    entities = (
        (keys[item.id], version, *_OF_ENTITY_EVIDENCE.values(item))
        for item in changeset.entity_evidence
        if item.mention_count
    )
    connection.executemany(_PUT_ENTITY_EVIDENCE, entities)
    relations = (
        (keys[item.id], keys[item.source_id], keys[item.target_id], version, *_OF_RELATION_EVIDENCE.values(item))
        for item in changeset.relation_evidence
        if item.mention_count
    )
    connection.executemany(_PUT_RELATION_EVIDENCE, relations)
    for table, evidence in (
        ("entity_evidence", changeset.entity_evidence),
        ("relation_evidence", changeset.relation_evidence),
    ):
        gone = (keys[item.id] for item in evidence if not item.mention_count)
        connection.executemany(f"DELETE FROM {table} WHERE key = ?", singles(gone))


# Filters as SQL conditions.
#
# Metadata is read with `json_each` and never with a path of SQLite's own, whose syntax cannot express some keys.
# Types are compared too, since to SQLite `true` is 1.

_NUMBER = "IN ('integer', 'real')"
# Lists are stepped into; an object is treated as a list with itself as the only element.
_STEP = """CROSS JOIN json_each(CASE v{0}.type WHEN 'array' THEN v{0}.value WHEN 'object' THEN '[' || v{0}.value || ']'
                               ELSE '[]' END) AS e{0}
           CROSS JOIN json_each(CASE e{0}.type WHEN 'object' THEN e{0}.value ELSE '{{}}' END) AS v{1}"""


class SqliteDialect(Dialect):
    """The dialect of SQLite; parameters are C arrays, which can be read only once."""

    mark, true, false = "?", "1", "0"
    detail = "iif(json_type(document.metadata, '$.{0}') IS NULL, json_object('{0}', document.{0}), document.metadata)"
    details = chunk_details_object("json_object", "json({})")
    chunks = "FROM chunk WHERE chunk.document_key = coalesce(document.twin_key, document.key)"

    def one_of(self, column: str, values: Sequence[str]) -> Condition:
        if column == "document.id":
            found = "SELECT identity.key FROM carray(?) AS wanted CROSS JOIN identity ON identity.id = wanted.value"
            return f"(document.key IN ({found}))", [array(values)]
        return f"({column} IN (SELECT value FROM carray(?)))", [array(values)]

    def twin_of(self, document_id: str) -> Condition:
        return "document.twin_key = (SELECT key FROM identity WHERE id = ?)", [document_id]

    def meets(self, column: str, condition: OnPath) -> Condition:
        if isinstance(condition, Exists):
            return _at(column, condition.path, ("1", []))
        # A value at the path, or an element of a list there.
        last = f"v{len(path_keys(condition.path)) - 1}"
        (itself, own), (leaf, values) = _leaf(condition, last), _leaf(condition, "item")
        inside = f"EXISTS (SELECT 1 FROM json_each({last}.value) AS item WHERE {leaf})"
        either = f"({itself} OR ({last}.type = 'array' AND {inside}))"
        return _at(column, condition.path, (either, [*own, *values]))


DIALECT = SqliteDialect()
compile_filter = DIALECT.compile_filter
compile_chunk_filter = DIALECT.compile_chunk_filter


def _at(column: str, path: str, leaf: Condition) -> Condition:
    """Return the condition that a path has a value for which `leaf`, about the last of `v0`, `v1` ..., holds."""
    keys = path_keys(path)
    tables = [f"json_each({column}) AS v0"]
    tables += [_STEP.format(place, place + 1) for place in range(len(keys) - 1)]
    names = " AND ".join(f"v{place}.key = ?" for place in range(len(keys)))
    condition, values = leaf
    return f"EXISTS (SELECT 1 FROM {' '.join(tables)} WHERE {names} AND {condition})", [*keys, *values]


def _leaf(condition: Equals | In | Range, name: str) -> Condition:
    match condition:
        case Equals(_, value):
            return _one_of(name, (value,))
        case In(_, values):
            return _one_of(name, values)
        case Range():
            bounds = condition.bounds
            kind = "= 'text'" if all(isinstance(bound, str) for bound in bounds.values()) else _NUMBER
            tests = " AND ".join(f"{name}.value {COMPARISONS[bound]} ?" for bound in bounds)
            return f"({name}.type {kind} AND {tests})", list(bounds.values())


def _one_of(name: str, values: tuple[Scalar, ...]) -> Condition:
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    kinds = ["null"] if None in values else []
    kinds += [str(value).lower() for value in (True, False) if any(item is value for item in values)]
    conditions: list[str] = []
    arguments: list[Any] = []
    if texts:
        conditions.append(f"({name}.type = 'text' AND {name}.value IN (SELECT value FROM carray(?)))")
        arguments.append(array(texts))
    if numbers:
        conditions.append(f"({name}.type {_NUMBER} AND {name}.value IN (SELECT value FROM json_each(?)))")
        arguments.append(json.dumps(numbers))
    conditions += [f"{name}.type = '{kind}'" for kind in kinds]
    return (f"({' OR '.join(conditions)})", arguments) if conditions else ("0", [])
