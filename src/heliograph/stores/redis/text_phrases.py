"""Phrases in full text of Redis: rows that hold the rarest terms of a phrase are looked at in the order of writing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from heliograph.stores.changeset import Collection
from heliograph.stores.redis.session import Command, Session
from heliograph.stores.redis.text_rows import ask, decode
from heliograph.stores.redis.text_scripts import COUNT, HOLDING
from heliograph.stores.redis.text_search import Keep, Narrowing
from heliograph.stores.redis.text_write import encode
from heliograph.stores.text_scoring import read_records

__all__ = ["find_phrases"]

# The rarest terms of a phrase choose the rows that are looked at.
_CHOOSING = 2
# Rows looked at in one go.
_MOST_ROWS = 1_000
# Of so many rows that hold a phrase the first by id are returned.
_MOST_HELD = 1_000


class _Search:
    """One phrase: the rows that may hold it, and what was found so far."""

    def __init__(self, phrase: Sequence[bytes], numbers: NDArray[np.int64], limit: int) -> None:
        self._needle = b" " + b" ".join(phrase) + b" "
        self._left = numbers
        self._limit = limit
        self._found: list[str] = []

    @property
    def found(self) -> list[str]:
        """The first by id of what was found."""
        return sorted(self._found)[: self._limit]

    def is_over(self) -> bool:
        """Return whether there is enough, or nothing left to look at."""
        return len(self._found) >= max(self._limit, _MOST_HELD) or not len(self._left)

    def take(self, session: Session, collection: Collection) -> Command:
        """Return what looks at the next rows."""
        page, self._left = np.split(self._left, [_MOST_ROWS])
        head = ("EVAL", HOLDING, 0, session.keys.prefix, collection.value)
        return (*head, self._needle, *page.tolist())

    async def add(self, ids: Sequence[bytes], keep: Keep | None) -> None:
        """Take what was found among the rows that were looked at, in their order."""
        held = [decode(id_) for id_ in ids]
        if held and keep is not None:
            kept = await keep(held)
            held = [id_ for id_ in held if id_ in kept]
        self._found += held


async def find_phrases(
    session: Session,
    collection: Collection,
    phrases: Sequence[Sequence[str]],
    limit: int,
    narrowing: Narrowing,
) -> list[list[str]]:
    """Return, per phrase, the first rows that hold it, as `TextStore.find_phrases` does.

    Args:
        session: Reads.
        collection: Where to look.
        phrases: An empty one is held by nothing.
        limit: Ids per phrase at the most, at least one.
        narrowing: Which rows may be found.
    """
    asked = [[encode(term) for term in phrase] for phrase in phrases]
    chosen = await _choose_rows(session, collection, asked, narrowing)
    searches = [_Search(phrase, numbers, limit) for phrase, numbers in zip(asked, chosen, strict=True)]
    while left := [search for search in searches if not search.is_over()]:
        held = await session.read_bytes([search.take(session, collection) for search in left])
        for search, ids in zip(left, held, strict=True):
            await search.add(ids, narrowing.keep)
    return [search.found for search in searches]


async def _choose_rows(
    session: Session, collection: Collection, phrases: Sequence[Sequence[bytes]], narrowing: Narrowing
) -> list[NDArray[np.int64]]:
    """Return, per phrase, the numbers of the rows that hold its rarest terms, ascending."""
    terms = list(dict.fromkeys(term for phrase in phrases for term in phrase))
    if not terms:
        return [np.empty(0, np.int64) for _ in phrases]
    counts = dict(zip(terms, await ask(session, COUNT, collection, *terms), strict=True))
    rarest = [
        sorted(set(phrase), key=lambda term: (counts[term], term))[:_CHOOSING]
        if all(counts[term] for term in phrase)
        else []
        for phrase in phrases
    ]
    wanted = list(dict.fromkeys(term for some in rarest for term in some))
    keys = (session.keys.of("postings", collection.value, "").encode() + term for term in wanted)
    records = await session.read_bytes([("GETRANGE", key, 12, -1) for key in keys])
    numbers = {term: read_records(data)[:, 0].astype(np.int64) for term, data in zip(wanted, records, strict=True)}
    return [_common([numbers[term] for term in some], narrowing) for some in rarest]


def _common(numbers: list[NDArray[np.int64]], narrowing: Narrowing) -> NDArray[np.int64]:
    if not numbers:
        return np.empty(0, np.int64)
    others = [] if narrowing.numbers is None else [narrowing.numbers]
    return reduce(np.intersect1d, [*numbers, *others])
