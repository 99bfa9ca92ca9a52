"""What a filter leaves of a workspace on PostgreSQL: computed once per filter and data version.

A `Scope` holds the ids of matching documents, of their chunks, and of the entities and relations with a mention in one
of these, with degrees and weights counted from such mentions alone. The server finds them; making one takes time in
proportion to what matches. `ScopeMemory` keeps the few used last; each is looked up within the snapshot that uses it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection as Some
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heliograph.filters import Filter, filter_key
from heliograph.models import Entity, Relation
from heliograph.stores.base import Fold
from heliograph.stores.changeset import Collection
from heliograph.stores.postgres.filters import compile_filter
from heliograph.stores.postgres.session import Row, Session, Statement

__all__ = ["Scope", "ScopeMemory", "Tie", "within_holders"]

# Each costs some hundred bytes per chunk, entity and relation that it leaves.
_MOST_SCOPES = 8
_MOST_FOLDS = 16_000
_MILLION = 1_000_000
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
# Whole millionths, as evidence counts them: sums are exact in any order.
_RELATIONS = f"""SELECT relation.id, relation.source_id, relation.target_id, said.millionths FROM (
    SELECT mention.relation_id, sum(round(mention.weight * {_MILLION}))::bigint AS millionths
    FROM heliograph_relation_mention AS mention {_IN_CHUNKS} WHERE mention.workspace = %s GROUP BY mention.relation_id
  ) AS said JOIN heliograph_relation AS relation ON relation.workspace = %s AND relation.id = said.relation_id"""
_VERSION = "SELECT data_version FROM heliograph_workspace WHERE name = %s"


@dataclass(frozen=True, slots=True)
class Tie:
    """A relation in a scope: its two ends, and the sum of the weights of its mentions there."""

    source_id: str
    target_id: str
    weight: float


@dataclass(slots=True, eq=False)
class Scope:
    """The part of one data version that a filter leaves.

    Attributes:
        version: The data version.
        documents: Documents that match.
        owners: Where the chunks of a matching document are stored under a twin that does not match: the twin's id to
            that of the first of the documents which have them here.
        chunks: The chunks, with the document that stores them.
        entities: Entities that they mention and that there are, with the relations here that touch them.
        relations: Relations that they mention and that there are.
        folded: Folds made so far, by id.
    """

    version: int
    documents: frozenset[str]
    owners: Mapping[str, str]
    chunks: Mapping[str, str]
    entities: Mapping[str, Sequence[str]]
    relations: Mapping[str, Tie]
    folded: dict[str, Entity | Relation] = field(default_factory=dict[str, Entity | Relation])

    def ids_of(self, collection: Collection) -> Some[str]:
        """Return the ids of a collection."""
        some = {
            Collection.CHUNKS: self.chunks,
            Collection.ENTITIES: self.entities,
            Collection.RELATIONS: self.relations,
        }
        return some[collection].keys()

    def touching(self, entity_ids: Iterable[str]) -> list[str]:
        """Return the relations that touch any of these entities, once each."""
        return list(dict.fromkeys(relation for id_ in entity_ids for relation in self.entities.get(id_, ())))

    def remember(self, fold: Entity | Relation) -> None:
        """Keep a fold; when there are too many, all are forgotten."""
        if len(self.folded) >= _MOST_FOLDS:
            self.folded.clear()
        self.folded[fold.id] = fold


class ScopeMemory:
    """Scopes by filter and fold, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._scopes: OrderedDict[tuple[str, Fold], Scope] = OrderedDict()
        self._making: dict[tuple[str, Fold], asyncio.Lock] = {}

    async def begin(self, session: Session, filter_: Filter, fold: Fold) -> Scope:
        """Begin a snapshot and return what a filter leaves as of it."""
        (((version,),),) = await session.begin_snapshot(Statement(_VERSION, (session.workspace,)))
        name = filter_key(filter_), fold
        # Two questions under one filter that come at once make its scope once.
        async with self._making.setdefault(name, asyncio.Lock()):
            found = self._scopes.get(name)
            if found is None or found.version != version:
                found = await _make_scope(session, filter_, version)
                self._keep(name, found)
        return found

    def _keep(self, name: tuple[str, Fold], scope: Scope) -> None:
        known = self._scopes.get(name)
        if known is not None and known.version > scope.version:
            return  # This reader's snapshot is older than another's.
        self._scopes[name] = scope
        self._scopes.move_to_end(name)
        while len(self._scopes) > _MOST_SCOPES:
            oldest, _ = self._scopes.popitem(last=False)
            self._making.pop(oldest, None)


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
        id_: Tie(source, target, millionths / _MILLION)
        for id_, source, target, millionths in relations
        if source in there and target in there
    }
    touching: dict[str, list[str]] = defaultdict(list)
    for id_, tie in ties.items():
        touching[tie.source_id].append(id_)
        touching[tie.target_id].append(id_)
    return Scope(
        version=version,
        documents=frozenset(id_ for id_, _ in documents),
        owners=_owners(documents),
        chunks=dict(chunks),
        entities={id_: touching.get(id_, ()) for id_ in there},
        relations=ties,
    )


def _owners(documents: Sequence[Row]) -> dict[str, str]:
    """Return, per document that stores chunks and does not match, the first of its twins that do, by id."""
    matching = {id_ for id_, _ in documents}
    owners: dict[str, str] = {}
    for id_, holder in documents:
        if holder is not None and holder not in matching:
            owners.setdefault(holder, id_)
    return owners
