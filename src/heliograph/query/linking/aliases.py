"""Entities that a question names otherwise than by the name their id stands for, or does not name but resembles.

An alias (an acronym, a name before a merge or a rename) has no entity of its own: its mentions count for another. So
what may be a name in the question and led to none is looked for as a phrase in the names of entities, and each found
is asked for the names that its mentions bear; one of these must be the run of words, in all its letters. Under a filter
these are names that matching documents give. Where the question names none, those entities of the chunks found first
stand in that are near it by vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heliograph.embedding.scale import CosineScale
from heliograph.models import EntityEvidence
from heliograph.query.linking.names import Named, NameSpan, is_name_like
from heliograph.stores.base import EntityPlaces, StoreView
from heliograph.stores.changeset import Collection
from heliograph.stores.listing import places_of
from heliograph.text.analysis import terms
from heliograph.text.names import name_to_entity_id

# Aliases are short: of a question of twenty words these are nearly all runs of capitalised words.
_LONGEST_ALIAS = 48
_MOST_PHRASES = 32
# Entities read per phrase; a word that more names hold seldom is the alias of one.
_PER_PHRASE = 8


def alias_spans(question: str, spans: Sequence[NameSpan], named: Named) -> list[NameSpan]:
    """Return the runs of a question that may be aliases: like a name, short, and not within a name that was found.

    A question without any capital is taken as one whose writer left them out: every run of it may be one.
    """
    has_capitals = any(character.isupper() for character in question[1:])
    free = [
        span
        for span in spans
        if span.end - span.start <= _LONGEST_ALIAS
        and (not has_capitals or is_name_like(span.text))
        and span.entity_id not in named.ids
        and not any(entity.start <= span.start and span.end <= entity.end for entity in named.linked)
    ]
    return sorted(free, key=lambda span: (span.end - span.start, span.start))


async def find_aliases(
    store: StoreView, spans: Sequence[NameSpan], mentions: int
) -> tuple[list[NameSpan], dict[str, EntityPlaces]]:
    """Return the runs that are an alias, with the id of the entity whose alias they are, and where these are mentioned.

    Args:
        store: Asked once for phrases, and once for evidence where any was found.
        spans: What `alias_spans` gave.
        mentions: Mentions read of each.
    """
    phrases: dict[tuple[str, ...], list[NameSpan]] = {}
    for span in spans:
        words = tuple(terms(span.text))
        if words and (words in phrases or len(phrases) < _MOST_PHRASES):
            phrases.setdefault(words, []).append(span)
    if not phrases:
        return [], {}
    holders = await store.text.find_phrases(Collection.ENTITIES, list(phrases), _PER_PHRASE)
    wanted = list(dict.fromkeys(id_ for ids in holders for id_ in ids))
    if not wanted:
        return [], {}
    evidence, _ = await store.records.get_evidence(wanted, [], mentions)
    aliases = _aliases(evidence)
    tried = [span for group in phrases.values() for span in group]
    found = [span._replace(entity_id=aliases[span.entity_id].id) for span in tried if span.entity_id in aliases]
    return found, {item.id: places_of(item, mentions) for item in aliases.values()}


def _aliases(evidence: Sequence[EntityEvidence]) -> dict[str, EntityEvidence]:
    """Return, per id of a name, the entity that most mentions of this name count for; ties by id."""
    counted: dict[str, tuple[int, str, EntityEvidence]] = {}
    for item in evidence:
        for name, count in item.names.items():
            id_ = name_to_entity_id(name)
            if item.leading and (id_ not in counted or (-count, item.id) < counted[id_][:2]):
                counted[id_] = (-count, item.id, item)
    return {id_: item for id_, (_, _, item) in counted.items()}


async def find_similar(
    store: StoreView,
    vector: NDArray[np.float32],
    entity_ids: Sequence[str],
    limit: int,
    least: float,
    scale: CosineScale,
) -> list[str]:
    """Return those of some entities whose vectors are near a question's, the nearest first.

    Args:
        store: Asked once for vectors.
        vector: The question's, of length 1.
        entity_ids: Entities to choose from.
        limit: Entities at the most.
        least: The least cosine, in the usual scale.
        scale: What cosines mean.
    """
    vectors = await store.vectors.get_vectors(Collection.ENTITIES, entity_ids) if entity_ids else {}
    near = {id_: scale.usual(float(stored @ vector)) for id_, stored in vectors.items()}
    return sorted((id_ for id_, score in near.items() if score >= least), key=lambda id_: (-near[id_], id_))[:limit]
