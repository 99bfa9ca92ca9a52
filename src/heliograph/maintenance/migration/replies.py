"""Moving the kept replies of chat models, but answers, which hold for one state of one workspace only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from heliograph.errors import StoreError
from heliograph.maintenance.migration.digests import Tally, digest_item
from heliograph.stores.replies import CachedReply, ReplyCache

__all__ = ["REPLIES", "copy_replies", "verify_replies"]

REPLIES = "replies"
_PAGE = 200
_ANSWERS = "query"


async def copy_replies(source: ReplyCache, target: ReplyCache) -> tuple[Tally, int]:
    """Keep in the target what the source keeps; return what that is, and how much of it was not there.

    Raises:
        StoreError: Either cannot be used; what was copied stays.
    """
    whole, copied = Tally(), 0
    async for page in _pages(source):
        there = dict(zip(page, await asyncio.gather(*(target.get_reply(item.key) for item in page)), strict=True))
        missing = [item for item in page if there[item] is None or digest_item(item) != _digest(there[item])]
        await asyncio.gather(*map(target.put_reply, missing))
        copied += len(missing)
        whole = sum((Tally(1, digest_item(item)) for item in page), whole)
    return whole, copied


async def verify_replies(source: ReplyCache, target: ReplyCache) -> None:
    """Compare what both keep; the target may keep more.

    Raises:
        StoreError: One is missing, or differs.
    """
    async for page in _pages(source):
        there = await asyncio.gather(*(target.get_reply(item.key) for item in page))
        for item, found in zip(page, there, strict=True):
            if digest_item(item) != _digest(found):
                raise StoreError(f"the reply {item.key!r:.200} did not arrive as it was; run the migration again")


async def _pages(source: ReplyCache) -> AsyncIterator[list[CachedReply]]:
    after = ""
    while page := await source.list_replies(after, _PAGE):
        after = page[-1].key
        yield [item for item in page if item.cache_type != _ANSWERS]


def _digest(reply: CachedReply | None) -> int | None:
    return None if reply is None else digest_item(reply)
