"""Rules of names and the log of curations in the embedded store.

A curation's content is one JSON text that is never changed; `curation_subject` finds it by the entities it names. The
rules of a name are a row of counts over alias mentions together with the active curations that name it; the row stays
when its counts are gone, so that its version tells every later reader that it has changed. The rows of a database that
has no curation and no alias are never looked at twice: tables are empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import apsw

from heliograph.errors import StaleChangesetError
from heliograph.models import AliasMention, Curation, NameRules
from heliograph.stores.base import CurationPage, CurationQuery, CurationStore
from heliograph.stores.changeset import Changeset
from heliograph.stores.curation_content import curation_content, curation_from_content
from heliograph.stores.sqlite.database import Database
from heliograph.stores.sqlite.identity import find_keys
from heliograph.stores.sqlite.sql import Row, array, fetch, fetch_value
from heliograph.text.names import name_to_entity_id

_CURATION = "sequence, curation.id, kind, content, author, created_at, undone_by, undone_at"
_ACTIVE = f"""SELECT {_CURATION}, curation_subject.entity_id FROM carray(?) AS wanted
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
            if not rows:
                return []
            curations: dict[str, list[Curation]] = {}
            for *row, id_ in fetch(connection, _ACTIVE, (array([row[0] for row in rows]),)):
                curations.setdefault(id_, []).append(_curation(row))
            return [
                NameRules(id_, json.loads(names), json.loads(aliases), tuple(curations.get(id_, ())), version)
                for id_, names, aliases, version in rows
            ]

        return await self._database.read(read)

    async def get_curations(self, ids: Sequence[str]) -> list[Curation]:
        if not ids:
            return []
        query = f"SELECT {_CURATION} FROM carray(?) AS wanted CROSS JOIN curation ON curation.id = wanted.value"
        return await self._database.fetch_as(_curation, query, (array(ids),))

    async def find_curations(self, query: CurationQuery) -> CurationPage:
        tables, values = "curation", ()
        conditions = [] if query.includes_undone else ["undone_at IS NULL"]
        if query.entity_id is not None:
            tables = "curation_subject CROSS JOIN curation USING (sequence)"
            conditions.append("entity_id = ?")
            values = (query.entity_id,)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        direction = "DESC" if query.descending else "ASC"
        select = f"SELECT {_CURATION} FROM {tables} {where} ORDER BY sequence {direction} LIMIT ? OFFSET ?"

        def find(connection: apsw.Connection) -> CurationPage:
            rows = fetch(connection, select, (*values, query.limit, query.offset))
            total = fetch_value(connection, f"SELECT count(*) FROM {tables} {where}", values)
            return CurationPage(tuple(map(_curation, rows)), int(total))

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


def name_hash(name: str) -> int:
    """Return what a name is found by: a hash of the id that it alone stands for."""
    return _id_hash(name_to_entity_id(name))


def check_rules(connection: apsw.Connection, expected: Mapping[str, int]) -> None:
    """Compare the versions of rules that a changeset was computed from with those stored now.

    Raises:
        StaleChangesetError: One differs.
    """
    if not expected:
        return
    query = "SELECT id, version FROM carray(?) AS wanted CROSS JOIN name_rules ON name_rules.id = wanted.value"
    versions = dict(fetch(connection, query, (array(expected),)))
    for id_, version in expected.items():
        if versions.get(id_, 0) != version:
            raise StaleChangesetError(
                f"the rules of the name {id_!r} have changed since they were read; read them again"
            )


def write_curations(connection: apsw.Connection, changeset: Changeset, version: int) -> None:
    """Apply the curations and rules of a changeset that is committed as `version`."""
    for curation in changeset.curations:
        _write_curation(connection, curation)
    rows = ((item.id, _json(item.names), _json(item.aliases), version) for item in changeset.name_rules)
    connection.executemany("INSERT OR REPLACE INTO name_rules VALUES (?, ?, ?, ?)", rows)


def _write_curation(connection: apsw.Connection, item: Curation) -> None:
    undone_at = item.undone_at.timestamp() if item.undone_at else None
    row = (
        *(item.sequence or None, item.id, item.kind.value, _json(curation_content(item))),
        *(item.author, item.created_at.timestamp(), item.undone_by, undone_at),
    )
    query = """INSERT INTO curation VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
               undone_by = excluded.undone_by, undone_at = excluded.undone_at RETURNING sequence"""
    sequence = fetch_value(connection, query, row)
    subjects = ((id_, sequence) for id_ in dict.fromkeys(item.entity_ids))
    connection.executemany("INSERT OR IGNORE INTO curation_subject VALUES (?, ?)", subjects)


def _curation(row: Row | list[Any]) -> Curation:
    sequence, id_, kind, content, author, created_at, undone_by, undone_at = row
    return replace(
        _parsed(kind, content),
        id=id_,
        author=author,
        created_at=datetime.fromtimestamp(created_at, UTC),
        undone_by=undone_by,
        undone_at=None if undone_at is None else datetime.fromtimestamp(undone_at, UTC),
        sequence=sequence,
    )


@lru_cache(maxsize=4_096)
def _parsed(kind: str, content: str) -> Curation:
    # The curations of a well-known entity are read with every document that mentions it.
    return curation_from_content(kind, json.loads(content))


def _id_hash(id_: str) -> int:
    return int(id_[-_HEX_DIGITS:], 16)


def _json(value: Mapping[str, Any] | Iterable[Any]) -> str:
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, ensure_ascii=False, separators=(",", ":"))
