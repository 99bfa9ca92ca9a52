"""The lines in which entities and relations are shown to a chat model.

Their token counts are computed once, when an entity is folded, so that a query can fill its budget without counting.
"""

from __future__ import annotations

from json.encoder import encode_basestring

__all__ = ["entity_row", "relation_row"]

# A query writes hundreds of rows; what `json.dumps` calls for a string takes a tenth of its time.
_encode = encode_basestring


def entity_row(name: str, entity_type: str, description: str) -> str:
    """Return an entity's line in a JSON-lines context."""
    return f'{{"entity": {_encode(name)}, "type": {_encode(entity_type)}, "description": {_encode(description)}}}'


def relation_row(source: str, target: str, description: str) -> str:
    """Return a relation's line in a JSON-lines context."""
    return f'{{"entity1": {_encode(source)}, "entity2": {_encode(target)}, "description": {_encode(description)}}}'
