"""Full text in memory: BM25 by counting every row, phrases by looking through them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from heliograph.stores.base import Hit, TextStore
from heliograph.stores.bm25 import K1, B
from heliograph.stores.changeset import Collection, TextEntry

__all__ = ["MemoryTextStore"]


class MemoryTextStore(TextStore):
    """Terms in dictionaries, every row of which is scored."""

    def __init__(self) -> None:
        self._entries: dict[Collection, dict[str, Counter[str]]] = {item: {} for item in Collection}
        self._ordered: dict[Collection, dict[str, tuple[str, ...]]] = {item: {} for item in Collection}

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        """See `TextStore`."""
        entries = self._entries[collection]
        mean = sum(entry.total() for entry in entries.values()) / len(entries) if entries else 0.0
        scores: Counter[str] = Counter()
        for term in dict.fromkeys(terms):
            holders = {id_: entry[term] for id_, entry in entries.items() if entry[term]}
            rarity = math.log1p((len(entries) - len(holders) + 0.5) / (len(holders) + 0.5))
            for id_, count in holders.items():
                norm = K1 * (1 - B + B * entries[id_].total() / mean)
                scores[id_] += rarity * count * (K1 + 1) / (count + norm)  # pyright: ignore[reportArgumentType]
        return [Hit(id_, float(score)) for id_, score in sorted(scores.items(), key=_best_first)[:limit]]

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        """See `TextStore`."""
        entries = self._ordered[collection]
        found = ([id_ for id_, held in entries.items() if _holds(held, tuple(phrase))] for phrase in phrases)
        return [sorted(ids)[: max(0, limit)] for ids in found]

    def terms(self, collection: Collection) -> dict[str, list[str]]:
        """Return the terms of every row, in order."""
        return {id_: list(held) for id_, held in self._ordered[collection].items()}

    def remove(self, collection: Collection, ids: Sequence[str]) -> None:
        """Take rows away; those that are not there are passed over."""
        for id_ in ids:
            self._entries[collection].pop(id_, None)
            self._ordered[collection].pop(id_, None)

    def upsert(self, collection: Collection, entries: Sequence[TextEntry]) -> None:
        """Put rows, in place of those with the same ids."""
        self._entries[collection].update((entry.id, Counter(entry.terms)) for entry in entries)
        self._ordered[collection].update((entry.id, tuple(entry.terms)) for entry in entries)


def _holds(held: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    places = range(len(held) - len(phrase) + 1)
    return bool(phrase) and any(held[place : place + len(phrase)] == phrase for place in places)


def _best_first(scored: tuple[str, float]) -> tuple[float, str]:
    return -scored[1], scored[0]
