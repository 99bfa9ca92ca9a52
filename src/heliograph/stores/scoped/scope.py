"""What a filter leaves of one data version, and the few that were asked for last.

A `Scope` holds the ids of matching documents, of their chunks, and of the entities and relations with a mention in one
of these, with degrees and weights counted from such mentions alone. Stores find them as they can.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Collection as Some
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from heliograph.filters import Filter, filter_key
from heliograph.models import Entity, Relation
from heliograph.stores.base import Fold
from heliograph.stores.changeset import Collection

# Each costs some hundred bytes per chunk, entity and relation that it leaves.
_MOST_SCOPES = 8
_MOST_FOLDS = 16_000
# Weights are summed in whole millionths, as evidence counts them: sums are exact in any order.
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Tie:
    """A relation in a scope: its two ends, and the sum of the weights of its mentions there."""

    source_id: str
    target_id: str
    weight: float


@dataclass(slots=True, eq=False, kw_only=True)
class Scope:
    """The part of one data version that a filter leaves.

    Attributes:
        version: The data version.
        documents: Documents that match.
        owners: Where the chunks of a matching document are stored under a twin that does not match: the twin's id to
            that of the first of the documents which have them here.
        chunks: The chunks, with the document that stores them.
        entities: Entities that they mention and that there are, with the relations here that touch them.
        relations: Relations that they mention and that there are.
        folded: Folds made so far, by id.
    """

    version: int
    documents: frozenset[str]
    owners: Mapping[str, str]
    chunks: Mapping[str, str]
    entities: Mapping[str, Sequence[str]]
    relations: Mapping[str, Tie]
    folded: dict[str, Entity | Relation] = field(default_factory=dict[str, Entity | Relation])

    def ids_of(self, collection: Collection) -> Some[str]:
        """Return the ids of a collection."""
        some = {
            Collection.CHUNKS: self.chunks,
            Collection.ENTITIES: self.entities,
            Collection.RELATIONS: self.relations,
        }
        return some[collection].keys()

    def touching(self, entity_ids: Iterable[str]) -> list[str]:
        """Return the relations that touch any of these entities, once each."""
        return list(dict.fromkeys(relation for id_ in entity_ids for relation in self.entities.get(id_, ())))

    def remember(self, fold: Entity | Relation) -> None:
        """Keep a fold; when there are too many, all are forgotten."""
        if len(self.folded) >= _MOST_FOLDS:
            self.folded.clear()
        self.folded[fold.id] = fold


S = TypeVar("S", bound=Scope)


class ScopeMemory(Generic[S]):
    """Scopes by filter and fold, the least recently used forgotten first."""

    def __init__(self) -> None:
        self._scopes: OrderedDict[tuple[str, Fold], S] = OrderedDict()
        self._making: WeakValueDictionary[tuple[str, Fold], asyncio.Lock] = WeakValueDictionary()

    async def get(self, filter_: Filter, fold: Fold, version: int, make: Callable[[], Awaitable[S]]) -> S:
        """Return what a filter leaves of a data version; `make` makes it if it is not known."""
        name = filter_key(filter_), fold
        # Two questions under one filter that come at once make its scope once; who waits keeps the lock alive.
        making = self._making.setdefault(name, asyncio.Lock())
        async with making:
            found = self._scopes.get(name)
            if found is None or found.version != version:
                found = await make()
                self._keep(name, found)
            else:
                self._scopes.move_to_end(name)
        return found

    def _keep(self, name: tuple[str, Fold], scope: S) -> None:
        known = self._scopes.get(name)
        if known is not None and known.version > scope.version:
            return  # This reader's moment is older than another's.
        self._scopes[name] = scope
        self._scopes.move_to_end(name)
        while len(self._scopes) > _MOST_SCOPES:
            self._scopes.popitem(last=False)


def find_owners(documents: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return, per document that stores chunks and does not match, the first of its twins that do, by id.

    Args:
        documents: Matching documents by ascending id, each with the one that stores its chunks, if any does.
    """
    listed = list(documents)
    matching = {id_ for id_, _ in listed}
    owners: dict[str, str] = {}
    for id_, holder in listed:
        if holder is not None and holder not in matching:
            owners.setdefault(holder, id_)
    return owners


def touching_relations(entity_ids: Iterable[str], ties: Mapping[str, Tie]) -> dict[str, Sequence[str]]:
    """Return, per entity, the relations that touch it."""
    touching: dict[str, list[str]] = defaultdict(list)
    for id_, tie in ties.items():
        touching[tie.source_id].append(id_)
        touching[tie.target_id].append(id_)
    return {id_: touching.get(id_, ()) for id_ in entity_ids}
