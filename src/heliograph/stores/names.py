"""Finding entities while somebody types: by what their names and aliases are, begin with, or contain.

Names and what is typed are compared as `entity_key` writes them, so letter case, width and kinds of dash do not matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from heliograph.text.names import entity_key


class NameIndex(ABC):
    """Names and aliases of the entities of one workspace, read by index only."""

    @abstractmethod
    async def find_names(self, text: str, limit: int) -> list[str]:
        """Return ids of entities with a name or alias that matches, best first; a text without a key matches nothing.

        First come names that are the text, then those that begin with it, then those that contain it (`name_match`);
        among equals the better connected first, then by name and id. Texts of one or two letters need only be found at
        the beginning of a name and as a word, but for CJK characters, of which two suffice. Where very many match, a
        back end may rank the first few thousand of each sort only.
        """


def rank_names(entities: Iterable[tuple[str, str, Iterable[str], int]], text: str, limit: int) -> list[str]:
    """Return the ids of those that match, in the order of `NameIndex`, of entities by id, name, aliases and degree."""
    ranked = [
        (match, -degree, name, id_)
        for id_, name, aliases, degree in entities
        if (match := name_match((name, *aliases), text)) is not None
    ]
    return [id_ for *_, id_ in sorted(ranked)[: max(0, limit)]]


def name_match(names: Iterable[str], text: str) -> int | None:
    """Return how the best of these names matches: 0 is it, 1 begins with it, 2 contains it, None does none of these."""
    wanted = entity_key(text)
    found = (_match(entity_key(name), wanted) for name in names)
    return min((match for match in found if match is not None), default=None)


def _match(key: str, wanted: str) -> int | None:
    if not wanted or wanted not in key:
        return None
    return 0 if key == wanted else 1 if key.startswith(wanted) else 2
