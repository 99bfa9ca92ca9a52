"""A filter means the same in PostgreSQL and in Python, whatever the metadata."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from heliograph.filters import Filter, matches
from heliograph.models import Document
from heliograph.stores.changeset import Changeset
from heliograph.stores.postgres.database import adapters
from heliograph.stores.postgres.records import compile_filter, record_statements

from ..sqlite.test_filters import DOCUMENTS, FILTERS
from .conftest import OpenStore


@pytest.fixture
def connection(open_store: OpenStore, postgres_database: str) -> Generator[psycopg.Connection]:
    with psycopg.connect(postgres_database, context=adapters()) as opened:
        yield opened


@pytest.fixture
async def _tables(open_store: OpenStore) -> None:
    await open_store()


@pytest.mark.usefixtures("_tables")
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=DOCUMENTS, filter_=FILTERS)
def test_sql_finds_what_python_matches(
    connection: psycopg.Connection, documents: list[tuple[str, dict[str, Any]]], filter_: Filter
) -> None:
    made = [Document(f"doc-{number}", source, metadata=metadata) for number, (source, metadata) in enumerate(documents)]
    for statement in record_statements("filters", Changeset(documents=tuple(made)), 1):
        connection.execute(statement.query.encode(), statement.values)
    condition, values = compile_filter(filter_)
    query = f"SELECT id FROM heliograph_document AS document WHERE workspace = %s AND {condition}"
    found = {id_ for (id_,) in connection.execute(query.encode(), ("filters", *values))}
    connection.rollback()
    # A NUL, which PostgreSQL cannot hold, is another character on either side.
    assert found == {item.id for item in made if matches(filter_, replace(item))}
