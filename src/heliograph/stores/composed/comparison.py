"""Comparing what a projection keeps with what it should keep: ids in windows side by side, contents by pages.

Memory holds a window of ids and a page of contents, however large the workspace is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

from heliograph.stores.base import FollowerDifference
from heliograph.stores.composed.lookup import Lookup
from heliograph.stores.inspection import Inspection, ScanKind
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.projection import Projection, VectorProjection

# Engines that keep no order list all they have for every window, so windows are large.
_WINDOW = 10_000
_PAGE = 500
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


async def compare(inspection: Inspection, lookup: Lookup, projection: Projection) -> list[FollowerDifference]:
    """Return, per kind that differs, how, and what the engine finds wrong with itself.

    Args:
        inspection: Of the store with the truth.
        lookup: Says what the projection should keep.
        projection: What follows; up to date.

    Raises:
        StoreError: One of them cannot be read.
    """
    scans = _VECTOR_SCANS if isinstance(projection, VectorProjection) else _SCANS
    found: list[FollowerDifference] = []
    for kind in sorted(projection.kinds & scans.keys()):
        missing, stray, changed, examples = 0, 0, 0, list[str]()
        async for here, there in _windows(_home_scan(inspection, scans[kind]), _scan(projection, kind)):
            held, kept = set(here), set(there)
            differing: set[str] = set()
            common = sorted(held & kept)
            for start in range(0, len(common), _PAGE):
                expected = await lookup.look_up({kind: common[start : start + _PAGE]})
                differing |= await projection.compare(expected)
            # What stands twice under one id is there once too often.
            missing, stray = missing + len(held - kept), stray + len(there) - len(held & kept)
            changed += len(differing)
            examples += sorted((held ^ kept) | differing)[: _EXAMPLES - len(examples)]
        if missing or stray or changed:
            what = scans[kind].value.replace("_", " ")
            found.append(FollowerDifference(projection.name, what, missing, stray, changed, tuple(examples)))
    faults = await projection.find_faults()
    return [*found, *(FollowerDifference(projection.name, "", fault=fault) for fault in faults)]


def _home_scan(inspection: Inspection, kind: ScanKind) -> _Scan:
    return lambda after, limit: inspection.scan(kind, after, limit)


def _scan(projection: Projection, kind: OutboxKind) -> _Scan:
    return lambda after, limit: projection.scan(kind, after, limit)


async def _windows(left: _Scan, right: _Scan) -> AsyncGenerator[tuple[list[str], list[str]]]:
    """Yield what both list in one range of ids after the other."""
    after = ""
    while True:
        pages = [await scan(after, _WINDOW) for scan in (left, right)]
        if not any(pages):
            return
        # A full page may go on beyond its last id: the range ends with the first such page.
        ends = [page[-1] for page in pages if len(page) == _WINDOW]
        after = min(ends, default=max(page[-1] for page in pages if page))
        here, there = ([id_ for id_ in page if id_ <= after] for page in pages)
        yield here, there
