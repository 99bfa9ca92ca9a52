"""The methods of `GraphCuration` for code that is not async; `Heliograph` inherits them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from heliograph.ingest.duplicates import DuplicatePair
from heliograph.ingest.given import GivenChunk, GivenEntity, GivenRelation
from heliograph.ingest.graph_curation import GraphCuration
from heliograph.ingest.history import History
from heliograph.ingest.models import DocumentResult
from heliograph.models import Curation
from heliograph.stores.base import CurationPage, CurationQuery

__all__ = ["SyncGraphCuration"]

T = TypeVar("T")


class SyncGraphCuration(ABC):
    """Corrections of the graph by hand; every method is that of `GraphCuration`, which documents them."""

    @property
    @abstractmethod
    def _graph_curation(self) -> GraphCuration: ...

    @abstractmethod
    def _run(self, work: Coroutine[Any, Any, T]) -> T: ...

    def create_entity(
        self,
        name: str,
        *,
        type: str = "",  # noqa: A002
        description: str = "",
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.create_entity`."""
        return self._run(self._graph_curation.create_entity(name, type=type, description=description, author=author))

    def edit_entity(
        self,
        name: str,
        *,
        type: str | None = None,  # noqa: A002
        description: str | None = None,
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.edit_entity`."""
        return self._run(self._graph_curation.edit_entity(name, type=type, description=description, author=author))

    def rename_entity(
        self,
        name: str,
        new_name: str,
        *,
        allow_merge: bool = False,
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.rename_entity`."""
        return self._run(self._graph_curation.rename_entity(name, new_name, allow_merge=allow_merge, author=author))

    def revise_entity(
        self,
        name: str,
        new_name: str,
        *,
        type: str | None = None,  # noqa: A002
        description: str | None = None,
        allow_merge: bool = False,
        author: str = "",
    ) -> list[Curation]:
        """See `GraphCuration.revise_entity`."""
        revised = self._graph_curation.revise_entity(
            name, new_name, type=type, description=description, allow_merge=allow_merge, author=author
        )
        return self._run(revised)

    def merge_entities(
        self,
        names: str | Iterable[str],
        into: str,
        *,
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.merge_entities`."""
        return self._run(self._graph_curation.merge_entities(names, into, author=author))

    def split_entity(
        self,
        name: str,
        new_name: str,
        *,
        document_ids: Sequence[str] = (),
        chunk_ids: Sequence[str] = (),
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.split_entity`."""
        return self._run(
            self._graph_curation.split_entity(
                name, new_name, document_ids=document_ids, chunk_ids=chunk_ids, author=author
            )
        )

    def delete_entity(
        self,
        name: str,
        *,
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.delete_entity`."""
        return self._run(self._graph_curation.delete_entity(name, author=author))

    def create_relation(
        self,
        name: str,
        other: str,
        *,
        keywords: str | Sequence[str] = (),
        description: str = "",
        weight: float = 1.0,
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.create_relation`."""
        return self._run(
            self._graph_curation.create_relation(
                name, other, keywords=keywords, description=description, weight=weight, author=author
            )
        )

    def edit_relation(
        self,
        name: str,
        other: str,
        *,
        keywords: str | Sequence[str] | None = None,
        description: str | None = None,
        weight: float | None = None,
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.edit_relation`."""
        return self._run(
            self._graph_curation.edit_relation(
                name, other, keywords=keywords, description=description, weight=weight, author=author
            )
        )

    def delete_relation(
        self,
        name: str,
        other: str,
        *,
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.delete_relation`."""
        return self._run(self._graph_curation.delete_relation(name, other, author=author))

    def undo(
        self,
        curation_id: str,
        *,
        author: str = "",
    ) -> Curation:
        """See `GraphCuration.undo`."""
        return self._run(self._graph_curation.undo(curation_id, author=author))

    def curations(
        self,
        query: CurationQuery | None = None,
    ) -> CurationPage:
        """See `GraphCuration.curations`."""
        return self._run(self._graph_curation.curations(query))

    def history(
        self,
        name: str,
        other: str | None = None,
        *,
        offset: int = 0,
        limit: int = 100,
    ) -> History:
        """See `GraphCuration.history`."""
        return self._run(self._graph_curation.history(name, other, offset=offset, limit=limit))

    def find_duplicates(
        self,
        *,
        limit: int = 100,
        names: Sequence[str] = (),
    ) -> list[DuplicatePair]:
        """See `GraphCuration.find_duplicates`."""
        return self._run(self._graph_curation.find_duplicates(limit=limit, names=names))

    def insert_graph(
        self,
        chunks: Sequence[GivenChunk],
        entities: Sequence[GivenEntity] = (),
        relations: Sequence[GivenRelation] = (),
        *,
        source: str = "",
        id: str = "",  # noqa: A002
        title: str = "",
        metadata: dict[str, object] | None = None,
    ) -> DocumentResult:
        """See `GraphCuration.insert_graph`."""
        return self._run(
            self._graph_curation.insert_graph(
                chunks, entities, relations, source=source, id=id, title=title, metadata=metadata
            )
        )
