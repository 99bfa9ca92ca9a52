"""The contract of one section of a workspace that is moved: how it is listed, read, compared and written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Generic, TypeVar

from heliograph.maintenance.migration.digests import Tally
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset
from heliograph.stores.inspection import ScanKind

__all__ = ["PAGE", "Section", "scan_pages"]

PAGE = 500

T = TypeVar("T")


class Section(ABC, Generic[T]):
    """Things that are moved together, each known by an id.

    Attributes:
        name: Of what, for messages and progress.
        is_removable: Whether an earlier run may have copied what the source has lost since; else what the target alone
            has shows that it is another's.
    """

    name: str
    is_removable: bool = False

    @abstractmethod
    def pages(self, store: Store) -> AsyncIterator[list[str]]:
        """Yield all ids, a page at a time."""

    @abstractmethod
    async def read(self, store: Store, ids: Sequence[str]) -> dict[str, T]:
        """Return what is there under these ids, with all that is written along with it."""

    @abstractmethod
    def tally(self, item: T) -> Mapping[str, Tally]:
        """Return the checksums of one thing, per kind of what it consists of."""

    @abstractmethod
    async def write(self, source: Store, target: Store, items: Mapping[str, T]) -> None:
        """Put things into the target, in place of what it has under their ids, in one commit."""

    async def find_removal(self, target: Store, ids: Sequence[str]) -> Changeset:
        """Return what takes things out of the target that the source has not; none where `is_removable` is not set."""
        raise NotImplementedError(f"{self.name} are never taken out; {len(ids)} of {target.describe()!r} were to be")

    async def groups(self, store: Store, ids: Sequence[str]) -> list[list[str]]:  # noqa: ARG002 (of those that differ)
        """Return a page of ids in groups that fit into memory."""
        return [list(ids)]


async def scan_pages(store: Store, kind: ScanKind) -> AsyncIterator[list[str]]:
    """Yield all ids of a kind, ascending, a page at a time."""
    after = ""
    while ids := await store.inspection.scan(kind, after, PAGE):
        yield ids
        after = ids[-1]
