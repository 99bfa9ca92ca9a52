"""Inserts a ready-made graph as a document: the caller gives chunks, entities and relations, and no model reads them.

The graph is validated completely before any write, and stored in one commit. The document's text is its chunks joined,
and each entity and relation is a mention in its chunk, by the extractor `given`. So it is updated, deleted, rebuilt and
curated like any other document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import inf
from pathlib import PurePath
from typing import Any, cast

from heliograph.arguments import checked_fields
from heliograph.documents.markdown import clean_text, with_language
from heliograph.errors import InvalidRequestError
from heliograph.extraction.base import UNKNOWN_TYPE, canonical_extraction
from heliograph.ids import clean_name, content_hash, entity_key, mention_rank, written_type
from heliograph.ingest.chunking import JOINT, joined, place_chunks
from heliograph.ingest.intake import checked_name, clean_metadata
from heliograph.ingest.models import DocumentResult
from heliograph.ingest.pipeline import IngestPipeline
from heliograph.models import Chunk, Document, DocumentStatus, EntityMention, Extraction, RelationMention

_EXTRACTOR = "given"


@dataclass(frozen=True, slots=True)
class GivenChunk:
    """A passage; entities and relations of the same graph refer to it by `key`."""

    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class GivenEntity:
    """An entity; `chunk` is the key of the chunk that mentions it, empty for the first chunk."""

    name: str
    type: str = ""
    description: str = ""
    chunk: str = ""


@dataclass(frozen=True, slots=True)
class GivenRelation:
    """A relation between two entities; missing end entities are added; `chunk` as for an entity."""

    source: str
    target: str
    description: str = ""
    keywords: str | Sequence[str] = ()
    weight: float = 1.0
    chunk: str = ""


@dataclass(frozen=True, slots=True)
class GivenGraph:
    """A graph to insert as one document; without an id it gets one derived from source or text."""

    chunks: tuple[GivenChunk, ...]
    entities: tuple[GivenEntity, ...] = ()
    relations: tuple[GivenRelation, ...] = ()
    source: str = ""
    id: str = ""
    title: str = ""
    metadata: Mapping[str, Any] | None = None


async def insert_graph(pipeline: IngestPipeline, graph: GivenGraph) -> DocumentResult:
    """Insert a graph; raises as `GraphCuration.insert_graph`."""
    for item in (graph, *graph.chunks, *graph.entities, *graph.relations):
        checked_fields(item, f"{type(item).__name__}.")
    texts = [clean_text(chunk.text).strip() for chunk in graph.chunks]
    if not texts or not all(texts):
        raise InvalidRequestError(
            "a graph needs at least one chunk, and no chunk may be empty; give the text it is from"
        )
    twice = [key for key, count in Counter(chunk.key for chunk in graph.chunks if chunk.key).items() if count > 1]
    if twice:
        raise InvalidRequestError(f"two chunks have the key {twice[0]!r}; give each its own")
    text = JOINT.join(texts)
    source = checked_name(graph.source, "source")
    id_ = checked_name(graph.id, "id") or await pipeline.identify(source, text)
    chunks = place_chunks(id_, joined(texts))
    document = Document(
        *(id_, source or id_),
        title=" ".join(clean_text(graph.title).split()) or PurePath(source).stem,
        content_hash=content_hash(text),
        status=DocumentStatus.PROCESSED,
        metadata=with_language(clean_metadata(graph.metadata or {}, source), text),
        length=len(text),
        chunk_count=len(chunks),
    )
    return await pipeline.insert_whole(document, text, chunks, _extractions(graph, document, chunks))


def parse_given_graph(data: Mapping[str, Any], *, source: str = "") -> GivenGraph:
    """Parse a graph in LightRAG's format: `chunks`, `entities` and `relationships`, joined by their `source_id`.

    Raises:
        InvalidRequestError: It is not in that format.
    """
    chunks = [
        GivenChunk(_needed(item, label, "content"), _said(item, "source_id")) for label, item in _items(data, "chunks")
    ]
    keys = {chunk.key for chunk in chunks}
    entities = [
        GivenEntity(
            *(_needed(item, label, "entity_name"), _said(item, "entity_type"), _said(item, "description")),
            _key(item, keys),
        )
        for label, item in _items(data, "entities")
    ]
    relations = [
        GivenRelation(
            *(_needed(item, label, "src_id"), _needed(item, label, "tgt_id"), _said(item, "description")),
            *(_said(item, "keywords"), _weight(item, label)),
            _key(item, keys),
        )
        for label, item in _items(data, "relationships")
    ]
    return GivenGraph(tuple(chunks), tuple(entities), tuple(relations), source)


def _items(data: Mapping[str, Any], name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a list, each with its label for error messages; a missing list is empty."""
    items: object = data.get(name)
    if not isinstance(items, Sequence | None) or isinstance(items, str):
        raise InvalidRequestError(f"{name!r} of the graph is no list; see docs/curation.md for the form")
    for place, item in enumerate(cast("Sequence[object]", items or ())):
        label = f"{name}[{place}]"
        if not isinstance(item, Mapping):
            raise InvalidRequestError(f"{label} of the graph is no object; see docs/curation.md for the form")
        yield label, cast("Mapping[str, Any]", item)


def _needed(item: Mapping[str, Any], label: str, name: str) -> str:
    if item.get(name) is None:
        raise InvalidRequestError(f"{label} of the graph has no {name!r}; see docs/curation.md for the form")
    return str(item[name])


def _weight(item: Mapping[str, Any], label: str) -> float:
    weight = item.get("weight")
    try:
        return 1.0 if weight is None else float(weight)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRequestError(f"the weight of {label} of the graph is no number: {weight!r:.80}") from error


def _said(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return "" if value is None else str(value)


def _key(item: Mapping[str, Any], keys: set[str]) -> str:
    # A `source_id` that is no chunk of the graph refers to the whole graph, as in LightRAG.
    key = _said(item, "source_id")
    return key if key in keys else ""


def _extractions(graph: GivenGraph, document: Document, chunks: Sequence[Chunk]) -> list[Extraction]:
    by_key = {given.key: chunk for given, chunk in zip(graph.chunks, chunks, strict=True) if given.key}
    entities: dict[str, list[EntityMention]] = {chunk.id: [] for chunk in chunks}
    relations: dict[str, list[RelationMention]] = {chunk.id: [] for chunk in chunks}

    def chunk_of(key: str, label: str) -> Chunk:
        if key and key not in by_key:
            raise InvalidRequestError(f"{label} names the chunk {key!r}, which is not given; give it, or leave it out")
        return by_key[key] if key else chunks[0]

    places = [(_name(item.name), item) for item in graph.entities]
    named: dict[str, list[str]] = {chunk.id: [] for chunk in chunks}
    for name, item in places:
        named[chunk_of(item.chunk, f"the entity {name!r}").id].append(name)
    # Imported on use, as the extractors are.
    subject_keys = import_module("heliograph.extraction.local_subjects").subject_keys
    subjects = {chunk.id: subject_keys(document.title, chunk, named[chunk.id]) for chunk in chunks}

    def rank(chunk: Chunk, *names: str) -> int:
        is_subject = not subjects[chunk.id].isdisjoint(map(entity_key, names))
        return mention_rank(document.id, chunk.position, is_subject=is_subject)

    for name, item in places:
        chunk = chunk_of(item.chunk, f"the entity {name!r}")
        kind = written_type(item.type) or UNKNOWN_TYPE
        entities[chunk.id].append(EntityMention(chunk.id, name, kind, item.description, rank(chunk, name)))
    for item in graph.relations:
        source, target = _name(item.source), _name(item.target)
        label = f"the relation between {source!r} and {target!r}"
        if entity_key(item.source) == entity_key(item.target):
            raise InvalidRequestError(f"{label} relates an entity with itself; give two")
        try:
            weight = float(item.weight)
        except OverflowError:
            weight = inf
        if not 0 < weight < inf:
            raise InvalidRequestError(f"the weight of {label} must be a positive number, got {item.weight!r}")
        chunk = chunk_of(item.chunk, label)
        keywords = (item.keywords,) if isinstance(item.keywords, str) else tuple(item.keywords)
        relations[chunk.id].append(
            RelationMention(
                *(chunk.id, source, target, keywords, item.description, item.weight), rank(chunk, source, target)
            )
        )
    return [
        canonical_extraction(Extraction(chunk.id, _EXTRACTOR, tuple(entities[chunk.id]), tuple(relations[chunk.id])))
        for chunk in chunks
    ]


def _name(name: str) -> str:
    clean = clean_name(name)
    if not clean:
        raise InvalidRequestError(f"the name of an entity cannot be empty, got {name!r}")
    return clean
