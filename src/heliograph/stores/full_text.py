"""The terms by which chunks and entities are found, which follow from what the store with the truth holds of them.

Whoever commits sends these terms, and a store beside it is given them made again: neither needs what the other keeps.
"""

from __future__ import annotations

from heliograph.models import Chunk, Entity
from heliograph.stores.changeset import TextEntry
from heliograph.text.analysis import chunk_index_text, terms


def chunk_terms(title: str, chunk: Chunk) -> TextEntry:
    """Return the terms of a chunk under its document's title; takes CPU time in proportion to its text."""
    return TextEntry(chunk.id, tuple(terms(chunk_index_text(title, chunk))))


def entity_terms(entity: Entity) -> TextEntry:
    """Return the terms by which an entity is found: those of its name and of its aliases."""
    found = [term for name in (entity.name, *entity.aliases) for term in terms(name)]
    return TextEntry(entity.id, tuple(found))
