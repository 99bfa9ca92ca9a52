"""The driver, psycopg 3 with its pool, which the extra `postgres` brings; what it writes and reads as rows."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.errors import MissingDependencyError
from heliograph.models import EntityMention, RelationMention

try:
    import psycopg
    from psycopg import AsyncConnection, sql
    from psycopg.adapt import AdaptersMap, Dumper
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import Format, TransactionStatus
    from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
except ImportError as error:
    raise MissingDependencyError("psycopg", "postgres") from error

__all__ = [
    "AdaptersMap",
    "AsyncConnection",
    "AsyncConnectionPool",
    "Dumper",
    "Format",
    "PoolClosed",
    "PoolTimeout",
    "TransactionStatus",
    "conninfo_to_dict",
    "make_conninfo",
    "psycopg",
    "sql",
]

# Values on their way to the server and back: rows as JSON, vectors in pgvector's binary form.
#
# One parameter carries all rows of a statement, so that a commit takes as many statements for a thousand rows as for
# one, and building it costs a fraction of what building arrays does. PostgreSQL's text holds no NUL and no lone
# surrogates; both become U+FFFD.

# Made once: `json.dumps` with arguments of its own makes an encoder for every call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_JSON_OID = 114
_HEAD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Json:
    """A parameter of type json."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Vector:
    """A parameter of type vector: `(dimension,)` float32."""

    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Vectors:
    """A parameter of type vector[]: `(n, dimension)` float32, and the type id of vector in this database."""

    values: NDArray[np.float32]
    type_id: int


class _TextDumper(Dumper):
    """Texts that are parameters by themselves; the server finds out their type."""

    def dump(self, obj: str) -> bytes:
        return _clean(obj.replace("\x00", "\ufffd"))


class _JsonDumper(Dumper):
    oid = _JSON_OID

    def dump(self, obj: Json) -> bytes:
        return obj.data


class _VectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Vector) -> bytes:
        return struct.pack(">hh", len(obj.values), 0) + obj.values.astype(">f4").tobytes()


class _VectorsDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Vectors) -> bytes:
        count, dimension = obj.values.shape
        if count == 0:
            return struct.pack(">iiI", 0, 0, obj.type_id)
        row = np.dtype([("bytes", ">i4"), ("dimension", ">i2"), ("unused", ">i2"), ("values", ">f4", (dimension,))])
        rows = np.zeros(count, row)
        rows["bytes"] = _HEAD_BYTES + 4 * dimension
        rows["dimension"] = dimension
        rows["values"] = obj.values
        return struct.pack(">iiIii", 1, 0, obj.type_id, count, 1) + rows.tobytes()


def adapters() -> AdaptersMap:
    """Return psycopg's adapters with those for `Json`, `Vector` and `Vectors`."""
    known = AdaptersMap(psycopg.adapters)
    for kind, dumper in ((str, _TextDumper), (Json, _JsonDumper), (Vector, _VectorDumper), (Vectors, _VectorsDumper)):
        known.register_dumper(kind, dumper)
    return known


def to_json(value: Iterable[Any] | Mapping[str, Any]) -> Json:
    """Return rows, ids or an object as one parameter."""
    text = _ENCODER.encode(dict(value) if isinstance(value, Mapping) else list(value))
    if "\\u0000" in text:
        text = _NUL.sub(r"\1\\ufffd", text)
    return Json(_clean(text))


def _clean(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def read_vectors(values: Sequence[bytes]) -> NDArray[np.float32]:
    """Return `(n, dimension)` from what `vector_send` gives; there must be at least one."""
    matrix = np.frombuffer(b"".join(values), ">f4").reshape(len(values), -1)
    return matrix[:, 1:].astype(np.float32)


# Ids given as one `Json`, with their place in it.
WANTED = "json_array_elements_text(%s) WITH ORDINALITY AS wanted (id, place)"
DOCUMENT = """document.id, document.source, document.title, document.content_hash, document.status, document.error,
  document.metadata_text, document.length, document.chunk_count, document.track_id, document.input_tokens,
  document.output_tokens, document.created_at, document.updated_at, document.page_starts, document.twin_of"""
CHUNK = """chunk.id, chunk.full_doc_id, chunk.chunk_order_index, chunk.content, chunk.tokens, chunk.start_offset,
  chunk.end_offset, chunk.headings, chunk.page, chunk.context"""
ENTITY = """entity.id, entity.name, entity.type, entity.description, entity.aliases, entity.chunk_ids,
  entity.token_count, degree.degree, entity.created_at"""
RELATION = """relation.id, relation.source, relation.target, relation.source_id, relation.target_id,
  relation.keywords, relation.description, relation.weight, relation.chunk_ids, relation.token_count,
  relation.created_at"""
ENTITY_MENTION = """json_build_array(mention.chunk_id, mention.name, mention.type, mention.description, mention.rank,
  CASE WHEN mention.name_id IS NULL THEN '' ELSE mention.entity_id END)"""
RELATION_MENTION = """json_build_array(mention.chunk_id, mention.source, mention.target, mention.keywords,
  mention.description, mention.weight, mention.rank, mention.source_id, mention.target_id)"""


def to_entity_mention(values: Sequence[Any]) -> EntityMention:
    """Return a mention from `ENTITY_MENTION`."""
    return EntityMention(*values)


def to_relation_mention(values: Sequence[Any]) -> RelationMention:
    """Return a mention from `RELATION_MENTION`."""
    chunk_id, source, target, keywords, description, weight, rank, source_id, target_id = values
    said = tuple(keywords), description, float(weight), rank
    return RelationMention(chunk_id, source, target, *said, source_id, target_id)
