"""A filter means the same in SQL and in Python, whatever the metadata."""

from __future__ import annotations

import json
from typing import Any

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.filters import (
    And,
    DocumentIds,
    Equals,
    Exists,
    Filter,
    HasChunk,
    In,
    Not,
    Or,
    Range,
    SourcePrefix,
    Sources,
    chunk_condition,
    matches,
    matches_chunk,
)
from heliograph.models import CHUNK_DETAILS, DOCUMENT_DETAILS, Chunk, Document
from heliograph.stores.sqlite.records import DIALECT, compile_filter

LAST = "\U0010ffff"
KEYS = st.sampled_from(["a", "b", "c d", 'q"t', "d.e", "é", "0", "$x", "back\\slash", *DOCUMENT_DETAILS])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, 2.5, -1.5, 2**53, 2.0**53, 2**62]),
    st.sampled_from(["", "a", "b", "A", "é", "1", "true", "𝄞", "\uffff", "x\x01"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
SOURCES = st.sampled_from(["", "docs/", "docs/a", "docs/b", f"docs/{LAST}z", "other", "é"])
DOCUMENTS = st.lists(st.tuples(SOURCES, st.dictionaries(KEYS, VALUES, max_size=4)), max_size=4)
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(lambda keys: ".".join(key.replace(".", "\\.") for key in keys))


def ranges(bounds: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    given_bounds = st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), bounds, min_size=1)
    return st.builds(lambda path, named: Range(path, **named), PATHS, given_bounds)


def tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


CONDITIONS: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Equals, PATHS, SCALARS),
    st.builds(In, PATHS, tuples(SCALARS)),
    ranges(st.integers(-3, 3) | st.sampled_from([1.0, 2.5])),
    ranges(st.sampled_from(["a", "b", "é", "1", "𝄞", "\uffff"])),
    st.builds(Exists, PATHS),
    st.builds(DocumentIds, tuples(st.sampled_from(["doc-0", "doc-1", "doc-9"]))),
    st.builds(Sources, tuples(SOURCES)),
    st.builds(SourcePrefix, st.sampled_from(["d", "docs/", f"docs/{LAST}", LAST, "é", "\ud7ff"])),
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.builds(And, tuples(inner)) | st.builds(Or, tuples(inner)) | st.builds(Not, inner),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS, FILTERS)
def test_sql_finds_what_python_matches(documents: list[tuple[str, dict[str, Any]]], filter_: Filter) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE document (key INTEGER PRIMARY KEY, source TEXT, title TEXT, metadata TEXT)")
    connection.execute("CREATE TABLE identity (key INTEGER PRIMARY KEY, id TEXT)")
    for key, (source, metadata) in enumerate(documents):
        text = json.dumps(metadata, ensure_ascii=False)
        connection.execute("INSERT INTO document VALUES (?, ?, ?, ?)", (key, source, source, text))
        connection.execute("INSERT INTO identity VALUES (?, ?)", (key, f"doc-{key}"))
    condition, values = compile_filter(filter_)
    found = {key for (key,) in connection.execute(f"SELECT key FROM document WHERE {condition}", tuple(values))}
    expected = {
        key
        for key, (source, metadata) in enumerate(documents)
        if matches(filter_, Document(f"doc-{key}", source, source, metadata=metadata))
    }
    assert found == expected


HEADINGS = st.lists(st.sampled_from(["", "a", "b", 'q"t', "é", "𝄞"]), max_size=3)
CHUNKS = st.lists(st.tuples(st.none() | st.integers(1, 3), HEADINGS), max_size=4)
DETAILS = st.sampled_from(CHUNK_DETAILS)
CHUNK_CONDITIONS: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Equals, DETAILS, SCALARS),
    st.builds(In, DETAILS, tuples(SCALARS)),
    st.builds(lambda path, low: Range(path, gte=low), DETAILS, st.integers(0, 3) | st.sampled_from(["a", "é"])),
    st.builds(Exists, DETAILS),
)
CHUNK_FILTERS = st.recursive(
    CHUNK_CONDITIONS,
    lambda inner: st.builds(And, tuples(inner)) | st.builds(Or, tuples(inner)) | st.builds(Not, inner),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(CHUNKS, CHUNK_FILTERS)
def test_sql_finds_the_chunks_that_python_matches(chunks: list[tuple[int | None, list[str]]], part: Filter) -> None:
    filter_ = And((Equals("team", "red"), HasChunk(part)))
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE chunk (key INTEGER PRIMARY KEY, page INTEGER, headings TEXT, columns TEXT)")
    for key, (page, headings) in enumerate(chunks):
        connection.execute("INSERT INTO chunk VALUES (?, ?, ?, '[]')", (key, page, json.dumps(headings)))
    condition, values = DIALECT.compile_chunk_filter(filter_)
    found = {key for (key,) in connection.execute(f"SELECT key FROM chunk WHERE {condition}", tuple(values))}
    made = [Chunk("c", "d", 0, "", 0, 0, 0, tuple(headings), page) for page, headings in chunks]
    assert found == {key for key, chunk in enumerate(made) if matches_chunk(chunk_condition(filter_), chunk)}
