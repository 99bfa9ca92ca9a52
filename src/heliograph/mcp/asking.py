"""The tools that read: questions, entities, relations, counts."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.engine import AsyncHeliograph
from heliograph.errors import NotFoundError
from heliograph.filters import parse_filter
from heliograph.mcp.arguments import EntitiesArguments, NoArguments, QueryArguments, RelationsArguments
from heliograph.mcp.calls import Call
from heliograph.mcp.results import EntitiesResult, EntityItem, QueryResult, RelationItem, RelationsResult, StatsResult
from heliograph.models import Entity
from heliograph.query.linking.near_names import near_entities
from heliograph.query.models import Mode, QueryParam
from heliograph.service.principal import Role
from heliograph.stores.base import StoreView

_SUGGESTIONS = 5
_CANDIDATES = 100
# Nothing is to be cut off but by the limit of the call.
_NO_BUDGET = 1_000_000


async def query(call: Call, arguments: QueryArguments) -> QueryResult:
    """Answer a question, or only search."""
    param = arguments.to_param()
    async with call.question() as engine:
        if arguments.answer:
            answer = await engine.query(arguments.query, param, progress=call.progress.tell_stage)
            return QueryResult.of_answer(answer, arguments.passages, has_graph=arguments.include_graph)
        retrieval = await engine.retrieve(arguments.query, param)
        return QueryResult.of_retrieval(retrieval, arguments.passages, has_graph=arguments.include_graph)


async def get_entities(call: Call, arguments: EntitiesArguments) -> EntitiesResult:
    """Return entities by name, by topic, or the best connected ones."""
    if arguments.query is None:
        async with call.engine(Role.READ) as engine:
            view = engine.store if arguments.filters is None else engine.view(arguments.filters)
            found = await view.graph.list_entities(arguments.offset, arguments.limit + 1)
        more = arguments.offset + arguments.limit if len(found) > arguments.limit else None
        return _entities(found[: arguments.limit], more)
    async with call.question() as engine:
        named = [] if arguments.filters else await _find_named(engine, arguments.query, arguments.limit)
        related = await _find_related(engine, arguments.query, arguments) if len(named) < arguments.limit else []
    unique = {entity.id: entity for entity in [*named, *related]}
    return _entities(list(unique.values())[: arguments.limit], None)


async def get_relations(call: Call, arguments: RelationsArguments) -> RelationsResult:
    """Return what lies around an entity."""
    async with call.engine(Role.READ) as engine:
        view = None if arguments.filters is None else engine.view(arguments.filters)
        entity = await require_entity(engine, arguments.entity, view)
        # One more, for the entity itself.
        graph = (view or engine.store).graph
        around = await graph.get_neighbourhood(entity.id, arguments.depth, arguments.limit + 1)
        relations = await graph.name_ends(around.relations, around.entities)
    if not around.entities:
        raise _no_entity(arguments.entity, [], is_filtered=arguments.filters is not None)
    first, *others = around.entities
    return RelationsResult(
        entity=EntityItem.of(first),
        entities=[EntityItem.of(item) for item in others],
        relations=[RelationItem.of(item) for item in relations],
        is_truncated=around.is_truncated,
    )


async def get_stats(call: Call, _: NoArguments) -> StatsResult:
    """Return the counts of the workspace."""
    async with call.engine(Role.READ) as engine:
        return StatsResult.of(call.caller.workspace, await engine.stats())


async def require_entity(engine: AsyncHeliograph, name: str, view: StoreView | None = None) -> Entity:
    """Return the entity that a name stands for.

    Args:
        engine: Of the workspace.
        name: As the caller spells it.
        view: What a filter leaves, which alone is told of; None means everything.

    Raises:
        NotFoundError: There is none; says which names are like it.
    """
    graph = engine.store.graph if view is None else view.graph
    entity = await engine.entity(name)
    if entity is not None and (seen := await graph.get_entities([entity.id])):
        return seen[0]
    # Names are looked up in all documents: what a filter leaves out is neither told nor may it crowd out the rest.
    ids = await engine.store.names.find_names(name, _SUGGESTIONS if view is None else _CANDIDATES)
    by_id = {item.id: item.name for item in await graph.get_entities(ids)}
    alike = [by_id[id_] for id_ in ids if id_ in by_id] or [
        near.name for near in await near_entities(engine.store, name, view)
    ]
    raise _no_entity(name, alike[:_SUGGESTIONS], is_filtered=view is not None)


def _no_entity(name: str, alike: Sequence[str], *, is_filtered: bool) -> NotFoundError:
    """Return one error for what there is not and for what a filter leaves out, which says nothing of the latter."""
    where = "the documents that match the filter" if is_filtered else "this workspace"
    advice = f"did you mean {', '.join(map(repr, alike))}?" if alike else "look for it with the tool for entities"
    return NotFoundError(f"there is no entity {name!r:.200} in {where}; {advice}")


def _entities(found: list[Entity], more: int | None) -> EntitiesResult:
    return EntitiesResult(entities=[EntityItem.of(entity) for entity in found], next_offset=more)


async def _find_named(engine: AsyncHeliograph, text: str, limit: int) -> list[Entity]:
    ids = await engine.store.names.find_names(text, limit)
    found = {entity.id: entity for entity in await engine.store.graph.get_entities(ids)}
    return [found[id_] for id_ in ids if id_ in found]


async def _find_related(engine: AsyncHeliograph, text: str, arguments: EntitiesArguments) -> list[Entity]:
    """Return entities whose names and descriptions are about something; no chat model is asked."""
    param = QueryParam(
        mode=Mode.LOCAL,
        top_k=arguments.limit,
        chunk_top_k=1,
        max_entity_tokens=_NO_BUDGET,
        max_relation_tokens=1,
        max_total_tokens=_NO_BUDGET,
        ll_keywords=[text],
        chunk_picking="weight",
        enable_rerank=False,
        filter=None if arguments.filters is None else parse_filter(arguments.filters),
    )
    # The keyword is searched for, not this; it is never too short.
    retrieval = await engine.retrieve("which entities?", param, is_bounded=False)
    return [item.entity for item in retrieval.context.entities]
