"""What a filter leaves of a workspace on PostgreSQL: the server finds it, in time in proportion to what matches.

A scope is looked up within the snapshot that uses it.
"""

from __future__ import annotations

from typing import Any

from heliograph.filters import Filter
from heliograph.stores.base import Fold
from heliograph.stores.postgres.filters import compile_filter
from heliograph.stores.postgres.session import Session, Statement
from heliograph.stores.scoped.scope import MILLION, Scope, ScopeMemory, Tie, find_owners, touching_relations

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
