"""Full text in Redis: postings are read as strings, ranked by BM25 in a thread, and the best rows named.

A search is two round trips whatever the number of hits; a filter or many equals may want more. Of terms that together
occur very often the rarest are ranked by; the others count for the best of what holds those.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.stores.base import Hit, TextStore
from heliograph.stores.changeset import Collection
from heliograph.stores.redis.session import Session
from heliograph.stores.redis.text_phrases import find_phrases
from heliograph.stores.redis.text_search import Narrowing, search_terms
from heliograph.stores.redis.text_write import SEARCHED

__all__ = ["RedisTextStore"]

_MAX_TERMS = 256


class RedisTextStore(TextStore):
    """Postings and rows of two collections.

    Args:
        session: Reads from Redis.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """See `TextStore`; a question is cut at 256 distinct terms."""
        return await self.search_among(collection, terms, limit, Narrowing())

    async def search_among(
        self, collection: Collection, terms: Sequence[str], limit: int, narrowing: Narrowing
    ) -> list[Hit]:
        """Return what `search` does, of some rows only."""
        wanted = list(dict.fromkeys(terms))[:_MAX_TERMS]
        if not wanted or limit < 1 or collection not in SEARCHED:
            return []
        return await search_terms(self._session, collection, wanted, limit, narrowing)

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`; the first by id are returned, of the thousand written first where more hold a phrase.

        Terms of a phrase after the 256th are not looked for.
        """
        return await self.find_phrases_among(collection, phrases, limit, Narrowing())

    async def find_phrases_among(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int, narrowing: Narrowing
    ) -> list[list[str]]:
        """Return what `find_phrases` does, of some rows only."""
        if not any(phrases) or limit < 1 or collection not in SEARCHED:
            return [[] for _ in phrases]
        cut = [phrase[:_MAX_TERMS] for phrase in phrases]
        return await find_phrases(self._session, collection, cut, limit, narrowing)
