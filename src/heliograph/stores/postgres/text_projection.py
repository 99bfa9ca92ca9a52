"""Full text in PostgreSQL beside another store: the tables, the terms and the ranking are those of a store at home."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from heliograph.embedding.base import EmbeddingInfo
from heliograph.settings import StoreSettings
from heliograph.stores.base import Hit
from heliograph.stores.changeset import Changeset, Collection
from heliograph.stores.outbox import OutboxKind
from heliograph.stores.postgres.address import Address
from heliograph.stores.postgres.faults import TEXT_FAULTS
from heliograph.stores.postgres.projection import PostgresProjection
from heliograph.stores.postgres.session import Statement
from heliograph.stores.postgres.text import PostgresTextStore
from heliograph.stores.postgres.text_write import TERMS_TABLES, text_comparisons, text_statements
from heliograph.stores.projection import ProjectionChange, TextProjection


class PostgresTextProjection(PostgresProjection, TextProjection):
    """The terms of one workspace's chunks and entities."""

    role = "text"
    tables = (*TERMS_TABLES.values(), "heliograph_posting", "heliograph_text_size")
    faults: ClassVar = TEXT_FAULTS
    scanned: ClassVar = {
        OutboxKind.CHUNKS: TERMS_TABLES[Collection.CHUNKS],
        OutboxKind.ENTITIES: TERMS_TABLES[Collection.ENTITIES],
    }

    def __init__(self, address: Address, settings: StoreSettings, embedding: EmbeddingInfo) -> None:
        super().__init__(address, settings, embedding)
        self._text = PostgresTextStore(self._database)

    async def search(self, collection: Collection, terms: Sequence[str], limit: int) -> list[Hit]:
        return await self._text.search(collection, terms, limit)

    async def find_phrases(
        self, collection: Collection, phrases: Sequence[Sequence[str]], limit: int
    ) -> list[list[str]]:
        return await self._text.find_phrases(collection, phrases, limit)

    def statements(self, change: ProjectionChange) -> Iterator[Statement]:
        removed = change.removed
        taken_in = Changeset(
            removed_chunks=tuple(removed.get(OutboxKind.CHUNKS, ())),
            removed_entities=tuple(removed.get(OutboxKind.ENTITIES, ())),
            texts=change.texts,
        )
        return text_statements(self._database.workspace, taken_in)

    def comparisons(self, expected: ProjectionChange) -> Iterator[Statement]:
        return text_comparisons(self._database.workspace, expected.texts)
