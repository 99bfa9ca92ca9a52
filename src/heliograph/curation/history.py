"""Says who said what of an entity or a relation: mentions by chunks in canonical order, and curations by people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heliograph.ids import relation_id
from heliograph.ingest.changes import RuleLoader
from heliograph.ingest.resolution import RELATION_KINDS, RuleBook, relation_pair
from heliograph.models import Curation, EntityMention, RelationMention
from heliograph.stores.base import CurationQuery, Store
from heliograph.text.names import name_to_entity_id

_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Statement:
    """What one chunk says of an entity or a relation.

    Attributes:
        chunk_id: The chunk.
        document_id: Its document.
        source: Source of the document.
        position: Order index of the chunk in it.
        names: The name as written; of a relation both.
        type: Type of the entity; empty for a relation.
        description: What is said.
        keywords: Of a relation.
        weight: Of a relation; 0 for an entity.
    """

    chunk_id: str
    document_id: str
    source: str
    position: int
    names: tuple[str, ...]
    type: str
    description: str
    keywords: tuple[str, ...] = ()
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class History:
    """Who said what of one thing.

    Attributes:
        id: The entity or relation.
        statements: What chunks say, in canonical order, one page of it.
        statement_count: How many statements there are without the limit.
        curations: What people did, earliest first, undone or not; all of it.
    """

    id: str
    statements: tuple[Statement, ...]
    statement_count: int
    curations: tuple[Curation, ...]


async def entity_history(store: Store, entity_id: str, offset: int, limit: int) -> History:
    """Return the history of an entity; empty if nothing was ever said of it."""
    evidence, _ = await store.records.get_evidence([entity_id], [], offset + limit)
    count = evidence[0].mention_count if evidence else 0
    mentions = evidence[0].leading[offset : offset + limit] if evidence else ()
    book, curations = await _curations(store, [entity_id])
    subjects = book.subjects(entity_id) | book.previous_ids(entity_id) | book.predecessors(entity_id)
    about = (item for item in curations if not subjects.isdisjoint(item.entity_ids))
    return History(entity_id, await _statements(store, mentions), count, tuple(about))


async def relation_history(store: Store, source_id: str, target_id: str, offset: int, limit: int) -> History:
    """Return the history of the relation between two entities; empty if nothing was ever said of it."""
    id_ = relation_id(source_id, target_id)
    _, evidence = await store.records.get_evidence([], [id_], offset + limit)
    count = evidence[0].mention_count if evidence else 0
    mentions = evidence[0].leading[offset : offset + limit] if evidence else ()
    book, curations = await _curations(store, [source_id, target_id])
    pair = tuple(sorted((source_id, target_id)))
    about = (item for item in curations if item.kind in RELATION_KINDS and relation_pair(book, item) == pair)
    return History(id_, await _statements(store, mentions), count, tuple(about))


async def _curations(store: Store, entity_ids: Sequence[str]) -> tuple[RuleBook, list[Curation]]:
    loader = RuleLoader(store)
    await loader.load(entity_ids)
    makers = (item for id_ in entity_ids if id_ in loader.rules for item in loader.rules[id_].curations)
    await loader.load_bearers({name_to_entity_id(name) for item in makers for name in item.names})
    book = RuleBook(loader.rules.values())
    found: dict[str, Curation] = {}
    for id_ in sorted(set[str]().union(*(book.sources(id_) | book.predecessors(id_) for id_ in entity_ids))):
        offset, total = 0, 1
        while offset < total:
            page = await store.curations.find_curations(CurationQuery(entity_id=id_, offset=offset, limit=_PAGE))
            found.update((item.id, item) for item in page.curations)
            offset, total = offset + _PAGE, page.total
    await loader.load(id_ for item in found.values() for id_ in item.entity_ids)
    return RuleBook(loader.rules.values()), sorted(found.values(), key=lambda item: item.sequence)


async def _statements(
    store: Store, mentions: Sequence[EntityMention] | Sequence[RelationMention]
) -> tuple[Statement, ...]:
    ids = list(dict.fromkeys(mention.chunk_id for mention in mentions))
    chunks = {chunk.id: chunk for chunk in await store.records.get_chunks(ids)}
    sources = await store.records.get_sources(ids)
    return tuple(
        _statement(
            mention,
            chunks[mention.chunk_id].document_id,
            sources.get(mention.chunk_id, ""),
            chunks[mention.chunk_id].position,
        )
        for mention in mentions
        if mention.chunk_id in chunks
    )


def _statement(mention: EntityMention | RelationMention, document_id: str, source: str, position: int) -> Statement:
    place = mention.chunk_id, document_id, source, position
    if isinstance(mention, EntityMention):
        return Statement(*place, (mention.name,), mention.type, mention.description)
    names = mention.source, mention.target
    return Statement(*place, names, "", mention.description, mention.keywords, mention.weight)
