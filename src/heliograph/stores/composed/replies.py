"""Replies of models in another engine, and at home while that is out of reach: no reply that was paid for is lost.

What is not found in the other engine is looked for at home, where there may also be replies from before it was set up.
"""

from __future__ import annotations

import logging
from itertools import islice

from heliograph.errors import StoreUnavailable
from heliograph.stores.replies import CachedReply, ReplyCache

_LOGGER = logging.getLogger(__name__)


class TwofoldReplyCache(ReplyCache):
    """A cache beside the store with the truth, and that store's own.

    Args:
        cache: Where replies are kept.
        home: Where they are kept while it is out of reach.
    """

    def __init__(self, cache: ReplyCache, home: ReplyCache) -> None:
        self._cache = cache
        self._home = home

    async def get_reply(self, key: str) -> CachedReply | None:
        try:
            found = await self._cache.get_reply(key)
        except StoreUnavailable as error:
            _LOGGER.debug("a reply is looked for at home: %s", error)
            found = None
        return found or await self._home.get_reply(key)

    async def put_reply(self, reply: CachedReply) -> None:
        try:
            await self._cache.put_reply(reply)
        except StoreUnavailable as error:
            _LOGGER.debug("a reply is kept at home: %s", error)
            await self._home.put_reply(reply)

    async def delete_replies(self, cache_type: str | None = None) -> int:
        """See `ReplyCache`; fails where the other engine is out of reach, since its replies would come back."""
        return await self._cache.delete_replies(cache_type) + await self._home.delete_replies(cache_type)

    async def list_replies(self, after: str, limit: int) -> list[CachedReply]:
        found = {item.key: item for item in await self._home.list_replies(after, limit)}
        found |= {item.key: item for item in await self._cache.list_replies(after, limit)}
        return [found[key] for key in islice(sorted(found), limit)]
