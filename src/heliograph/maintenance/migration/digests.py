"""Checksums of what is moved: equal for equal things, whichever back end they were read from.

A checksum of many things is the sum of theirs, so the order in which a back end lists them does not matter. What a back
end gives out by itself (versions, the sequence of curations) is not part of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from heliograph.models import (
    Chunk,
    Curation,
    Document,
    Entity,
    EntityEvidence,
    Extraction,
    NameRules,
    Relation,
    RelationEvidence,
)
from heliograph.stores.base import CachedReply

__all__ = ["Tally", "digest_item", "digest_text", "digest_vector"]

_MODULUS = 1 << 64
_ADAPTERS: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind)
    for kind in (
        *(CachedReply, Chunk, Curation, Document, Entity, EntityEvidence),
        *(Extraction, NameRules, Relation, RelationEvidence),
    )
}

Item = (
    CachedReply
    | Chunk
    | Curation
    | Document
    | Entity
    | EntityEvidence
    | Extraction
    | NameRules
    | Relation
    | RelationEvidence
)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many things of one kind there are, and the sum of their checksums modulo 2**64."""

    count: int = 0
    checksum: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.count + other.count, (self.checksum + other.checksum) % _MODULUS)


def digest_item(item: Item) -> int:
    """Return the checksum of one thing, without what a back end numbers by itself."""
    plain = _ADAPTERS[type(item)].dump_python(_unnumbered(item), mode="python")
    return _digest(json.dumps(plain, sort_keys=True, default=str).encode())


def digest_text(text: str | None) -> int:
    """Return the checksum of a text; 0 where there is none."""
    return 0 if text is None else _digest(text.encode("utf-8", "surrogatepass"))


def digest_vector(vector: NDArray[np.float32]) -> int:
    """Return the checksum of a vector: of its exact numbers."""
    return _digest(np.ascontiguousarray(vector, "<f4").tobytes())


def _unnumbered(item: Item) -> Item:
    match item:
        case Curation():
            return replace(item, sequence=0)
        case NameRules():
            return replace(item, version=0, curations=())
        case EntityEvidence():
            return replace(item, version=0, leading=())
        case RelationEvidence():
            return replace(item, version=0, leading=())
        case _:
            return item


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
