"""Converts our records to the rows that LightRAG's programs read: entities, relations, chunks, documents, answers.

Chunks have LightRAG's ids: `{document}-chunk-000` by their position, `chunk-<md5>` where a program gave the chunk
itself. An unknown type is `UNKNOWN`. Entities and relations that no chunk mentions have the origin that a person gave,
or `manual_creation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from heliograph.extraction.base import UNKNOWN_TYPE
from heliograph.ids import relation_id
from heliograph.lightrag.base import DocProcessingStatus, DocStatus
from heliograph.lightrag.utils import TokenizerInterface, compute_mdhash_id
from heliograph.models import (
    FIELD_SEPARATOR,
    Chunk,
    Curation,
    Document,
    DocumentStatus,
    Entity,
    Mode,
    Relation,
    sources_of,
)
from heliograph.query.models import Failure, Retrieval
from heliograph.query.payloads import COUNTS, record_data
from heliograph.stores.base import ScanKind, Store
from heliograph.wire.documents import doc_status
from heliograph.wire.graph import given_origin

# Key in a document's metadata for data that only LightRAG has.
DETAILS = "lightrag"
MANUAL = "manual_creation"
UNKNOWN = "UNKNOWN"
UNKNOWN_SOURCE = "unknown_source"
_SUMMARY_LENGTH = 250
_PAGE = 2_000
_MOST_NAMED = 100_000


def is_duplicate(document: Document) -> bool:
    """Return whether a document only records a duplicate of another one."""
    return document.id.startswith("dup-") and document.status is DocumentStatus.FAILED


class Rows:
    """Makes rows from the contents of one workspace."""

    def __init__(self, store: Store, tokenizer: TokenizerInterface) -> None:
        self._tokenizer = tokenizer
        self.store = store
        self._names: dict[str, str] = {}

    # Chunks

    def forget(self) -> None:
        """Clear the cached chunk ids, because documents have changed."""
        self._names.clear()

    async def chunk_names(self, ids: Iterable[str]) -> dict[str, str]:
        """Return LightRAG's id of each existing chunk."""
        wanted = list(dict.fromkeys(ids))
        if len(self._names) > _MOST_NAMED:
            self._names.clear()
        unnamed = [id_ for id_ in wanted if id_ not in self._names]
        if unnamed:
            chunks = await self.store.records.get_chunks(unnamed)
            owners = await self.store.records.get_owners(chunks)
            given = frozenset(id_ for id_, document in owners.items() if _has_given_chunks(document))
            self.name_chunks(chunks, given)
        return {id_: self._names[id_] for id_ in wanted if id_ in self._names}

    def name_chunks(self, chunks: Iterable[Chunk], given: frozenset[str]) -> None:
        """Cache the ids of some chunks; `given` are documents whose chunks a program supplied."""
        for chunk in chunks:
            is_given = chunk.document_id in given
            made = f"{chunk.document_id}-chunk-{chunk.position:03d}"
            self._names[chunk.id] = compute_mdhash_id(chunk.text, "chunk-") if is_given else made

    async def document_chunks(self, document: Document) -> list[tuple[str, Chunk]]:
        """Return a document's chunks in order, each with its LightRAG id."""
        chunks = await self.store.records.get_document_chunks(document.twin_of or document.id)
        self.name_chunks(chunks, frozenset([document.id]) if _has_given_chunks(document) else frozenset())
        return [(self._names[chunk.id], chunk) for chunk in chunks]

    async def chunk_by_name(self, name: str) -> Chunk | None:
        """Return the chunk with this LightRAG id, or None; for a chunk that a program supplied, all are searched."""
        document_id, found, place = name.rpartition("-chunk-")
        if found and place.isdecimal():
            chunks = await self.store.records.get_document_chunks(document_id)
            return next((chunk for chunk in chunks if chunk.position == int(place)), None)
        async for ids in self.store.inspection.pages(ScanKind.CHUNKS, _PAGE):
            for id_, known in (await self.chunk_names(ids)).items():
                if known == name:
                    return (await self.store.records.get_chunks([id_]))[0]
        return None

    def chunk_row(self, name: str, chunk: Chunk, document: Document) -> dict[str, Any]:
        """Return a chunk as a row of `text_chunks`."""
        return {
            "tokens": len(self._tokenizer.encode(chunk.text)),
            "content": chunk.text,
            "chunk_order_index": chunk.position,
            "full_doc_id": document.id,
            "file_path": document.source,
            "llm_cache_list": [],
            "_id": name,
        }

    # The graph

    async def entities(self, items: Sequence[Entity]) -> list[dict[str, Any]]:
        """Return the properties of nodes, in order."""
        origins = await self._origins(items)
        given: dict[str, dict[str, str]] = {}
        for rules in await self.store.curations.get_rules(list(dict.fromkeys(item.id for item in items))):
            if origin := given_origin([item for item in rules.curations if len(item.entity_ids) == 1]):
                given[rules.id] = origin
        return [
            {
                "entity_id": item.name,
                "entity_type": UNKNOWN if item.type in ("", UNKNOWN_TYPE) else item.type,
                # An entity that only a relation names has no description; LightRAG writes one.
                "description": item.description or UNKNOWN,
                **origins[item.id],
                **given.get(item.id, {}),
                "created_at": item.created_at,
                **({"truncate": ""} if item.chunk_ids else {}),
            }
            for item in items
        ]

    async def relations(self, items: Sequence[Relation]) -> list[dict[str, Any]]:
        """Return the properties of edges, in order."""
        origins = await self._origins(items)
        given: dict[str, dict[str, str]] = {}
        for rules in await self.store.curations.get_rules(list(dict.fromkeys(item.source_id for item in items))):
            told: dict[str, list[Curation]] = {}
            for curation in rules.curations:
                if len(curation.entity_ids) == 2:
                    told.setdefault(relation_id(*curation.entity_ids), []).append(curation)
            given |= {id_: origin for id_, curations in told.items() if (origin := given_origin(curations))}
        return [
            {
                "weight": item.weight,
                "description": item.description,
                "keywords": ",".join(item.keywords),
                **origins[item.id],
                **({} if item.chunk_ids else {"source_id": ""}),
                **given.get(item.id, {}),
                "created_at": item.created_at,
                **({"truncate": ""} if item.chunk_ids else {}),
            }
            for item in items
        ]

    async def _origins(self, items: Sequence[Entity | Relation]) -> dict[str, dict[str, str]]:
        names = await self.chunk_names(id_ for item in items for id_ in item.chunk_ids)
        sources = await self.store.records.get_sources(list(names))
        origins: dict[str, dict[str, str]] = {}
        for item in items:
            origins[item.id] = {
                "source_id": FIELD_SEPARATOR.join(names[id_] for id_ in item.chunk_ids if id_ in names) or MANUAL,
                "file_path": FIELD_SEPARATOR.join(sources_of(item.chunk_ids, sources)) or MANUAL,
            }
        return origins

    # Documents

    async def statuses(self, documents: Sequence[Document]) -> dict[str, DocProcessingStatus]:
        """Return the statuses of documents by id, in LightRAG's shape."""
        openings = await self.store.records.get_openings([document.id for document in documents], _SUMMARY_LENGTH + 1)
        return {item.id: await self._status(item, openings.get(item.id, "")) for item in documents}

    async def _status(self, document: Document, opening: str) -> DocProcessingStatus:
        details = dict(document.metadata.get(DETAILS, {}))
        summary = opening.strip()
        summary = summary if len(summary) <= _SUMMARY_LENGTH else f"{summary[:_SUMMARY_LENGTH]}..."
        metadata = {name: value for name, value in document.metadata.items() if name != DETAILS}
        if _has_given_chunks(document):
            names = [name for name, _ in await self.document_chunks(document)]
        else:
            names = [f"{document.id}-chunk-{place:03d}" for place in range(document.chunk_count)]
        return DocProcessingStatus(
            content_summary=str(details.get("summary", "")) or summary,
            content_length=int(details.get("length", document.length)),
            file_path=document.source,
            status=DocStatus(doc_status(document.status)),
            created_at=document.created_at.isoformat(),
            updated_at=document.updated_at.isoformat(),
            track_id=document.track_id,
            chunks_count=document.chunk_count,
            chunks_list=names,
            error_msg=document.error or None,
            metadata=metadata,
            content_hash=details.get("content_hash"),
        )

    # Questions

    async def retrieval(self, retrieval: Retrieval) -> dict[str, Any]:
        """Return a retrieval in the form of `aquery_data`."""
        mode = retrieval.mode.value
        if retrieval.failure in (Failure.NO_RESULTS, Failure.NO_KEYWORDS):
            return {
                "status": "failure",
                "message": retrieval.message,
                "data": {},
                "metadata": {"failure_reason": "no_results", "mode": mode},
            }
        metadata: dict[str, Any] = {"query_mode": mode, "keywords": record_data(retrieval.keywords)}
        info = retrieval.info
        if retrieval.mode is Mode.NAIVE:
            counts = {"total_chunks_found": info.merged_chunks_count, "final_chunks_count": info.final_chunks_count}
            metadata["processing_info"] = counts
        elif retrieval.mode is not Mode.BYPASS:
            metadata["processing_info"] = {name: getattr(info, name) for name in COUNTS}
        return {
            "status": retrieval.status,
            "message": retrieval.message,
            "data": await self._data(retrieval),
            "metadata": metadata,
        }

    async def _data(self, retrieval: Retrieval) -> dict[str, Any]:
        context = retrieval.context
        entities = [item.entity for item in context.entities]
        relations = [item.relation for item in context.relations]
        names = await self.chunk_names(item.chunk.id for item in context.chunks)
        kept = ("description", "source_id", "file_path", "created_at")
        return {
            "entities": [
                {"entity_name": item.name, "entity_type": row["entity_type"], **{name: row[name] for name in kept}}
                for item, row in zip(entities, await self.entities(entities), strict=True)
            ],
            "relationships": [
                {
                    "src_id": item.source,
                    "tgt_id": item.target,
                    "description": row["description"],
                    "keywords": row["keywords"],
                    "weight": row["weight"],
                    **{name: row[name] for name in kept[1:]},
                }
                for item, row in zip(relations, await self.relations(relations), strict=True)
            ],
            "chunks": [
                {
                    "reference_id": "" if item.source == UNKNOWN_SOURCE else item.reference_id,
                    "content": item.chunk.text,
                    "file_path": item.source,
                    "chunk_id": names.get(item.chunk.id, item.chunk.id),
                }
                for item in context.chunks
            ],
            "references": [
                {"reference_id": item.reference_id, "file_path": item.source}
                for item in context.references
                if item.source != UNKNOWN_SOURCE
            ],
        }


def _has_given_chunks(document: Document) -> bool:
    details = document.metadata.get(DETAILS)
    return isinstance(details, dict) and bool(details.get("has_given_chunks"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def base_name(path: object) -> str:
    """Return the file name of a path, by which LightRAG identifies a document; `unknown_source` if there is none."""
    name = str(path or "").strip()
    if name in ("", UNKNOWN_SOURCE, "no-file-path"):
        return UNKNOWN_SOURCE
    return PurePath(name.replace("\\", "/")).name or UNKNOWN_SOURCE


def entity_vector(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of `entities_vdb` for an entity, from the properties of its node."""
    name = data["entity_id"]
    return {
        "id": compute_mdhash_id(name, "ent-"),
        "entity_name": name,
        "content": f"{name}\n{data['description']}",
        "source_id": data["source_id"],
        "file_path": data["file_path"],
        "created_at": data["created_at"],
    }


def relation_vector(source: str, target: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of `relationships_vdb` for a relation, from its ends and the properties of its edge."""
    source, target = sorted((source, target))
    return {
        "id": compute_mdhash_id(source + target, "rel-"),
        "src_id": source,
        "tgt_id": target,
        "content": f"{data['keywords']}\t{source}\n{target}\n{data['description']}",
        "source_id": data["source_id"],
        "file_path": data["file_path"],
        "created_at": data["created_at"],
    }
