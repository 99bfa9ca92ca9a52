"""Which entity or relation a mention counts for: what its resolution says, else what its names alone stand for."""

from __future__ import annotations

from heliograph.ids import relation_id
from heliograph.models import EntityMention, RelationMention
from heliograph.text.names import name_to_entity_id, names_to_relation_id

__all__ = ["end_ids", "mention_entity_id", "mention_relation_id"]


def mention_entity_id(mention: EntityMention) -> str:
    """Return the id of the entity that a mention counts for."""
    return mention.entity_id or name_to_entity_id(mention.name)


def end_ids(mention: RelationMention) -> tuple[str, str]:
    """Return the ids of the entities that the source and the target of a mention count for."""
    return (
        mention.source_id or name_to_entity_id(mention.source),
        mention.target_id or name_to_entity_id(mention.target),
    )


def mention_relation_id(mention: RelationMention) -> str:
    """Return the id of the relation that a mention counts for.

    One whose two ends are the same entity counts for no relation; it gets the id of that entity, with which it stays.
    """
    if mention.source_id or mention.target_id:
        source, target = end_ids(mention)
        return source if source == target else relation_id(source, target)
    return names_to_relation_id(mention.source, mention.target)
