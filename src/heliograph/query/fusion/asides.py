"""What the entities of a chunk are worth for a question, where its paragraphs speak of different things.

A chunk of several paragraphs is found for what one of them says; what the others name leads elsewhere. A paragraph
counts by how many of the question's words it holds beside that of the chunk which holds most.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import pairwise

from heliograph.models import EntityMention
from heliograph.text.analysis import terms
from heliograph.text.names import mention_entity_id
from heliograph.text.sentences import paragraph_starts


def worth_of_mentions(
    text: str, mentions: Iterable[EntityMention], wanted: AbstractSet[str], aside: float
) -> dict[str, float]:
    """Return, per entity, what the best paragraph that names it is worth; without those that are worth 1.

    Args:
        text: The chunk's text.
        mentions: Entities that it mentions; one whose name is not in the text is worth 1.
        wanted: The question's terms.
        aside: What a paragraph without any of them is worth, if another has some.
    """
    parts = [text[start:end] for start, end in pairwise((*paragraph_starts(text), len(text)))]
    shares = [len(set(terms(part)).intersection(wanted)) for part in parts] if len(parts) > 1 else []
    most = max(shares, default=0)
    if min(shares, default=0) == most:
        return {}
    folded = [part.casefold() for part in parts]
    worth: dict[str, float] = {}
    for mention in mentions:
        name, entity_id = mention.name.casefold(), mention_entity_id(mention)
        share = max((share for share, part in zip(shares, folded, strict=True) if name in part), default=most)
        worth[entity_id] = max(worth.get(entity_id, 0.0), aside + (1.0 - aside) * share / most)
    return {entity_id: value for entity_id, value in worth.items() if value < 1.0}
