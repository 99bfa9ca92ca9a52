"""Values on their way to the server and back: rows as JSON, vectors in pgvector's binary form.

One parameter carries all rows of a statement, so that a commit takes as many statements for a thousand rows as for
one, and building it costs a fraction of what building arrays does. PostgreSQL's text holds no NUL and no lone
surrogates; both become U+FFFD.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.postgres.driver import AdaptersMap, Dumper, Format, psycopg

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
