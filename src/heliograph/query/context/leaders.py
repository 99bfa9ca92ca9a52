"""Chunks that must outlive a cut: one for each part of a question and each side of a comparison."""

from __future__ import annotations

from collections.abc import Sequence


def with_leaders(order: Sequence[str], leaders: Sequence[str], head: int) -> list[str]:
    """Return the order with every leader among the first `head` places, and as little else moved as that takes.

    A leader that stands further down takes the last place there that is not a leader's; who stood there follows behind
    the head. A leader that is missing is added. If there are more leaders than places, the first of them get in.

    Args:
        order: Chunk ids, best first.
        leaders: Chunk ids, most important first.
        head: Places at the front; at least 1.
    """
    wanted = list(dict.fromkeys(leaders))[:head]
    front, rest = list(order[:head]), list(order[head:])
    late = [leader for leader in wanted if leader not in front]
    for leader in late:
        if len(front) >= head:
            place = next(index for index in reversed(range(len(front))) if front[index] not in wanted)
            rest.insert(0, front.pop(place))
        front.append(leader)
    return [*front, *(chunk_id for chunk_id in rest if chunk_id not in late)]
