"""Merges mentions into entities and relations. Pure functions: they get all input as arguments and store nothing.

Counts over all mentions and the first few mentions in canonical order are updated incrementally; equal mentions give
equal entities, whatever the order of additions and removals. People's corrections override mentions. For one change,
each touched entity or relation gets its new counts, its description, and the data to write, embed and index.
A store uses the same merge when it reads under a filter.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import StoreError
from heliograph.extraction.base import entity_mention_order, relation_mention_order
from heliograph.ids import (
    end_ids,
    entity_key,
    mention_entity_id,
    mention_relation_id,
    name_to_entity_id,
    prevailing_type,
)
from heliograph.models import (
    FIELD_SEPARATOR,
    Entity,
    EntityEvidence,
    EntityMention,
    Extraction,
    Relation,
    RelationEvidence,
    RelationMention,
)
from heliograph.settings import IngestSettings
from heliograph.stores.base import Fold
from heliograph.stores.changeset import TextEntry, VectorBatch
from heliograph.text.analysis import entity_index_terms
from heliograph.text.tokens import count_tokens, cut_to_tokens, entity_row, relation_row

_MentionsOfEntities = dict[str, list[EntityMention]]
_MentionsOfRelations = dict[str, list[RelationMention]]


@dataclass(frozen=True, slots=True)
class MentionDelta:
    """Removed and added mentions, per entity or relation id; an id without any is absent."""

    removed_entity_mentions: _MentionsOfEntities = field(default_factory=_MentionsOfEntities)
    added_entity_mentions: _MentionsOfEntities = field(default_factory=_MentionsOfEntities)
    removed_relation_mentions: _MentionsOfRelations = field(default_factory=_MentionsOfRelations)
    added_relation_mentions: _MentionsOfRelations = field(default_factory=_MentionsOfRelations)

    @property
    def entity_ids(self) -> list[str]:
        """Ids of the entities that change."""
        return list(self.removed_entity_mentions | self.added_entity_mentions)

    @property
    def relation_ids(self) -> list[str]:
        """Ids of the relations that change."""
        return list(self.removed_relation_mentions | self.added_relation_mentions)

    @property
    def most_removed(self) -> int:
        """The largest number of mentions that a single entity or relation loses."""
        removed = (*self.removed_entity_mentions.values(), *self.removed_relation_mentions.values())
        return max(map(len, removed), default=0)


def mention_delta(
    removed: Sequence[Extraction], added: Sequence[Extraction], renewed: AbstractSet[str] = frozenset()
) -> MentionDelta:
    """Return the mentions removed and added when extractions are replaced by others; both canonical.

    A mention in both is left out, unless its chunk is in `renewed`, that is has a new vector, from which the vectors of
    its entities and relations are made.
    """
    old_entities, new_entities = ({m for e in side for m in e.entities} for side in (removed, added))
    old_relations, new_relations = ({m for e in side for m in e.relations} for side in (removed, added))
    same_entities = {mention for mention in old_entities & new_entities if mention.chunk_id not in renewed}
    same_relations = {mention for mention in old_relations & new_relations if mention.chunk_id not in renewed}
    return MentionDelta(
        _grouped(old_entities - same_entities, mention_entity_id),
        _grouped(new_entities - same_entities, mention_entity_id),
        _grouped(old_relations - same_relations, mention_relation_id),
        _grouped(new_relations - same_relations, mention_relation_id),
    )


def _grouped(mentions: Iterable[M], id_of: Callable[[M], str]) -> dict[str, list[M]]:
    grouped: dict[str, list[M]] = {}
    for mention in mentions:
        id_ = id_of(mention)
        # A relation between two names of one entity does not count.
        if isinstance(mention, EntityMention) or id_ not in (mention.source_id, mention.target_id):
            grouped.setdefault(id_, []).append(mention)
    return grouped


@dataclass(frozen=True, slots=True)
class EntityOverrides:
    """People's corrections of an entity.

    Attributes:
        merged_name: Its name if no mention spells the name of its id.
        description: Replaces the mentions' descriptions unless None.
        statements: Descriptions from its creation by hand; they come before those of mentions.
    """

    name: str = ""
    merged_name: str = ""
    type: str = ""
    description: str | None = None
    statements: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    is_kept: bool = False
    is_hidden: bool = False

    @property
    def is_described(self) -> bool:
        """Whether they describe it, beside or in place of what mentions say."""
        return self.description is not None or bool(self.statements)


@dataclass(frozen=True, slots=True)
class RelationOverrides:
    """People's corrections of a relation.

    Attributes:
        source: Name that people gave the entity `source_id` of its evidence; empty takes the name from mentions.
        target: Likewise for `target_id`.
        other_names: Names of the two ends if no mention spells the names of their ids.
        description: Replaces the mentions' descriptions unless None.
        keywords: Replaces the mentions' keywords unless None.
        weight: Replaces the sum of the mentions' weights unless None.
        statements: Descriptions from its creation by hand; they come before those of mentions.
        more_weight: Weight from its creation by hand, added to that of the mentions.
        is_hidden: Whether it, or one of its ends, was deleted by hand.
        is_anew: Whether it was created by hand after its deletion, so that the mentions of documents stay deleted.
    """

    source: str = ""
    target: str = ""
    other_names: tuple[str, str] = ("", "")
    description: str | None = None
    keywords: tuple[str, ...] | None = None
    weight: float | None = None
    statements: tuple[str, ...] = ()
    more_keywords: tuple[str, ...] = ()
    more_weight: float = 0.0
    is_kept: bool = False
    is_hidden: bool = False
    is_anew: bool = False

    @property
    def is_described(self) -> bool:
        """Whether they describe it, beside or in place of what mentions say."""
        return (self.description, self.keywords) != (None, None) or bool(self.statements)


NO_ENTITY_OVERRIDES = EntityOverrides()
NO_RELATION_OVERRIDES = RelationOverrides()


_MILLION = 1_000_000
_KEYWORD_ENDS = re.compile(r"[,;、，；\n\t]+")
_MAX_KEYWORD_LENGTH = 500
_MAX_KEYWORDS = 50
# Up to so many added mentions are inserted one by one; more are sorted together.
_FEW_ADDED = 4

M = TypeVar("M", EntityMention, RelationMention)
# Fast getters: every document reads these of a hub entity's hundreds of mentions.
_DESCRIPTION, _CHUNK_ID = attrgetter("description"), attrgetter("chunk_id")


@dataclass(frozen=True, slots=True)
class EvidenceFold(Fold):
    """The merge under given limits, used by the ingest, and by a store that reads under a filter.

    Under a filter the graph is as if only the matching documents had been ingested: without people's corrections, and
    with descriptions joined and never summarised, since a stored summary may contain facts of other documents, and a
    question must not wait for a model to write another.

    Attributes:
        max_fragments: How many mentions, first in canonical order, give their descriptions.
        max_description_tokens: Limit for an entity or relation, joined or summarised (`ingest.summary_tokens`).
    """

    max_fragments: int
    max_sources: int
    max_description_tokens: int

    @classmethod
    def of(cls, settings: IngestSettings) -> Self:
        """Return the fold with the limits of the ingest settings."""
        return cls(settings.max_fragments, settings.max_sources, settings.summary_tokens)

    @property
    def leading(self) -> int:
        return max(self.max_fragments, self.max_sources)

    def count_entity(self, id_: str, mentions: Sequence[EntityMention], leading: int) -> EntityEvidence:
        return apply_entity_delta(empty_entity_evidence(id_), (), mentions, leading)

    def count_relation(
        self, id_: str, ends: tuple[str, str], mentions: Sequence[RelationMention], leading: int
    ) -> RelationEvidence:
        return apply_relation_delta(empty_relation_evidence(id_, ends), (), mentions, leading)

    def fold_entity(self, evidence: EntityEvidence) -> Entity:
        return fold_entity(evidence, self.join(self.fragments(evidence)), self)

    def fold_relation(self, evidence: RelationEvidence) -> Relation:
        return fold_relation(evidence, self.join(self.fragments(evidence)), self)

    def name_terms(self, entity: Entity) -> Sequence[str]:
        return entity_index_terms(entity)

    def fragments(self, evidence: EntityEvidence | RelationEvidence) -> tuple[str, ...]:
        """Return the distinct descriptions of the first mentions, in canonical order, without empty ones."""
        descriptions = dict.fromkeys(map(_DESCRIPTION, evidence.leading[: self.max_fragments]))
        descriptions.pop("", None)
        return tuple(descriptions)

    def join(self, fragments: Sequence[str]) -> str:
        """Return the description made of fragments without a chat model; see `join_fragments`."""
        return join_fragments(fragments, self.max_description_tokens)


@lru_cache(maxsize=16_384)
def _token_count(fragment: str) -> int:
    # Cached, since a hub's fragments are joined again for every document that mentions it.
    return count_tokens(fragment)


def join_fragments(fragments: Sequence[str], max_tokens: int) -> str:
    """Return the first whole fragments that fit, joined by `<SEP>`, empty ones and repeats left out.

    If the first alone has more than `max_tokens` (o200k_base), it is cut; none at all gives an empty text.
    """
    distinct = distinct_fragments(fragments)
    joined = FIELD_SEPARATOR.join(distinct)
    if byte_count(joined) <= max_tokens:
        return joined
    total, separator = 0, _token_count(FIELD_SEPARATOR)
    for count, fragment in enumerate(distinct):
        total += _token_count(fragment) + (separator if count else 0)
        if total > max_tokens:
            return FIELD_SEPARATOR.join(distinct[:count]) or cut_to_tokens(fragment, max_tokens)
    return joined


def byte_count(text: str) -> int:
    """Return the UTF-8 length of a text: an upper bound of its token count that is far faster to compute."""
    return len(text.encode("utf-8", "surrogatepass"))


def distinct_fragments(fragments: Sequence[str]) -> list[str]:
    """Return the fragments that are not blank, deduplicated."""
    return list(dict.fromkeys(filter(str.strip, fragments)))


def empty_entity_evidence(id_: str) -> EntityEvidence:
    """Return the evidence of an entity without mentions."""
    return EntityEvidence(id_, {}, {}, 0, ())


def empty_relation_evidence(id_: str, ends: tuple[str, str]) -> RelationEvidence:
    """Return the evidence of a relation without mentions between these two entity ids."""
    first, second = sorted(ends)
    return RelationEvidence(id_, first, second, {}, 0, 0, ())


def apply_entity_delta(
    evidence: EntityEvidence, removed: Collection[EntityMention], added: Collection[EntityMention], leading: int
) -> EntityEvidence:
    """Return the evidence, with `leading` mentions, after removing and adding mentions.

    The given evidence must have at least its first `leading + len(removed)` mentions, or all.

    Raises:
        StoreError: A removed mention was never counted.
    """
    return EntityEvidence(
        id=evidence.id,
        names=_recount(evidence.id, evidence.names, [m.name for m in removed], [m.name for m in added]),
        types=_recount(evidence.id, evidence.types, [m.type for m in removed], [m.type for m in added]),
        mention_count=evidence.mention_count - len(removed) + len(added),
        leading=_leading(evidence.leading, removed, added, entity_mention_order, leading),
        version=evidence.version,
    )


def apply_relation_delta(
    evidence: RelationEvidence, removed: Collection[RelationMention], added: Collection[RelationMention], leading: int
) -> RelationEvidence:
    """Return the evidence after removing and adding mentions; as `apply_entity_delta`."""
    fewer = [keyword for mention in removed for keyword in split_keywords(mention.keywords)]
    more = [keyword for mention in added for keyword in split_keywords(mention.keywords)]
    weight = evidence.weight_millionths + sum(map(_millionths, added)) - sum(map(_millionths, removed))
    return RelationEvidence(
        id=evidence.id,
        source_id=evidence.source_id,
        target_id=evidence.target_id,
        keywords=_recount(evidence.id, evidence.keywords, fewer, more),
        weight_millionths=weight,
        mention_count=evidence.mention_count - len(removed) + len(added),
        leading=_leading(evidence.leading, removed, added, relation_mention_order, leading),
        version=evidence.version,
    )


def entity_name(evidence: EntityEvidence, overrides: EntityOverrides = NO_ENTITY_OVERRIDES) -> str:
    """Return an entity's name: the one that people gave it, else its most frequent spelling.

    Spellings of the name of its id take precedence over its other names; ties go to the first in character order.
    """
    if overrides.name:
        return overrides.name
    counts = evidence.names or dict.fromkeys(overrides.aliases, 1)
    return _spelling(counts, evidence.id, overrides.merged_name)


def end_names(
    evidence: RelationEvidence, overrides: RelationOverrides = NO_RELATION_OVERRIDES
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return name and entity id of both ends, the end whose key sorts first in front.

    An end has the name that people gave it, else its most frequent spelling among the leading mentions, as in
    `entity_name`.
    """
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    for mention in evidence.leading:
        name, other = mention.source, mention.target
        if (mention.source_id or name_to_entity_id(name)) != evidence.source_id:
            name, other = other, name
        first[name] = first.get(name, 0) + 1
        second[other] = second.get(other, 0) + 1
    source = overrides.source or _spelling(first, evidence.source_id, overrides.other_names[0])
    target = overrides.target or _spelling(second, evidence.target_id, overrides.other_names[1])
    ends = (source, evidence.source_id), (target, evidence.target_id)
    return ends if entity_key(source) <= entity_key(target) else (ends[1], ends[0])


def fold_entity(
    evidence: EntityEvidence,
    description: str,
    limits: EvidenceFold,
    stored: Entity | None = None,
    overrides: EntityOverrides = NO_ENTITY_OVERRIDES,
) -> Entity:
    """Fold evidence into an entity.

    Args:
        evidence: At least one mention, unless people keep the entity.
        description: Made from its fragments, or people's replacement of them.
        limits: The limits under which the evidence was kept.
        stored: An earlier fold; its token count is reused if the counted line is the same.
        overrides: People's corrections of it.
    """
    name, type_ = entity_name(evidence, overrides), overrides.type or prevailing_type(evidence.types)
    names = {*evidence.names, *overrides.aliases} if overrides.aliases else evidence.names
    if stored is not None and (stored.name, stored.type, stored.description) == (name, type_, description):
        token_count = stored.token_count
    else:
        token_count = count_tokens(entity_row(name, type_, description))
    return Entity(
        id=evidence.id,
        name=name,
        type=type_,
        description=description,
        aliases=tuple(sorted(alias for alias in names if alias != name)),
        chunk_ids=_chunk_ids(evidence.leading, limits.max_sources),
        token_count=token_count,
    )


def fold_relation(
    evidence: RelationEvidence,
    description: str,
    limits: EvidenceFold,
    stored: Relation | None = None,
    overrides: RelationOverrides = NO_RELATION_OVERRIDES,
) -> Relation:
    """Fold evidence into a relation; as `fold_entity`.

    Its ends have the names that people gave them, else the most frequent spelling of its leading mentions, so that it
    depends on its own mentions alone.
    """
    evidence = shown_evidence(evidence, overrides)
    (source, source_id), (target, target_id) = end_names(evidence, overrides)
    weight = evidence.weight_millionths / _MILLION + overrides.more_weight
    said: Iterable[str] = evidence.keywords
    if len(evidence.keywords) > _MAX_KEYWORDS:
        said = sorted(said, key=lambda keyword: (-evidence.keywords[keyword], keyword))[:_MAX_KEYWORDS]
    keywords = tuple(sorted({*said, *split_keywords(overrides.more_keywords)}))
    if stored is not None and (stored.source, stored.target, stored.description) == (source, target, description):
        token_count = stored.token_count
    else:
        token_count = count_tokens(relation_row(source, target, description))
    return Relation(
        id=evidence.id,
        source=source,
        target=target,
        source_id=source_id,
        target_id=target_id,
        keywords=keywords if overrides.keywords is None else split_keywords(overrides.keywords),
        description=description,
        weight=weight if overrides.weight is None else overrides.weight,
        chunk_ids=_chunk_ids(evidence.leading, limits.max_sources),
        token_count=token_count,
    )


def shown_evidence(evidence: RelationEvidence, overrides: RelationOverrides) -> RelationEvidence:
    """Return the evidence that counts in a fold; that is empty for a relation created by hand after its deletion."""
    if not overrides.is_anew:
        return evidence
    return empty_relation_evidence(evidence.id, (evidence.source_id, evidence.target_id))


def split_keywords(keywords: Iterable[str]) -> tuple[str, ...]:
    """Return single keywords: split at commas and semicolons, trimmed, distinct, sorted."""
    return _split_keywords(tuple(keywords))


@lru_cache(maxsize=8_192)
def _split_keywords(keywords: tuple[str, ...]) -> tuple[str, ...]:
    parts = (part.strip()[:_MAX_KEYWORD_LENGTH].rstrip() for text in keywords for part in _KEYWORD_ENDS.split(text))
    return tuple(sorted({part for part in parts if part}))


def _millionths(mention: RelationMention) -> int:
    return round(mention.weight * _MILLION)


def _recount(id_: str, counts: Mapping[str, int], fewer: Iterable[str], more: Iterable[str]) -> dict[str, int]:
    new = dict(counts)
    for key in more:
        new[key] = new.get(key, 0) + 1
    for key in fewer:
        left = new.get(key, 0) - 1
        if left < 0:
            raise StoreError(f"the evidence of {id_!r} does not count its mentions; restore the store from a backup")
        new[key] = left
        if not left:
            del new[key]
    return new


def _leading(
    leading: tuple[M, ...],
    removed: Collection[M],
    added: Collection[M],
    order: Callable[[M], tuple[Any, ...]],
    limit: int,
) -> tuple[M, ...]:
    # Most of a hub's mentions are in other chunks, and comparing chunk ids is faster than hashing mentions.
    gone, chunks = set(removed), {mention.chunk_id for mention in removed}
    kept = [m for m in leading if m.chunk_id not in chunks or m not in gone] if gone else list(leading)
    if len(added) > _FEW_ADDED:
        kept = sorted((*kept, *added), key=order)
    else:
        for mention in added:
            insort(kept, mention, key=order)
    return tuple(kept[:limit])


def _spelling(counts: Mapping[str, int], id_: str, other_name: str) -> str:
    """Return the most frequent name with this id, else `other_name`, else the most frequent of all."""
    if len(counts) == 1 and not other_name:
        return next(iter(counts))
    own = {name: count for name, count in counts.items() if name_to_entity_id(name) == id_}
    counts = own or ({other_name: 1} if other_name else counts)
    return min(counts, key=lambda name: (-counts[name], name))


def _chunk_ids(leading: Sequence[EntityMention] | Sequence[RelationMention], max_sources: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_CHUNK_ID, leading)))[:max_sources]


# The input of vectors of entities and relations; for those of chunks see `heliograph.text.analysis`.
#
# A chat model's descriptions of entities and relations are embedded. A local extractor finds many of both and writes
# no text of its own: the description is a sentence of a chunk. So their names are embedded, each once, and mixed with
# the existing vectors of the first chunks that mention them. That embeds less, and finds more than embedding the
# beginnings of sentences (R@5 of mode mix 60.2 to 62.6 on MuSiQue, 59.4 to 64.7 on raw web pages).

# Characters per token in running text: Latin letters, other alphabets, CJK. Counting real tokens would cost more than
# the rest of folding an entity.
_LATIN_CHARACTERS_PER_TOKEN = 4
_COSTS = ((0x0250, 1), (0x2E80, 2), (0x110000, 3))
# Chunks whose vectors are mixed in, and their weight beside that of the names.
_INDEXED_CHUNKS = 4
_ENTITY_SHARE = 0.3
_RELATION_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Indexing:
    """How to make vectors of entities and relations: from about `max_tokens` o200k_base tokens of their text.

    With `from_chunks`, vectors of those that no person describes are made from names and chunks.
    """

    max_tokens: int
    from_chunks: bool


def find_indexing(settings: IngestSettings, embedding: EmbeddingInfo, *, has_chat: bool) -> Indexing:
    """Return the indexing for the extractor: descriptions are embedded if a chat model writes them."""
    return Indexing(embedding.max_input_tokens, not (has_chat and settings.extractor in ("auto", "chat")))


# Not frozen: a document makes several hundred entries, and a frozen dataclass takes four times as long to construct.
@dataclass(slots=True)
class IndexEntry:
    """The input of one vector: the mean of the embedded texts, mixed with the mean of some chunks' vectors.

    Attributes:
        text: The text stored beside the vector; ignored when entries are compared.
        embedded: Texts to embed: the text itself, or names.
        share: Weight of the chunks, from 0 to 1.
    """

    text: str = field(compare=False)
    embedded: tuple[str, ...]
    chunk_ids: tuple[str, ...] = ()
    share: float = 0.0

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the entry of a text whose vector is its own embedding."""
        return cls(text, (text,))


def entity_entry(entity: Entity, indexing: Indexing, *, is_described: bool = False) -> IndexEntry:
    """Return the index entry of an entity; its text is name, line feed and description."""
    text = f"{entity.name}\n{entity.description}"
    # `token_count` is an upper bound: the entity's line in a context contains this text.
    text = text if entity.token_count <= indexing.max_tokens else _cut(text, indexing.max_tokens)
    if indexing.from_chunks and entity.chunk_ids and not is_described:
        return IndexEntry(text, (entity.name,), entity.chunk_ids[:_INDEXED_CHUNKS], _ENTITY_SHARE)
    return IndexEntry.of(text)


def relation_entry(relation: Relation, indexing: Indexing, *, is_described: bool = False) -> IndexEntry:
    """Return the index entry of a relation, as `entity_entry`.

    Its text is keywords, names and description, separated by tabs.
    """
    keywords = ",".join(relation.keywords)
    is_short = relation.token_count + len(keywords) <= indexing.max_tokens
    # Limit the keywords, so that names and description fit in.
    shown = keywords if is_short else keywords[: 2 * indexing.max_tokens]
    text = "\t".join((shown, relation.source, relation.target, relation.description))
    text = text if is_short else _cut(text, indexing.max_tokens)
    if indexing.from_chunks and relation.chunk_ids and not is_described:
        names = (relation.source, relation.target)
        return IndexEntry(text, names, relation.chunk_ids[:_INDEXED_CHUNKS], _RELATION_SHARE)
    return IndexEntry.of(text)


def make_vectors(
    entries: Mapping[str, IndexEntry],
    embedded: Mapping[str, NDArray[np.float32]],
    chunks: Mapping[str, NDArray[np.float32]],
) -> VectorBatch:
    """Return the vectors of entries, at least one, from unit vectors of embedded texts and of chunks.

    Chunks without a vector are ignored.
    """
    vectors = _means([[embedded[text] for text in item.embedded] for item in entries.values()])
    groups = [[chunks[id_] for id_ in item.chunk_ids if id_ in chunks] for item in entries.values()]
    mixed = [place for place, group in enumerate(groups) if group]
    if mixed:
        around = _means([group for group in groups if group])
        shares = np.array([item.share for item in entries.values()], np.float32)[mixed, np.newaxis]
        vectors[mixed] = _unit((vectors[mixed] + shares * (around - vectors[mixed])).astype(np.float32))
    return VectorBatch(tuple(entries), vectors, tuple(item.text for item in entries.values()))


def _means(groups: Sequence[Sequence[NDArray[np.float32]]]) -> NDArray[np.float32]:
    """Return the mean direction of each group as a unit vector; a single vector is returned unchanged."""
    counts = np.array([len(group) for group in groups])
    starts = np.cumsum(counts) - counts
    rows = np.concatenate([vector for group in groups for vector in group]).reshape(counts.sum(), -1)
    means, several = rows[starts], np.flatnonzero(counts > 1)
    if len(several):
        # Bit-identical to `np.add.reduceat`, in a tenth of its time: groups are short, their rows long.
        first, length = starts[several], counts[several]
        others = rows[first + 1]
        for place in range(2, length.max()):
            longer = length > place
            others[longer] += rows[first[longer] + place]
        means[several] = _unit(means[several] + others)
    return means


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-9))


def _cut(text: str, max_tokens: int) -> str:
    room = max_tokens * _LATIN_CHARACTERS_PER_TOKEN
    head = text[:room]
    if head.isascii():
        return head
    for index, character in enumerate(head):
        room -= next(cost for end, cost in _COSTS if ord(character) < end)
        if room < 0:
            return head[:index]
    return head


E = TypeVar("E", EntityEvidence, RelationEvidence)
F = TypeVar("F", Entity, Relation)
S = TypeVar("S", EntityOverrides, RelationOverrides)


@dataclass(slots=True)
class Touched(Generic[E, F, S]):
    """An entity or relation whose evidence, or people's corrections of it, change.

    Attributes:
        evidence: The new evidence; its `version` is that of the old one.
        stored: The stored fold; None if there is none.
        description: The stored one if its input is unchanged, else people's; None if it must be made.
        is_reshaped: Whether people's corrections were different when it was stored.
    """

    evidence: E
    stored: F | None
    overrides: S
    label: str = ""
    fragments: tuple[str, ...] = ()
    description: str | None = None
    is_reshaped: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether it has no mentions left and no curation keeps it, or a curation deleted it."""
        return self.overrides.is_hidden or not (self.evidence.mention_count or self.overrides.is_kept)

    @property
    def growth(self) -> int:
        """The change in the number of entities or relations: 1, 0 or -1."""
        return (not self.is_gone) - (self.stored is not None)


TouchedEntity = Touched[EntityEvidence, Entity, EntityOverrides]
TouchedRelation = Touched[RelationEvidence, Relation, RelationOverrides]


@dataclass(slots=True)
class Folded(Generic[F]):
    """Changes of the projections for a touched entity or relation; None for no change (relations have no full text)."""

    fold: F | None = None
    entry: IndexEntry | None = None
    terms: TextEntry | None = None


class Merger:
    """Computes the new state of the entities and relations that a change touches; may be used from any thread."""

    def __init__(self, settings: IngestSettings, embedding: EmbeddingInfo, *, has_chat: bool) -> None:
        self.limits = EvidenceFold.of(settings)
        self._indexing = find_indexing(settings, embedding, has_chat=has_chat)

    def touch_entity(
        self,
        id_: str,
        change: tuple[Sequence[EntityMention], Sequence[EntityMention]],
        known: EntityEvidence | None,
        stored: Entity | None,
        overrides: EntityOverrides = NO_ENTITY_OVERRIDES,
        *,
        is_reshaped: bool = False,
    ) -> TouchedEntity:
        """Apply removed and added mentions to an entity.

        Args:
            id_: Id of the entity.
            change: Removed mentions, added mentions.
            known: Its evidence with at least its first `limits.leading` mentions plus the number removed; None if there
                is none.
            stored: Its stored fold; None if there is none.
            overrides: People's corrections of it.
            is_reshaped: Whether these were different when it was stored.
        """
        before = known or empty_entity_evidence(id_)
        evidence = apply_entity_delta(before, *change, self.limits.leading)
        touched = Touched(evidence, stored, overrides, is_reshaped=is_reshaped)
        if not touched.is_gone:
            touched.label = entity_name(evidence, overrides)
            is_same = stored is not None and stored.name == touched.label and not is_reshaped
            self._describe(touched, before, evidence, is_same=is_same)
        return touched

    def touch_relation(
        self,
        id_: str,
        change: tuple[Sequence[RelationMention], Sequence[RelationMention]],
        known: RelationEvidence | None,
        stored: Relation | None,
        overrides: RelationOverrides = NO_RELATION_OVERRIDES,
        *,
        is_reshaped: bool = False,
        ends: tuple[str, str] | None = None,
    ) -> TouchedRelation:
        """Apply removed and added mentions to a relation; as `touch_entity`.

        `ends` is given where it may have neither evidence nor mentions; overrides have the ends in ascending order of
        their ids.
        """
        before = known or empty_relation_evidence(id_, ends or end_ids((*change[0], *change[1])[0]))
        evidence = apply_relation_delta(before, *change, self.limits.leading)
        touched = Touched(evidence, stored, overrides, is_reshaped=is_reshaped)
        if not touched.is_gone:
            before, after = shown_evidence(before, overrides), shown_evidence(evidence, overrides)
            (source, _), (target, _) = end_names(after, overrides)
            touched.label = f"{source} - {target}"
            is_same = stored is not None and (stored.source, stored.target) == (source, target) and not is_reshaped
            self._describe(touched, before, after, is_same=is_same)
        return touched

    def _describe(self, touched: Touched[E, F, S], before: E, after: E, *, is_same: bool) -> None:
        """Set the fragments, and the stored description if its fragments are unchanged, else people's."""
        found, said = self.limits.fragments(after), touched.overrides
        is_kept = is_same and self.limits.fragments(before) == found
        touched.fragments = tuple(dict.fromkeys((*said.statements, *found))) if said.statements else found
        touched.description = touched.stored.description if touched.stored and is_kept else said.description

    def fold_entity(
        self, touched: TouchedEntity, description: str, renewed: AbstractSet[str] = frozenset()
    ) -> Folded[Entity]:
        """Fold an entity with its description."""
        if touched.is_gone:
            return Folded()
        old = touched.stored
        new = fold_entity(touched.evidence, description, self.limits, old, touched.overrides)
        entry = partial(entity_entry, indexing=self._indexing, is_described=touched.overrides.is_described)
        is_named_anew = old is None or (old.name, old.aliases) != (new.name, new.aliases)
        terms = TextEntry(new.id, tuple(entity_index_terms(new))) if is_named_anew else None
        return _folded(touched, new, entry, renewed, terms)

    def fold_relation(
        self, touched: TouchedRelation, description: str, renewed: AbstractSet[str] = frozenset()
    ) -> Folded[Relation]:
        """Fold a relation with its description; as `fold_entity`."""
        if touched.is_gone:
            return Folded()
        new = fold_relation(touched.evidence, description, self.limits, touched.stored, touched.overrides)
        entry = partial(relation_entry, indexing=self._indexing, is_described=touched.overrides.is_described)
        return _folded(touched, new, entry, renewed)


def _folded(
    touched: Touched[E, F, S],
    new: F,
    entry_of: Callable[[F], IndexEntry],
    renewed: AbstractSet[str],
    terms: TextEntry | None = None,
) -> Folded[F]:
    """Return the parts of a fold to write: all of a new one, the changed ones of a stored one."""
    entry, old = entry_of(new), touched.stored
    if old is None:
        return Folded(new, entry, terms)
    is_stale = touched.is_reshaped or entry != entry_of(old) or not renewed.isdisjoint(entry.chunk_ids)
    return Folded(None if is_same_fold(old, new) else new, entry if is_stale else None, terms)


def is_same_fold(left: F, right: F) -> bool:
    """Return whether two folds are equal except for token counts and the fields that the graph store maintains."""
    said_of = _SAID_OF_RELATION if isinstance(left, Relation) else _SAID_OF_ENTITY
    return said_of(left) == said_of(right)


_SAID_OF_ENTITY, _SAID_OF_RELATION = (
    attrgetter(*(item.name for item in fields(kind) if item.name not in ("token_count", "created_at", "degree")))
    for kind in (Entity, Relation)
)
