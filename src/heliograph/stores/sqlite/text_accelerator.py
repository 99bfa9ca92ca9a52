"""The full-text index of one collection: posting lists, made from what `*_words` holds."""

from __future__ import annotations

from collections.abc import Collection as Container
from collections.abc import Sequence
from pathlib import Path

import apsw

from heliograph.errors import StoreDamaged
from heliograph.stores.changeset import Collection
from heliograph.stores.key_sets import Keys, KeySet
from heliograph.stores.postings import PostingIndex
from heliograph.stores.sqlite.accelerator import Accelerator
from heliograph.stores.sqlite.identity import find_known_ids
from heliograph.stores.sqlite.known_ids import KnownIds
from heliograph.stores.sqlite.sql import Row, fetch_value

# The file is written as a whole. What it lacks takes a hundred times as long to read again as to write, row for row:
# by this many changes a process that has the index in memory saves it, and one that would have to read it first.
_DUE_SHARE = 1 / 128
_DUE_SHARE_UNREAD = 1 / 32
_LEAST_DUE_UNREAD = 2048


class TextAccelerator(Accelerator[PostingIndex]):
    """What holds some terms, by BM25."""

    def __init__(self, folder: Path, collection: Collection) -> None:
        name = f"{collection.value}_terms"
        super().__init__(folder / f"{collection.value}.postings", name, f"{collection.value}_words", "terms")

    def search(
        self, connection: apsw.Connection, terms: Sequence[str], limit: int, allowed: KeySet | None = None
    ) -> list[tuple[int, float]]:
        """Return keys and scores of the best rows, best first, ties by key.

        Args:
            connection: In a transaction; reads what the index lacks.
            terms: Each counts once.
            limit: Rows wanted; more are returned only if they score as much as the last of these.
            allowed: Keys to choose from; None means all.
        """
        try:
            keys, scores = self._catch_up(connection).search(terms, limit, allowed)
        except IndexError:
            # What the header of the file says was right, but a posting names a row that is not there.
            self._refuse()
            keys, scores = self._catch_up(connection).search(terms, limit, allowed)
        return list(zip(keys.tolist(), scores.tolist(), strict=True))

    def find_ids(self, connection: apsw.Connection, known: KnownIds, keys: Container[int]) -> dict[int, str]:
        """Return the ids of keys that were found, but of those that are stored only later than the connection reads.

        Raises:
            StoreDamaged: Another one has none: the table of ids is damaged.
        """
        try:
            return known.find_ids(connection, keys)
        except StoreDamaged:
            if not self._is_ahead(connection):
                raise
            return find_known_ids(connection, keys)

    def _make(self) -> PostingIndex:
        return PostingIndex()

    def _checksum(self) -> str:
        return ""

    def _read(self, writers: Sequence[str]) -> PostingIndex:
        return PostingIndex.load(self._path, writers)

    def _read_whole(self, writers: Sequence[str]) -> None:
        self._read(writers).read_whole()

    def _write(self, index: PostingIndex, writer: str, *, continues: bool) -> None:  # noqa: ARG002
        index.save(self._path, writer)

    def _fork(self, index: PostingIndex) -> PostingIndex:
        return index.fork()

    def _remove(self, index: PostingIndex, keys: Keys) -> None:
        index.remove(keys)

    def _add(self, index: PostingIndex, rows: Sequence[Row]) -> None:
        index.add((key, terms.split(" ") if terms else ()) for key, terms in rows)

    def _count(self, index: PostingIndex, keys: Keys) -> tuple[int, int]:
        return index.count(keys), len(index)

    def _is_far(self, connection: apsw.Connection, behind: int, index: PostingIndex | None) -> bool:
        if index is not None:
            return behind >= _DUE_SHARE * len(index)
        if behind < _LEAST_DUE_UNREAD:
            return False
        # The same rows in a narrow table.
        rows = fetch_value(connection, f"SELECT count(*) FROM {self._name}_docsize")
        return behind >= _DUE_SHARE_UNREAD * rows
