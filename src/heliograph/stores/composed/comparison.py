"""Comparing the ids that a projection keeps with those that it should keep, two bounded windows side by side."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

from heliograph.stores.base import FollowerDifference
from heliograph.stores.inspection import Inspection, ScanKind
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import Projection

__all__ = ["compare_ids"]

# Engines that keep no order list all they have for every page, so pages are large.
_PAGE = 10_000
_EXAMPLES = 5
_SCANS: Mapping[OutboxKind, ScanKind] = {
    OutboxKind.DOCUMENTS: ScanKind.DOCUMENTS,
    OutboxKind.CHUNKS: ScanKind.CHUNKS,
    OutboxKind.ENTITIES: ScanKind.ENTITIES,
    OutboxKind.RELATIONS: ScanKind.RELATIONS,
}
# Vectors are kept of what has any; documents only stand beside those of their chunks.
_VECTOR_SCANS: Mapping[OutboxKind, ScanKind] = {
    OutboxKind.CHUNKS: ScanKind.CHUNK_VECTORS,
    OutboxKind.ENTITIES: ScanKind.ENTITY_VECTORS,
    OutboxKind.RELATIONS: ScanKind.RELATION_VECTORS,
}

_Scan = Callable[[str, int], Awaitable[Sequence[str]]]


async def compare_ids(inspection: Inspection, projection: Projection) -> list[FollowerDifference]:
    """Return, per kind whose ids differ, how.

    Args:
        inspection: Of the store with the truth.
        projection: What follows it; up to date.

    Raises:
        StoreError: One of them cannot be read.
    """
    scans = _VECTOR_SCANS if projection.needs_vectors else _SCANS
    found: list[FollowerDifference] = []
    for kind in sorted(projection.kinds & scans.keys()):
        missing, stray, examples = 0, 0, list[str]()
        async for here, there in _windows(_home_scan(inspection, scans[kind]), _scan(projection, kind)):
            missing, stray = missing + len(here - there), stray + len(there - here)
            examples += sorted(here ^ there)[: _EXAMPLES - len(examples)]
        if missing or stray:
            what = scans[kind].value.replace("_", " ")
            found.append(FollowerDifference(projection.name, what, missing, stray, tuple(examples)))
    return found


def _home_scan(inspection: Inspection, kind: ScanKind) -> _Scan:
    return lambda after, limit: inspection.scan(kind, after, limit)


def _scan(projection: Projection, kind: OutboxKind) -> _Scan:
    return lambda after, limit: projection.scan(kind, after, limit)


async def _windows(left: _Scan, right: _Scan) -> AsyncGenerator[tuple[set[str], set[str]]]:
    """Yield what both list in one range of ids after the other."""
    after = ""
    while True:
        pages = [await scan(after, _PAGE) for scan in (left, right)]
        if not any(pages):
            return
        # A full page may go on beyond its last id: the range ends with the first such page.
        ends = [page[-1] for page in pages if len(page) == _PAGE]
        after = min(ends, default=max(page[-1] for page in pages if page))
        here, there = ({id_ for id_ in page if id_ <= after} for page in pages)
        yield here, there
