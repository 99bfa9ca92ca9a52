"""Which entities and relations fit their budgets, and in which order chunks follow from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from heliograph.models import Chunk, Entity, Relation
from heliograph.query.channels import Findings
from heliograph.query.context.format import Budget, ContextFormat
from heliograph.query.merging import round_robin
from heliograph.query.plan import Plan
from heliograph.stores.base import GraphStore, IncidentRelation

# The order in which chunks are written into a context, and which of them a budget must spare.
#
# Chunks found by fusion come best first; for reading, what belongs together stands together: a chunk that was reached
# over a bridge behind the chunks that led to it, and chunks of one document in the document's order. The chunks
# themselves stay ranked; only the text is ordered. In the modes of LightRAG text and ranking are the same.

# Hits among which a chain counts as what the question needs.
_HEAD = 5


def evidence_order(chunks: Sequence[Chunk], chains: Mapping[str, Sequence[str]]) -> list[int]:
    """Return the places of the chunks in the order of reading; every place once.

    Args:
        chunks: Chunks, best first.
        chains: Per chunk that was reached over bridges, the chunks passed on the way to it, the first hit first.
    """
    places = {chunk.id: place for place, chunk in enumerate(chunks)}
    of_document: dict[str, list[int]] = {}
    for place, chunk in enumerate(chunks):
        of_document.setdefault(chunk.document_id, []).append(place)
    ends: dict[str, list[str]] = {}
    for chunk in chunks:
        for passed in chains.get(chunk.id, ())[:1]:
            ends.setdefault(passed, []).append(chunk.id)
    order: dict[int, None] = {}
    for chunk in chunks:
        # The chain that leads here, the chunk itself, then the chains that set out from it, the best end first.
        ways = [(*chains.get(chunk.id, ()), chunk.id), *((*chains[end], end) for end in ends.get(chunk.id, ()))]
        group = [places[id_] for way in ways for id_ in way if id_ in places and places[id_] not in order]
        for place in group:
            order.update(
                dict.fromkeys(sorted(of_document[chunks[place].document_id], key=lambda other: chunks[other].position))
            )
    return [*dict.fromkeys(order)]


def needed_chunks(ranked: Sequence[str], chains: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the chunks of every hop of the best chain: the first hit, what was passed, and what was reached.

    Empty if none of the first five was reached over a bridge.

    Args:
        ranked: Chunk ids, best first.
        chains: As in `evidence_order`.
    """
    reached = next((id_ for id_ in ranked[:_HEAD] if chains.get(id_)), None)
    return () if reached is None else tuple(dict.fromkeys((*chains[reached], reached)))


# Chunks that must outlive a cut: one for each part of a question and each side of a comparison.


def with_leaders(order: Sequence[str], leaders: Sequence[str], head: int) -> list[str]:
    """Return the order with every leader among the first `head` places, and as little else moved as that takes.

    A leader that stands further down takes the last place there that is not a leader's; who stood there follows behind
    the head. A leader that is missing is added. If there are more leaders than places, the first of them get in.

    Args:
        order: Chunk ids, best first.
        leaders: Chunk ids, most important first.
        head: Places at the front; at least 1.
    """
    wanted = list(dict.fromkeys(leaders))[:head]
    front, rest = list(order[:head]), list(order[head:])
    late = [leader for leader in wanted if leader not in front]
    for leader in late:
        if len(front) >= head:
            place = next(index for index in reversed(range(len(front))) if front[index] not in wanted)
            rest.insert(0, front.pop(place))
        front.append(leader)
    return [*front, *(chunk_id for chunk_id in rest if chunk_id not in late)]


# About as many as the default budget holds, so that one page is nearly always enough; where some relations are read
# already, as many as it holds of their like and an eighth more.
_FIRST_PAGE = 160
_MARGIN = 9 / 8
_LARGEST_PAGE = 1024


@dataclass(frozen=True, slots=True)
class RankedRelation:
    """A relation and the sum of its ends' degrees."""

    relation: Relation
    degree: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What fits.

    Attributes:
        entities: Entities kept.
        relations: Relations kept.
        tokens: What their rows cost, newlines included.
        entities_found: Distinct entities found.
        relations_found: Distinct relations found.
        entities_cut: Entities that did not fit, best first.
        relations_cut: Ids of the relations that did not fit, or are gone meanwhile, best first.
    """

    entities: Sequence[Entity] = ()
    relations: Sequence[RankedRelation] = ()
    tokens: int = 0
    entities_found: int = 0
    relations_found: int = 0
    entities_cut: Sequence[Entity] = ()
    relations_cut: Sequence[str] = ()


async def select(graph: GraphStore, findings: Sequence[Findings], form: ContextFormat, plan: Plan) -> Selection:
    """Merge what the channels found, round robin, and keep what fits."""
    entities = round_robin([found.entities for found in findings], key=lambda entity: entity.id)
    relations = round_robin([found.relations for found in findings], key=lambda relation: relation.id)
    read = {relation_id: relation for found in findings for relation_id, relation in found.relations_read.items()}
    entity_budget, relation_budget = Budget(plan.max_entity_tokens), Budget(plan.max_relation_tokens)
    kept_entities = _fit_entities(entities, form, entity_budget)
    kept_relations = await _fit_relations(graph, relations, read, entities, form, relation_budget)
    spent = entity_budget.spent + relation_budget.spent
    kept_ids = {item.relation.id for item in kept_relations}
    return Selection(
        kept_entities,
        kept_relations,
        spent,
        len(entities),
        len(relations),
        entities[len(kept_entities) :],
        [item.id for item in relations if item.id not in kept_ids] if plan.param.explain else (),
    )


def _fit_entities(entities: Sequence[Entity], form: ContextFormat, budget: Budget) -> Sequence[Entity]:
    for place, entity in enumerate(entities, start=1):
        if not budget.take(form.entity_cost(place, entity)):
            return entities[: place - 1]
    return entities


async def _fit_relations(
    graph: GraphStore,
    ranked: Sequence[IncidentRelation],
    read: Mapping[str, Relation],
    entities: Sequence[Entity],
    form: ContextFormat,
    budget: Budget,
) -> list[RankedRelation]:
    kept: list[RankedRelation] = []
    start, size = 0, _first_page(read.values(), budget.limit)
    while start < len(ranked):
        page = ranked[start : start + size]
        unread = [item.id for item in page if item.id not in read]
        found = [read[item.id] for item in page if item.id in read]
        found += await graph.get_relations(unread) if unread else ()
        relations = {relation.id: relation for relation in await graph.name_ends(found, entities)}
        for item in page:
            relation = relations.get(item.id)
            if relation is None:
                continue  # Removed since it was ranked.
            if not budget.take(form.relation_cost(len(kept) + 1, relation, item.degree)):
                return kept
            kept.append(RankedRelation(relation, item.degree))
        start += size
        size = min(budget.expected_rows(), _LARGEST_PAGE)
    return kept


def _first_page(read: Collection[Relation], limit: int) -> int:
    tokens = sum(relation.token_count for relation in read)
    return min(_FIRST_PAGE, int(_MARGIN * limit * len(read) / tokens) + 1) if tokens else _FIRST_PAGE
