"""What is embedded of entities and relations; what is of a chunk, `heliograph.text.passages` says.

Their texts may be cut, since their embedding is the main cost of indexing.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.embedding.base import EmbeddingInfo
from heliograph.models import Entity, Relation
from heliograph.settings import IngestSettings

__all__ = [
    "LOCAL_INDEX_LIMITS",
    "IndexLimits",
    "entity_index_text",
    "index_limits",
    "relation_index_text",
]

# Characters a token in running text: Latin letters, other alphabets, Chinese and its neighbours. Counting real tokens
# would cost more than all else that is done to a folded entity.
_LATIN_CHARACTERS_PER_TOKEN = 4
_COSTS = ((0x0250, 1), (0x2E80, 2), (0x110000, 3))


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """How much of the text of an entity and of a relation is embedded, in o200k_base tokens."""

    entity_tokens: int
    relation_tokens: int


# Local extraction makes many of both, and embedding them is most of what indexing costs: a name and how the sentence
# about it begins.
LOCAL_INDEX_LIMITS = IndexLimits(12, 20)


def index_limits(settings: IngestSettings, embedding: EmbeddingInfo, *, has_chat: bool) -> IndexLimits:
    """Return how much is embedded: all that fits where a chat model reads."""
    window = embedding.max_input_tokens
    if has_chat and settings.extractor in ("auto", "chat"):
        return IndexLimits(window, window)
    return IndexLimits(min(LOCAL_INDEX_LIMITS.entity_tokens, window), min(LOCAL_INDEX_LIMITS.relation_tokens, window))


def entity_index_text(entity: Entity, max_tokens: int) -> str:
    """Return the text that stands for an entity: name, line feed, description; cut to about `max_tokens` tokens."""
    text = f"{entity.name}\n{entity.description}"
    # Its line in a context holds all of it and more.
    return text if entity.token_count <= max_tokens else _cut(text, max_tokens)


def relation_index_text(relation: Relation, max_tokens: int) -> str:
    """Return the text that stands for a relation: keywords, names and description between tabs; cut likewise."""
    keywords = ",".join(relation.keywords)
    is_short = relation.token_count + len(keywords) <= max_tokens
    # The names and the description must not be crowded out.
    shown = keywords if is_short else keywords[: 2 * max_tokens]
    text = "\t".join((shown, relation.source, relation.target, relation.description))
    return text if is_short else _cut(text, max_tokens)


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
