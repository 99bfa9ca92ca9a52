"""Explicit paths between the entities that a question names, as in ESP32 -> MQTT -> WiFi.

The first few entities are taken in the order of the question, and each pair of them is asked for its shortest paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from heliograph.calls.together import run_together
from heliograph.models import GraphPath
from heliograph.stores.base import GraphStore

# A question that asks for a connection names two or three things; more are a list.
_MOST_ENTITIES = 3
_MOST_RELATIONS = 3
_PATHS_PER_PAIR = 2
# Entities that all is related to tie nothing together, and finding that out must not take long.
_MOST_VISITED = 4000


async def find_paths(graph: GraphStore, entity_ids: Sequence[str]) -> tuple[GraphPath, ...]:
    """Return the shortest paths between these entities, at most two a pair and three relations long.

    Only the first three entities count; pairs without a path are left out, and of equal paths the first is kept.
    """
    pairs = list(combinations(list(dict.fromkeys(entity_ids))[:_MOST_ENTITIES], 2))
    if not pairs:
        return ()
    found = await run_together(
        *(
            graph.find_shortest_paths(source, target, _MOST_RELATIONS, _PATHS_PER_PAIR, _MOST_VISITED)
            for source, target in pairs
        )
    )
    paths = {tuple(entity.id for entity in path.entities): path for paths in found for path in paths}
    return tuple(paths.values())


def path_row(path: GraphPath) -> str:
    """Return a path on one line: names joined by arrows."""
    return " -> ".join(entity.name for entity in path.entities)
