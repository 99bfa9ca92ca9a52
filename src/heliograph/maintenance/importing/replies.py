"""Adding the kept replies of an archive, so that what was paid for there is not asked for again here.

A reply goes with the chunk, entity or relation that it is about: where that is not here, no deletion would ever take it
away, so it is left out. Answers are left out too, since they hold for one state of one workspace.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from heliograph.maintenance.importing.report import ImportProgress, NoteKind, NoteList
from heliograph.stores.base import CachedReply, Store

__all__ = ["add_replies"]

_PAGE = 500
_ANSWERS = "query"


async def add_replies(
    store: Store, replies: AsyncIterator[CachedReply], notes: NoteList, progress: ImportProgress
) -> int:
    """Add the replies that are not here yet, in pages; return how many.

    Args:
        store: Where documents and curations have been taken in before.
        replies: From an archive.
        notes: Gets what is left out or here already.
        progress: Told how many have been added.

    Raises:
        StoreError: The store cannot be used; what was added before stays.
    """
    added = 0
    page: list[CachedReply] = []
    async for reply in replies:
        page.append(reply)
        if len(page) == _PAGE:
            added += await _add_page(store, page, notes)
            progress("replies", added)
            page = []
    if page:
        added += await _add_page(store, page, notes)
        progress("replies", added)
    return added


async def _add_page(store: Store, page: Sequence[CachedReply], notes: NoteList) -> int:
    here = await _subjects_here(store, [reply.subject_id for reply in page if reply.subject_id])
    added = 0
    for reply in page:
        if reply.cache_type == _ANSWERS or (reply.subject_id and reply.subject_id not in here):
            notes.add(NoteKind.LEFT_OUT, "kept replies about what is not here", reply.subject_id)
        elif await store.replies.get_reply(reply.key) is not None:
            notes.add(NoteKind.KNOWN, "kept replies that are here already")
        else:
            await store.replies.put_reply(reply)
            added += 1
    return added


async def _subjects_here(store: Store, ids: Sequence[str]) -> set[str]:
    distinct = list(dict.fromkeys(ids))
    found = {chunk.id for chunk in await store.records.get_chunks(distinct)}
    found |= {entity.id for entity in await store.graph.get_entities(distinct)}
    return found | {relation.id for relation in await store.graph.get_relations(distinct)}
