"""Rows as models: documents, chunks, mentions, entities, relations, from the columns named here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from heliograph.models import (
    Chunk,
    Document,
    DocumentStatus,
    Entity,
    EntityMention,
    Relation,
    RelationMention,
    Usage,
)
from heliograph.stores.postgres.codec import split_lines

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
