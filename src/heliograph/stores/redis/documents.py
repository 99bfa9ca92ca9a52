"""Listing documents: by an index alone where one holds the page, else of what an index leaves, looked at one by one."""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.filters import Sources
from heliograph.models import Document
from heliograph.stores.listing import DocumentPage, DocumentQuery, is_wanted
from heliograph.stores.redis.documents_write import read_documents
from heliograph.stores.redis.session import Command, Session

__all__ = ["find_documents"]

_WINDOW = 1_000


async def find_documents(session: Session, query: DocumentQuery) -> DocumentPage:
    """Return one page of documents, see `RecordsStore`."""
    if _is_plain(query):
        return await _read_page(session, query)
    found: list[Document] = []
    ids = await _candidates(session, query)
    for start in range(0, len(ids), _WINDOW):
        documents = await read_documents(session, ids[start : start + _WINDOW])
        found += [document for document in documents.values() if is_wanted(document, query)]
    return DocumentPage(tuple(_sorted(found, query)[query.offset : query.offset + query.limit]), len(found))


def _is_plain(query: DocumentQuery) -> bool:
    """Whether all that it asks for stands in one order of documents."""
    narrow = query.track_id, query.source_prefix, query.filter, query.twin_of
    return all(condition is None for condition in narrow) and not query.content_hashes and len(query.statuses) <= 1


def _sorted(documents: Sequence[Document], query: DocumentQuery) -> list[Document]:
    by_id = sorted(documents, key=lambda document: document.id)
    if query.sort == "id":
        return by_id[::-1] if query.descending else by_id
    return sorted(by_id, key=lambda document: getattr(document, query.sort), reverse=query.descending)


async def _read_page(session: Session, query: DocumentQuery) -> DocumentPage:
    key = session.keys.documents(query.statuses[0].value if query.statuses else "", query.sort)
    verb, last = "ZREVRANGE" if query.descending else "ZRANGE", query.offset + query.limit - 1
    page: Command = (verb, key, query.offset, last) if query.limit > 0 else (verb, key, 1, 0)
    places, total = await session.read_at_once([page, ("ZCARD", key)])
    if query.descending and query.sort != "id":
        places = await _mend_ties(session, key, places, query.offset)
    ids = [place.rpartition("\0")[2] for place in places]
    documents = await read_documents(session, ids)
    return DocumentPage(tuple(documents[id_] for id_ in ids if id_ in documents), total)


async def _mend_ties(session: Session, key: str, places: Sequence[str], offset: int) -> list[str]:
    """Put documents with the same value in the order of their ids, where the range gives them the other way round."""
    groups: dict[str, list[str]] = {}
    for place in places:
        groups.setdefault(place.rpartition("\0")[0], []).insert(0, place)
    # The first and the last group may begin before the page or end after it.
    for value in {value for value in (list(groups)[:1] + list(groups)[-1:]) if value}:
        whole: list[str] = await session.read_one("ZRANGEBYLEX", key, f"[{value}\0", f"({value}\x01")
        if not whole:
            continue
        before = await session.read_one("ZREVRANK", key, whole[-1])
        start = max(0, offset - int(before or 0))
        groups[value] = whole[start : start + len(groups[value])]
    return [place for group in groups.values() for place in group]


async def _candidates(session: Session, query: DocumentQuery) -> list[str]:
    keys = session.keys
    if query.twin_of:
        return await _members(session, [("SMEMBERS", keys.twins(query.twin_of))])
    if query.content_hashes:
        return await _members(session, [("SMEMBERS", keys.of("hash", item)) for item in query.content_hashes])
    if query.track_id:
        return await _members(session, [("ZRANGE", keys.of("track", query.track_id), 0, -1)])
    if query.source_prefix:
        start = query.source_prefix.encode("utf-8", "surrogatepass")
        # No byte of a text is 255.
        ranges: list[Command] = [("ZRANGEBYLEX", keys.documents("", "source"), b"[" + start, b"(" + start + b"\xff")]
    elif isinstance(query.filter, Sources):
        places = [source.encode("utf-8", "surrogatepass") for source in query.filter.sources]
        by_source = keys.documents("", "source")
        ranges = [("ZRANGEBYLEX", by_source, b"[" + place + b"\0", b"(" + place + b"\x01") for place in places]
    else:
        ranges = [("ZRANGE", keys.documents(status.value, "id"), 0, -1) for status in query.statuses]
        ranges = ranges or [("ZRANGE", keys.documents("", "id"), 0, -1)]
    return [place.rpartition("\0")[2] for place in await _members(session, ranges)]


async def _members(session: Session, commands: Sequence[Command]) -> list[str]:
    return sorted({str(member) for members in await session.read(commands) for member in members})
