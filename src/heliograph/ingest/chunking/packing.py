"""Packing small parts into groups so that a change stays where it is made.

Greedy packing moves every later cut when one part grows. Here cuts depend on what the parts nearby say: a part begins
a group if its key is the greatest within a group's length on both sides (local maximum chunking, Bjorner, Blass and
Gurevich, "Content-dependent chunking for differential compression", 2010). What lies between two such parts and is
still too long is cut before the greatest key that leaves groups well filled. Nothing said further away changes this.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise

__all__ = ["pack", "part_key"]

_KEY_CHARACTERS = 64
# A group is filled at least to this part, where there is a place to cut.
_LEAST_FILL = 0.75


def part_key(text: str, start: int) -> int:
    """Return the key of the part that begins at `start`; it depends on its first characters alone."""
    data = text[start : start + _KEY_CHARACTERS].strip().encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=6).digest(), "little")


def pack(places: Sequence[int], keys: Sequence[int], limit: int) -> list[int]:
    """Return the index of the first part of each group.

    Args:
        places: Where each part begins, in tokens, and where the last one ends; never going down.
        keys: One per part.
        limit: Tokens of a group at the most; a part that is longer is a group of its own.

    Returns:
        Indexes in order, beginning with 0; none without parts.
    """
    if not keys:
        return []
    firsts = [0, *_anchors(places, keys, limit), len(keys)]
    return [cut for first, last in pairwise(firsts) for cut in (first, *_cuts(places, keys, first, last, limit))]


def _anchors(places: Sequence[int], keys: Sequence[int], reach: int) -> Iterator[int]:
    """Yield the parts, but the first, whose key is the greatest of all that begin within `reach` tokens of them."""
    count = len(keys)
    before = _greater(keys, range(1, count), 0)
    after = _greater(keys, range(count - 1, 0, -1), count)
    for index in range(1, count):
        far_left = places[index] - places[before[index]] > reach
        if far_left and places[after[index]] - places[index] > reach:
            yield index


def _greater(keys: Sequence[int], order: range, limit: int) -> dict[int, int]:
    """Return, per index, the nearest one passed before it whose key is greater or the same; else `limit`."""
    found: dict[int, int] = {}
    stack: list[int] = []
    for index in order:
        while stack and keys[stack[-1]] < keys[index]:
            stack.pop()
        found[index] = stack[-1] if stack else limit
        stack.append(index)
    return found


def _cuts(places: Sequence[int], keys: Sequence[int], first: int, last: int, limit: int) -> Iterator[int]:
    """Yield the parts, after `first`, before which a run of parts up to `last` is cut."""
    while (rest := places[last] - places[first]) > limit and last - first > 1:
        start = places[first]
        low, high = _reach(rest, limit)
        begin = bisect_left(places, start + low, first + 1, last)
        end = bisect_right(places, start + high, begin, last)
        if begin < end:
            first = max(range(begin, end), key=keys.__getitem__)
        else:
            first = max(first + 1, bisect_right(places, start + limit, first + 1, last) - 1)
        yield first


def _reach(rest: int, limit: int) -> tuple[int, int]:
    """Return how few and how many tokens the next group may have, of `rest` to come."""
    if rest > 2 * limit:
        return int(limit * _LEAST_FILL), limit
    # Two groups to go: neither may be too long, nor less than a third of both.
    return max(rest - limit, rest // 3), min(limit, rest - rest // 3)
