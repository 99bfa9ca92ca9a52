"""A filter as a condition of SQL, and what it leaves of a workspace on PostgreSQL."""

from __future__ import annotations

import json
from typing import Any

from heliograph.filters import (
    And,
    DocumentIds,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Range,
    SourcePrefix,
    Sources,
    path_keys,
)
from heliograph.stores.base import Fold
from heliograph.stores.names import end_of_prefix
from heliograph.stores.postgres.database import Session, Statement
from heliograph.stores.postgres.rows import to_json
from heliograph.stores.scoped import MILLION, Scope, ScopeMemory, Tie, find_owners, touching_relations

# A filter as a condition of SQL on `heliograph_document AS document`; the meaning is that of `filters.conditions`.
#
# A path becomes an SQL/JSON path in lax mode, which steps into lists as a filter does: one level at each key. A list
# at the end of a path is looked into by `@>`, which holds between a list and each of its elements and between equal
# scalars, types kept apart. Every condition is true or false and never NULL, so that NOT can be trusted.

Condition = tuple[str, list[Any]]

_NOTHING: Condition = ("false", [])
_COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_NUL, _REPLACEMENT = "\x00", "\ufffd"


def compile_filter(filter_: Filter) -> Condition:
    """Return a condition and its parameters in order."""
    match filter_:
        case And(parts):
            return _join("AND", "true", parts)
        case Or(parts):
            return _join("OR", "false", parts)
        case Not(part):
            condition, values = compile_filter(part)
            return f"NOT {condition}", values
        case DocumentIds(values) | Sources(values):
            column = "id" if isinstance(filter_, DocumentIds) else "source"
            listed = f"(document.{column} = ANY (ARRAY(SELECT json_array_elements_text(%s))))"
            return (listed, [to_json(values)]) if values else _NOTHING
        case SourcePrefix(prefix):
            return _prefix(prefix)
        case _:
            return _metadata(filter_)


def _metadata(condition: Exists | Equals | In | Range) -> Condition:
    match condition:
        case Exists(path):
            return "jsonb_path_exists(document.metadata, %s::jsonpath)", [_path(path)]
        case Equals(path, value):
            return _any_of(path, "found @> %s::jsonb", [_json(value)])
        case In(path, values):
            listed = "found @> ANY (SELECT jsonb_array_elements(%s::jsonb))"
            return _any_of(path, listed, [_json(list(values))]) if values else _NOTHING
        case Range(path):
            return _range(path, condition)


def _join(operator: str, neutral: str, parts: tuple[Filter, ...]) -> Condition:
    compiled = [compile_filter(part) for part in parts]
    conditions = f" {operator} ".join(condition for condition, _ in compiled)
    return f"({conditions or neutral})", [value for _, values in compiled for value in values]


def _prefix(prefix: str) -> Condition:
    end = end_of_prefix(prefix)
    if not end:
        return "(document.source >= %s)", [prefix]
    return "(document.source >= %s AND document.source < %s)", [prefix, end]


def _any_of(path: str, leaf: str, values: list[Any]) -> Condition:
    """Return the condition that something stands at a path, here called `found`, of which `leaf` holds."""
    from_path = "EXISTS (SELECT 1 FROM jsonb_path_query(document.metadata, %s::jsonpath) AS found WHERE"
    return f"{from_path} {leaf})", [_path(path), *values]


def _range(path: str, range_: Range) -> Condition:
    bounds = range_.bounds
    if not bounds:
        return _NOTHING
    is_text = all(isinstance(bound, str) for bound in bounds.values())
    kind, value = ("string", "(item #>> '{}') COLLATE \"C\"") if is_text else ("number", "(item #>> '{}')::numeric")
    cast = "%s" if is_text else "%s::numeric"
    tests = " AND ".join(f"{value} {_COMPARISONS[name]} {cast}" for name in bounds)
    # CASE keeps a text from being read as a number.
    leaf = f"""EXISTS (SELECT 1 FROM jsonb_array_elements(
                 CASE jsonb_typeof(found) WHEN 'array' THEN found ELSE jsonb_build_array(found) END) AS item
               WHERE CASE jsonb_typeof(item) WHEN '{kind}' THEN {tests} ELSE false END)"""
    given = [bound.replace(_NUL, _REPLACEMENT) if isinstance(bound, str) else repr(bound) for bound in bounds.values()]
    return _any_of(path, leaf, given)


def _path(path: str) -> str:
    keys = (json.dumps(key.replace(_NUL, _REPLACEMENT), ensure_ascii=False) for key in path_keys(path))
    return "$" + "".join(f".{key}" for key in keys)


def _json(value: object) -> str:
    return to_json([value]).data.decode()[1:-1]


# A twin's chunks are held by its original. They were read and are indexed under the original's title, so a twin with
# another title does not vouch for them.
_HOLDERS = """
WITH matching AS MATERIALIZED (
  SELECT document.id, floor(extract(epoch FROM document.created_at))::bigint AS seen,
    CASE WHEN document.twin_of = '' THEN document.id
         WHEN original.title = document.title AND document.status IN ('processed', 'partial') THEN original.id END
      AS holder
  FROM heliograph_document AS document
  LEFT JOIN heliograph_document AS original
    ON original.workspace = document.workspace AND original.id = document.twin_of AND document.twin_of <> ''
  WHERE document.workspace = %s AND {condition}
), holding AS MATERIALIZED (
  SELECT holder, min(seen) AS seen FROM matching WHERE holder IS NOT NULL GROUP BY holder
)"""
_IN_CHUNKS = """JOIN lightrag_chunks AS chunk ON chunk.workspace = mention.workspace AND chunk.id = mention.chunk_id
  JOIN holding ON holding.holder = chunk.full_doc_id"""
_DOCUMENTS = "SELECT id, holder FROM matching ORDER BY id"
_CHUNKS = """SELECT chunk.id, chunk.full_doc_id FROM holding
  JOIN lightrag_chunks AS chunk ON chunk.workspace = %s AND chunk.full_doc_id = holding.holder"""
_ENTITIES = f"""SELECT entity.id FROM (
    SELECT DISTINCT mention.entity_id FROM heliograph_entity_mention AS mention {_IN_CHUNKS}
    WHERE mention.workspace = %s
  ) AS said JOIN heliograph_entity AS entity ON entity.workspace = %s AND entity.id = said.entity_id"""
_RELATIONS = f"""SELECT relation.id, relation.source_id, relation.target_id, said.millionths FROM (
    SELECT mention.relation_id, sum(round(mention.weight * {MILLION}))::bigint AS millionths
    FROM heliograph_relation_mention AS mention {_IN_CHUNKS} WHERE mention.workspace = %s GROUP BY mention.relation_id
  ) AS said JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.id = said.relation_id"""
_VERSION = "SELECT data_version FROM heliograph_workspace WHERE name = %s"


async def begin_scope(session: Session, scopes: ScopeMemory[Scope], filter_: Filter, fold: Fold) -> Scope:
    """Begin a snapshot and return what a filter leaves as of it."""
    (((version,),),) = await session.begin_snapshot(Statement(_VERSION, (session.workspace,)))
    return await scopes.get(filter_, fold, version, lambda: _make_scope(session, filter_, version))


def within_holders(workspace: str, filter_: Filter, query: str, *values: Any) -> Statement:
    """Return a statement that may read `matching`, the documents, and `holding`, those that store their chunks."""
    condition, arguments = compile_filter(filter_)
    return Statement(
        f"{_HOLDERS.format(condition=condition)} {query}", (workspace, *arguments, *values), is_planned_anew=True
    )


async def _make_scope(session: Session, filter_: Filter, version: int) -> Scope:
    workspace = session.workspace
    documents, chunks, entities, relations = await session.run(
        within_holders(workspace, filter_, _DOCUMENTS),
        within_holders(workspace, filter_, _CHUNKS, workspace),
        within_holders(workspace, filter_, _ENTITIES, workspace, workspace),
        within_holders(workspace, filter_, _RELATIONS, workspace, workspace),
    )
    there = {id_ for (id_,) in entities}
    ties = {
        id_: Tie(source, target, millionths / MILLION)
        for id_, source, target, millionths in relations
        if source in there and target in there
    }
    return Scope(
        version=version,
        documents=frozenset(id_ for id_, _ in documents),
        owners=find_owners((id_, holder) for id_, holder in documents),
        chunks=dict(chunks),
        entities=touching_relations(there, ties),
        relations=ties,
    )
