"""Rules of names and the log of curations on PostgreSQL.

A curation's content is one JSON text that is never changed; `heliograph_curation_subject` finds it by the entities it
names. The rules of a name are counts over alias mentions together with the active curations that name it; their row
stays when the counts are gone, so that its version tells every later reader that it has changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from heliograph.models import AliasMention, Curation, NameRules
from heliograph.stores.base import CurationPage, CurationQuery, CurationStore
from heliograph.stores.changeset import Changeset
from heliograph.stores.curation_content import curation_content, curation_from_content
from heliograph.stores.postgres.codec import to_json
from heliograph.stores.postgres.database import Database
from heliograph.stores.postgres.rows import WANTED, in_utc
from heliograph.stores.postgres.session import Statement

_CURATION = """curation.sequence, curation.id, curation.kind, curation.content, curation.author, curation.created_at,
  curation.undone_by, curation.undone_at"""
_SUBJECTS = """heliograph_curation_subject AS subject JOIN heliograph_curation AS curation
  ON curation.workspace = subject.workspace AND curation.sequence = subject.sequence"""
_RULES = f"""SELECT rules.id, names, aliases, version FROM {WANTED}
  JOIN heliograph_name_rules AS rules ON rules.workspace = %s AND rules.id = wanted.id ORDER BY wanted.place"""
_ACTIVE = f"""SELECT subject.entity_id, {_CURATION} FROM {_SUBJECTS}
  WHERE subject.workspace = %s AND subject.entity_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
    AND curation.undone_at IS NULL ORDER BY curation.sequence"""
_BY_ID = f"""SELECT {_CURATION} FROM {WANTED}
  JOIN heliograph_curation AS curation ON curation.workspace = %s AND curation.id = wanted.id ORDER BY wanted.place"""
_MENTIONING = """
WITH wanted AS MATERIALIZED (SELECT DISTINCT id FROM json_array_elements_text(%s) AS given (id)),
found AS (
  SELECT mention.chunk_id FROM wanted
  JOIN heliograph_entity_mention AS mention ON mention.workspace = %s AND mention.entity_id = wanted.id
  UNION
  SELECT mention.chunk_id FROM wanted
  JOIN heliograph_entity_mention AS mention ON mention.workspace = %s AND mention.name_id = wanted.id
   AND mention.name_id IS NOT NULL
)
SELECT chunk.id, chunk.full_doc_id FROM found
JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.id = found.chunk_id"""
_ALIASES = """SELECT chunk.full_doc_id, mention.chunk_id, mention.name, mention.alias FROM lightrag_chunks AS chunk
  JOIN heliograph_alias_mention AS mention ON mention.workspace = chunk.workspace AND mention.chunk_id = chunk.id
  WHERE chunk.workspace = %s AND chunk.full_doc_id = ANY (ARRAY(SELECT json_array_elements_text(%s)))
  ORDER BY chunk.chunk_order_index, mention.chunk_id, mention.ordinal"""
_PUT = """
WITH new AS (
  SELECT * FROM ROWS FROM (json_to_recordset(%s) AS (sequence bigint, id text, kind text, content text, author text,
    created_at timestamptz, undone_by text, undone_at timestamptz, entity_ids json)) WITH ORDINALITY
), put AS (
  INSERT INTO heliograph_curation AS known (workspace, sequence, id, kind, content, author, created_at, undone_by,
    undone_at)
  SELECT %s, coalesce(sequence, nextval(pg_get_serial_sequence('heliograph_curation', 'sequence'))), id, kind, content,
    author, created_at, undone_by, undone_at FROM (SELECT * FROM new ORDER BY ordinality) AS ordered
  ON CONFLICT (workspace, id) DO UPDATE SET undone_by = excluded.undone_by, undone_at = excluded.undone_at
  RETURNING id, sequence
)
INSERT INTO heliograph_curation_subject (workspace, entity_id, sequence)
SELECT DISTINCT %s, subject.id, put.sequence FROM put JOIN new USING (id)
CROSS JOIN LATERAL json_array_elements_text(new.entity_ids) AS subject (id) ON CONFLICT DO NOTHING"""
_PUT_RULES = """
INSERT INTO heliograph_name_rules (workspace, version, id, names, aliases)
SELECT %s, %s::bigint, * FROM json_to_recordset(%s) AS new (id text, names text, aliases text)
ON CONFLICT (workspace, id) DO UPDATE SET names = excluded.names, aliases = excluded.aliases,
  version = excluded.version"""


class PostgresCurationStore(CurationStore):
    """Rules and curations in tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_rules(self, ids: Sequence[str]) -> list[NameRules]:
        if not ids:
            return []
        workspace, wanted = self._database.workspace, to_json(ids)
        rules, active = await self._database.fetch_all(
            Statement(_RULES, (wanted, workspace)), Statement(_ACTIVE, (workspace, wanted))
        )
        curations: dict[str, list[Curation]] = {}
        for id_, *row in active:
            curations.setdefault(id_, []).append(_curation(row))
        return [
            NameRules(id_, json.loads(names), json.loads(aliases), tuple(curations.get(id_, ())), version)
            for id_, names, aliases, version in rules
        ]

    async def get_curations(self, ids: Sequence[str]) -> list[Curation]:
        rows = await self._database.fetch(_BY_ID, (to_json(ids), self._database.workspace)) if ids else []
        return [_curation(row) for row in rows]

    async def find_curations(self, query: CurationQuery) -> CurationPage:
        tables, values = "heliograph_curation AS curation", [self._database.workspace]
        conditions = ["curation.workspace = %s", *([] if query.includes_undone else ["curation.undone_at IS NULL"])]
        if query.entity_id is not None:
            tables = _SUBJECTS
            conditions.append("subject.entity_id = %s")
            values.append(query.entity_id)
        where = f"FROM {tables} WHERE {' AND '.join(conditions)}"
        direction = "DESC" if query.descending else "ASC"
        select = f"SELECT {_CURATION} {where} ORDER BY curation.sequence {direction} LIMIT %s OFFSET %s"
        rows, ((total,),) = await self._database.fetch_all(
            Statement(select, (*values, query.limit, query.offset)), Statement(f"SELECT count(*) {where}", values)
        )
        return CurationPage(tuple(map(_curation, rows)), int(total))

    async def find_mentioning_chunks(self, ids: Sequence[str]) -> dict[str, str]:
        values = (to_json(ids), *[self._database.workspace] * 3)
        return dict(await self._database.fetch(_MENTIONING, values)) if ids else {}

    async def get_document_aliases(self, document_ids: Sequence[str]) -> dict[str, list[AliasMention]]:
        found: dict[str, list[AliasMention]] = {}
        values = (self._database.workspace, to_json(document_ids))
        for document_id, *mention in await self._database.fetch(_ALIASES, values) if document_ids else []:
            found.setdefault(document_id, []).append(AliasMention(*mention))
        return found


def curation_statements(workspace: str, changeset: Changeset, version: int) -> Iterator[Statement]:
    """Yield what applies the curations and rules of a changeset that is committed as `version`."""
    if changeset.curations:
        yield Statement(_PUT, (to_json(map(_row, changeset.curations)), workspace, workspace))
    if changeset.name_rules:
        # The last of several rules of one name counts.
        rows = {
            item.id: {"id": item.id, "names": _object(item.names), "aliases": _object(item.aliases)}
            for item in changeset.name_rules
        }
        yield Statement(_PUT_RULES, (workspace, version, to_json(rows.values())))


def _row(item: Curation) -> dict[str, Any]:
    return {
        "sequence": item.sequence or None,
        "id": item.id,
        "kind": item.kind.value,
        "content": json.dumps(curation_content(item), ensure_ascii=False),
        "author": item.author,
        "created_at": item.created_at.isoformat(),
        "undone_by": item.undone_by,
        "undone_at": item.undone_at.isoformat() if item.undone_at else None,
        "entity_ids": item.entity_ids,
    }


def _curation(row: Sequence[Any]) -> Curation:
    sequence, id_, kind, content, author, created_at, undone_by, undone_at = row
    return replace(
        curation_from_content(kind, json.loads(content)),
        id=id_,
        author=author,
        created_at=in_utc(created_at),
        undone_by=undone_by,
        undone_at=_moment(undone_at),
        sequence=sequence,
    )


def _moment(value: datetime | None) -> datetime | None:
    return None if value is None else in_utc(value)


def _object(counts: Mapping[str, int]) -> str:
    return json.dumps(dict(counts), ensure_ascii=False, separators=(",", ":"))
