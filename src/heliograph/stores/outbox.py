"""What changed, in order, for stores that stand beside the one that holds the truth.

The store of the records notes, in the very transaction of each commit, the ids of what the commit changed, for as long
as some reader has still to see them. An entry carries no content: a reader looks up what is there now, so that entries
can be read again and several changes of one thing are one entry. Without a reader nothing is noted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from heliograph.stores.changeset import Changeset

__all__ = ["Outbox", "OutboxEntry", "OutboxKind", "changed_ids"]


class OutboxKind(StrEnum):
    """What an entry names, in the order in which entries of one version are read.

    `RESET` names nothing: everything is to be made anew. `SUBJECTS` are what cached replies must no longer speak of,
    but for the replies whose keys are `KEPT_REPLIES`.
    """

    RESET = "0_reset"
    DOCUMENTS = "1_documents"
    CHUNKS = "2_chunks"
    ENTITIES = "3_entities"
    RELATIONS = "4_relations"
    KEPT_REPLIES = "5_kept_replies"
    SUBJECTS = "6_subjects"


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """Something changed in the commit of this data version, and not since."""

    version: int
    kind: OutboxKind
    id: str


class Outbox(ABC):
    """The entries of one workspace, and who reads them."""

    @abstractmethod
    async def register(self, reader: str) -> None:
        """Note entries for this reader from now on; a new one finds a `RESET` first, a known one is left as it is."""

    @abstractmethod
    async def unregister(self, reader: str) -> None:
        """Note nothing more for this reader; unknown ones are passed over."""

    @abstractmethod
    async def get_readers(self) -> Mapping[str, int]:
        """Return, per reader, the version it has acknowledged."""

    @abstractmethod
    async def read(self, after: int, limit: int) -> list[OutboxEntry]:
        """Return entries of later versions by (version, kind, id).

        Args:
            after: The version that was read last.
            limit: Entries from which on no further version is begun; a version is never returned in part.
        """

    @abstractmethod
    async def acknowledge(self, reader: str, version: int) -> None:
        """Note that a reader has taken in all up to this version, and forget what all readers have taken in."""

    @abstractmethod
    async def reset(self, reader: str) -> None:
        """Have a reader make everything anew, which others may then do as well."""

    @abstractmethod
    def lock(self, reader: str) -> AbstractAsyncContextManager[bool]:
        """Hold the right to take in entries for a reader, one holder among all processes; yields whether it is held.

        Does not wait; a holder that dies lets go.
        """


def changed_ids(changeset: Changeset) -> dict[OutboxKind, Sequence[str]]:
    """Return what a changeset changes, per kind of entry."""
    return {
        OutboxKind.DOCUMENTS: [*(item.id for item in changeset.documents), *changeset.removed_documents],
        OutboxKind.CHUNKS: _ids(changeset, "chunks", [item.id for item in changeset.chunks], changeset.removed_chunks),
        OutboxKind.ENTITIES: _ids(
            changeset, "entities", [item.id for item in changeset.entities], changeset.removed_entities
        ),
        OutboxKind.RELATIONS: _ids(
            changeset, "relations", [item.id for item in changeset.relations], changeset.removed_relations
        ),
        OutboxKind.KEPT_REPLIES: changeset.kept_replies if changeset.removed_subjects else (),
        OutboxKind.SUBJECTS: changeset.removed_subjects,
    }


def _ids(changeset: Changeset, collection: str, put: Sequence[str], removed: Sequence[str]) -> list[str]:
    vectors = [id_ for name, batch in changeset.vectors.items() if name == collection for id_ in batch.ids]
    texts = [entry.id for name, entries in changeset.texts.items() if name == collection for entry in entries]
    return list(dict.fromkeys(chain(put, vectors, texts, removed)))
