"""Writing truth to the embedded store, within the transaction of a commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from heliograph.errors import StaleChangesetError
from heliograph.models import Chunk, Document, Extraction
from heliograph.stores.changeset import Changeset
from heliograph.stores.rows import encode
from heliograph.stores.sqlite.database import array, fetch_one, singles
from heliograph.stores.sqlite.records import check_rules, name_hash
from heliograph.stores.sqlite.replies import drop_replies_about
from heliograph.text.names import mention_entity_id, mention_relation_id

_DOCUMENT = """key, source, title, content_hash, status, error, metadata, length, chunk_count, track_id,
               input_tokens, output_tokens, created_at, updated_at, page_starts, twin_key"""
_CHUNK = 'key, document_key, position, token_count, start, "end", page, headings, context'


def mentioned_ids(changeset: Changeset) -> Iterator[str]:
    """Yield every id that writing a changeset refers to; an id may come more than once."""
    for document in changeset.documents:
        yield document.id
        if document.twin_of:
            yield document.twin_of
    for chunk in changeset.chunks:
        yield chunk.id
        yield chunk.document_id
    for extraction in changeset.extractions:
        yield extraction.chunk_id
        yield from map(mention_entity_id, extraction.entities)
        yield from map(mention_relation_id, extraction.relations)
        yield from (id_ for mention in extraction.relations for id_ in (mention.source_id, mention.target_id) if id_)
    yield from (evidence.id for evidence in changeset.entity_evidence)
    for evidence in changeset.relation_evidence:
        yield from (evidence.id, evidence.source_id, evidence.target_id)
    yield from (entity.id for entity in changeset.entities)
    for relation in changeset.relations:
        yield from (relation.id, relation.source_id, relation.target_id)
    for batch in changeset.vectors.values():
        yield from batch.ids
    for entries in changeset.texts.values():
        yield from (entry.id for entry in entries)


def check_expectations(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    """Compare what a changeset was computed from with what is stored now.

    Args:
        connection: Within the writing transaction.
        changeset: Its `expected`, `expected_rules` and `expected_documents` are read.
        keys: Keys of the ids that are known so far.

    Raises:
        StaleChangesetError: Something differs.
    """
    known = [keys[id_] for id_ in changeset.expected if id_ in keys]
    versions: dict[int, int] = {}
    if known:
        for table in ("entity_evidence", "relation_evidence"):
            query = f"SELECT key, version FROM carray(?) AS wanted CROSS JOIN {table} ON key = wanted.value"
            versions.update(connection.execute(query, (array(known),)))
    for id_, version in changeset.expected.items():
        if versions.get(keys.get(id_, 0), 0) != version:
            raise StaleChangesetError(f"the evidence of {id_!r} has changed since it was read; read it and try again")
    check_rules(connection, changeset.expected_rules)
    for id_, content_hash in changeset.expected_documents.items():
        query = "SELECT content_hash FROM document WHERE key = ?"
        stored = fetch_one(connection, query, (keys.get(id_, 0),))
        if (stored[0] if stored else "") != content_hash:
            raise StaleChangesetError(f"the document {id_!r} has changed since it was read; read it and try again")


def write_records(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int], version: int) -> None:
    """Apply the truth of a changeset; removals first, so that a changeset may replace what it removes."""
    _remove(connection, changeset, keys)
    _write_documents(connection, changeset, keys)
    _write_chunks(connection, changeset.chunks, keys)
    for extraction in changeset.extractions:
        _write_extraction(connection, extraction, keys)
    _write_evidence(connection, changeset, keys, version)


def _remove(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    documents = [keys[id_] for id_ in changeset.removed_documents if id_ in keys]
    for table in ("document", "document_text"):
        connection.executemany(f"DELETE FROM {table} WHERE key = ?", singles(documents))
    chunks = [keys[id_] for id_ in changeset.removed_chunks if id_ in keys]
    for table in ("chunk", "chunk_text"):
        connection.executemany(f"DELETE FROM {table} WHERE key = ?", singles(chunks))
    for table in ("extraction", "entity_mention", "relation_mention", "alias_mention"):
        connection.executemany(f"DELETE FROM {table} WHERE chunk_key = ?", singles(chunks))
    drop_replies_about(connection, changeset.removed_subjects, changeset.kept_replies)


def _write_documents(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int]) -> None:
    rows = (_document_row(keys, document) for document in changeset.documents)
    query = f"""INSERT INTO document ({_DOCUMENT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (key) DO UPDATE SET
      source = excluded.source, title = excluded.title, content_hash = excluded.content_hash,
      status = excluded.status, error = excluded.error, metadata = excluded.metadata, length = excluded.length,
      chunk_count = excluded.chunk_count, track_id = excluded.track_id, input_tokens = excluded.input_tokens,
      output_tokens = excluded.output_tokens, updated_at = excluded.updated_at,
      page_starts = excluded.page_starts, twin_key = excluded.twin_key"""
    connection.executemany(query, rows)
    texts = ((keys[id_], text) for id_, text in changeset.document_texts.items())
    connection.executemany("INSERT OR REPLACE INTO document_text VALUES (?, ?)", texts)
    dropped = (keys[id_] for id_ in changeset.removed_texts)
    connection.executemany("DELETE FROM document_text WHERE key = ?", singles(dropped))


def _document_row(keys: Mapping[str, int], document: Document) -> tuple[Any, ...]:
    return (
        *(keys[document.id], document.source, document.title, document.content_hash),
        *(document.status.value, document.error),
        *(encode(document.metadata), document.length, document.chunk_count, document.track_id),
        *(document.usage.input_tokens, document.usage.output_tokens),
        *(document.created_at.timestamp(), document.updated_at.timestamp(), encode(document.page_starts)),
        keys[document.twin_of] if document.twin_of else None,
    )


def _write_chunks(connection: apsw.Connection, chunks: Sequence[Chunk], keys: Mapping[str, int]) -> None:
    rows = (
        (
            *(keys[chunk.id], keys[chunk.document_id], chunk.position, chunk.token_count),
            *(chunk.start, chunk.end, chunk.page, encode(chunk.headings), chunk.context),
        )
        for chunk in chunks
    )
    query = f"INSERT OR REPLACE INTO chunk ({_CHUNK}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    connection.executemany(query, rows)
    texts = ((keys[chunk.id], chunk.text) for chunk in chunks)
    connection.executemany("INSERT OR REPLACE INTO chunk_text VALUES (?, ?)", texts)


def _write_extraction(connection: apsw.Connection, extraction: Extraction, keys: Mapping[str, int]) -> None:
    chunk = keys[extraction.chunk_id]
    usage = extraction.usage
    row = (
        *(chunk, extraction.extractor, extraction.error, encode(extraction.reply_keys)),
        *(usage.input_tokens, usage.output_tokens),
    )
    connection.execute("INSERT OR REPLACE INTO extraction VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.execute("DELETE FROM entity_mention WHERE chunk_key = ?", (chunk,))
    connection.execute("DELETE FROM relation_mention WHERE chunk_key = ?", (chunk,))
    connection.execute("DELETE FROM alias_mention WHERE chunk_key = ?", (chunk,))
    entities = (
        (
            *(keys[mention_entity_id(item)], item.rank, chunk, ordinal, item.name, item.type, item.description),
            name_hash(item.name) if item.entity_id else None,
        )
        for ordinal, item in enumerate(extraction.entities)
    )
    connection.executemany("INSERT INTO entity_mention VALUES (?, ?, ?, ?, ?, ?, ?, ?)", entities)
    relations = (
        (
            *(keys[mention_relation_id(item)], item.rank, chunk, ordinal),
            *(item.source, item.target, encode(item.keywords), item.description, item.weight),
            *(keys[id_] if id_ else None for id_ in (item.source_id, item.target_id)),
        )
        for ordinal, item in enumerate(extraction.relations)
    )
    connection.executemany("INSERT INTO relation_mention VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", relations)
    aliases = ((chunk, ordinal, item.name, item.alias) for ordinal, item in enumerate(extraction.aliases))
    connection.executemany("INSERT INTO alias_mention VALUES (?, ?, ?, ?)", aliases)


def _write_evidence(connection: apsw.Connection, changeset: Changeset, keys: Mapping[str, int], version: int) -> None:
    entities = (
        (keys[item.id], encode(item.names), encode(item.types), item.mention_count, version)
        for item in changeset.entity_evidence
        if item.mention_count
    )
    connection.executemany("INSERT OR REPLACE INTO entity_evidence VALUES (?, ?, ?, ?, ?)", entities)
    relations = (
        (
            *(keys[item.id], keys[item.source_id], keys[item.target_id], encode(item.keywords)),
            *(item.weight_millionths, item.mention_count, version),
        )
        for item in changeset.relation_evidence
        if item.mention_count
    )
    connection.executemany("INSERT OR REPLACE INTO relation_evidence VALUES (?, ?, ?, ?, ?, ?, ?)", relations)
    for table, evidence in (
        ("entity_evidence", changeset.entity_evidence),
        ("relation_evidence", changeset.relation_evidence),
    ):
        gone = (keys[item.id] for item in evidence if not item.mention_count)
        connection.executemany(f"DELETE FROM {table} WHERE key = ?", singles(gone))
