"""A field of chunks is declared once: whatever else must know it is held against the declaration."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import MISSING, fields

import apsw

from heliograph.models import CHUNK_DETAILS, Chunk
from heliograph.stores.postgres.database import CHUNK_TYPES
from heliograph.stores.postgres.schema import MIGRATIONS
from heliograph.stores.sql import CHUNKS
from heliograph.stores.sqlite.schema import migrate
from heliograph.wire.base import ChunkDetails


def test_chunk_is_read_back_from_its_columns() -> None:
    chunk = Chunk("chunk-1", "doc-1", 3, "A text", 2, 10, 16, ("Top", "Inner's"), 4, "about it")
    assert CHUNKS.record(CHUNKS.values(chunk)) == chunk
    assert list(CHUNKS.row(chunk)) == [item.name for item in fields(Chunk)]


def test_every_field_of_chunks_has_a_column_on_sqlite() -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, "test")
        rows = [row for table in ("chunk", "chunk_text") for row in connection.execute(f"PRAGMA table_info({table})")]
    columns = {name for _, name, *_ in rows}
    assert CHUNKS.types.keys() - columns == {"id", "document_id"}, "stores/sqlite/schema.py lacks a migration"


def test_every_field_of_chunks_has_a_column_on_postgresql() -> None:
    script = "".join(MIGRATIONS)
    (table,) = re.findall(r"CREATE TABLE lightrag_chunks \((.*?)\n\);", script, re.DOTALL)
    later = re.findall(r"ALTER TABLE lightrag_chunks ADD COLUMN (\w+)", script)
    columns = {*re.findall(r"(?:^|,)\s*(\w+) (?:text|integer)", table), *later}
    assert CHUNK_TYPES.keys() <= columns, "stores/postgres/schema.py lacks a migration"


def test_fields_of_chunks_that_come_later_have_a_default() -> None:
    assert all(item.default is not MISSING for item in fields(Chunk)[7:])
    assert CHUNKS.added("chunk", "headings").endswith("headings text NOT NULL DEFAULT '[]';")
    assert CHUNKS.added("chunk", "context").endswith("context text NOT NULL DEFAULT '';")
    assert CHUNKS.added("chunk", "page").endswith("page bigint;")


def test_details_of_chunks_are_on_the_wire() -> None:
    assert ChunkDetails.model_fields.keys() == set(CHUNK_DETAILS)
