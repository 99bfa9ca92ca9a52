"""Names of entities that are nearly as somebody wrote them, to be proposed where there is no entity of that name.

One slip in four characters, two at the most, leaves a part of the name as it is; entities are looked up by these parts
(`NameIndex`), and their names compared. Nothing is read so by itself: identifiers that differ in one digit are two.
"""

from __future__ import annotations

from rapidfuzz.distance import OSA

from heliograph.models import Entity
from heliograph.stores.base import Store, StoreView
from heliograph.text.names import entity_key

_MOST_SLIPS = 2
_CHARACTERS_PER_SLIP = 4
_CANDIDATES = 200
# From here on a third of a name is long enough to be looked up.
_LONG = 12


async def near_entities(store: Store, name: str, view: StoreView | None = None) -> list[Entity]:
    """Return entities with a name or alias that is nearly a name, the nearest first; none for short names.

    Args:
        store: Where names are looked up.
        name: As somebody wrote it.
        view: Which entities there are; None for all.
    """
    key = entity_key(name)
    slips = min(_MOST_SLIPS, len(key) // _CHARACTERS_PER_SLIP)
    if not slips:
        return []
    ids: dict[str, None] = {}
    for part in _parts(key, slips):
        ids |= dict.fromkeys(await store.names.find_names(part, _CANDIDATES))
    entities = await (view or store).graph.get_entities(list(ids))
    ranked = [(_distance(entity, key, slips), entity) for entity in entities]
    return [entity for distance, entity in sorted(ranked, key=_order) if distance <= slips]


def _parts(key: str, slips: int) -> list[str]:
    """Return parts of a key of which hardly any name that differs by so many slips has none."""
    if len(key) < _LONG:
        return [key[:2], *(key[start : start + 3] for start in range(len(key) - 2))]
    size = -(-len(key) // (slips + 1))
    return [key[start : start + size] for start in range(0, len(key), size)]


def _distance(entity: Entity, key: str, most: int) -> int:
    """Return letters left out, put in, changed or swapped between a key and the entity's nearest name."""
    return min(OSA.distance(key, entity_key(name), score_cutoff=most) for name in (entity.name, *entity.aliases))


def _order(item: tuple[int, Entity]) -> tuple[int, int, str]:
    distance, entity = item
    return distance, -entity.degree, entity.name
