"""Corrections of the graph by LightRAG's routes; each is a curation, which outlasts re-indexing and can be undone.

LightRAG tells a name that is unknown or taken by 400 here, and so do these routes; only deletions know 404.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter

from heliograph.engine import AsyncHeliograph
from heliograph.errors import ConflictError, InvalidRequestError, NotFoundError
from heliograph.models import Curation, CurationKind, NameRules
from heliograph.server.dependencies import WriteEngine, Writer
from heliograph.server.openapi import responses
from heliograph.wire.graph import (
    DeleteEntityRequest,
    DeleteRelationRequest,
    DeletionResult,
    EditResponse,
    EntityCreateRequest,
    EntityEditResponse,
    EntityMergeRequest,
    EntityUpdateRequest,
    OperationSummary,
    RelationCreateRequest,
    RelationUpdateRequest,
    entity_properties,
    given_origin,
    read_keywords,
    read_origin,
    read_text,
    read_weight,
    relation_properties,
    told_chunks,
)

router = APIRouter(tags=["graph"])


@router.post("/graph/entity/create", summary="Make an entity", responses=responses(400))
async def create_entity(body: EntityCreateRequest, engine: WriteEngine, principal: Writer) -> EditResponse:
    """Make an entity that stays without any document."""
    description = read_text(body.entity_data, "description", is_needed=True) or ""
    kind = read_text(body.entity_data, "entity_type") or ""
    async with _refusals():
        done = await engine.create_entity(
            body.entity_name,
            type=kind,
            description=description,
            author=principal.name,
            origin=read_origin(body.entity_data),
        )
    data = await _entity_data(engine, done.names[0])
    return EditResponse(
        message=f"Entity '{data['entity_name']}' created successfully", data=data, curation_ids=[done.id]
    )


@router.post("/graph/relation/create", summary="Make a relation", responses=responses(400))
async def create_relation(body: RelationCreateRequest, engine: WriteEngine, principal: Writer) -> EditResponse:
    """Make a relation that stays without any document; both entities must exist."""
    description = read_text(body.relation_data, "description", is_needed=True) or ""
    weight = read_weight(body.relation_data)
    async with _refusals():
        done = await engine.create_relation(
            body.source_entity,
            body.target_entity,
            keywords=read_keywords(body.relation_data) or (),
            description=description,
            weight=1.0 if weight is None else weight,
            author=principal.name,
            origin=read_origin(body.relation_data),
        )
    return EditResponse(
        message=f"Relation created successfully between '{body.source_entity}' and '{body.target_entity}'",
        data=await _relation_data(engine, *done.names),
        curation_ids=[done.id],
    )


@router.post("/graph/entity/edit", summary="Change or rename an entity", responses=responses(400))
async def edit_entity(body: EntityUpdateRequest, engine: WriteEngine, principal: Writer) -> EntityEditResponse:
    """Put a type, description or name in place of what documents say.

    A new name that another entity has is refused, or with `allow_merge` merges the two. All of it is done, or nothing.
    """
    async with _refusals():
        done, summary = await _Edit(body, engine, principal.name).run()
    message = (
        f"Entity merged successfully into '{summary.final_entity}'" if summary.merged else "Entity updated successfully"
    )
    data = await _entity_data(engine, summary.final_entity)
    ids = [item.id for item in done]
    return EntityEditResponse(message=message, data=data, curation_ids=ids, operation_summary=summary)


@router.post("/graph/relation/edit", summary="Change a relation", responses=responses(400))
async def edit_relation(body: RelationUpdateRequest, engine: WriteEngine, principal: Writer) -> EditResponse:
    """Put keywords, a description or a weight in place of what documents say."""
    data = body.known_data()
    async with _refusals():
        done = await engine.edit_relation(
            body.source_id,
            body.target_id,
            keywords=read_keywords(data),
            description=read_text(data, "description", is_needed="description" in data),
            weight=read_weight(data),
            author=principal.name,
        )
    return EditResponse(
        message="Relation updated successfully",
        data=await _relation_data(engine, *done.names),
        curation_ids=[done.id],
    )


@router.post("/graph/entities/merge", summary="Make several entities one", responses=responses(400))
async def merge_entities(body: EntityMergeRequest, engine: WriteEngine, principal: Writer) -> EditResponse:
    """Merge entities into one that exists, or under a new name; their relations are united."""
    async with _refusals():
        done = await engine.merge_entities(body.entities_to_change, body.entity_to_change_into, author=principal.name)
    data = await _entity_data(engine, done.names[-1])
    count = len(body.entities_to_change)
    message = f"Successfully merged {count} entities into '{data['entity_name']}'"
    return EditResponse(message=message, data=data, curation_ids=[done.id])


@router.delete("/graph/entity/delete", summary="Hide an entity", responses=responses(404))
@router.delete("/documents/delete_entity", summary="Hide an entity (earlier path)", include_in_schema=False)
async def delete_entity(body: DeleteEntityRequest, engine: WriteEngine, principal: Writer) -> DeletionResult:
    """Hide an entity and its relations, whatever documents say, until this is undone."""
    done = await engine.delete_entity(body.entity_name, author=principal.name)
    message = f"Entity '{done.names[0]}' and its relationships have been deleted."
    return DeletionResult(message=message, curation_ids=[done.id])


@router.delete("/graph/relation/delete", summary="Hide a relation", responses=responses(404))
@router.delete("/documents/delete_relation", summary="Hide a relation (earlier path)", include_in_schema=False)
async def delete_relation(body: DeleteRelationRequest, engine: WriteEngine, principal: Writer) -> DeletionResult:
    """Hide a relation, whatever documents say, until this is undone."""
    done = await engine.delete_relation(body.source_entity, body.target_entity, author=principal.name)
    message = f"Relation between '{done.names[0]}' and '{done.names[1]}' deleted successfully"
    return DeletionResult(message=message, curation_ids=[done.id])


class _Edit:
    """One edit of an entity: properties, name, or both, which is one commit."""

    def __init__(self, body: EntityUpdateRequest, engine: AsyncHeliograph, author: str) -> None:
        self._engine = engine
        self._author = author
        data = body.known_data()
        self._name = body.entity_name
        self._new_name = read_text(data, "entity_name", is_needed="entity_name" in data)
        self._type = read_text(data, "entity_type", is_needed="entity_type" in data)
        self._description = read_text(data, "description", is_needed="description" in data)
        self._allow_rename, self._allow_merge = body.allow_rename, body.allow_merge

    async def run(self) -> tuple[list[Curation], OperationSummary]:
        """Do it and return what was recorded, and what it came to."""
        entity = await self._engine.entity(self._name)
        if entity is None:
            raise NotFoundError(f"there is no entity {self._name!r} in this workspace")
        if self._new_name is None or self._new_name.strip() == entity.name:
            return await self._change(entity.name), _summary(entity.name)
        if not self._allow_rename:
            raise InvalidRequestError("renaming is not allowed by this request; set allow_rename to true")
        done = await self._engine.revise_entity(
            entity.name,
            self._new_name,
            type=self._type,
            description=self._description,
            allow_merge=self._allow_merge,
            author=self._author,
        )
        final = await self._final_name(done[-1])
        is_merged = done[-1].kind is CurationKind.MERGE_ENTITIES
        return done, _summary(final, target=final if is_merged else None, renamed=True)

    async def _change(self, name: str) -> list[Curation]:
        if self._new_name is not None and self._type is None and self._description is None:
            return []
        done = await self._engine.edit_entity(name, type=self._type, description=self._description, author=self._author)
        return [done]

    async def _final_name(self, done: Curation) -> str:
        entity = await self._engine.entity(done.names[-1])
        return entity.name if entity else done.names[-1]


def _summary(final: str, *, target: str | None = None, renamed: bool = False) -> OperationSummary:
    return OperationSummary(
        merged=target is not None,
        merge_status="not_attempted" if target is None else "success",
        operation_status="success",
        target_entity=target,
        final_entity=final,
        renamed=renamed,
    )


@asynccontextmanager
async def _refusals() -> AsyncGenerator[None]:
    """Tell what is unknown or taken as LightRAG does, by the status of a request that cannot be served."""
    try:
        yield
    except (ConflictError, NotFoundError) as error:
        raise InvalidRequestError(str(error)) from error


async def _entity_data(engine: AsyncHeliograph, name: str) -> dict[str, Any]:
    entity = await engine.entity(name)
    if entity is None:
        return {"entity_name": name, "source_id": None, "graph_data": None}
    sources = await engine.store.records.get_sources(told_chunks([entity]))
    (rules,) = await engine.store.curations.get_rules([entity.id]) or (NameRules(entity.id),)
    own = (item for item in rules.curations if len(item.entity_ids) == 1)
    properties = entity_properties(entity, sources) | given_origin(own)
    return {"entity_name": entity.name, "source_id": properties["source_id"], "graph_data": properties}


async def _relation_data(engine: AsyncHeliograph, name: str, other: str) -> dict[str, Any]:
    relation = await engine.relation(name, other)
    if relation is None:
        return {"src_entity": name, "tgt_entity": other, "source_id": None, "graph_data": None}
    sources = await engine.store.records.get_sources(told_chunks([relation]))
    ends = {relation.source_id, relation.target_id}
    (rules,) = await engine.store.curations.get_rules([relation.source_id]) or (NameRules(relation.source_id),)
    own = (item for item in rules.curations if set(item.entity_ids) == ends)
    properties = relation_properties(relation, sources) | given_origin(own)
    return {"src_entity": name, "tgt_entity": other, "source_id": properties["source_id"], "graph_data": properties}
