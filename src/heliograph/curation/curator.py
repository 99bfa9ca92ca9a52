"""Checks corrections of the graph, records them, and has them committed.

A name stands for the entity that it leads to now. Curations record entity ids, so a curation means the same when
documents come and go; undoing one leaves the state that would exist without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite

from heliograph.documents.markdown import clean_text
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.extraction.base import UNKNOWN_TYPE
from heliograph.ids import (
    clean_name,
    entity_key,
    is_storable,
    name_to_entity_id,
    relation_id,
    succeeding_entity_id,
    written_type,
)
from heliograph.ids import curation_id as new_curation_id
from heliograph.ingest.commit import Committer
from heliograph.ingest.resolution import CurationChange, RuleLoader, entity_overrides
from heliograph.models import Curation, CurationKind, Entity, utc_now
from heliograph.stores.base import Store


class Curator:
    """Curates the graph of one store; safe to call from many tasks at once."""

    def __init__(self, store: Store, committer: Committer) -> None:
        self._store = store
        self._committer = committer
        # One at a time, so that each is checked against the result of the one before.
        self._lock = asyncio.Lock()

    async def create_entity(
        self, name: str, *, type: str = "", description: str = "", author: str = "", origin: Sequence[str] = ()
    ) -> Curation:
        """Create an entity that exists without any document; documents' descriptions come after the given one.

        `origin` is stored as given, beside it: its provenance, such as LightRAG's `source_id` and `file_path`. The same
        holds for the other methods that take it.

        Raises:
            ConflictError: There is one of this name.
            InvalidRequestError: The name is empty.
        """
        async with self._lock:
            scene = await self._scene([name])
            if (entity := scene.holder(0)) is not None:
                raise ConflictError(
                    f"there is an entity {entity.name!r} already; edit it, or give the new one another name"
                )
            id_ = scene.new_id(0)
            return await self._commit(
                scene,
                _new(
                    CurationKind.CREATE_ENTITY,
                    (scene.names[0],),
                    (id_,),
                    author,
                    scope=tuple(map(_text, origin)),
                    type=_type(type),
                    description=_text(description),
                ),
            )

    async def edit_entity(
        self,
        name: str,
        *,
        type: str | None = None,
        description: str | None = None,
        author: str = "",
        origin: Sequence[str] = (),
    ) -> Curation:
        """Override the type or description that documents give, now and later.

        Raises:
            InvalidRequestError: Neither is given.
            NotFoundError: There is no such entity.
        """
        if type is None and description is None and not origin:
            raise InvalidRequestError(f"nothing to edit of {name!r}; give a type or a description")
        _check_type(name, type)
        async with self._lock:
            scene = await self._scene([name])
            item = _edit(scene.require(0), type, description, author)
            return await self._commit(scene, replace(item, scope=tuple(map(_text, origin))))

    async def rename_entity(self, name: str, new_name: str, *, allow_merge: bool = False, author: str = "") -> Curation:
        """Give an entity another name; the old one stays its alias.

        If another entity has this name, the two can be merged.

        Raises:
            ConflictError: Another entity has the new name and `allow_merge` is False, or it was deleted by hand.
            NotFoundError: There is no such entity.
        """
        async with self._lock:
            scene = await self._scene([name, new_name])
            return await self._commit(scene, scene.rename(author, allow_merge=allow_merge))

    async def revise_entity(
        self,
        name: str,
        new_name: str,
        *,
        type: str | None = None,
        description: str | None = None,
        allow_merge: bool = False,
        author: str = "",
    ) -> list[Curation]:
        """Rename an entity and edit it in one commit: both are done, or neither.

        A field that is None stays as documents say. If another entity has this name, the two can be merged; the edited
        fields then count where that entity has none.

        Returns:
            The recorded curations: the edit if there was one, then the rename or merge. Each can be undone by itself.

        Raises:
            ConflictError: Another entity has the new name and `allow_merge` is False, or it was deleted by hand.
            InvalidRequestError: The type or the new name is empty.
            NotFoundError: There is no such entity.
        """
        _check_type(name, type)
        async with self._lock:
            scene = await self._scene([name, new_name])
            is_edited = type is not None or description is not None
            edits = [_edit(scene.require(0), type, description, author)] if is_edited else []
            return await self._commit_all(scene, (*edits, scene.rename(author, allow_merge=allow_merge)))

    async def merge_entities(self, names: str | Iterable[str], into: str, *, author: str = "") -> Curation:
        """Merge several entities into one; relations among them are dropped, all others are united.

        The target is one of them, another entity, or a new name.

        Raises:
            ConflictError: The target was deleted by hand.
            InvalidRequestError: All of them are one entity already.
            NotFoundError: One of them does not exist.
        """
        given = [names] if isinstance(names, str) else list(names)
        if not given:
            raise InvalidRequestError(f"no entities are named to merge into {into!r}; name at least one")
        async with self._lock:
            scene = await self._scene([*given, into])
            sources = {scene.require(index).id: scene.require(index).name for index in range(len(given))}
            target = scene.entities[-1]
            id_ = target.id if target is not None else scene.new_id(len(given))
            sources.pop(id_, None)
            if not sources:
                raise InvalidRequestError(f"{', '.join(map(repr, given))} and {into!r} are one entity already")
            is_same_name = target is not None and entity_key(target.name) == entity_key(into)
            shown = target.name if target is not None and is_same_name else scene.names[-1]
            item = _new(CurationKind.MERGE_ENTITIES, (*sources.values(), shown), (*sources, id_), author)
            return await self._commit(scene, item)

    async def split_entity(
        self,
        name: str,
        new_name: str,
        *,
        document_ids: Sequence[str] = (),
        chunk_ids: Sequence[str] = (),
        author: str = "",
    ) -> Curation:
        """Split off an entity: the mentions of this name in some documents or chunks.

        Raises:
            ConflictError: There is an entity of the new name.
            InvalidRequestError: None of these documents and chunks mentions the entity.
            NotFoundError: There is no such entity.
        """
        async with self._lock:
            scene = await self._scene([name, new_name])
            entity, other = scene.require(0), scene.holder(1)
            if other is not None:
                raise ConflictError(f"there is an entity {other.name!r} already; choose another name for the new one")
            scope = tuple(dict.fromkeys((*document_ids, *chunk_ids)))
            if not scope:
                raise InvalidRequestError(
                    f"nothing says which mentions of {entity.name!r} are {new_name!r}; give ids of documents or chunks"
                )
            places = await self._store.curations.find_mentioning_chunks([entity.id])
            if set(scope).isdisjoint({*places, *places.values()}):
                raise InvalidRequestError(
                    f"none of {', '.join(map(repr, scope))} mentions {entity.name!r}; give ids of "
                    "documents or chunks that do"
                )
            ids = entity.id, scene.new_id(1)
            item = _new(CurationKind.SPLIT_ENTITY, (entity.name, scene.names[1]), ids, author, scope=scope)
            return await self._commit(scene, item)

    async def delete_entity(self, name: str, *, author: str = "") -> Curation:
        """Hide an entity and its relations, whatever documents say, until this is undone.

        Raises:
            NotFoundError: There is no such entity, or it has this name only by a merge.
        """
        async with self._lock:
            scene = await self._scene([name])
            entity = scene.require_unmerged(0)
            return await self._commit(scene, _new(CurationKind.DELETE_ENTITY, (entity.name,), (entity.id,), author))

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
        """Create a relation that, with its two ends, exists without any document.

        Raises:
            ConflictError: There is one already.
            InvalidRequestError: Both ends are one entity, or the weight is not a positive number.
            NotFoundError: One of the ends does not exist.
        """
        said = _keywords(keywords), _text(description), _weight(weight)
        return await self._relate(CurationKind.CREATE_RELATION, name, other, author, *said, origin)

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
        """Override the keywords, description or weight that documents give, now and later.

        Raises:
            InvalidRequestError: None of them is given, or the weight is not a positive number.
            NotFoundError: There is no such relation.
        """
        if keywords is None and description is None and weight is None and not origin:
            raise InvalidRequestError(
                f"nothing to edit of the relation between {name!r} and {other!r}; give keywords, description or weight"
            )
        said = (
            None if keywords is None else _keywords(keywords),
            None if description is None else _text(description),
            None if weight is None else _weight(weight),
        )
        return await self._relate(CurationKind.EDIT_RELATION, name, other, author, *said, origin)

    async def delete_relation(self, name: str, other: str, *, author: str = "") -> Curation:
        """Hide a relation, whatever documents say, until this is undone.

        Raises:
            NotFoundError: There is no such relation, or an end has its name only by a merge.
        """
        return await self._relate(CurationKind.DELETE_RELATION, name, other, author)

    async def undo(self, curation_id: str, *, author: str = "") -> Curation:
        """Undo a curation: the graph becomes what it would be without it.

        Raises:
            ConflictError: It was undone before.
            NotFoundError: There is no such curation.
        """
        async with self._lock:
            found = await self._store.curations.get_curations([*filter(is_storable, [curation_id])])
            if not found:
                raise NotFoundError(f"there is no curation {curation_id!r} in this workspace; list them to find its id")
            (item,) = found
            if not item.is_active:
                raise ConflictError(
                    f"the curation {curation_id!r} was undone before, by {item.undone_by or 'somebody'!r}"
                )
            loader = RuleLoader(self._store)
            await loader.load_bearers(item.entity_ids)
            book = loader.book
            for taken, name in zip(item.entity_ids, item.names, strict=True):
                is_succeeded = book.bearer(taken) != taken
                if is_succeeded and book.has_lost(taken) and not book.has_lost(taken, without=curation_id):
                    raise ConflictError(
                        f"the name {name!r} was given to another entity since; undo that first ('history' lists it)"
                    )
            undone = replace(item, undone_by=clean_text(author), undone_at=utc_now())
            ids = {id_ for taken in item.entity_ids for id_ in (taken, succeeding_entity_id(taken))}
            versions = {id_: version for id_, version in loader.versions().items() if id_ in ids}
            await self._committer.commit(CurationChange((undone,), versions))
            return undone

    async def replay(self, curations: Sequence[Curation]) -> None:
        """Record curations of another workspace, or of a backup, unchanged, in their order and unchecked."""
        async with self._lock:
            for item in sorted(curations, key=lambda item: item.sequence):
                await self._committer.commit(CurationChange((replace(item, sequence=0),)))

    async def _relate(
        self,
        kind: CurationKind,
        name: str,
        other: str,
        author: str,
        keywords: tuple[str, ...] | None = None,
        description: str | None = None,
        weight: float | None = None,
        origin: Sequence[str] = (),
    ) -> Curation:
        async with self._lock:
            scene = await self._scene([name, other])
            require = scene.require_unmerged if kind is CurationKind.DELETE_RELATION else scene.require
            ends = require(0), require(1)
            if ends[0].id == ends[1].id:
                raise InvalidRequestError(f"{name!r} and {other!r} are one entity, which has no relation with itself")
            found = await self._store.graph.get_relations([relation_id(ends[0].id, ends[1].id)])
            if kind is CurationKind.CREATE_RELATION and found:
                raise ConflictError(f"there is a relation between {name!r} and {other!r} already; edit it")
            if kind is not CurationKind.CREATE_RELATION and not found:
                raise NotFoundError(f"there is no relation between {name!r} and {other!r}")
            names, ids = (ends[0].name, ends[1].name), (ends[0].id, ends[1].id)
            item = _new(kind, names, ids, author, scope=tuple(map(_text, origin)), description=description)
            return await self._commit(scene, replace(item, keywords=keywords, weight=weight))

    async def _scene(self, names: Sequence[str]) -> _Scene:
        clean = [clean_name(name) for name in names]
        if "" in clean:
            raise InvalidRequestError("the name of an entity cannot be empty")
        ids = [name_to_entity_id(name) for name in clean]
        loader = RuleLoader(self._store)
        await loader.load_bearers(ids)
        found = [loader.book.named(id_) for id_ in ids]
        entities = {item.id: item for item in await self._store.graph.get_entities(list(dict.fromkeys(found)))}
        return _Scene(clean, found, [entities.get(id_) for id_ in found], loader)

    async def _commit(self, scene: _Scene, item: Curation) -> Curation:
        (stored,) = await self._commit_all(scene, (item,))
        return stored

    async def _commit_all(self, scene: _Scene, items: tuple[Curation, ...]) -> list[Curation]:
        versions = scene.loader.versions()
        known = {id_: versions[id_] for item in items for id_ in item.entity_ids if id_ in versions}
        await self._committer.commit(CurationChange(items, known))
        return await self._store.curations.get_curations([item.id for item in items])


class _Scene:
    """The entities that some names stand for now."""

    def __init__(self, names: list[str], ids: list[str], entities: list[Entity | None], loader: RuleLoader) -> None:
        self.names = names
        self.ids = ids
        self.entities = entities
        self.book = loader.book
        self.loader = loader

    def require(self, index: int) -> Entity:
        """Return the entity that a name stands for; raises `NotFoundError` if there is none."""
        entity = self.entities[index]
        if entity is None:
            raise NotFoundError(f"there is no entity {self.names[index]!r} in this workspace")
        return entity

    def require_unmerged(self, index: int) -> Entity:
        """Return the entity of a name, unless it has the name only by a merge: deleting that name means the merged one.

        Raises:
            NotFoundError: There is none.
        """
        entity = self.require(index)
        if self.holder(index) is None and self.book.renamed(self._bearer(index)) != entity.id:
            raise NotFoundError(f"there is no entity {self.names[index]!r} in this workspace")
        return entity

    def holder(self, index: int) -> Entity | None:
        """Return the entity with this name; None if there is none, or if a curation only redirects the name to one."""
        entity = self.entities[index]
        if entity is None or entity_key(entity.name) == entity_key(self.names[index]):
            return entity
        return None if self.book.moved_to(self._bearer(index)) else entity

    def rename(self, author: str, *, allow_merge: bool) -> Curation:
        """Return the curation that gives the first entity the second name, or merges it into that name's entity.

        Raises:
            ConflictError: Another entity has the second name, and `allow_merge` is False.
            NotFoundError: The first name stands for no entity.
        """
        entity, other = self.require(0), self.holder(1)
        if other is not None and other.id != entity.id:
            if not allow_merge:
                raise ConflictError(
                    f"there is another entity {other.name!r}; merge {entity.name!r} into it, or choose another name"
                )
            return _new(CurationKind.MERGE_ENTITIES, (entity.name, other.name), (entity.id, other.id), author)
        # A name that was merged into the entity leads to it already and must not lead away from it.
        id_ = entity.id if self.ids[1] == entity.id else self.new_id(1)
        return _new(CurationKind.RENAME_ENTITY, (entity.name, self.names[1]), (entity.id, id_), author)

    def new_id(self, index: int) -> str:
        """Return the entity id for a name that no other entity has: a new id if another entity lost that name."""
        id_ = self._bearer(index)
        # An alias from documents follows the entity that it leads to.
        if self.book.has_lost(id_) or entity_overrides(self.book, self.book.resolve(id_)).is_hidden:
            id_ = succeeding_entity_id(id_)
            while self.book[id_].curations:
                id_ = succeeding_entity_id(id_)
        return id_

    def _bearer(self, index: int) -> str:
        return self.book.bearer(name_to_entity_id(self.names[index]))


def _new(
    kind: CurationKind,
    names: tuple[str, ...],
    entity_ids: tuple[str, ...],
    author: str,
    *,
    scope: tuple[str, ...] = (),
    type: str | None = None,
    description: str | None = None,
) -> Curation:
    return Curation(new_curation_id(), kind, names, entity_ids, scope, type, description, author=clean_text(author))


def _edit(entity: Entity, type_: str | None, description: str | None, author: str) -> Curation:
    kind = None if type_ is None else _type(type_)
    if kind == entity.type == UNKNOWN_TYPE:
        # Writing back the unknown type that was read sets nothing; documents may still give one.
        kind = None
    return _new(
        CurationKind.EDIT_ENTITY,
        (entity.name,),
        (entity.id,),
        author,
        type=kind,
        description=None if description is None else _text(description),
    )


def _check_type(name: str, type_: str | None) -> None:
    if type_ is not None and not _type(type_):
        raise InvalidRequestError(f"the type of {name!r} cannot be empty; leave it out to keep it")


def _type(text: str) -> str:
    return written_type(clean_text(text))


def _text(text: str) -> str:
    return clean_text(text).strip()


def _keywords(keywords: str | Sequence[str]) -> tuple[str, ...]:
    given = (keywords,) if isinstance(keywords, str) else keywords
    return tuple(clean for keyword in given if (clean := _text(keyword)))


def _weight(weight: float) -> float:
    if not isfinite(weight) or weight <= 0:
        raise InvalidRequestError(f"the weight of a relation must be a positive number, got {weight!r}")
    return float(weight)
