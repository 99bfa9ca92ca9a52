"""Retrievals as plain dicts: what `query_data` returns, `/query/data` sends and structured answers contain.

`wire.answers` defines these shapes as models, field by field; `wire.query` builds the shape of `/api/v1/retrieve` from
the same `Retrieval`.

The dicts are a superset of LightRAG 1.5.7's. Where LightRAG and the earlier engine differ, the plain field follows the
earlier engine and a second field has the other form: `created_at` is ISO 8601 in UTC, `created_at_unix` whole seconds;
entities and relations have a `reference_id`. Lists within a string are joined by `<SEP>`, keywords by a comma. Our
additions to the metadata are `timings` (seconds per stage), `understanding` (mode `auto`) and six counts in every mode:
LightRAG counts only chunks in mode naive and nothing in bypass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, TypedDict

from heliograph.models import FIELD_SEPARATOR, Entity, GraphPath, Mode, Relation, Usage, chunk_details
from heliograph.query.models import (
    Context,
    Failure,
    Reference,
    Retrieval,
    RetrievedChunk,
    RetrievedEntity,
    RetrievedRelation,
)

# The counts of `ProcessingInfo` that the metadata includes.
COUNTS = (
    *("total_entities_found", "total_relations_found", "entities_after_truncation", "relations_after_truncation"),
    *("merged_chunks_count", "final_chunks_count"),
)


class QueryData(TypedDict):
    """The dict that `query_data` returns; `data` holds lists of dicts, or is empty if nothing was found."""

    status: Literal["success", "failure"]
    message: str
    data: dict[str, Any]
    metadata: dict[str, Any]


def query_data(retrieval: Retrieval, *, include_chunk_content: bool = False) -> QueryData:
    """Return status, message, data and metadata of a retrieval.

    If nothing was found, `data` is an empty dict, as in LightRAG, and the metadata has `failure_reason` and `mode`.
    If everything found was dropped, and in mode bypass, `data` holds four empty lists.
    """
    is_empty = retrieval.failure in (Failure.NO_KEYWORDS, Failure.NO_RESULTS)
    return {
        "status": retrieval.status,
        "message": retrieval.message,
        "data": {} if is_empty else context_data(retrieval.context, include_chunk_content),
        "metadata": retrieval_metadata(retrieval),
    }


def context_data(context: Context, include_chunk_content: bool = False) -> dict[str, Any]:
    """Return the lists of a context: entities, relationships, chunks, references, and paths if they were searched."""
    data: dict[str, Any] = {
        "entities": [
            {"entity_name": item.entity.name, "entity_type": item.entity.type, **_graph_item(item, item.entity)}
            for item in context.entities
        ],
        "relationships": [
            {
                "src_id": item.relation.source,
                "tgt_id": item.relation.target,
                "keywords": ",".join(item.relation.keywords),
                "weight": item.relation.weight,
                **_graph_item(item, item.relation),
            }
            for item in context.relations
        ],
        "chunks": [_chunk_row(item) for item in context.chunks],
        "references": reference_data(context, include_chunk_content),
    }
    if context.paths is not None:
        data["paths"] = path_data(context.paths)
    return data


def path_data(paths: Iterable[GraphPath]) -> list[dict[str, list[str]]]:
    """Return the entity names and relation descriptions of each path."""
    return [
        {
            "entities": [entity.name for entity in path.entities],
            "relations": [relation.description for relation in path.relations],
        }
        for path in paths
    ]


def reference_data(context: Context, include_chunk_content: bool = False) -> list[dict[str, Any]]:
    """Return the references of a context, each with its chunk texts under `content` if requested."""
    if not include_chunk_content:
        return [_reference(reference) for reference in context.references]
    texts: dict[str, list[str]] = {}
    for item in context.chunks:
        texts.setdefault(item.reference_id, []).append(item.chunk.text)
    return [{**_reference(item), "content": texts.get(item.reference_id, [])} for item in context.references]


def explanation_data(retrieval: Retrieval) -> dict[str, Any] | None:
    """Return the trace of everything found, with the keywords; None unless the question set `explain`."""
    trace = retrieval.trace
    if trace is None:
        return None
    return {
        "mode": retrieval.mode.value,
        "keywords": record_data(retrieval.keywords),
        "respelt": retrieval.respelt,
        "understanding": None if retrieval.understanding is None else record_data(retrieval.understanding),
        "chunks": [
            record_data(item) | {"scores": {name: round(score, 6) for name, score in item.scores.items()}}
            for item in trace.chunks
        ],
        "entities": [record_data(item) for item in trace.entities],
        "relations": [record_data(item) for item in trace.relations],
        "counts": _processing_info(retrieval),
        "tokens": dict(trace.tokens),
        "timings": {stage: round(seconds, 6) for stage, seconds in retrieval.timings.items()},
        "prompt": trace.prompt,
    }


def retrieval_metadata(retrieval: Retrieval) -> dict[str, Any]:
    """Return mode, keywords and counts, and failures and warnings if there are any."""
    metadata: dict[str, Any] = {
        "query_mode": retrieval.mode.value,
        "keywords": record_data(retrieval.keywords),
    }
    if retrieval.failure:
        metadata |= {"failure_reason": retrieval.failure.value, "mode": retrieval.mode.value}
    metadata["processing_info"] = _processing_info(retrieval)
    if retrieval.warnings:
        metadata["warnings"] = list(retrieval.warnings)
    if retrieval.respelt:
        metadata["respelt"] = retrieval.respelt
    if retrieval.understanding:
        metadata["understanding"] = record_data(retrieval.understanding)
    if retrieval.usage != Usage():
        metadata["usage"] = record_data(retrieval.usage)
    if retrieval.timings:
        metadata["timings"] = {stage: round(seconds, 6) for stage, seconds in retrieval.timings.items()}
    return metadata


def record_data(record: Any, **names: str) -> dict[str, Any]:
    """Return the fields of a record as a dict, tuples as lists; `names` maps fields to other keys."""
    values = ((item.name, getattr(record, item.name)) for item in fields(record))
    return {names.get(name, name): list(value) if isinstance(value, tuple) else value for name, value in values}  # pyright: ignore[reportUnknownArgumentType]


def _processing_info(retrieval: Retrieval) -> dict[str, int]:
    """Return the six counts, 0 where nothing was searched; in mode naive also LightRAG's `total_chunks_found`."""
    info = retrieval.info
    found = {"total_chunks_found": info.merged_chunks_count} if retrieval.mode is Mode.NAIVE else {}
    return found | {name: getattr(info, name) for name in COUNTS}


def _graph_item(item: RetrievedEntity | RetrievedRelation, record: Entity | Relation) -> dict[str, Any]:
    return {
        "description": record.description,
        "source_id": FIELD_SEPARATOR.join(record.chunk_ids),
        "file_path": FIELD_SEPARATOR.join(item.sources),
        "created_at": _iso(record.created_at),
        "created_at_unix": record.created_at,
        "reference_id": item.reference_id,
    }


def _chunk_row(item: RetrievedChunk) -> dict[str, Any]:
    chunk = item.chunk
    row: dict[str, Any] = {
        "reference_id": item.reference_id,
        "content": chunk.text,
        "file_path": item.source,
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "start": chunk.start,
        "end": chunk.end,
        **chunk_details(chunk),
        "source_marks": [str(mark) for mark in item.marks],
        "rerank_score": item.rerank_score,
    }
    if item.scores:
        row["scores"] = {name: round(score, 6) for name, score in item.scores.items()}
    return row


def _reference(reference: Reference) -> dict[str, Any]:
    row = record_data(reference, source="file_path", other_sources="other_file_paths")
    if not reference.other_sources:
        del row["other_file_paths"]
    return row


# Records indexed together share few distinct timestamps.
@lru_cache(maxsize=1024)
def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
