"""Which of the found entities and relations fit their budgets.

The first ones are kept, whole. Relations are read from the store page by page until the budget is full, since an
entity may have a hundred thousand of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from heliograph.models import Entity, Relation
from heliograph.query.channels.base import Findings
from heliograph.query.context.budget import Budget
from heliograph.query.context.format import ContextFormat
from heliograph.query.merging import round_robin
from heliograph.query.plan import Plan
from heliograph.stores.base import GraphStore, IncidentRelation

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
    """

    entities: Sequence[Entity] = ()
    relations: Sequence[RankedRelation] = ()
    tokens: int = 0
    entities_found: int = 0
    relations_found: int = 0


async def select(graph: GraphStore, findings: Sequence[Findings], form: ContextFormat, plan: Plan) -> Selection:
    """Merge what the channels found, round robin, and keep what fits."""
    entities = round_robin([found.entities for found in findings], key=lambda entity: entity.id)
    relations = round_robin([found.relations for found in findings], key=lambda relation: relation.id)
    read = {relation_id: relation for found in findings for relation_id, relation in found.relations_read.items()}
    entity_budget, relation_budget = Budget(plan.max_entity_tokens), Budget(plan.max_relation_tokens)
    kept_entities = _fit_entities(entities, form, entity_budget)
    kept_relations = await _fit_relations(graph, relations, read, entities, form, relation_budget)
    spent = entity_budget.spent + relation_budget.spent
    return Selection(kept_entities, kept_relations, spent, len(entities), len(relations))


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
