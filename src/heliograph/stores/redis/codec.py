"""Values as they stand in Redis, and back: JSON without spaces, mentions and their places, documents and their keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from heliograph.models import (
    AliasMention,
    Chunk,
    Curation,
    Document,
    EntityEvidence,
    EntityMention,
    Extraction,
    RelationEvidence,
    RelationMention,
    Usage,
)
from heliograph.stores.curation_content import curation_content, curation_from_content

__all__ = [
    "dump",
    "dump_chunk",
    "dump_curation",
    "dump_entity_mention",
    "dump_extraction",
    "dump_relation_mention",
    "dump_versioned",
    "load_chunk",
    "load_curation",
    "load_entity_evidence",
    "load_entity_mention",
    "load_extraction",
    "load_relation_evidence",
    "load_relation_mention",
    "load_versioned",
    "mention_place",
    "micros",
    "place_chunk",
    "place_rank",
    "sort_value",
    "version_of",
]

# Made once: `json.dumps` with arguments of its own makes an encoder for every call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RANK_DIGITS = 16
# Added to moments, so that those before 1970 sort as well.
_BEFORE = 1 << 62


def dump(value: Any) -> str:
    """Return a value as JSON."""
    return _ENCODER.encode(value)


def micros(moment: datetime) -> int:
    """Return a moment as microseconds since 1970; exact as a score of a sorted set."""
    return (moment - _EPOCH) // _MICROSECOND


def mention_place(rank: int, chunk_id: str, ordinal: int) -> str:
    """Return what a mention is in the sorted sets of mentions: places stand in canonical order."""
    return f"{rank:0{_RANK_DIGITS}x}{chunk_id}\0{ordinal:06x}"


def place_chunk(place: str) -> str:
    """Return the id of the chunk of a mention's place."""
    return place[_RANK_DIGITS:].rpartition("\0")[0]


def place_rank(place: str) -> int:
    """Return the rank of a mention's place."""
    return int(place[:_RANK_DIGITS], 16)


def dump_chunk(item: Chunk) -> str:
    """Return a chunk but for its id."""
    place = item.start, item.end, item.headings, item.page
    return dump((item.document_id, item.position, item.text, item.token_count, *place, item.context))


def load_chunk(id_: str, text: str) -> Chunk:
    """Return what `dump_chunk` wrote."""
    document_id, position, said, token_count, start, end, headings, page, context = json.loads(text)
    return Chunk(id_, document_id, position, said, token_count, start, end, tuple(headings), page, context)


def dump_entity_mention(item: EntityMention) -> str:
    """Return a mention but for its chunk."""
    return dump((item.name, item.type, item.description, item.rank, item.entity_id))


def load_entity_mention(chunk_id: str, text: str) -> EntityMention:
    """Return what `dump_entity_mention` wrote."""
    return EntityMention(chunk_id, *json.loads(text))


def dump_relation_mention(item: RelationMention) -> str:
    """Return a mention but for its chunk."""
    said = item.keywords, item.description, item.weight, item.rank
    return dump((item.source, item.target, *said, item.source_id, item.target_id))


def load_relation_mention(chunk_id: str, text: str) -> RelationMention:
    """Return what `dump_relation_mention` wrote."""
    source, target, keywords, *rest = json.loads(text)
    return RelationMention(chunk_id, source, target, tuple(keywords), *rest)


def dump_extraction(item: Extraction) -> str:
    """Return an extraction but for its chunk, mentions and aliases."""
    return dump((item.extractor, item.error, item.reply_keys, item.usage.input_tokens, item.usage.output_tokens))


def load_extraction(
    chunk_id: str, text: str, entities: Sequence[str], relations: Sequence[str], aliases: str | None
) -> Extraction:
    """Return an extraction from what `dump_extraction` wrote, its mentions, and its aliases as JSON, if any."""
    extractor, error, reply_keys, read, written = json.loads(text)
    return Extraction(
        chunk_id,
        extractor,
        tuple(load_entity_mention(chunk_id, item) for item in entities),
        tuple(load_relation_mention(chunk_id, item) for item in relations),
        error,
        tuple(reply_keys),
        Usage(read, written),
        aliases=tuple(AliasMention(chunk_id, *names) for names in json.loads(aliases or "[]")),
    )


def dump_versioned(version: int, value: Any) -> str:
    """Return a value with the data version of its last change before it."""
    return f"{version} {dump(value)}"


def load_versioned(text: str) -> tuple[int, Any]:
    """Return what `dump_versioned` wrote."""
    version, _, value = text.partition(" ")
    return int(version), json.loads(value)


def version_of(text: str | None) -> int:
    """Return the version of what `dump_versioned` wrote; 0 if there is nothing."""
    return int(text.partition(" ")[0]) if text else 0


def load_entity_evidence(id_: str, text: str, leading: tuple[EntityMention, ...]) -> EntityEvidence:
    """Return evidence from (names, types, mention count) with their version."""
    version, (names, types, count) = load_versioned(text)
    return EntityEvidence(id_, names, types, count, leading, version)


def load_relation_evidence(id_: str, text: str, leading: tuple[RelationMention, ...]) -> RelationEvidence:
    """Return evidence from (source id, target id, keywords, weight, mention count) with their version."""
    version, (source_id, target_id, keywords, weight, count) = load_versioned(text)
    return RelationEvidence(id_, source_id, target_id, keywords, weight, count, leading, version)


def dump_curation(item: Curation, sequence: int) -> str:
    """Return a curation with its place in the order of all."""
    undone_at = item.undone_at.isoformat() if item.undone_at else None
    content: Mapping[str, Any] = {
        "id": item.id,
        "kind": item.kind.value,
        **curation_content(item),
        "author": item.author,
        "created_at": item.created_at.isoformat(),
        "undone_by": item.undone_by,
        "undone_at": undone_at,
        "sequence": sequence,
    }
    return dump(content)


def load_curation(fields: Mapping[str, Any]) -> Curation:
    """Return a curation from the fields that `dump_curation` wrote."""
    undone_at = fields["undone_at"]
    return replace(
        curation_from_content(fields["kind"], fields),
        id=fields["id"],
        author=fields["author"],
        created_at=datetime.fromisoformat(fields["created_at"]),
        undone_by=fields["undone_by"],
        undone_at=None if undone_at is None else datetime.fromisoformat(undone_at),
        sequence=fields["sequence"],
    )


def sort_value(document: Document, sort: str) -> str:
    """Return what a document is sorted by, as texts sort."""
    match sort:
        case "created_at":
            return f"{micros(document.created_at) + _BEFORE:016x}"
        case "updated_at":
            return f"{micros(document.updated_at) + _BEFORE:016x}"
        case "source":
            return document.source
        case _:
            return ""
