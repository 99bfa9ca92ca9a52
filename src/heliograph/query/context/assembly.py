"""Builds a `Context` from the channels' results: what is kept within the token budgets, and why the rest was dropped.

In order: select entities and relations that fit, find their chunks, merge all chunks into one order, keep the best
(reordered by a reranker if there is one, then cut to the limits of number and tokens), build the context with its
references and text, and on request trace what was kept and dropped.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import NamedTuple

from heliograph.calls.tasks import run_together
from heliograph.errors import ModelError
from heliograph.models import MOST_SOURCES, Chunk, ChunkOutcome, Entity, GraphPath, Relation, sources_of
from heliograph.observing import StageClock, TellStage
from heliograph.query.context.format import (
    Budget,
    ContextFormat,
    ContextRows,
    count_prompt_tokens,
    first_reference,
    fit_rows,
    number_sources,
    paths_tokens,
    show_prompt,
    system_prompt,
)
from heliograph.query.linking import path_row
from heliograph.query.models import (
    Context,
    FusedHit,
    RetrievedChunk,
    RetrievedEntity,
    RetrievedRelation,
    Trace,
    TracedChunk,
    TracedItem,
)
from heliograph.query.plain_search import (
    ChunkPicks,
    Findings,
    MergedChunks,
    Vector,
    by_place,
    fuse_lists,
    ordered,
    round_robin,
)
from heliograph.query.plan import Plan
from heliograph.rerank.base import Reranker
from heliograph.settings import RerankSettings
from heliograph.stores import changeset
from heliograph.stores.base import GraphStore, IncidentRelation, RecordsStore, StoreView
from heliograph.text.tokens import count_tokens

logger = logging.getLogger(__name__)


# Selection of the entities and relations that fit.

# About as many as the default budget holds, so that one page is nearly always enough; if some relations are read
# already, as many of their mean size as fit, and an eighth more.
_FIRST_PAGE = 160
_MARGIN = 9 / 8
_LARGEST_PAGE = 1024


class RankedRelation(NamedTuple):
    """A relation and the sum of its ends' degrees."""

    relation: Relation
    degree: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The entities and relations that fit the token budgets.

    Attributes:
        tokens: Tokens of their rows, newlines included.
        entities_cut: Entities that did not fit, best first.
        relations_cut: Ids of relations that did not fit or were deleted meanwhile, best first; only with `explain`.
    """

    entities: Sequence[Entity] = ()
    relations: Sequence[RankedRelation] = ()
    tokens: int = 0
    entities_found: int = 0
    relations_found: int = 0
    entities_cut: Sequence[Entity] = ()
    relations_cut: Sequence[str] = ()


async def select(graph: GraphStore, findings: Sequence[Findings], form: ContextFormat, plan: Plan) -> Selection:
    """Merge the channels' entities and relations round robin, and keep those that fit."""
    entities = round_robin([found.entities for found in findings], key=lambda entity: entity.id)
    relations = round_robin([found.relations for found in findings], key=lambda relation: relation.id)
    read = {relation_id: relation for found in findings for relation_id, relation in found.relations_read.items()}
    settings = plan.settings
    entity_budget, relation_budget = Budget(settings.max_entity_tokens), Budget(settings.max_relation_tokens)
    fitting = takewhile(lambda item: entity_budget.take(form.entity_cost(*item)), enumerate(entities, start=1))
    kept_entities = [entity for _, entity in fitting]
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


async def _fit_relations(
    graph: GraphStore,
    ranked: Sequence[IncidentRelation],
    read: Mapping[str, Relation],
    entities: Sequence[Entity],
    form: ContextFormat,
    budget: Budget,
) -> list[RankedRelation]:
    kept: list[RankedRelation] = []
    start, size = 0, _FIRST_PAGE
    if tokens := sum(relation.token_count for relation in read.values()):
        size = min(_FIRST_PAGE, int(_MARGIN * budget.limit * len(read) / tokens) + 1)
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


# The chunks of the selected entities and relations, and the order of all chunks.
#
# Each item (an entity or a relation, best first) lists chunks. A chunk belongs to the first item that lists it; an
# item's chunks are ordered by how many items list them. Then one of three rules picks chunks: `weight` gives each item
# a quota that falls linearly with its rank, `vector` takes the chunks nearest to the question (both as LightRAG 1.5.7
# does), and `shared_relations` orders them by entity and by number of shared relations.


@dataclass(frozen=True, slots=True)
class OwnedChunks:
    """Chunk ids grouped by owning item, and how many items list each chunk."""

    groups: Sequence[Sequence[str]]
    frequencies: Mapping[str, int]

    def candidates(self) -> list[str]:
        """Return all chunk ids in the order of the items."""
        return list(chain.from_iterable(self.groups))


def assign_chunks(
    items: Sequence[Sequence[str]], taken: AbstractSet[str] = frozenset(), *, keep_empty: bool
) -> OwnedChunks:
    """Assign every chunk to the first item that lists it.

    Args:
        items: Chunk ids per item, best item first; items without chunks are left out.
        taken: Chunks to leave out and not to count.
        keep_empty: Whether an item whose chunks all belong to others keeps its place, which affects the quotas. It
            does among entities, not among relations.
    """
    frequencies = Counter(chain.from_iterable(items))
    if taken:
        for chunk_id in frequencies.keys() & taken:
            del frequencies[chunk_id]
    unowned = set(frequencies)
    groups: list[list[str]] = []
    for chunk_ids in items:
        group = [chunk_id for chunk_id in dict.fromkeys(chunk_ids) if chunk_id in unowned]
        unowned.difference_update(group)
        if group or (keep_empty and chunk_ids):
            groups.append(group)
    for group in groups:
        group.sort(key=frequencies.__getitem__, reverse=True)
    return OwnedChunks(groups, frequencies)


def pick_by_weight(owned: OwnedChunks, most: int) -> list[str]:
    """Pick chunks by quotas that fall linearly from `most` for the first item to one for the last.

    Quotas are rounded half to even. Unfilled places go one by one to the first item that still has a chunk.
    """
    groups = owned.groups
    if len(groups) <= 1:
        return list(chain.from_iterable(groups))[:most]
    quotas = [round(most - place / (len(groups) - 1) * (most - 1)) for place in range(len(groups))]
    picked = [chunk_id for group, quota in zip(groups, quotas, strict=True) for chunk_id in group[:quota]]
    unfilled = sum(quotas) - len(picked)
    leftovers = chain.from_iterable(group[quota:] for group, quota in zip(groups, quotas, strict=True))
    picked.extend(chunk_id for _, chunk_id in zip(range(unfilled), leftovers, strict=False))
    return picked


def pick_by_shared_relations(
    owned: OwnedChunks, neighbours: Sequence[Sequence[Iterable[str]]], limit: int
) -> list[str]:
    """Pick chunks in the order of the items, within an item by how many of its neighbours also list the chunk.

    Args:
        owned: The chunks, one group per item.
        neighbours: Per item, the chunk ids of each entity at the other end of one of its relations.
        limit: Maximum number of chunks to pick.
    """
    picked: list[str] = []
    for group, others in zip(owned.groups, neighbours, strict=True):
        shared = Counter(chain.from_iterable(others))
        picked.extend(sorted(group, key=shared.__getitem__, reverse=True))
    return picked[:limit]


async def merge_chunks(
    store: StoreView,
    plan: Plan,
    findings: Sequence[Findings],
    selection: Selection,
    question: Vector | None,
    hits: Sequence[FusedHit],
    leaders: Sequence[str],
) -> MergedChunks:
    """Merge the chunks of LightRAG's channels, of the selected items and of the fused search into one order."""
    fused = {hit.chunk_id: hit for hit in hits}
    if plan.is_all_fused:
        totals = {id_: hit.score for id_, hit in fused.items()}
        return MergedChunks(totals, [ChunkPicks("C", list(fused))], fused, leaders)
    cosines = {id_: cosine for found in findings for id_, cosine in found.chunks.items()}
    picks = [ChunkPicks("C", list(cosines))]
    if selection.entities or selection.relations:
        picks += await find_related_chunks(store, plan, selection, question)
    ids = round_robin([pick.ids for pick in picks], key=str)
    if not plan.added_channels:
        return MergedChunks(by_place(ids) if plan.uses_graph else cosines, picks)
    totals = fuse_lists([ids, list(fused)])
    # The fused list replaces the list of the vector channel, or follows it.
    picks[0] = ChunkPicks("C", list(dict.fromkeys([*cosines, *fused])))
    return MergedChunks({id_: totals[id_] for id_ in ordered(totals)}, picks, fused)


# Shared relations are counted over this many best-ranked relations of all entities together.
MAX_COUNTED_RELATIONS = 5000


async def find_related_chunks(
    store: StoreView, plan: Plan, selection: Selection, question: Vector | None
) -> tuple[ChunkPicks, ChunkPicks]:
    """Return the chunks of the entities, and those of the relations without the former."""
    of_entities = [entity.chunk_ids for entity in selection.entities]
    of_relations = [item.relation.chunk_ids for item in selection.relations]
    owned = assign_chunks(of_entities, keep_empty=True)
    limit, picking = plan.settings.related_chunks, plan.settings.chunk_picking
    if picking == "shared_relations":
        listed = [entity for entity in selection.entities if entity.chunk_ids]
        neighbours = await _neighbour_chunks(store.graph, listed)
        picked = pick_by_shared_relations(owned, neighbours, limit * len(owned.groups))
    else:
        picked = await _pick(store, plan, owned, question)
    entity_picks = ChunkPicks("E", picked, owned.frequencies)
    rest = assign_chunks(of_relations, set(picked), keep_empty=False)
    if picking == "shared_relations":
        picked = rest.candidates()[: limit * len(rest.groups)]
    else:
        picked = await _pick(store, plan, rest, question)
    return entity_picks, ChunkPicks("R", picked, rest.frequencies)


async def _pick(store: StoreView, plan: Plan, owned: OwnedChunks, question: Vector | None) -> list[str]:
    if plan.settings.chunk_picking == "vector" and question is not None and owned.groups:
        limit = int(plan.settings.related_chunks * len(owned.groups) / 2)
        places = {chunk_id: place for place, chunk_id in enumerate(owned.candidates())}
        hits = await store.vectors.rank(changeset.Collection.CHUNKS, question, list(places), limit)
        if hits:
            return [hit.id for hit in sorted(hits, key=lambda hit: (-hit.score, places[hit.id]))]
        logger.warning("chunks are picked by weight: none has a vector, or there are too few to pick from")
    return pick_by_weight(owned, plan.settings.related_chunks)


async def _neighbour_chunks(graph: GraphStore, entities: Sequence[Entity]) -> list[list[Sequence[str]]]:
    """Return, per entity, the chunk ids of every entity at the other end of one of its relations."""
    ranked = await graph.rank_incident_relations([entity.id for entity in entities])
    relations = await graph.get_relations([item.id for item in ranked[:MAX_COUNTED_RELATIONS]])
    others: dict[str, list[str]] = {entity.id: [] for entity in entities}
    for relation in relations:
        for end, other in ((relation.source_id, relation.target_id), (relation.target_id, relation.source_id)):
            if end in others:
                others[end].append(other)
    known = {entity.id: entity for entity in entities}
    unread = dict.fromkeys(other for ends in others.values() for other in ends if other not in known)
    known |= {entity.id: entity for entity in await graph.get_entities(list(unread))}
    return [[known[other].chunk_ids for other in others[entity.id] if other in known] for entity in entities]


# Selection of the kept chunks: in a reranker's order if there is one, cut to the limits of number and tokens.
#
# If the reranker fails, the question does not: the merged order is kept, and a warning says why. A cut must spare the
# leaders and the best chain of bridges.

# Number of first hits in which a chain of bridges counts as needed for the question.
_CHAIN_HEAD = 5


def needed_chunks(ranked: Sequence[str], chains: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the chunks of every hop of the best chain of bridges: first hit, intermediate chunks, and the last one.

    Empty if none of the first five chunks was reached over a bridge.
    """
    reached = next((id_ for id_ in ranked[:_CHAIN_HEAD] if chains.get(id_)), None)
    return () if reached is None else tuple(dict.fromkeys((*chains[reached], reached)))


def with_leaders(order: Sequence[str], leaders: Sequence[str], head: int) -> list[str]:
    """Return the order with every leader moved into the first `head` places, otherwise changed as little as possible.

    A leader from further down takes the last of these places without a leader; the chunk displaced from there follows
    right behind the head. Missing leaders are added. If there are more leaders than places, the first ones get in.

    Args:
        order: Chunk ids, best first.
        leaders: Chunk ids, most important first.
        head: Number of places at the front; at least 1.
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


# Chunks, each with the reranker's score or None.
_Ranked = Sequence[tuple[Chunk, float | None]]


async def rerank_chunks(
    reranker: Reranker, settings: RerankSettings, question: str, chunks: Sequence[Chunk], top_n: int
) -> tuple[_Ranked, str, int]:
    """Return the `top_n` best chunks that score at least `settings.min_score`; a minimum of 0 keeps all.

    Also return a warning if the reranker failed or kept none, else an empty string, and the number of chunks left out
    because they scored less. If it failed, the chunks keep the order of the search.
    """
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            hits = await reranker.rerank(question, [chunk.text for chunk in chunks], top_n)
    except (ModelError, TimeoutError) as error:
        reason = str(error) or f"no reply within {settings.timeout_seconds:g} seconds"
        warning = f"the reranker {reranker.name!r} failed, so chunks keep the order of the search: {reason}"
        return [(chunk, None) for chunk in chunks[:top_n]], warning, 0
    # Some services repeat an index, or return one that was not sent.
    scores: dict[int, float] = {}
    for hit in hits:
        if 0 <= hit.index < len(chunks):
            scores.setdefault(hit.index, hit.score)
    if not scores:
        warning = f"the reranker {reranker.name!r} ranked nothing, so chunks keep the order of the search"
        return [(chunk, None) for chunk in chunks[:top_n]], warning, 0
    least = settings.min_score if settings.min_score > 0 else -math.inf
    enough = [(chunks[index], score) for index, score in scores.items() if score >= least]
    warning = ""
    if not enough:
        warning = (
            f"the reranker {reranker.name!r} scored every passage below rerank.min_score={settings.min_score:g}, the "
            f"best {max(scores.values()):g}, so none is kept; lower it"
        )
    return enough[:top_n], warning, len(scores) - len(enough)


@dataclass(frozen=True, slots=True)
class KeptChunks:
    """The chunks that fit the token budget.

    Attributes:
        chunks: Kept chunks, each with the reranker's score or None.
        bodies: Results of `ContextFormat.chunk_body` by chunk id, also for chunks that did not fit.
        sources: Source per chunk id, also for the chunks of entities and relations.
        other_sources: Per source, the other sources of documents with the same text.
        ranked: The reranker's scores or None by chunk id, in order, before the cut to the token budget.
        below_threshold: Number of chunks left out because the reranker scored them below the threshold.
    """

    chunks: Sequence[tuple[Chunk, float | None]]
    bodies: Mapping[str, str]
    sources: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    other_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    ranked: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    is_reranked: bool = False
    below_threshold: int = 0


class ChunkKeeper:
    """Reads, reranks and cuts chunks."""

    def __init__(self, records: RecordsStore, reranker: Reranker | None, rerank_settings: RerankSettings) -> None:
        self._records = records
        self._reranker = reranker
        self._rerank_settings = rerank_settings

    def reranks(self, plan: Plan) -> bool:
        """Return whether a reranker orders the plan's chunks."""
        return self._reranker is not None and plan.settings.enable_rerank

    async def keep(
        self,
        plan: Plan,
        form: ContextFormat,
        selection: Selection,
        merged: MergedChunks,
        room: int,
        progress: TellStage,
        clock: StageClock,
    ) -> KeptChunks:
        """Return the chunks, of all found, that go into the context, best first.

        `room` is the number of tokens for all rows; those of the selected entities and relations are subtracted. `form`
        determines the token cost of a row.

        Raises:
            StoreError: The store failed.
        """
        reranker = self._reranker if self.reranks(plan) and merged.ids else None
        most = plan.settings.chunk_top_k
        wanted = merged.ids if reranker else merged.ids[:most]
        # The sources of the chunks themselves and of the chunks of entities and relations are shown.
        items = (*selection.entities, *(item.relation for item in selection.relations))
        named = {*wanted, *(id_ for item in items for id_ in item.chunk_ids[:MOST_SOURCES])}
        chunks, sources = await run_together(self._records.get_chunks(wanted), self._records.get_sources(list(named)))
        ranked: _Ranked = [(chunk, None) for chunk in chunks[:most]]
        warnings: list[str] = []
        below_threshold = 0
        if reranker:
            progress("reranking")
            with clock.measure("rerank"):
                question, settings = plan.question, self._rerank_settings
                ranked, warning, below_threshold = await rerank_chunks(reranker, settings, question, chunks, most)
            if merged.leaders and ranked:
                # Bring back the leaders that the reranker, which sees only the whole question, left out.
                scores = {chunk.id: score for chunk, score in ranked}
                known = {chunk.id: chunk for chunk in chunks}
                leaders = [leader for leader in merged.leaders if leader in known]
                in_turn = with_leaders(list(scores), leaders, len(ranked))[: len(ranked)]
                ranked = [(known[chunk_id], scores.get(chunk_id)) for chunk_id in in_turn]
            warnings += [warning] if warning else []
        bodies = {chunk.id: form.chunk_body(chunk) for chunk, _ in ranked}
        kept = await _fit(form, room - selection.tokens, ranked, bodies, merged)
        if not kept:
            warnings += _tell_what_did_not_fit(plan, selection, ranked)
        twins = await self._records.get_twin_sources([chunk.id for chunk, _ in kept])
        others = {sources[id_]: found for id_, found in twins.items() if id_ in sources}
        order = {chunk.id: score for chunk, score in ranked}
        return KeptChunks(kept, bodies, sources, tuple(warnings), others, order, reranker is not None, below_threshold)


def _tell_what_did_not_fit(plan: Plan, selection: Selection, ranked: _Ranked) -> list[str]:
    """Return the warning for a context without passages: no passage fits, or no entity and relation either."""
    settings = plan.settings
    total = f"max_total_tokens={settings.max_total_tokens:,}"
    if ranked:
        return [
            f"no passage fits {total} beside the prompt, the question, the entities and the relations; raise it "
            "(chat.context_tokens bounds it), or lower max_entity_tokens and max_relation_tokens"
        ]
    is_cut = (selection.entities_found or selection.relations_found) and not (selection.entities or selection.relations)
    if not is_cut:
        return []
    return [
        f"no entity and no relation fits max_entity_tokens={settings.max_entity_tokens:,}, "
        f"max_relation_tokens={settings.max_relation_tokens:,} and {total} beside the prompt and the question; raise "
        "them (chat.context_tokens bounds the last)"
    ]


async def _fit(
    form: ContextFormat, limit: int, ranked: _Ranked, bodies: Mapping[str, str], merged: MergedChunks
) -> _Ranked:
    """Return the first chunks that fit; needed chunks are moved to the front if the budget would cut one of them."""
    count = await _count_fitting(form, limit, ranked, bodies)
    needed = {*merged.leaders, *needed_chunks([chunk.id for chunk, _ in ranked], merged.paths)}
    if any(chunk.id in needed for chunk, _ in ranked[count:]):
        ranked = sorted(ranked, key=lambda item: item[0].id not in needed)
        count = await _count_fitting(form, limit, ranked, bodies)
    return ranked[:count]


async def _count_fitting(form: ContextFormat, limit: int, ranked: _Ranked, bodies: Mapping[str, str]) -> int:
    """Return how many of the first chunks have at most `limit` tokens as rows."""
    # References are numbered after this cut; no number will have more digits than this.
    widest = str(len(ranked))
    rows = [form.chunk_row(place, widest, bodies[chunk.id]) for place, (chunk, _) in enumerate(ranked, start=1)]
    bounds = [form.chunk_bound(chunk, row) for (chunk, _), row in zip(ranked, rows, strict=True)]
    return await fit_rows(rows, bounds, limit)


# The context: the kept chunks with their references, and the text.
#
# Fused chunks are ranked best first, but the text groups related ones: a chunk reached over a bridge follows the chunks
# that led to it, and chunks of one document stand in document order. Only the text is reordered, not the list of
# chunks. In the modes of LightRAG the text has the order of the ranking.


def evidence_order(chunks: Sequence[Chunk], chains: Mapping[str, Sequence[str]]) -> list[int]:
    """Return the indices of the chunks in reading order, each once.

    Args:
        chunks: Chunks, best first.
        chains: Per chunk reached over bridges, the chunks passed on the way to it, the first hit first.
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
        # The chain that leads to the chunk, the chunk itself, then the chains that start from it, the best end first.
        ways = [(*chains.get(chunk.id, ()), chunk.id), *((*chains[end], end) for end in ends.get(chunk.id, ()))]
        group = [places[id_] for way in ways for id_ in way if id_ in places and places[id_] not in order]
        for place in group:
            order.update(
                dict.fromkeys(sorted(of_document[chunks[place].document_id], key=lambda other: chunks[other].position))
            )
    return [*dict.fromkeys(order)]


def build_context(
    plan: Plan,
    form: ContextFormat,
    selection: Selection,
    merged: MergedChunks,
    kept: KeptChunks,
    paths: tuple[GraphPath, ...] | None = None,
) -> Context:
    """Return the context; an empty one without entities, relations and chunks."""
    references = number_sources((kept.sources.get(chunk.id, "") for chunk, _ in kept.chunks), kept.other_sources)
    numbers = {reference.source: number for number, reference in enumerate(references, start=1)}
    found: list[RetrievedChunk] = []
    for (chunk, score), marks in zip(kept.chunks, merged.marks([chunk.id for chunk, _ in kept.chunks]), strict=True):
        source = kept.sources.get(chunk.id, "")
        reference_id = str(numbers[source]) if source else ""
        scores, total = merged.hit(chunk.id).scores, merged.totals[chunk.id]
        found.append(
            RetrievedChunk(chunk, source, reference_id, marks, score, scores, total if score is None else score)
        )
    if not (selection.entities or selection.relations or found):
        return Context()
    if logger.isEnabledFor(logging.INFO):
        # Log only the last of several marks, as LightRAG does: `E5/2 R2/1 C1/1`.
        logger.info("final chunks: %s", " ".join(str(item.marks[-1]) for item in found))
    text = ""
    if plan.is_written:
        # In reading order; only fused chunks are reordered.
        order = range(len(found))
        if plan.is_all_fused:
            order = evidence_order([item.chunk for item in found], merged.paths)
        rows = ContextRows(
            has_graph=plan.uses_graph,
            entities=[form.entity_row(place, entity) for place, entity in enumerate(selection.entities, start=1)],
            relations=[
                form.relation_row(place, item.relation, item.degree)
                for place, item in enumerate(selection.relations, start=1)
            ],
            chunks=[
                form.chunk_row(place, found[index].reference_id, kept.bodies[found[index].chunk.id])
                for place, index in enumerate(order, start=1)
            ],
            references=references,
            paths=[path_row(path) for path in paths or ()],
        )
        text = form.render(rows)
    named_entities = [(entity, sources_of(entity.chunk_ids, kept.sources)) for entity in selection.entities]
    named_relations = [(item, sources_of(item.relation.chunk_ids, kept.sources)) for item in selection.relations]
    return Context(
        text=text,
        entities=tuple(
            RetrievedEntity(entity, sources, first_reference(sources, numbers)) for entity, sources in named_entities
        ),
        relations=tuple(
            RetrievedRelation(item.relation, item.degree, sources, first_reference(sources, numbers))
            for item, sources in named_relations
        ),
        chunks=tuple(found),
        references=references,
        paths=paths,
    )


# The trace of everything found: kept, or dropped and why. Built only for a question with `explain`, since it reads
# chunks and relations that the answer does not need.

# Limits of the trace, which lists only the best dropped chunks, entities and relations.
_MOST_CHUNKS = 100
_MOST_ITEMS = 40
_OPENING = 240


async def trace_retrieval(
    store: StoreView,
    plan: Plan,
    form: ContextFormat,
    selection: Selection,
    merged: MergedChunks,
    kept: KeptChunks,
    context: Context,
) -> Trace:
    """Return which chunks, entities and relations were kept or dropped, and how the tokens were spent.

    Dropped chunks are read from the store; `form` determines the token cost of rows.

    Raises:
        StoreError: The store failed.
    """
    shown = [item.chunk.id for item in context.chunks]
    kept_ids = frozenset(shown)
    dropped = [id_ for id_ in merged.ids if id_ not in kept_ids][: max(0, _MOST_CHUNKS - len(shown))]
    wanted = [*shown, *dropped]
    cut = selection.relations_cut[:_MOST_ITEMS]
    chunks, sources = await run_together(store.records.get_chunks(wanted), store.records.get_sources(wanted))
    relations = await store.graph.name_ends(
        await store.graph.get_relations(cut), (*selection.entities, *selection.entities_cut)
    )
    entity_rows = [form.entity_row(place, item) for place, item in enumerate(selection.entities, start=1)]
    relation_rows = [
        form.relation_row(place, item.relation, item.degree) for place, item in enumerate(selection.relations, start=1)
    ]
    return Trace(
        chunks=_chunks(plan, form, merged, kept, {chunk.id: chunk for chunk in chunks}, sources, wanted),
        entities=(
            *(TracedItem(item.name, is_kept=True) for item in selection.entities),
            *(TracedItem(item.name, is_kept=False) for item in selection.entities_cut[:_MOST_ITEMS]),
        ),
        relations=(
            *(
                TracedItem(f"{item.relation.source} – {item.relation.target}", is_kept=True)
                for item in selection.relations
            ),
            *(TracedItem(f"{item.source} – {item.target}", is_kept=False) for item in relations),
        ),
        tokens={
            "prompt": count_prompt_tokens(plan),
            "question": count_tokens(plan.question),
            "frame": form.frame_tokens(has_graph=plan.uses_graph) + paths_tokens(form, context.paths or ()),
            "entities": _count(entity_rows),
            "relations": _count(relation_rows),
            "chunks": sum(
                count_tokens(form.chunk_row(place, item.reference_id, form.chunk_body(item.chunk)))
                for place, item in enumerate(context.chunks, start=1)
            ),
            "total": plan.settings.max_total_tokens,
        },
        prompt=show_prompt(plan, system_prompt(plan, context.text)) if plan.is_written else "",
    )


def _chunks(
    plan: Plan,
    form: ContextFormat,
    merged: MergedChunks,
    kept: KeptChunks,
    known: dict[str, Chunk],
    sources: dict[str, str],
    ids: Sequence[str],
) -> tuple[TracedChunk, ...]:
    places = {id_: place for place, id_ in enumerate(merged.ids, start=1)}
    final = {chunk.id for chunk, _ in kept.chunks}
    marks = dict(zip(ids, merged.marks(ids), strict=True))
    order = sorted((id_ for id_ in ids if id_ in known), key=lambda id_: places.get(id_, len(places)))
    # Why unranked chunks were dropped: a reranker gets all chunks (`keep`); without one only the first few are read.
    most = plan.settings.chunk_top_k
    unranked: dict[str, ChunkOutcome] = {
        id_: "rerank" if kept.is_reranked and places.get(id_, 0) <= most else "count" for id_ in order
    }
    return tuple(
        TracedChunk(
            chunk_id=id_,
            document_id=known[id_].document_id,
            source=sources.get(id_, ""),
            page=known[id_].page,
            headings=known[id_].headings,
            start=known[id_].start,
            opening=known[id_].text[:_OPENING],
            tokens=count_tokens(form.chunk_body(known[id_])),
            place=places.get(id_, 0),
            marks=tuple(str(mark) for mark in marks[id_]),
            scores=merged.hit(id_).scores,
            rerank_score=kept.ranked.get(id_),
            path=merged.hit(id_).path,
            outcome="kept" if id_ in final else "budget" if id_ in kept.ranked else unranked[id_],
        )
        for id_ in order
    )


def _count(rows: Sequence[str]) -> int:
    return count_tokens("\n".join(rows))
