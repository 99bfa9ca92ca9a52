"""BM25 of single rows, as a function that SQL can call, for the rows that are worth it.

FTS5's own function counts every row of every term before it scores the first; this one is told how rare terms are.
For the same numbers it gives the same scores, but for their sign.
"""

from __future__ import annotations

import heapq
import struct
import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import apsw

from heliograph.stores.bm25 import K1, B

__all__ = ["SCORE", "SIZES", "pack_weights", "register_scoring"]

SCORE, SIZES = "heliograph_bm25", "heliograph_sizes"
_LEAST_NORM = K1 * (1 - B)
_registered: WeakSet[apsw.Connection] = WeakSet()
_lock = threading.Lock()


def register_scoring(connection: apsw.Connection) -> None:
    """Let a connection's SQL call `heliograph_bm25(table, weights)` and `heliograph_sizes(table)`; once is enough.

    The first gives the score of a row by the last phrases of the expression, as many as there are weights. The second
    gives rows and terms of the table as text.
    """
    with _lock:
        if connection in _registered:
            return
        _registered.add(connection)
    connection.register_fts5_function(SCORE, _score)
    connection.register_fts5_function(SIZES, _sizes)


def pack_weights(weights: Sequence[float], mean_length: float, limit: int) -> bytes:
    """Return the argument of `heliograph_bm25`: hits wanted, mean length of a row, idf of each term in order."""
    return struct.pack(f"{len(weights) + 2}d", limit, mean_length, *weights)


def _sizes(api: apsw.FTS5ExtensionApi, *_arguments: object) -> str:
    return f"{api.row_count} {api.column_total_size(-1)}"


class _Scoring:
    """What is known while the rows of one statement are scored: the best scores so far, least first."""

    __slots__ = ("best", "limit", "mean_length", "weights")

    def __init__(self, packed: bytes, phrases: int) -> None:
        limit, self.mean_length, *weights = struct.unpack(f"{len(packed) // 8}d", packed)
        first = phrases - len(weights)
        self.weights = [(first + place, weight * (K1 + 1)) for place, weight in enumerate(weights)]
        self.limit = int(limit)
        self.best: list[float] = []


def _score(api: apsw.FTS5ExtensionApi, *arguments: Any) -> float | None:
    """Return a row's score, or None if it is certainly not among the best."""
    scoring: _Scoring | None = api.aux_data
    if scoring is None:
        scoring = api.aux_data = _Scoring(arguments[0], api.phrase_count)
    best = scoring.best
    is_full = len(best) >= scoring.limit
    # Where a phrase occurs takes seven times as long to ask as whether it does: most rows hold too little to be asked.
    columns = api.phrase_columns
    present = [item for item in scoring.weights if columns(item[0])]
    if is_full and sum([weight for _, weight in present]) < best[0]:
        return None
    locations = api.phrase_locations
    held = [(weight, len(locations(place)[0])) for place, weight in present]
    # The length of a row is dear to read, and no row gains more than one without length.
    if is_full and sum([weight * count / (count + _LEAST_NORM) for weight, count in held]) < best[0]:
        return None
    norm = _LEAST_NORM + K1 * B * api.column_size(-1) / scoring.mean_length
    score = 0.0
    for weight, count in held:
        score += weight * count / (count + norm)
    (heapq.heappushpop if is_full else heapq.heappush)(best, score)
    return score
