"""The entity bridge: from a chunk over an entity that it mentions to the chunk with the rest of the answer.

The answer to a question such as "Who directed the film that X sang in?" is in no chunk near the question. For each pair
of a best chunk and an entity in it there is a *residual question*: the question without the chunk's subjects and with
the entity's name. A chunk that holds the entity gains by how much nearer it is to the residual question than to the
question itself. Scoring this gain, not nearness, protects questions that one chunk answers: their residual questions
bring nothing new near.

Bridges cost embeddings. So the vector of a residual question is first estimated from the vectors of the question and
the entity, and only residual questions that may bring a chunk to the front are embedded.

This module is pure: `heliograph.query.fusion` reads and embeds between the two steps.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest

import numpy as np
from numpy.typing import NDArray

from heliograph.ids import mention_entity_id
from heliograph.models import EntityMention
from heliograph.query.linking import LinkedEntity
from heliograph.query.plain_search import best
from heliograph.query.plan import FusionParameters
from heliograph.stores.base import EntityPlaces
from heliograph.text.analysis import terms

# An estimate must bring a chunk to nearly the score of the last of this many first hits.
_FIRST_HITS = 5
_NEARLY = 0.9
# A pair whose entity the question names is followed after most others; one that leads to a chunk about its entity,
# before them.
_NAMED_ORDER = 0.3
_ABOUT_ORDER = 1.3
# Shares of the near chunks that mention an entity: above the first the entity distinguishes them less, above the second
# not at all. With fewer near chunks than `_LEAST_NEAR` the share means nothing.
_FEW_MENTION, _ALL_MENTION = 0.4, 0.9
_LEAST_NEAR = 8


@dataclass(frozen=True, slots=True)
class Start:
    """A chunk from which bridges may start, with its weight, 1 for the best.

    `worth` maps entity ids to the share of the weight that bridges over them have; 1 for entities not in it.
    """

    chunk_id: str
    weight: float
    mentions: Sequence[EntityMention]
    worth: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class FollowedBridge:
    """A bridge worth following, from a chunk over an entity.

    Attributes:
        name: The entity's name, as the chunk writes it.
        order: The score that ranks bridges before any is followed.
        weight: The score that a full gain adds to the only chunk about the entity.
        mention_count: Number of mentions of the entity.
        about: Chunks on the other side that are about the entity.
        mentioning: Chunks there that mention it; empty if it is mentioned too often.
    """

    chunk_id: str
    entity_id: str
    name: str
    order: float
    weight: float
    mention_count: int
    about: tuple[str, ...]
    mentioning: tuple[str, ...]

    def weights(self, parameters: FusionParameters) -> dict[str, float]:
        """Return the score that a full gain adds to each far chunk; those about the entity share the weight."""
        mentioned = self.weight * parameters.mentioned * parameters.rarity(self.mention_count)
        weights = dict.fromkeys(self.mentioning, mentioned)
        return weights | dict.fromkeys(self.about, self.weight / max(1, len(self.about)))


@dataclass(frozen=True, slots=True)
class Gain:
    """The score that a bridge adds to a chunk."""

    value: float
    bridge: FollowedBridge


@dataclass(frozen=True, slots=True)
class Nearness:
    """Cosines of chunks with residual questions, of shape `(residuals, chunks)`, and the column of each chunk."""

    cosines: NDArray[np.float32]
    columns: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The question's case-folded text, its terms, the ids of entities it names, and the chunks nearest to it."""

    folded: str
    terms: frozenset[str]
    named: frozenset[str]
    near: frozenset[str] = frozenset()


def distinction(places: EntityPlaces, near: frozenset[str]) -> float:
    """Return how well an entity distinguishes the chunks near a question: 1 if few mention it, 0 if nearly all do.

    Pages about one subject all name it, so its name neither answers a question about them nor leads anywhere else.
    """
    if len(near) < _LEAST_NEAR:
        return 1.0
    share = len(near.intersection(places.chunk_ids)) / len(near)
    return min(1.0, max(0.0, (_ALL_MENTION - share) / (_ALL_MENTION - _FEW_MENTION)))


def follow_bridges(
    starts: Sequence[Start],
    places: Mapping[str, EntityPlaces],
    wanted: Wanted,
    parameters: FusionParameters,
) -> list[FollowedBridge]:
    """Return the `first_bridges` most promising bridges, best first, ties in the order of the starts.

    Some may lead nowhere yet: `widen` adds chunks whose text holds the name. Entities not in `places` are skipped.
    """
    found = [bridge for start in starts for bridge in _bridges_from(start, places, wanted, parameters)]
    overlaps: dict[str, float] = {}
    chosen: list[tuple[float, int]] = []
    limit = parameters.first_bridges
    # A bridge's bound is the most that its mention's description can give, so most descriptions need not be tokenized.
    for bound, place in sorted((-bridge.bound, place) for place, bridge in enumerate(found)):
        if len(chosen) >= limit and -bound < -chosen[limit - 1][0]:
            break
        said = found[place].said
        if said not in overlaps:
            held = len(wanted.terms.intersection(terms(said)))
            overlaps[said] = held / len(wanted.terms) if wanted.terms else 0.0
        insort(chosen, (-found[place].order(overlaps[said]), place))
    followed: list[FollowedBridge] = []
    for order, item in ((-order, found[place]) for order, place in chosen[:limit]):
        known = places[item.entity_id]
        is_rare = known.mention_count <= parameters.most_mentions
        bridge = FollowedBridge(
            *(item.start.chunk_id, item.entity_id, item.mention.name),
            order=order,
            weight=parameters.bridge_weight * item.weight,
            mention_count=known.mention_count,
            about=item.about,
            mentioning=_others(item.start, known.chunk_ids) if is_rare else (),
        )
        followed.append(bridge)
    return followed


def widen(
    followed: Sequence[FollowedBridge], holders: Sequence[Sequence[str]], parameters: FusionParameters
) -> list[FollowedBridge]:
    """Return the bridges that lead to any chunk, given the chunks whose text holds each entity's name.

    Args:
        followed: Bridges.
        holders: Per bridge up to `parameters.most_mentions + 1` chunks; with that many the name is too common.
        parameters: Weights and bounds.
    """
    widened: list[FollowedBridge] = []
    for item, found in zip(followed, holders, strict=True):
        count = max(item.mention_count, len(found))
        is_rare = count <= parameters.most_mentions
        others = dict.fromkeys((*item.mentioning, *(id_ for id_ in found if id_ != item.chunk_id)))
        mentioning = tuple(others) if is_rare else ()
        if item.about or mentioning:
            widened.append(replace(item, mention_count=count, mentioning=mentioning))
    return widened


def residual_question(question: str, subjects: Sequence[str], entity: str) -> str:
    """Return the question without the first occurrence of each subject, followed by the entity's name."""
    for subject in subjects:
        # Match case-sensitively if lower-casing changes the length of the text.
        lowered = question.lower()
        place = lowered.find(subject.lower()) if len(lowered) == len(question) else question.find(subject)
        if place >= 0:
            question = f"{question[:place]} {question[place + len(subject) :]}"
    return " ".join(f"{question} {entity}".split())


def gains(
    followed: Sequence[FollowedBridge],
    nearness: Nearness,
    known: Mapping[str, float],
    scores: Mapping[str, float],
    parameters: FusionParameters,
) -> list[dict[str, Gain]]:
    """Return, per bridge, the gain of every chunk that gains anything over it.

    No gain lifts a chunk above the one that its bridge starts from, which should be read first. So strong bridges
    cannot push down a chunk that answers the question alone.

    Args:
        followed: The bridges.
        nearness: Cosines of the far chunks with each bridge's residual question; a chunk not in it gains nothing.
        known: Per chunk the cosine with the question, which the one with the residual question must exceed.
        scores: Score of each chunk so far; a missing one is 0, and a start without a score sets no bound.
        parameters: Weights and bounds.
    """
    gained: list[dict[str, Gain]] = []
    for item, near in zip(followed, nearness.cosines, strict=True):
        weights = item.weights(parameters)
        ids = [chunk_id for chunk_id in weights if chunk_id in nearness.columns]
        cosines = near[[nearness.columns[chunk_id] for chunk_id in ids]]
        bound = scores.get(item.chunk_id, math.inf)
        found: dict[str, Gain] = {}
        for chunk_id, cosine in zip(ids, cosines.tolist(), strict=True):
            value = weights[chunk_id] * (cosine - known[chunk_id] - parameters.least_gain)
            value = min(value, bound - scores.get(chunk_id, 0.0))
            if value > 0:
                found[chunk_id] = Gain(value, item)
        gained.append(found)
    return gained


def promising(
    estimated: Sequence[Mapping[str, Gain]], scores: Mapping[str, float], parameters: FusionParameters
) -> list[int]:
    """Return the indices of the bridges whose residual questions are worth embedding, at most `residual_limit`.

    These are the bridges that may bring a chunk among the first hits; if those are far ahead, there are none.
    """
    first = nlargest(_FIRST_HITS, scores.values())
    least = _NEARLY * first[-1] if len(first) == _FIRST_HITS else 0.0
    reach = [
        max((gain.value + scores.get(chunk_id, 0.0) for chunk_id, gain in found.items()), default=0.0)
        for found in estimated
    ]
    order = sorted((place for place, score in enumerate(reach) if score > least), key=lambda place: -reach[place])
    return sorted(order[: parameters.residual_limit])


def best_gains(gained: Iterable[Mapping[str, Gain]]) -> dict[str, Gain]:
    """Return the best gain of every chunk; among equal gains the first."""
    best: dict[str, Gain] = {}
    for found in gained:
        for chunk_id, gain in found.items():
            if chunk_id not in best or gain.value > best[chunk_id].value:
                best[chunk_id] = gain
    return best


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible bridge, before its mention's description is read, with the upper bound of its order."""

    start: Start
    mention: EntityMention
    entity_id: str
    about: tuple[str, ...]
    weight: float
    base: float
    factor: float

    @property
    def said(self) -> str:
        return self.mention.description

    @property
    def bound(self) -> float:
        return self.order(1.0)

    def order(self, overlap: float) -> float:
        """Return the order, given the share of the question's terms that the mention's description holds."""
        return self.base * (0.5 + 0.5 * overlap) * self.factor


def _bridges_from(
    start: Start, places: Mapping[str, EntityPlaces], wanted: Wanted, parameters: FusionParameters
) -> Iterator[_Candidate]:
    seen: set[str] = set()
    for mention in start.mentions:
        entity_id = mention_entity_id(mention)
        known = places.get(entity_id)
        if known is None or entity_id in seen:
            continue
        seen.add(entity_id)
        about = _others(start, known.chunk_ids[: known.subjects])
        if not (about or known.mention_count <= parameters.most_mentions):
            continue
        weight = start.weight * start.worth.get(entity_id, 1.0) * distinction(known, wanted.near)
        is_named = entity_id in wanted.named or mention.name.casefold() in wanted.folded
        yield _Candidate(
            *(start, mention, entity_id, about),
            weight=weight,
            base=weight * parameters.rarity(known.mention_count),
            factor=(_NAMED_ORDER if is_named else 1.0) * (_ABOUT_ORDER if about else 1.0),
        )


def _others(start: Start, chunk_ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([id_ for id_ in chunk_ids if id_ != start.chunk_id]))


# Personalised PageRank on a bounded graph of chunks and the entities that they mention.
#
# Source: Page et al. (1999); on passages and entities: HippoRAG (Gutiérrez et al., 2024). The graph holds only nodes
# that the search has already read, some hundreds, so its cost does not grow with the corpus. Pure.

_ROUNDS = 20


def personalised_pagerank(
    edges: Iterable[tuple[str, str, float]], restart: Mapping[str, float], damping: float
) -> dict[str, float]:
    """Return the share of time that a random walk spends at each node; the shares add up to 1.

    Args:
        edges: Undirected, `(node, node, weight)`; weights above 0.
        restart: Weights of the nodes where the walk restarts; values of 0 or less are ignored. Without any positive
            value the result is empty.
        damping: Probability to continue along an edge, in [0, 1); at a node without edges the walk restarts.
    """
    edges = list(edges)
    places: dict[str, int] = {}
    ends = [places.setdefault(node, len(places)) for edge in edges for node in edge[:2]]
    for node in restart:
        places.setdefault(node, len(places))
    start = np.array([max(0.0, restart.get(node, 0.0)) for node in places])
    if not start.sum() > 0:
        return {}
    start /= start.sum()
    pairs = np.array(ends, np.int64).reshape(-1, 2).T
    sources, targets = pairs.ravel(), pairs[::-1].ravel()
    weights = np.tile(np.array([weight for _, _, weight in edges], float), 2)
    strength = np.bincount(sources, weights, len(places))
    shares = weights / strength[sources] if len(edges) else weights
    at = start
    for _ in range(_ROUNDS):
        moved = np.bincount(targets, at[sources] * shares, len(places)) if len(edges) else np.zeros(len(places))
        moved *= damping
        at = moved + start * (1.0 - moved.sum())
    return dict(zip(places, at.tolist(), strict=True))


# Weight of an edge to the most common entity; one to a rare entity weighs about 1.
_LEAST_EDGE = 0.05
# Restart weight of an entity that the question names; the best chunk has 1.
_NAMED_RESTART = 0.5


def walk(
    totals: Mapping[str, float],
    mentions: Mapping[str, Sequence[EntityMention]],
    places: Mapping[str, EntityPlaces],
    linked: Iterable[LinkedEntity],
    parameters: FusionParameters,
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return the shares of time that a walk around the best chunks and named entities spends at chunks and entities."""
    starts = best(totals, parameters.walk_starts)
    named = list(linked)
    ids = {mention_entity_id(mention) for id_ in starts for mention in mentions.get(id_, ())}
    ids.update(entity.id for entity in named)
    known = {id_: places[id_] for id_ in sorted(ids) if id_ in places}
    # A common entity leads only to the chunks that are about it.
    edges = [
        (chunk_id, id_, parameters.rarity(item.mention_count) + _LEAST_EDGE)
        for id_, item in known.items()
        for chunk_id in item.chunk_ids[: None if item.mention_count <= parameters.most_mentions else item.subjects]
    ]
    top = totals[starts[0]]
    restart = {id_: max(0.0, totals[id_] / top) ** 2 for id_ in starts} if top > 0 else {}
    restart |= {entity.id: _NAMED_RESTART / max(1, len(entity.chunk_ids)) for entity in named}
    shares = personalised_pagerank(edges, restart, parameters.damping)
    entities = {id_: shares[id_] for id_ in ids if id_ in shares}
    return {id_: share for id_, share in shares.items() if id_ not in entities}, entities
