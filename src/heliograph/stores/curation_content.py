"""What a curation says, as the plain data that every store keeps of it and never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heliograph.models import Curation, CurationKind


def curation_content(item: Curation) -> dict[str, Any]:
    """Return what it says of which names and ids, ready for JSON."""
    return {
        "names": item.names,
        "entity_ids": item.entity_ids,
        "scope": item.scope,
        "type": item.type,
        "description": item.description,
        "keywords": item.keywords,
        "weight": item.weight,
    }


def curation_from_content(kind: str, content: Mapping[str, Any]) -> Curation:
    """Return a curation from its kind and what `curation_content` made, read from JSON; the rest is left open."""
    keywords = content["keywords"]
    return Curation(
        id="",
        kind=CurationKind(kind),
        names=tuple(content["names"]),
        entity_ids=tuple(content["entity_ids"]),
        scope=tuple(content["scope"]),
        type=content["type"],
        description=content["description"],
        keywords=None if keywords is None else tuple(keywords),
        weight=content["weight"],
    )
