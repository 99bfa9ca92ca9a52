"""A field of documents is declared once: whatever else must know it is held against the declaration."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from typing import Any, get_type_hints

import apsw
import pytest

from heliograph.client.client import AsyncDocuments
from heliograph.ingest.models import NewDocument
from heliograph.mcp.tools import GivenDocument, insert, update
from heliograph.models import DOCUMENT_DETAILS, KEPT_FIELDS, Document, DocumentStatus, Usage
from heliograph.stores.postgres.database import DOCUMENT_TYPES
from heliograph.stores.postgres.schema import MIGRATIONS
from heliograph.stores.sql import DOCUMENTS, from_seconds
from heliograph.stores.sqlite.schema import migrate
from heliograph.wire.documents import ChangeRequest, DocumentResponse, TextRequest, UpdateRequest


def test_document_is_read_back_from_its_columns() -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    document = Document(
        *("doc-1", "a.md", "A title", "hash", DocumentStatus.PARTIAL, "an error", {"team": ["red"]}, 5, 6, "track"),
        *(Usage(7, 8), moment, moment, (0, 3), "doc-2"),
    )
    values = DOCUMENTS.values(document, datetime.timestamp)
    assert len(values) == len(DOCUMENTS.types)
    assert DOCUMENTS.record(values, from_seconds) == document


def test_every_field_of_documents_has_a_column_on_sqlite() -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, "test")
        columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(document)")}
    assert DOCUMENTS.types.keys() - columns == {"id", "twin_of"}, "stores/sqlite/schema.py lacks a migration"


def test_every_field_of_documents_has_a_column_on_postgresql() -> None:
    script = "".join(MIGRATIONS)
    (table,) = re.findall(r"CREATE TABLE heliograph_document \((.*?)\n\);", script, re.DOTALL)
    later = re.findall(r"ALTER TABLE heliograph_document ADD COLUMN (\w+)", script)
    columns = {*re.findall(r"(?:^|,)\s*(\w+) (?:text|integer|bigint|jsonb|timestamptz)", table), *later}
    assert DOCUMENT_TYPES.keys() <= columns, "stores/postgres/schema.py lacks a migration"


def test_documents_of_before_have_the_default_of_a_field_that_comes_later() -> None:
    assert all(item.default is not MISSING or item.default_factory is not MISSING for item in fields(Document)[2:])
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("CREATE TABLE document (id text); INSERT INTO document VALUES ('doc-1')")
        for name in ("title", "length", "page_starts"):
            connection.execute(DOCUMENTS.added("document", name))
        assert connection.execute("SELECT * FROM document").fetchall() == [("doc-1", "", 0, "[]")]


def test_every_field_is_known_to_be_kept_or_set_anew_when_a_document_comes_in_again() -> None:
    given = {"id", "source", "metadata", *DOCUMENT_DETAILS}
    anew = {"content_hash", "status", "error", "length", "track_id", "updated_at", "page_starts", "twin_of"}
    names = {item.name for item in fields(Document)}
    assert names == given | anew | set(KEPT_FIELDS), "mark it `_KEPT` in models.py, or name it here as set anew"


def test_details_of_documents_are_texts() -> None:
    kinds = get_type_hints(Document)
    assert {kinds[name] for name in DOCUMENT_DETAILS} == {str}, "ingest/intake.py and filters take texts only"


def test_a_detail_that_is_not_given_stays_as_it_is() -> None:
    defaults = {item.name: item.default for item in fields(NewDocument) if item.name in DOCUMENT_DETAILS}
    assert defaults == {name: "" if name == "title" else None for name in DOCUMENT_DETAILS}


@pytest.mark.parametrize(
    "face",
    [
        *(NewDocument, GivenDocument, insert, update),
        *(TextRequest, UpdateRequest, ChangeRequest, DocumentResponse),
        *(AsyncDocuments.insert, AsyncDocuments.update, AsyncDocuments.change),
    ],
)
def test_details_of_documents_are_on_every_face(face: Callable[..., Any]) -> None:
    assert set(DOCUMENT_DETAILS) <= inspect.signature(face).parameters.keys()
