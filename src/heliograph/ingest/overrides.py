"""What people say of one entity or one relation, as the fold takes it: pure data.

Made from the active curations by `heliograph.ingest.curated`, used by `heliograph.ingest.merging`. Nothing said is
`NO_ENTITY_OVERRIDES` or `NO_RELATION_OVERRIDES`, under which a fold is that of the mentions alone.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NO_ENTITY_OVERRIDES", "NO_RELATION_OVERRIDES", "EntityOverrides", "RelationOverrides"]


@dataclass(frozen=True, slots=True)
class EntityOverrides:
    """What people say of an entity.

    Attributes:
        name: Its name; empty leaves it to the mentions.
        merged_name: Its name where no mention spells the name that its id stands for.
        type: Its type; empty leaves it to the mentions.
        description: In place of what mentions say; None leaves it to them.
        statements: Descriptions given when it was made by hand; they stand before those of mentions.
        aliases: Names under which it was made by hand.
        is_kept: Whether it stays without any mention.
        is_hidden: Whether it was deleted by hand.
    """

    name: str = ""
    merged_name: str = ""
    type: str = ""
    description: str | None = None
    statements: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    is_kept: bool = False
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class RelationOverrides:
    """What people say of a relation.

    Attributes:
        source: Name that people gave the entity `source_id` of its evidence; empty leaves it to the mentions.
        target: Likewise.
        other_names: Names of the two ends where no mention spells those that their ids stand for.
        description: In place of what mentions say; None leaves it to them.
        keywords: In place of those of mentions; None leaves it to them.
        weight: In place of the sum over mentions; None leaves it to them.
        statements: Descriptions given when it was made by hand; they stand before those of mentions.
        more_keywords: Keywords given then.
        more_weight: Weight given then, added to that of the mentions.
        is_kept: Whether it stays without any mention.
        is_hidden: Whether it, or one of its ends, was deleted by hand.
        is_anew: Whether it was made by hand after it was deleted, so that what documents say stays deleted.
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


NO_ENTITY_OVERRIDES = EntityOverrides()
NO_RELATION_OVERRIDES = RelationOverrides()
