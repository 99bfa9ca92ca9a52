"""Extraction without a chat model: names, and the sentences in which they meet.

Deterministic and offline, for English, Chinese and mixtures of both. The chunks of a document are read in windows, so
that a long document needs bounded memory and reports progress; what one window teaches (full names, types) holds for
the next. What is read lies in `local_reading`, which entities are kept in `local_mentions`, which relations in
`local_relations`. The work is done in a thread; the event loop stays free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from heliograph.errors import SettingsError
from heliograph.ingest.extraction.base import Extractor, ignore_progress
from heliograph.ingest.extraction.local_mentions import choose_entities
from heliograph.ingest.extraction.local_reading import DocumentReader, ReadChunk
from heliograph.ingest.extraction.local_relations import choose_relations
from heliograph.models import Chunk, Document, Extraction

__all__ = ["DEFAULT_ENTITIES_PER_1000_TOKENS", "DEFAULT_RELATIONS_PER_1000_TOKENS", "LocalExtractor"]

# Ten entities and eight relations for a chunk of 400 tokens: about as many tokens to embed again as the chunk has.
DEFAULT_ENTITIES_PER_1000_TOKENS = 22.0
DEFAULT_RELATIONS_PER_1000_TOKENS = 16.0

_LEAST_ENTITIES = 8
_LEAST_RELATIONS = 6
_WINDOW_CHUNKS = 64


class LocalExtractor(Extractor):
    """Reads entities and relations by rules."""

    def __init__(
        self,
        entities_per_1000_tokens: float = DEFAULT_ENTITIES_PER_1000_TOKENS,
        relations_per_1000_tokens: float = DEFAULT_RELATIONS_PER_1000_TOKENS,
    ) -> None:
        """Bound what is kept, since every entity and relation costs an embedding.

        Args:
            entities_per_1000_tokens: Entities kept per 1000 tokens of a chunk; the shortest chunk may keep eight.
            relations_per_1000_tokens: Relations likewise; the shortest chunk may keep six. 0 keeps none.

        Raises:
            SettingsError: A bound is negative.
        """
        for name, value in (("entities", entities_per_1000_tokens), ("relations", relations_per_1000_tokens)):
            if value < 0:
                raise SettingsError(f"{name}_per_1000_tokens is {value!r}; give 0 or more")
        self._entities_per_token = entities_per_1000_tokens / 1000
        self._relations_per_token = relations_per_1000_tokens / 1000

    @property
    def name(self) -> str:
        """Always `local`."""
        return "local"

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """Read the chunks of one document; see `Extractor.extract`. No chunk by itself ever fails.

        Raises:
            ModelUnavailable: A chunk is Chinese and the files of the Chinese word model are missing or damaged.
        """
        reader = DocumentReader(document)
        extractions: list[Extraction] = []
        for first in range(0, len(chunks), _WINDOW_CHUNKS):
            window = chunks[first : first + _WINDOW_CHUNKS]
            extractions.extend(await asyncio.to_thread(self._read_window, reader, window))
            for _ in window:
                on_chunk()
        return extractions

    def _read_window(self, reader: DocumentReader, window: Sequence[Chunk]) -> list[Extraction]:
        return [self._extraction(read, reader) for read in reader.read(window)]

    def _extraction(self, read: ReadChunk, reader: DocumentReader) -> Extraction:
        tokens = read.chunk.token_count
        entities = choose_entities(read, reader, _limit(tokens, self._entities_per_token, _LEAST_ENTITIES))
        relations = choose_relations(read, entities, _limit(tokens, self._relations_per_token, _LEAST_RELATIONS))
        mentions = tuple(entity.mention for entity in entities.values())
        return Extraction(read.chunk.id, self.name, mentions, tuple(relations))


def _limit(tokens: int, per_token: float, least: int) -> int:
    return max(least, round(tokens * per_token)) if per_token else 0
