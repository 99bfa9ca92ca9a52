"""The methods of an engine by which people correct its graph; `AsyncHeliograph` inherits them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from heliograph.arguments import checks_arguments
from heliograph.curation.curator import Curator
from heliograph.curation.duplicate_entities import DuplicateFinder, DuplicatePair
from heliograph.curation.history import History, entity_history, relation_history
from heliograph.errors import NotFoundError
from heliograph.ids import is_storable
from heliograph.ingest.given import GivenChunk, GivenEntity, GivenGraph, GivenRelation, GraphInserter
from heliograph.ingest.models import DocumentResult
from heliograph.models import Curation
from heliograph.stores.base import CurationPage, CurationQuery, Store


class CurationRooms:
    """What the methods work with."""

    def __init__(self, store: Store, curator: Curator, duplicates: DuplicateFinder, inserter: GraphInserter) -> None:
        self.store = store
        self.curator = curator
        self.duplicates = duplicates
        self.inserter = inserter


@checks_arguments
class GraphCuration(ABC):
    """Corrections of the graph by hand.

    Every method that changes something returns the `Curation` it recorded; `undo` takes it back by its id. Curations
    survive update, deletion and rebuild of the documents around them. A name may be any spelling or alias.
    """

    @abstractmethod
    async def _curation(self) -> CurationRooms: ...

    async def create_entity(
        self,
        name: str,
        *,
        type: str = "",  # noqa: A002 (the field\'s name)
        description: str = "",
        author: str = "",
        origin: Sequence[str] = (),
    ) -> Curation:
        """Make an entity that stays without any document; what documents say of it comes after the description.

        `origin` is kept as given, beside it: what it rests on, such as LightRAG's `source_id` and `file_path`. The same
        holds for the other methods that take it.

        Raises:
            ConflictError: There is one of this name.
            InvalidRequestError: The name is empty.
        """
        return await (await self._curation()).curator.create_entity(name, type, description, author, tuple(origin))

    async def edit_entity(
        self,
        name: str,
        *,
        type: str | None = None,  # noqa: A002 (the field\'s name)
        description: str | None = None,
        author: str = "",
        origin: Sequence[str] = (),
    ) -> Curation:
        """Put a type or description in place of what documents say, now and later.

        Raises:
            InvalidRequestError: Neither is given.
            NotFoundError: There is no such entity.
        """
        return await (await self._curation()).curator.edit_entity(name, type, description, author, tuple(origin))

    async def rename_entity(self, name: str, new_name: str, *, allow_merge: bool = False, author: str = "") -> Curation:
        """Give an entity another name; the old one stays its alias.

        Args:
            name: The entity.
            new_name: Its new name.
            allow_merge: Whether to merge it into the entity that has this name, if there is one.
            author: Who says so.

        Raises:
            ConflictError: Another entity has the new name and `allow_merge` is False, or it was deleted by hand.
            NotFoundError: There is no such entity.
        """
        return await (await self._curation()).curator.rename_entity(name, new_name, author, allow_merge=allow_merge)

    async def revise_entity(
        self,
        name: str,
        new_name: str,
        *,
        type: str | None = None,  # noqa: A002 (the field\'s name)
        description: str | None = None,
        allow_merge: bool = False,
        author: str = "",
    ) -> list[Curation]:
        """Rename an entity and edit it in one commit: all of it is done, or nothing.

        Args:
            name: The entity.
            new_name: Its new name.
            type: In place of what documents say; None leaves it.
            description: Likewise.
            allow_merge: Whether to merge it into the entity that has this name, if there is one; what is edited then
                counts where that other says nothing.
            author: Who says so.

        Returns:
            What was recorded: the edit if there was one, then the rename or merge. Each can be undone by itself.

        Raises:
            ConflictError: Another entity has the new name and `allow_merge` is False, or it was deleted by hand.
            InvalidRequestError: The type or the new name is empty.
            NotFoundError: There is no such entity.
        """
        curator = (await self._curation()).curator
        return await curator.revise_entity(name, new_name, type, description, author, allow_merge=allow_merge)

    async def merge_entities(self, names: str | Iterable[str], into: str, *, author: str = "") -> Curation:
        """Make several entities one; relations among them go, all others are united.

        Args:
            names: Those to merge; that of the target may be among them.
            into: What they become: one of them, another entity, or a new name.
            author: Who says so.

        Raises:
            ConflictError: What they are to become was deleted by hand.
            InvalidRequestError: All of them are one entity already.
            NotFoundError: One of them does not exist.
        """
        given = [names] if isinstance(names, str) else list(names)
        return await (await self._curation()).curator.merge_entities(given, into, author)

    async def split_entity(
        self,
        name: str,
        new_name: str,
        *,
        document_ids: Sequence[str] = (),
        chunk_ids: Sequence[str] = (),
        author: str = "",
    ) -> Curation:
        """Make what some documents or chunks call by this name an entity of its own.

        Raises:
            ConflictError: There is an entity of the new name.
            InvalidRequestError: None of these documents and chunks mentions the entity.
            NotFoundError: There is no such entity.
        """
        return await (await self._curation()).curator.split_entity(name, new_name, document_ids, chunk_ids, author)

    async def delete_entity(self, name: str, *, author: str = "") -> Curation:
        """Hide an entity and its relations, whatever documents say, until this is undone.

        Raises:
            NotFoundError: There is no such entity.
        """
        return await (await self._curation()).curator.delete_entity(name, author)

    async def create_relation(
        self,
        name: str,
        other: str,
        *,
        keywords: str | Sequence[str] = (),
        description: str = "",
        weight: float = 1.0,
        author: str = "",
        origin: Sequence[str] = (),
    ) -> Curation:
        """Make a relation that stays, and its two ends with it, without any document.

        Raises:
            ConflictError: There is one already.
            InvalidRequestError: Both ends are one entity, or the weight is no positive number.
            NotFoundError: One of the ends does not exist.
        """
        return await (await self._curation()).curator.create_relation(
            name, other, keywords, description, weight, author, tuple(origin)
        )

    async def edit_relation(
        self,
        name: str,
        other: str,
        *,
        keywords: str | Sequence[str] | None = None,
        description: str | None = None,
        weight: float | None = None,
        author: str = "",
        origin: Sequence[str] = (),
    ) -> Curation:
        """Put keywords, a description or a weight in place of what documents say, now and later.

        Raises:
            InvalidRequestError: None of them is given, or the weight is no positive number.
            NotFoundError: There is no such relation.
        """
        return await (await self._curation()).curator.edit_relation(
            name, other, keywords, description, weight, author, tuple(origin)
        )

    async def delete_relation(self, name: str, other: str, *, author: str = "") -> Curation:
        """Hide a relation, whatever documents say, until this is undone.

        Raises:
            NotFoundError: There is no such relation.
        """
        return await (await self._curation()).curator.delete_relation(name, other, author)

    async def undo(self, curation_id: str, *, author: str = "") -> Curation:
        """Take a curation back: the graph becomes what it would be without it.

        Raises:
            ConflictError: It was taken back before.
            NotFoundError: There is no such curation.
        """
        if not is_storable(curation_id):
            raise NotFoundError(f"there is no curation {curation_id!r} in this workspace; list them to find its id")
        return await (await self._curation()).curator.undo(curation_id, author)

    async def curations(self, query: CurationQuery | None = None) -> CurationPage:
        """Return one page of curations, by default the earliest first, undone ones included."""
        return await (await self._curation()).store.curations.find_curations(query or CurationQuery())

    async def history(self, name: str, other: str | None = None, *, offset: int = 0, limit: int = 100) -> History:
        """Return which chunk or person said what of an entity, or with `other` of the relation between two.

        Args:
            name: The entity.
            other: The other end of a relation.
            offset: Statements of chunks to skip.
            limit: Statements of chunks at the most; curations are all given.
        """
        rooms = await self._curation()
        if other is None:
            entity_id = await rooms.curator.find_entity_id(name)
            return await entity_history(rooms.store, entity_id, offset, limit)
        ends = await rooms.curator.find_entity_ids([name, other])
        return await relation_history(rooms.store, ends[0], ends[1], offset, limit)

    async def find_duplicates(self, *, limit: int = 100, names: Sequence[str] = ()) -> list[DuplicatePair]:
        """Return pairs of entities that may be one, the most alike first; merging them is left to a person.

        Args:
            limit: Pairs at the most.
            names: Look at these entities only; empty means all.
        """
        rooms = await self._curation()
        ids = await rooms.curator.find_entity_ids(names) if names else None
        return await rooms.duplicates.find(limit, ids)

    async def insert_graph(
        self,
        chunks: Sequence[GivenChunk],
        entities: Sequence[GivenEntity] = (),
        relations: Sequence[GivenRelation] = (),
        *,
        source: str = "",
        id: str = "",  # noqa: A002 (as `NewDocument` has it)
        title: str = "",
        metadata: dict[str, object] | None = None,
    ) -> DocumentResult:
        """Take in a graph that is made already, as one document: no model reads its chunks.

        A known id or source is an update. It is deleted, and rebuilt, like any document.

        Raises:
            InvalidRequestError: Something does not go together; nothing was written.
            ModelError: It cannot be embedded; nothing was written.
            StoreError: The store failed; nothing was written.
        """
        graph = GivenGraph(tuple(chunks), tuple(entities), tuple(relations), source, id, title, metadata)
        return await (await self._curation()).inserter.insert(graph)
