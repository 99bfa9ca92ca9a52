"""Reading what a rerank service replied, strictly: a score that is not one must not order anybody's chunks.

Everything that is not a list of results, each with an index that was sent, once, and a finite number as score, is a
`BadModelReply`; the search then keeps its own order. Results may be fewer than texts, and in any order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from heliograph.calls.service_errors import clean_detail, error_message
from heliograph.errors import BadModelReply
from heliograph.rerank.base import RerankHit


def read_results(body: object, results_path: Sequence[str], score_key: str, sent: int, service: str) -> list[RerankHit]:
    """Return the hits of a reply, best first, of equals the one that was sent first.

    Args:
        body: The decoded reply.
        results_path: Keys that lead to the list of results.
        score_key: Name of the score in a result.
        sent: How many texts were sent.
        service: Who replied, as a message should name it.

    Raises:
        BadModelReply: It is not what was asked for; says what is wrong with it.
    """
    scores: dict[int, float] = {}
    for result in _results(body, results_path, service):
        index, score = _field(result, "index"), _field(result, score_key)
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < sent:
            raise _bad(service, f"the index {index!r:.80}, where 0 to {sent - 1} were sent")
        if index in scores:
            raise _bad(service, f"the index {index} twice")
        scores[index] = _score(score, index, service)
    return sorted((RerankHit(index, score) for index, score in scores.items()), key=lambda hit: (-hit.score, hit.index))


def _results(body: object, results_path: Sequence[str], service: str) -> list[object]:
    found = body
    for key in results_path:
        found = _field(found, key)
    if isinstance(found, list):
        return cast("list[object]", found)
    detail = clean_detail(error_message(body))
    raise _bad(service, f"no list of results (it said: {detail})" if detail else "no list of results")


def _field(value: object, key: str) -> Any:
    return cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None


def _score(score: object, index: int, service: str) -> float:
    if isinstance(score, int | float) and not isinstance(score, bool):
        # An integer of hundreds of digits is JSON, but no float.
        number = float(score) if abs(score) < 1e300 else math.inf
        if math.isfinite(number):
            return number
    raise _bad(service, f"the score {score!r:.80} for index {index}, which is not a finite number")


def _bad(service: str, what: str) -> BadModelReply:
    return BadModelReply(f"{service} sent {what}; check `provider` and `base_url`, and the service's log")
