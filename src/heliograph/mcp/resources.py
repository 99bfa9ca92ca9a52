"""Documents and entities as resources, which people pick in their client and agents read by their address.

`heliograph://documents/{id}` is a document's text, from `?offset=` on and as much as `?limit=` says;
`heliograph://entities/{name}` is all that is known of an entity, as JSON. Both parts of an address are
percent-encoded. Listed are documents, the latest first; entities are found by the tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from mcp.types import (
    Annotations,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from pydantic import BaseModel, Field

from heliograph.engine import AsyncHeliograph
from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.mcp.calls import Call
from heliograph.mcp.schemas import EntityItem, RelationItem
from heliograph.mcp.tools import require_document, require_entity
from heliograph.models import Document, Entity
from heliograph.service.principal import Role
from heliograph.stores.base import DocumentQuery

_SCHEME = "heliograph"
_TEXT = "text/markdown"
_JSON = "application/json"
_PAGE = 100
_MOST_LISTED = 1_000
_MOST_CHARACTERS = 200_000
_MOST_RELATIONS = 200
_MOST_DESCRIPTION = 100_000


class EntityDetail(BaseModel):
    """All that is known of an entity."""

    entity: EntityItem
    relations: list[RelationItem] = Field(description="Heaviest first, at most 200.")
    sources: list[str] = Field(description="Sources of the documents that mention it.")
    document_ids: list[str]


@dataclass(frozen=True, slots=True)
class _Address:
    """What an address names: `kind` is the first part, `name` the rest, decoded."""

    kind: str
    name: str
    offset: int
    limit: int


async def list_resources(call: Call, cursor: str | None) -> ListResourcesResult:
    """Return a page of documents, the latest first.

    Raises:
        InvalidRequestError: The cursor is none that was given here.
    """
    offset = _read_number("cursor", cursor or "0", 0, _MOST_LISTED)
    async with call.engine(Role.READ) as engine:
        query = DocumentQuery(sort="updated_at", descending=True, offset=offset, limit=_PAGE)
        page = await engine.documents(query)
    end = offset + _PAGE
    more = str(end) if end < min(page.total, _MOST_LISTED) else None
    return ListResourcesResult(resources=list(map(_resource, page.documents)), next_cursor=more)


def list_templates() -> ListResourceTemplatesResult:
    """Return the two forms of addresses."""
    document = ResourceTemplate(
        name="document",
        title="Document",
        uri_template=f"{_SCHEME}://documents/{{id}}{{?offset,limit}}",
        description="Text of a document, by its id; offset and limit count characters.",
        mime_type=_TEXT,
    )
    entity = ResourceTemplate(
        name="entity",
        title="Entity",
        uri_template=f"{_SCHEME}://entities/{{name}}",
        description="All that is known of an entity, by any of its names: description, relations, sources.",
        mime_type=_JSON,
    )
    return ListResourceTemplatesResult(resource_templates=[document, entity])


async def read_resource(call: Call, uri: str) -> ReadResourceResult:
    """Return what an address names.

    Raises:
        InvalidRequestError: It is no address of ours.
        NotFoundError: There is nothing of that name.
    """
    address = _read_address(uri)
    async with call.engine(Role.READ) as engine:
        contents = await _READERS[address.kind](engine, uri, address)
    return ReadResourceResult(contents=[contents])


async def _read_document(engine: AsyncHeliograph, uri: str, address: _Address) -> TextResourceContents:
    document = await require_document(engine, address.name)
    text = await engine.store.records.get_document_text(document.id)
    if text is None:
        raise NotFoundError(f"the document {document.source!r} has no text: {document.error or 'it is not read yet'}")
    part = text[address.offset : address.offset + address.limit]
    meta = {
        "source": document.source,
        "title": document.title,
        "offset": address.offset,
        "totalCharacters": len(text),
        "isTruncated": address.offset + len(part) < len(text),
    }
    return TextResourceContents(uri=uri, mime_type=_TEXT, text=part, _meta=meta)


async def _read_entity(engine: AsyncHeliograph, uri: str, address: _Address) -> TextResourceContents:
    entity = await require_entity(engine, address.name)
    detail = await _detail(engine, entity)
    return TextResourceContents(uri=uri, mime_type=_JSON, text=detail.model_dump_json(indent=1))


_READERS = {"documents": _read_document, "entities": _read_entity}


async def _detail(engine: AsyncHeliograph, entity: Entity) -> EntityDetail:
    store = engine.store
    ranked = await store.graph.rank_incident_relations([entity.id])
    heaviest = sorted(ranked, key=lambda item: (-item.weight, item.id))[:_MOST_RELATIONS]
    relations = await store.graph.name_ends(await store.graph.get_relations([item.id for item in heaviest]), [entity])
    chunks = await store.records.get_chunks(entity.chunk_ids)
    sources = await store.records.get_sources(entity.chunk_ids)
    return EntityDetail(
        entity=EntityItem.of(entity, _MOST_DESCRIPTION),
        relations=[RelationItem.of(relation) for relation in relations],
        sources=list(dict.fromkeys(sources.values())),
        document_ids=list(dict.fromkeys(chunk.document_id for chunk in chunks)),
    )


def _resource(document: Document) -> Resource:
    return Resource(
        uri=f"{_SCHEME}://documents/{quote(document.id, safe='')}",
        name=document.source or document.id,
        title=document.title or document.source,
        description=f"{document.status}, {document.length:,} characters",
        mime_type=_TEXT,
        annotations=Annotations(last_modified=document.updated_at.isoformat()),
    )


def _read_address(uri: str) -> _Address:
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise _no_address(uri) from error
    name = unquote(parts.path.removeprefix("/"))
    if parts.scheme != _SCHEME or parts.netloc not in _READERS or not name:
        raise _no_address(uri)
    given = dict(parse_qsl(parts.query))
    offset = _read_number("offset", given.get("offset", "0"), 0, 10**9)
    limit = _read_number("limit", given.get("limit", str(_MOST_CHARACTERS)), 1, _MOST_CHARACTERS)
    return _Address(parts.netloc, name, offset, limit)


def _no_address(uri: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{uri!r:.200} is no resource; use {_SCHEME}://documents/ID or {_SCHEME}://entities/NAME, percent-encoded"
    )


def _read_number(name: str, text: str, least: int, most: int) -> int:
    if text.isascii() and text.isdecimal() and len(text) < 12 and least <= int(text) <= most:
        return int(text)
    raise InvalidRequestError(f"{name} is {text!r:.80}; give a number from {least} to {most:,}")
