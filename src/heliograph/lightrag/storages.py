"""Read-only views of one workspace under the names of LightRAG's storages."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from importlib import import_module
from typing import Any, Never, cast

from heliograph.embedding.base import EmbeddingModel
from heliograph.engine import AsyncHeliograph, best_connected
from heliograph.filters import Sources
from heliograph.ids import end_ids, mention_entity_id, relation_id
from heliograph.lightrag.base import DocProcessingStatus, DocStatus
from heliograph.lightrag.missing import missing_attribute
from heliograph.lightrag.rows import Rows, entity_vector, is_duplicate, relation_vector
from heliograph.lightrag.types import KnowledgeGraph
from heliograph.models import COMMITTED_STATUSES, FIELD_SEPARATOR, Document, Entity, Relation
from heliograph.stores.base import DocumentQuery, ScanKind
from heliograph.stores.changeset import Collection
from heliograph.wire.documents import STATUSES
from heliograph.wire.graph import edge

_PAGE = 2_000
_SORTS = {"created_at": "created_at", "updated_at": "updated_at", "id": "id", "file_path": "source"}

Open = Callable[[], Awaitable[tuple[AsyncHeliograph, Rows]]]


async def all_documents(kb: AsyncHeliograph, **conditions: Any) -> list[Document]:
    """Return all documents that match the conditions of a `DocumentQuery`."""
    return [document async for document in kb.store.records.all_documents(DocumentQuery(**conditions))]


class _View:
    """The methods common to LightRAG's storages that open, flush and close one; they do nothing here."""

    def __init__(self, opened: Open) -> None:
        self._opened = opened

    async def initialize(self) -> None:
        """Do nothing: a view opens the workspace when it is first read."""

    async def index_done_callback(self) -> None:
        """Do nothing: every write is on disk when its call returns."""

    async def finalize(self) -> None:
        """Do nothing: `finalize_storages` closes the workspace."""

    def __getattr__(self, name: str) -> Never:
        # Only called for attributes that do not exist here.
        raise AttributeError(missing_attribute(type(self).__name__, name))


class _KeyValueView(_View, ABC):
    """A view that is read by key, as LightRAG's `BaseKVStorage`."""

    @abstractmethod
    async def get_by_id(self, id: str) -> dict[str, Any] | None:
        """Return one record as a dict, or None."""

    async def get_by_ids(self, ids: Sequence[str]) -> list[dict[str, Any] | None]:
        """Return each record as a dict, or None, in order."""
        return [await self.get_by_id(id_) for id_ in ids]

    async def filter_keys(self, keys: Iterable[str]) -> set[str]:
        """Return those keys that do not exist."""
        wanted = list(keys)
        return {key for key, row in zip(wanted, await self.get_by_ids(wanted), strict=True) if row is None}

    async def is_empty(self) -> bool:
        """Return whether the workspace has no document."""
        kb, _ = await self._opened()
        return not any((await kb.stats()).documents.values())


class DocStatusView(_KeyValueView):
    """States of documents."""

    async def get_by_id(self, id: str) -> dict[str, Any] | None:
        return (await self.get_by_ids([id]))[0]

    async def get_by_ids(self, ids: Sequence[str]) -> list[dict[str, Any] | None]:
        kb, rows = await self._opened()
        found = await rows.statuses(await kb.documents_by_id(list(ids)))
        return [_record(found[id_]) if id_ in found else None for id_ in ids]

    async def get_status_counts(self) -> dict[str, int]:
        """Return how many documents are in each state."""
        kb, _ = await self._opened()
        counts = (await kb.stats()).documents
        return {word.value: sum(counts.get(item, 0) for item in STATUSES[word.value]) for word in DocStatus}

    async def get_all(self) -> dict[str, dict[str, Any]]:
        """Return all documents as dicts, by id."""
        kb, rows = await self._opened()
        return {id_: _record(state) for id_, state in (await rows.statuses(await all_documents(kb))).items()}

    async def get_all_status_counts(self) -> dict[str, int]:
        """Return the counts per state, and the total as `all`."""
        counts = await self.get_status_counts()
        return counts | {"all": sum(counts.values())}

    async def get_docs_by_status(self, status: DocStatus | str) -> dict[str, DocProcessingStatus]:
        """Return all documents in a state."""
        return await self.get_docs_by_statuses([status])

    async def get_docs_by_statuses(self, statuses: Iterable[DocStatus | str]) -> dict[str, DocProcessingStatus]:
        """Return all documents in any of these states."""
        wanted = tuple(item for word in statuses for item in STATUSES[DocStatus(word).value])
        if not wanted:
            return {}
        kb, rows = await self._opened()
        return await rows.statuses(await all_documents(kb, statuses=wanted))

    async def get_docs_by_track_id(self, track_id: str) -> dict[str, DocProcessingStatus]:
        """Return the documents of one call of `insert`."""
        kb, rows = await self._opened()
        return await rows.statuses(await all_documents(kb, track_id=track_id))

    async def get_doc_by_file_path(self, file_path: str) -> dict[str, Any] | None:
        """Return the document of a file name as a dict, or None."""
        kb, rows = await self._opened()
        found = [item for item in await all_documents(kb, filter=Sources((file_path,))) if not is_duplicate(item)]
        return _record((await rows.statuses(found[:1]))[found[0].id]) if found else None

    async def get_docs_paginated(
        self,
        status_filter: DocStatus | None = None,
        page: int = 1,
        page_size: int = 50,
        sort_field: str = "updated_at",
        sort_direction: str = "desc",
        status_filters: Sequence[DocStatus] | None = None,
    ) -> tuple[list[tuple[str, DocProcessingStatus]], int]:
        """Return one page, as pairs of id and state, and the total number."""
        words = status_filters or ([status_filter] if status_filter else list(DocStatus))
        statuses = tuple(item for word in words for item in STATUSES[DocStatus(word).value])
        if not statuses:
            return [], 0
        kb, rows = await self._opened()
        size = min(max(page_size, 10), 200)
        found = await kb.documents(
            DocumentQuery(
                statuses=statuses,
                sort=cast("Any", _SORTS.get(sort_field, "updated_at")),
                descending=sort_direction.lower() != "asc",
                offset=(max(page, 1) - 1) * size,
                limit=size,
            )
        )
        states = await rows.statuses(found.documents)
        for state in states.values():
            # A page does not list chunks.
            state.chunks_list = []
        return list(states.items()), found.total


class FullDocsView(_KeyValueView):
    """Texts of documents."""

    async def get_by_id(self, id: str) -> dict[str, Any] | None:
        """Return `content` and `file_path` of one document, or None."""
        kb, _ = await self._opened()
        document, text = await kb.document(id), await kb.document_text(id)
        if document is None or text is None:
            return None
        return {"content": text, "file_path": document.source, "parse_format": "raw", "_id": id}

    async def get_all(self) -> dict[str, dict[str, Any]]:
        """Return all documents that have a text, by id."""
        kb, _ = await self._opened()
        found = {item.id: await self.get_by_id(item.id) for item in await all_documents(kb)}
        return {id_: row for id_, row in found.items() if row is not None}


class ChunkView(_KeyValueView):
    """Chunks."""

    async def get_by_id(self, id: str) -> dict[str, Any] | None:
        """Return one chunk, or None."""
        kb, rows = await self._opened()
        chunk = await rows.chunk_by_name(id)
        document = await kb.document(chunk.document_id) if chunk else None
        return rows.chunk_row(id, chunk, document) if chunk and document else None

    async def get_all(self) -> dict[str, dict[str, Any]]:
        """Return all chunks, by id."""
        kb, rows = await self._opened()
        return {
            name: rows.chunk_row(name, chunk, document)
            for document in await all_documents(kb, statuses=COMMITTED_STATUSES)
            for name, chunk in await rows.document_chunks(document)
        }


class MentionedView(_KeyValueView):
    """The names that each document mentions: `entity_names`, or `relation_pairs`, and their `count`; by document id."""

    def __init__(self, opened: Open, *, of_relations: bool) -> None:
        super().__init__(opened)
        self._of_relations = of_relations

    async def get_by_id(self, id: str) -> dict[str, Any] | None:
        kb, _ = await self._opened()
        records, graph = kb.store.records, kb.store.graph
        chunks = await records.get_document_chunks(id)
        extractions = await records.get_extractions([chunk.id for chunk in chunks])
        if self._of_relations:
            ends = dict.fromkeys(end_ids(mention) for item in extractions for mention in item.relations)
            relations = await graph.name_ends(await graph.get_relations([relation_id(*pair) for pair in ends]))
            pairs = [sorted((item.source, item.target)) for item in relations]
            return {"relation_pairs": pairs, "count": len(pairs)} if pairs else None
        ids = dict.fromkeys(mention_entity_id(mention) for item in extractions for mention in item.entities)
        names = [entity.name for entity in await graph.get_entities(list(ids))]
        return {"entity_names": names, "count": len(names)} if names else None


class SourcesView(_KeyValueView):
    """The chunks that mention an entity, by its name, or a relation, by `source<SEP>target`."""

    async def get_by_id(self, id: str) -> dict[str, Any] | None:
        kb, rows = await self._opened()
        name, _, other = id.partition(FIELD_SEPARATOR)
        found = await (kb.relation(name, other) if other else kb.entity(name))
        if found is None:
            return None
        names = await rows.chunk_names(found.chunk_ids)
        return {"chunk_ids": list(names.values()), "count": len(names)}


class ReplyView(_View):
    """Cached model replies; their keys are ours."""

    async def drop(self) -> dict[str, str]:
        """Drop all cached replies."""
        kb, _ = await self._opened()
        await kb.clear_cache()
        return {"status": "success", "message": "data dropped"}


class GraphView(_View):
    """Entities and relations by name; a name may be any spelling or alias.

    Args:
        opened: Opens the workspace.
        beside: Opens it a second time.
    """

    def __init__(self, opened: Open, beside: Callable[[], AbstractAsyncContextManager[tuple[AsyncHeliograph, Rows]]]):
        super().__init__(opened)
        self._beside = beside

    @property
    def _graph(self) -> Any:
        """A frozen `networkx` copy of the graph; needs `networkx`, and takes time linear in the graph.

        Programs read it as an attribute, mostly while an event loop runs in their thread, which cannot wait then: so a
        separate thread reads it.
        """
        networkx = import_module("networkx")

        async def read() -> Any:
            async with self._beside() as (kb, rows):

                async def opened() -> tuple[AsyncHeliograph, Rows]:
                    return kb, rows

                view = GraphView(opened, self._beside)
                graph = networkx.Graph()
                for node in await view.get_all_nodes():
                    graph.add_node(node.pop("id"), **node)
                for found in await view.get_all_edges():
                    graph.add_edge(found.pop("source"), found.pop("target"), **found)
                return networkx.freeze(graph)

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(read())).result()

    async def _entity(self, name: str) -> Entity | None:
        kb, _ = await self._opened()
        return await kb.entity(name)

    async def _relation(self, name: str, other: str) -> Relation | None:
        kb, _ = await self._opened()
        return await kb.relation(name, other)

    async def has_node(self, node_id: str) -> bool:
        """Return whether an entity exists."""
        return await self._entity(node_id) is not None

    async def has_edge(self, source_node_id: str, target_node_id: str) -> bool:
        """Return whether a relation exists, in either order."""
        return await self._relation(source_node_id, target_node_id) is not None

    async def node_degree(self, node_id: str) -> int:
        """Return how many relations an entity has; 0 if it does not exist."""
        entity = await self._entity(node_id)
        return entity.degree if entity else 0

    async def edge_degree(self, src_id: str, tgt_id: str) -> int:
        """Return the sum of the degrees of both ends."""
        return await self.node_degree(src_id) + await self.node_degree(tgt_id)

    async def get_node(self, node_id: str) -> dict[str, Any] | None:
        """Return the properties of an entity, or None."""
        _, rows = await self._opened()
        entity = await self._entity(node_id)
        return (await rows.entities([entity]))[0] if entity else None

    async def get_edge(self, source_node_id: str, target_node_id: str) -> dict[str, Any] | None:
        """Return the properties of a relation, or None."""
        _, rows = await self._opened()
        relation = await self._relation(source_node_id, target_node_id)
        return (await rows.relations([relation]))[0] if relation else None

    async def get_node_edges(self, source_node_id: str) -> list[tuple[str, str]] | None:
        """Return the relations of an entity as pairs of names, its own first; None if it does not exist."""
        kb, _ = await self._opened()
        entity = await self._entity(source_node_id)
        if entity is None:
            return None
        ranked = await kb.store.graph.rank_incident_relations([entity.id])
        found = await kb.store.graph.name_ends(await kb.store.graph.get_relations([item.id for item in ranked]))
        return [(entity.name, item.target if item.source_id == entity.id else item.source) for item in found]

    async def has_nodes_batch(self, node_ids: Iterable[str]) -> set[str]:
        """Return those names that belong to an entity."""
        return {name for name in node_ids if await self.has_node(name)}

    async def get_nodes_batch(self, node_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the properties of each existing entity, by the name given."""
        found = {name: await self.get_node(name) for name in node_ids}
        return {name: row for name, row in found.items() if row is not None}

    async def node_degrees_batch(self, node_ids: Iterable[str]) -> dict[str, int]:
        """Return the degree of each entity."""
        return {name: await self.node_degree(name) for name in node_ids}

    async def edge_degrees_batch(self, edge_pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return, per pair, the sum of the degrees of both ends."""
        return {pair: await self.edge_degree(*pair) for pair in edge_pairs}

    async def get_edges_batch(self, pairs: Iterable[dict[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the properties of each existing relation; `pairs` are dicts of `src` and `tgt`."""
        found = {(pair["src"], pair["tgt"]): await self.get_edge(pair["src"], pair["tgt"]) for pair in pairs}
        return {pair: row for pair, row in found.items() if row is not None}

    async def get_nodes_edges_batch(self, node_ids: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
        """Return the relations of each entity as pairs of names, its own first."""
        return {name: await self.get_node_edges(name) or [] for name in node_ids}

    async def get_all_labels(self) -> list[str]:
        """Return the names of all entities, sorted."""
        return sorted([entity.name async for entity in self._entities()])

    async def get_popular_labels(self, limit: int = 300) -> list[str]:
        """Return names, best connected first."""
        kb, _ = await self._opened()
        return [entity.name for entity in await kb.entities(limit=limit)]

    async def search_labels(self, query: str, limit: int = 50) -> list[str]:
        """Return the names that equal a text, begin with it, or contain it."""
        kb, _ = await self._opened()
        return [entity.name for entity in await kb.entities(search=query, limit=limit)] if query.strip() else []

    async def get_all_nodes(self) -> list[dict[str, Any]]:
        """Return the properties of all entities, each with its `id`."""
        _, rows = await self._opened()
        found = [entity async for entity in self._entities()]
        return [{"id": item.name, **row} for item, row in zip(found, await rows.entities(found), strict=True)]

    async def get_all_edges(self) -> list[dict[str, Any]]:
        """Return the properties of all relations, each with its `source` and `target`."""
        kb, rows = await self._opened()
        found: list[dict[str, Any]] = []
        async for ids in kb.store.inspection.pages(ScanKind.RELATIONS, _PAGE):
            page = await kb.store.graph.name_ends(await kb.store.graph.get_relations(ids))
            told = await rows.relations(page)
            found += [
                {"source": item.source, "target": item.target, **row} for item, row in zip(page, told, strict=True)
            ]
        return found

    async def get_knowledge_graph(self, node_label: str, max_depth: int = 3, max_nodes: int = 1000) -> KnowledgeGraph:
        """Return the neighbourhood of an entity, or with `*` the best connected entities."""
        kb, rows = await self._opened()
        if node_label.strip() == "*":
            part = await best_connected(kb, max_nodes)
        else:
            part = await kb.neighbours(node_label, depth=max_depth, max_entities=max_nodes)
        nodes = [
            {"id": item.name, "labels": [item.name], "properties": row}
            for item, row in zip(part.entities, await rows.entities(part.entities), strict=True)
        ]
        edges = [
            edge(item, row) for item, row in zip(part.relations, await rows.relations(part.relations), strict=True)
        ]
        return KnowledgeGraph.model_validate({"nodes": nodes, "edges": edges, "is_truncated": part.is_truncated})

    async def _entities(self) -> AsyncIterator[Entity]:
        kb, _ = await self._opened()
        async for ids in kb.store.inspection.pages(ScanKind.ENTITIES, _PAGE):
            for entity in await kb.store.graph.get_entities(ids):
                yield entity


class VectorView(_View):
    """Vectors of chunks, entities or relations, searched with a text."""

    def __init__(self, opened: Open, collection: Collection, embedding: EmbeddingModel, least: float) -> None:
        super().__init__(opened)
        self._collection, self._embedding, self._least = collection, embedding, least

    async def query(self, query: str, top_k: int, query_embedding: Any = None) -> list[dict[str, Any]]:
        """Return the nearest rows, each with its `id`, `distance` (the cosine) and its own fields."""
        kb, rows = await self._opened()
        vector = query_embedding
        if vector is None:
            vector = (await self._embedding.embed([query], "query")).vectors[0]
        hits = await kb.store.vectors.search(self._collection, vector, top_k, self._least)
        scores = {hit.id: hit.score for hit in hits}
        if self._collection is Collection.CHUNKS:
            chunks = await kb.store.records.get_chunks(list(scores))
            names, sources = await rows.chunk_names(scores), await kb.store.records.get_sources(list(scores))
            return [
                {
                    "id": names[item.id],
                    "distance": scores[item.id],
                    "content": item.text,
                    "full_doc_id": item.document_id,
                    "file_path": sources.get(item.id, ""),
                }
                for item in chunks
            ]
        graph = kb.store.graph
        if self._collection is Collection.ENTITIES:
            found: list[Entity] | list[Relation] = await graph.get_entities(list(scores))
            told = [entity_vector(row) for row in await rows.entities(found)]
        else:
            found = await graph.name_ends(await graph.get_relations(list(scores)))
            told = [
                relation_vector(item.source, item.target, row)
                for item, row in zip(found, await rows.relations(found), strict=True)
            ]
        return [row | {"distance": scores[item.id]} for item, row in zip(found, told, strict=True)]


def _record(status: DocProcessingStatus) -> dict[str, Any]:
    record = asdict(status)
    record.pop("multimodal_processed")
    return record | {"status": status.status.value}
