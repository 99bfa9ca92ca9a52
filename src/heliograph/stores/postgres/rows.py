"""Rows as models, and values on their way to the server and back."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Chunk, Document, DocumentStatus, Entity, EntityMention, Relation, RelationMention, Usage
from heliograph.stores.postgres.driver import AdaptersMap, Dumper, Format, psycopg

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


# Names, keywords and ids never hold a line break, and splitting is several times cheaper than parsing JSON.
def join_lines(values: Sequence[str]) -> str:
    """Return values as one text."""
    return "\n".join(values)


def split_lines(text: str) -> tuple[str, ...]:
    """Return the values that `join_lines` joined."""
    return tuple(text.split("\n")) if text else ()


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


def to_document(row: Sequence[Any]) -> Document:
    """Return a document from the columns `DOCUMENT`."""
    id_, source, title, content_hash, status, error, metadata, length, chunk_count, track_id, *rest = row
    read, written, created_at, updated_at, page_starts, twin_of = rest
    return Document(
        id=id_,
        source=source,
        title=title,
        content_hash=content_hash,
        status=DocumentStatus(status),
        error=error,
        metadata=json.loads(metadata),
        length=length,
        chunk_count=chunk_count,
        track_id=track_id,
        usage=Usage(read, written),
        created_at=in_utc(created_at),
        updated_at=in_utc(updated_at),
        page_starts=tuple(json.loads(page_starts)) if page_starts != "[]" else (),
        twin_of=twin_of,
    )


def to_chunk(row: Sequence[Any]) -> Chunk:
    """Return a chunk from the columns `CHUNK`."""
    id_, document_id, position, text, token_count, start, end, headings, page, context = row
    place = start, end, tuple(json.loads(headings)) if headings != "[]" else (), page
    return Chunk(id_, document_id, position, text, token_count, *place, context)


def to_entity(row: Sequence[Any]) -> Entity:
    """Return an entity from the columns `ENTITY`."""
    id_, name, kind, description, aliases, chunk_ids, token_count, degree, created_at = row
    lists = split_lines(aliases), split_lines(chunk_ids)
    return Entity(id_, name, kind, description, *lists, token_count, degree, created_at)


def to_relation(row: Sequence[Any]) -> Relation:
    """Return a relation from the columns `RELATION`."""
    id_, source, target, source_id, target_id, keywords, description, weight, chunk_ids, token_count, created_at = row
    ends = source, target, source_id, target_id
    said = split_lines(keywords), description, weight, split_lines(chunk_ids)
    return Relation(id_, *ends, *said, token_count, created_at)


def to_entity_mention(values: Sequence[Any]) -> EntityMention:
    """Return a mention from `ENTITY_MENTION`."""
    return EntityMention(*values)


def to_relation_mention(values: Sequence[Any]) -> RelationMention:
    """Return a mention from `RELATION_MENTION`."""
    chunk_id, source, target, keywords, description, weight, rank, source_id, target_id = values
    said = tuple(keywords), description, float(weight), rank
    return RelationMention(chunk_id, source, target, *said, source_id, target_id)


def in_utc(moment: datetime) -> datetime:
    """Return a moment with the time zone that all moments in models have."""
    return moment.astimezone(UTC)
