"""Walking several lists of ids side by side, a bounded window at a time.

Each window holds, per kind, all its ids of one range; ranges follow one another without gap or overlap. What stands in
one list and not in another is thus found without holding either.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from heliograph.stores.inspection import Inspection, ScanKind

__all__ = ["Window", "id_windows"]

Window = Mapping[ScanKind, frozenset[str]]


async def id_windows(inspection: Inspection, kinds: Sequence[ScanKind], size: int = 500) -> AsyncIterator[Window]:
    """Yield windows of at most `size` ids per kind, ascending; a workspace without any yields none."""
    after = ""
    while True:
        pages = {kind: await inspection.scan(kind, after, size) for kind in kinds}
        if not any(pages.values()):
            return
        # A full page may go on beyond its last id: the range ends with the first such page.
        ends = [page[-1] for page in pages.values() if len(page) == size]
        end = min(ends, default=max(page[-1] for page in pages.values() if page))
        yield {kind: frozenset(id_ for id_ in page if id_ <= end) for kind, page in pages.items()}
        after = end
